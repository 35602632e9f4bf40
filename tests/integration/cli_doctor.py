"""`mobula doctor`: on a machine as it is, with what a cluster lacks taken away, and with a cluster or without one.

ctest: timeout=200
"""
import ctypes
import json
import os
import re
import resource
import select
import signal
import subprocess
import unittest

from lib_cli_cluster import BIN, ClusterCase

CAP_SYS_NICE, PR_CAPBSET_DROP = 23, 24


def without_realtime():
    """In a child: neither the capability nor the limit, so that no thread may have real-time priority."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)  # fails where we are not root, and have it not either
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


class Doctor(ClusterCase):
    def run_under(self, limit, *arguments):
        return subprocess.run([BIN / "mobula", *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, preexec_fn=limit)

    def doctor(self, *arguments, code, limit=None):
        """The checks by their names, each a list of what was found."""
        done = self.run_under(limit, "doctor", "-o", "json", *arguments)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(max((c["verdict"] for c in said["checks"]), key=["ok", "warn", "fail"].index), said["verdict"])
        checks = {}
        for one in said["checks"]:
            checks.setdefault(one["check"], []).append(one)
        return checks

    def verdicts(self, checks, name):
        self.assertIn(name, checks)
        return [one["verdict"] for one in checks[name]]

    def test_without_a_cluster(self):
        checks = self.doctor(code=0)
        for name in ["cores", "memory", "descriptors", "shared-memory", "kernel", "clock", "directory", "disk-room", "disk-sync",
                     "leftovers", "redis-server", "mobula-gcs"]:
            self.assertNotIn("fail", self.verdicts(checks, name))
        self.assertEqual("none runs there", checks["cluster"][0]["found"])
        self.assertRegex(checks["redis-server"][0]["found"], r"/redis-server: .*v=\d")
        self.assertRegex(checks["disk-sync"][0]["found"], r"after \d+\.\d\d ms")
        self.assertEqual([], [path for path in self.dir.iterdir() if "doctor" in path.name])
        done = self.mobula("doctor", "--cluster", code=6)
        self.assertIn("nothing runs in", done.stderr)
        lines = done.stdout.splitlines()
        self.assertTrue(lines and all(re.match(r"(ok|warn|fail) +[a-z-]+ +\S", line) for line in lines), done.stdout)
        lines = self.out("doctor", "-o", "jsonl").splitlines()
        self.assertEqual(len(lines), sum(len(some) for some in checks.values()))
        self.assertEqual("ok", json.loads(lines[-1])["verdict"])

    def test_without_realtime_priority(self):
        self.environment["MOBULA_POSTGRES"] = "on"
        checks = self.doctor(code=0, limit=without_realtime)
        self.assertEqual(["warn"], self.verdicts(checks, "realtime"))
        self.assertIn("RLIMIT_RTPRIO 0", checks["realtime"][0]["found"])
        self.assertIn("lease is 90 ms instead of 10", checks["realtime"][0]["means"])
        done = self.run_under(without_realtime, "up", "--detach")
        self.assertEqual(0, done.returncode, done.stderr + self.logs())
        self.assertEqual(1, done.stderr.count("real-time priority is not allowed here"), done.stderr)
        checks = self.doctor("--cluster", code=0)  # whoever asks may have it: what counts is what members have
        self.assertEqual(["warn", "warn"], self.verdicts(checks, "heartbeats"))
        for one in checks["heartbeats"]:
            self.assertIn("real-time no, lease 90 ms, suspicion 100 ms", one["found"])
        members = json.loads(self.out("gcs", "status", "-o", "json"))["chain"]["members"]
        self.assertEqual([("no", 90, 100)] * 2, [(m["realtime"], m["lease_ms"], m["suspicion_ms"]) for m in members])
        self.assertIn("SUSPICION MS", self.out("gcs", "status"))

    def test_few_descriptors(self):
        checks = self.doctor(code=0, limit=few_files)
        self.assertEqual(["warn"], self.verdicts(checks, "descriptors"))
        self.assertIn("512 of at most 512", checks["descriptors"][0]["found"])

    def test_secrets_layout_and_what_was_left(self):
        self.up()
        checks = self.doctor("--cluster", code=0)
        for name in ["cluster", "processes", "members", "secrets"]:
            self.assertEqual(["ok"], self.verdicts(checks, name))
        self.assertNotIn("heartbeats", checks)  # one member sends none
        (self.dir / "token").chmod(0o644)
        checks = self.doctor("--cluster", code=1)
        self.assertEqual(["fail"], self.verdicts(checks, "secrets"))
        self.assertIn("token has mode 0644", checks["secrets"][0]["found"])
        (self.dir / "token").chmod(0o600)
        pid = int((self.dir / "supervisor.pid").read_text().split()[0])
        end = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(select.select([end], [], [], 60)[0], "the supervisor does not end")  # a signal takes its time
        os.close(end)
        checks = self.doctor(code=0)
        self.assertEqual(["warn"], self.verdicts(checks, "leftovers"))
        self.assertEqual("none runs there", checks["cluster"][0]["found"])
        (self.dir / "version").write_text("mobula state 9\n")
        checks = self.doctor(code=1)
        self.assertIn("mobula state 9", checks["directory"][0]["found"])
        (self.dir / "version").write_text("mobula state 1\n")

    def test_a_member_that_does_not_answer(self):
        self.up()
        pid = self.process("gcs")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            checks = self.doctor(code=1)
            self.assertEqual(["fail"], self.verdicts(checks, "members"))
            self.assertIn("does not answer", checks["members"][0]["found"])
            self.mobula("doctor", "--cluster", code=6)
        finally:
            os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
