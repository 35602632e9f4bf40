"""A supervised cluster of its own for tests: real Redis and mobula-gcs; node and gateway are stand-ins whose behaviour the test
sets (lib_cli_standin.py)."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import lib_kill  # noqa: F401  pylint: disable=unused-import

BIN = pathlib.Path(os.environ["MOBULA_BIN_DIR"])
STANDIN = pathlib.Path(__file__).with_name("lib_cli_standin.py")
WAIT_S = 90  # against hanging only
STOP_SECONDS = 30  # two on a machine that has time: what does not stop is killed after that, whatever it waits for
PROCESSES = ["redis", "gcs", "node", "gateway"]


class Supervised(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="mobula_cli_"))
        self.dir = self.root / "state"
        self.control = self.root / "control"
        self.bin = self.root / "bin"
        self.control.mkdir()
        self.bin.mkdir()
        # A copy: the supervisor starts what lies beside its own executable.
        shutil.copy(BIN / "mobula", self.bin)
        for name in ["mobula-gcs", "mobula-flush"]:
            os.symlink(BIN / name, self.bin / name)
        for name in ["node", "gateway"]:
            self.stand_in(f"mobula-{name}", name)
        self.environment = {**os.environ, "MOBULA_TEST_CONTROL": str(self.control), "MOBULA_DIR": str(self.dir),
                            "MOBULA_POSTGRES": "off"}  # what needs it turns it on

    def tearDown(self):
        self.mobula("down")
        deadline = time.monotonic() + WAIT_S  # one that said why it cannot start may be at its last instructions
        while (leftovers := self.pids_of_this_test()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in leftovers:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root)
        self.assertEqual([], leftovers, "processes outlived mobula down")

    def stand_in(self, binary, name):
        path = self.bin / binary
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" {name} "$@"\n')
        path.chmod(0o755)

    def mobula(self, *arguments, code=None):
        result = subprocess.run([self.bin / "mobula", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=90)
        if code is not None:
            self.assertEqual(code, result.returncode, f"mobula {arguments}: {result.stdout}{result.stderr}{self.logs()}")
        return result

    def logs(self):
        text = ""
        for path in sorted(self.dir.glob("logs/*.log")):
            text += f"\n== {path.name}\n{path.read_text(errors='replace')[-1500:]}"
        return text

    def status(self):
        return json.loads(self.mobula("status", "-o", "json").stdout)

    def told(self):
        """What `mobula status` would say, from the file it reads: who waits does not start a program each time it looks."""
        return json.loads((self.dir / "supervisor.json").read_text())

    def process(self, name):
        return next(p for p in self.told()["processes"] if p["name"] == name)

    def wait(self, what, condition):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(StopIteration, FileNotFoundError):
                if condition():
                    return
            time.sleep(0.02)
        self.fail(f"{what} did not happen in {WAIT_S} s{self.logs()}")

    def wait_ready(self):
        self.wait("ready", lambda: self.told()["state"] == "ready")

    def pids_of_this_test(self):
        """Processes that name our directory in their command line or are the supervisor."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                executable = os.readlink(entry / "exe")
                if str(self.dir) in line or executable.startswith(str(self.root)):
                    found.append(int(entry.name))
        return found

    def supervisor(self):
        return int((self.dir / "supervisor.pid").read_text().split()[0])
