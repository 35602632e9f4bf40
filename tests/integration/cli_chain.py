"""`mobula up --gcs-replicas 2`: what dies of the control store is replaced without a person, and nobody notices but by a pause.

ctest: timeout=300
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

BIN = pathlib.Path(os.environ["MOBULA_BIN_DIR"])
MODULES = pathlib.Path(os.environ["MOBULA_MODULE_DIR"])
PROCESSES = ["redis", "redis-1", "gcs", "gcs-1", "master", "node", "gateway"]


class Chain(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mobula_chain_"))
        self.environment = {**os.environ, "MOBULA_DIR": str(self.dir), "MOBULA_SEGMENT_BYTES": "64MiB"}

    def tearDown(self):
        self.mobula("down")
        shutil.rmtree(self.dir)

    def mobula(self, *arguments, code=None):
        result = subprocess.run([BIN / "mobula", *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=120)
        if code is not None:
            self.assertEqual(code, result.returncode, f"mobula {arguments}: {result.stdout}{result.stderr}{self.logs()}")
        return result

    def logs(self):
        return "".join(f"\n== {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in sorted(self.dir.glob("logs/*.log")))

    def up(self, *arguments):
        self.mobula("up", "--detach", *arguments, code=0)

    def deploy(self):
        address = (self.dir / "gateway.addr").read_text().strip()
        token = (self.dir / "token").read_text().split()[0]
        request = urllib.request.Request(f"http://{address}/api/v1/functions", data=(MODULES / "quickstart.so").read_bytes(),
                                         headers={"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            json.load(answer)

    def pid(self, name):
        processes = json.loads(self.mobula("status", "-o", "json").stdout)["processes"]
        return next(p for p in processes if p["name"] == name)["pid"]

    def add(self, n):
        self.assertEqual(str(n + 5), self.mobula("submit", "quickstart.add", str(n), "5", "--wait", code=0).stdout.strip())

    def tasks(self):
        return len(self.mobula("list", "tasks", "-o", "name", code=0).stdout.split())

    def chain(self):
        """Epoch and length of the newest chain, as the master has said it."""
        log = (self.dir / "logs/master.log").read_text(errors="replace")
        found = re.findall(r"configuration status=ok epoch=(\d+) members=(\d+)", log)
        return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)

    def whole_after(self, epoch):
        began = time.monotonic()
        while time.monotonic() - began < 30:
            now, length = self.chain()
            if now > epoch and length == 2:
                return
            time.sleep(0.02)
        self.fail(f"not whole again: {self.chain()}{self.logs()}")

    def test_what_dies_is_replaced(self):
        self.up("--gcs-replicas", "2")
        self.deploy()
        names = [p["name"] for p in json.loads(self.mobula("status", "-o", "json", code=0).stdout)["processes"]]
        self.assertEqual(PROCESSES, names)
        n = 0
        for victim in ["gcs", "gcs-1", "redis-1", "gcs"]:
            self.add(n)
            epoch, _ = self.chain()
            os.kill(self.pid(victim), signal.SIGKILL)
            n += 1
            self.add(n)
            self.whole_after(epoch)
            n += 1
        # one that hangs is ended by the supervisor, because the master asks for it
        epoch, _ = self.chain()
        stopped = self.pid("gcs-1")
        os.kill(stopped, signal.SIGSTOP)
        self.add(n)
        self.whole_after(epoch)
        self.assertNotEqual(stopped, self.pid("gcs-1"))
        # without a master data flows
        os.kill(self.pid("master"), signal.SIGKILL)
        n += 1
        self.add(n)
        self.assertEqual(n + 1, self.tasks())

    def test_a_store_of_one_becomes_a_chain_and_stays_one(self):
        self.up()
        self.deploy()
        self.add(1)
        self.mobula("down", code=0)
        self.up("--gcs-replicas", "2")
        self.add(2)
        self.whole_after(0)
        self.mobula("down", code=0)
        self.up("--gcs-replicas", "2")
        self.add(3)
        self.assertEqual(3, self.tasks())
        self.mobula("down", code=0)
        refused = self.mobula("up", "--detach")  # the other member may have more
        self.assertNotEqual(0, refused.returncode)
        self.assertIn("store_of_a_chain", (self.dir / "logs/gcs.log").read_text(errors="replace"))


if __name__ == "__main__":
    unittest.main()
