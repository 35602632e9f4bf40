"""A test case with a directory of its own for a whole cluster, which `mobula` starts and stops. To be imported.

MOBULA_BIN_DIR and MOBULA_MODULE_DIR say what to run; ctest sets them.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import lib_kill  # noqa: F401  pylint: disable=unused-import

BIN = pathlib.Path(os.environ["MOBULA_BIN_DIR"])
MODULES = pathlib.Path(os.environ["MOBULA_MODULE_DIR"])


class ClusterCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mobula_cluster_"))
        self.environment = {**os.environ, "MOBULA_DIR": str(self.dir), "MOBULA_SEGMENT_BYTES": "64MiB",
                            "MOBULA_POSTGRES": "off"}  # what needs it turns it on

    def tearDown(self):
        self.mobula("down")
        shutil.rmtree(self.dir)

    def mobula(self, *arguments, code=None):
        result = subprocess.run([BIN / "mobula", *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=120)
        if code is not None:
            self.assertEqual(code, result.returncode, f"mobula {arguments}: {result.stdout}{result.stderr}{self.logs()}")
        return result

    def out(self, *arguments, code=0):
        return self.mobula(*arguments, code=code).stdout.strip()

    def logs(self):
        text = ""
        for path in sorted(self.dir.glob("logs/*.log")):
            with contextlib.suppress(FileNotFoundError):  # a worker that ended takes its log along
                text += f"\n== {path.name}\n{path.read_text(errors='replace')[-2000:]}"
        return text

    def up(self, *arguments):
        self.mobula("up", "--detach", *arguments, code=0)

    def status(self):
        return json.loads(self.mobula("status", "-o", "json").stdout)

    def process(self, name):
        return next(p for p in self.status()["processes"] if p["name"] == name)

    def deploy(self, module="quickstart"):
        address = (self.dir / "gateway.addr").read_text().strip()
        token = (self.dir / "token").read_text().split()[0]
        request = urllib.request.Request(f"http://{address}/api/v1/functions", data=(MODULES / f"{module}.so").read_bytes(),
                                         headers={"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
