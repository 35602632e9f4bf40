"""`mobula up`, `status`, `down` with real Redis and mobula-gcs; node and gateway are stand-ins whose behaviour the test sets.

The real node and gateway have a test of their own (cli_cluster.py): here is what they would not do on demand.
ctest: timeout=300 long
"""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import time
import unittest

from lib_cli_supervised import PROCESSES, STOP_SECONDS, WAIT_S, Supervised

SANITIZED = bool(os.environ.get("MOBULA_SANITIZE"))


class Cluster(Supervised):
    # ---- what the user sees

    def test_up_status_down(self):
        up = self.mobula("up", "--detach", code=0)
        self.assertIn("http://127.0.0.1:", up.stdout)
        self.assertIn(f"{self.dir}/token", up.stdout)
        status = self.status()
        self.assertEqual("ready", status["state"])
        self.assertEqual(PROCESSES, [p["name"] for p in status["processes"]])
        self.assertEqual(["ready"] * 4, [p["state"] for p in status["processes"]])
        self.assertEqual([0] * 4, [p["restarts"] for p in status["processes"]])
        self.assertEqual(0o700, stat.S_IMODE(self.dir.stat().st_mode))
        for name in ["gcs.sock", "gcs/redis.sock", "cluster-secret", "gcs/redis.conf", "gcs/redis.pass"]:
            self.assertEqual(0, (self.dir / name).stat().st_mode & 0o077, name)
        began = time.monotonic()
        self.mobula("down", code=0)
        self.assertLess(time.monotonic() - began, STOP_SECONDS)
        for name in ["gateway.addr", "node.sock", "gcs.sock", "gcs/redis.sock", "supervisor.pid", "supervisor.json"]:
            self.assertFalse((self.dir / name).exists(), name)
        self.assertEqual(6, self.mobula("status").returncode)
        self.mobula("down", code=0)

    def test_second_up_says_so_and_succeeds(self):
        first = self.mobula("up", "--detach", code=0)
        second = self.mobula("up", "--detach", code=0)
        self.assertEqual(first.stdout, second.stdout)
        self.assertIn("runs already", second.stderr)

    def test_many_at_once_make_one_cluster(self):
        ups = [subprocess.Popen([self.bin / "mobula", "up", "--detach"], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(6)]
        outputs = {up.communicate(timeout=WAIT_S)[0] for up in ups}
        self.assertEqual([0] * 6, [up.returncode for up in ups])
        self.assertEqual(1, len(outputs), outputs)

    def test_foreground_prints_the_address_and_stops_on_ctrl_c(self):
        up = subprocess.Popen([self.bin / "mobula", "up"], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        self.assertIn("http://127.0.0.1:", up.stdout.readline())
        up.send_signal(signal.SIGINT)
        self.assertEqual(0, up.wait(timeout=WAIT_S))
        up.stdout.close()
        self.assertEqual(6, self.mobula("status").returncode)

    # ---- what dies

    def test_what_is_killed_comes_back_and_is_reported(self):
        self.mobula("up", "--detach", code=0)
        address = self.status()["address"]
        for name in PROCESSES:
            os.kill(self.process(name)["pid"], signal.SIGKILL)
            self.wait(f"restart of {name}", lambda name=name: self.process(name)["restarts"] == 1)
            self.wait_ready()
            self.assertIn("signal 9", self.process(name)["last_exit"])
        log = (self.dir / "logs/supervisor.log").read_text()
        for name in PROCESSES:
            self.assertIn(f"died process={name} ", log)

    def test_a_gateway_that_is_killed_before_it_is_ready_keeps_its_address(self):
        self.mobula("up", "--detach", code=0)
        address = self.status()["address"]
        (self.control / "late.gateway").touch()
        for restarts in range(1, 5):
            self.wait("a gateway", lambda: self.process("gateway")["pid"])
            os.kill(self.process("gateway")["pid"], signal.SIGKILL)
            self.wait("its restart", lambda restarts=restarts: self.process("gateway")["restarts"] == restarts)
        (self.control / "late.gateway").unlink()
        self.wait_ready()
        self.assertEqual(address, self.status()["address"])

    def test_nothing_outlives_a_killed_supervisor(self):
        self.mobula("up", "--detach", code=0)
        os.kill(self.supervisor(), signal.SIGKILL)
        self.wait("the end of all", lambda: self.pids_of_this_test() == [])
        self.assertTrue((self.dir / "supervisor.pid").exists(), "a stale pid file is what this test is about")
        self.assertEqual(6, self.mobula("status").returncode)
        self.mobula("up", "--detach", code=0)
        self.assertEqual("ready", self.status()["state"])

    def test_a_pid_file_that_was_removed_lets_nobody_else_in(self):
        self.mobula("up", "--detach", code=0)
        supervisor = self.supervisor()
        (self.dir / "supervisor.pid").unlink()
        self.wait("it is there again", (self.dir / "supervisor.pid").exists)
        self.assertEqual(supervisor, self.supervisor())
        self.assertIn("runs already", self.mobula("up", "--detach", code=0).stderr)
        os.kill(supervisor, signal.SIGSTOP)  # and cannot write it
        (self.dir / "supervisor.pid").unlink()
        try:
            self.assertIn("does not write its supervisor.pid", self.mobula("up", "--detach", code=5).stderr)
        finally:
            os.kill(supervisor, signal.SIGCONT)
        self.wait("it is there again", (self.dir / "supervisor.pid").exists)
        self.mobula("down", code=0)

    def test_a_directory_that_is_removed_ends_its_cluster(self):
        self.mobula("up", "--detach", code=0)
        old = self.supervisor()
        shutil.rmtree(self.dir)
        self.wait("the end of the cluster", lambda: not pathlib.Path(f"/proc/{old}").exists())
        self.assertFalse(self.dir.exists(), "written again")
        self.mobula("up", "--detach", code=0)
        self.assertEqual("ready", self.status()["state"])

    def test_status_names_what_has_gone_since_the_supervisor_wrote(self):
        self.mobula("up", "--detach", code=0)
        gateway = self.process("gateway")["pid"]
        os.kill(self.supervisor(), signal.SIGSTOP)  # it writes no more than on a full disk
        try:
            os.kill(gateway, signal.SIGKILL)
            self.wait("its end", lambda: self.status()["state"] == "degraded")
            self.assertEqual(["gateway"], [p["name"] for p in self.status()["processes"] if p["state"] == "gone"])
            self.assertIn("mobula doctor", self.mobula("status").stderr)
        finally:
            os.kill(self.supervisor(), signal.SIGCONT)
        self.wait("another", lambda: self.process("gateway")["pid"] not in (0, gateway))
        self.wait_ready()

    def test_a_stale_pid_file_of_a_living_stranger_is_recognised(self):
        self.dir.mkdir(mode=0o700)
        (self.dir / "supervisor.pid").write_text(f"{os.getpid()} 1\n")
        self.assertEqual(6, self.mobula("status").returncode)
        self.mobula("down", code=0)
        self.mobula("up", "--detach", code=0)

    def test_what_cannot_start_is_said_and_leaves_nothing(self):
        (self.control / "fail.gateway").touch()
        up = self.mobula("up", "--detach", code=1)
        self.assertIn("gateway does not start (exit status 3): gateway was told to fail", up.stderr)
        # What was killed is in /proc until the kernel has freed its memory.
        self.wait("the end of all", lambda: self.pids_of_this_test() == [])
        (self.control / "fail.gateway").unlink()
        self.mobula("up", "--detach", code=0)

    def test_a_process_that_fails_later_is_tried_with_growing_pauses(self):
        self.mobula("up", "--detach", code=0)
        (self.control / "fail.node").touch()
        os.kill(self.process("node")["pid"], signal.SIGKILL)
        self.wait("five tries", lambda: self.process("node")["restarts"] >= 5)
        status = self.status()
        self.assertEqual("degraded", status["state"])
        self.assertIn("node was told to fail", self.mobula("status").stdout)
        (self.control / "fail.node").unlink()
        self.wait_ready()
        self.assertIn("node was told to fail", self.mobula("status").stdout, "last words are those of the dead")

    def test_one_that_does_not_stop_is_killed_in_time(self):
        (self.control / "deaf.node").touch()
        self.mobula("up", "--detach", code=0)
        began = time.monotonic()
        self.mobula("down", code=0)
        self.assertLess(time.monotonic() - began, STOP_SECONDS)

    # ---- PostgreSQL that does not run (cli_postgres.py: one that does)

    def test_a_data_directory_of_another_version_is_left_alone(self):
        (self.dir / "pg").mkdir(parents=True)
        (self.dir / "pg/PG_VERSION").write_text("9\n")
        up = self.mobula("up", "--detach", "--postgres", "on", "--gcs-replicas", "1", code=1)
        self.assertIn("/9/bin/postgres; install it, or use --no-postgres", up.stderr)
        self.assertEqual(["PG_VERSION"], [p.name for p in (self.dir / "pg").iterdir()])

    def test_without_postgres(self):
        del self.environment["MOBULA_POSTGRES"]
        self.mobula("up", "--detach", "--no-postgres", code=0)
        self.assertEqual(PROCESSES, [p["name"] for p in self.status()["processes"]])
        self.assertFalse((self.dir / "pg").exists())

    # ---- what it costs

    def test_an_idle_supervisor_sleeps(self):
        self.mobula("up", "--detach", code=0)
        pid = self.supervisor()

        def switches():
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            return int(next(line for line in text.splitlines() if line.startswith("voluntary_ctxt")).split()[1])

        def rests():
            before = switches()
            time.sleep(2)
            return switches() - before <= 2

        self.wait("rest", rests)  # after the last log lines of the start, which may be late
        if not SANITIZED:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            pss_kb = int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
            self.assertLess(pss_kb, 3000)

    def test_logs_are_bounded(self):
        (self.control / "noise.gateway").write_text("200000")
        self.mobula("up", "--detach", "--log-file-bytes", "8KiB", "--log-files", "2", code=0)
        files = sorted((self.dir / "logs").glob("gateway.log*"))
        self.assertEqual(["gateway.log", "gateway.log.1"], [path.name for path in files])
        for path in files:
            self.assertLessEqual(path.stat().st_size, 16384 + 8192)
        self.assertIn("noise 1999", files[0].read_text())

    # ---- settings

    def test_settings_reach_the_daemons_from_file_environment_and_flags(self):
        self.dir.mkdir(mode=0o700)
        (self.dir / "mobula.conf").write_text("slots = 3\nblocked-max = 77\n")
        self.environment["MOBULA_IDLE_REAP_MS"] = "5s"
        self.mobula("up", "--detach", "--blocked-max", "78", code=0)
        line = pathlib.Path(f"/proc/{self.process('node')['pid']}/cmdline").read_text().split("\0")
        for flag, value in [("--slots", "3"), ("--blocked-max", "78"), ("--idle-reap-ms", "5000")]:
            self.assertEqual(value, line[line.index(flag) + 1])
        shown = {s["name"]: s for s in json.loads(self.mobula("config", "-o", "json").stdout)}
        self.assertEqual((3, "file"), (shown["slots"]["value"], shown["slots"]["source"]))
        self.assertEqual((78, "flag"), (shown["blocked-max"]["value"], shown["blocked-max"]["source"]))
        self.assertEqual((5000, "environment"), (shown["idle-reap-ms"]["value"], shown["idle-reap-ms"]["source"]))
        self.assertEqual("default", shown["gcs-durability"]["source"])
        self.assertIn(f"{self.dir}/mobula.conf:1", self.mobula("config").stdout)

    def test_members_have_their_cores_to_themselves(self):
        cores = os.sched_getaffinity(0)
        if len(cores) < 2:
            self.skipTest("one core")
        first = min(cores)
        self.mobula("up", "--detach", "--gcs-cpus", str(first), code=0)
        self.assertEqual({first}, os.sched_getaffinity(self.process("gcs")["pid"]))
        self.assertEqual(cores - {first}, os.sched_getaffinity(self.process("redis")["pid"]))

    def test_wrong_settings_are_usage_errors(self):
        self.assertIn("did you mean --slots", self.mobula("up", "--slot", "3", code=2).stderr)
        refused = self.mobula("up", "--bogus", code=2).stderr
        self.assertIn("unknown option --bogus", refused)
        self.assertNotIn("did you mean", refused)
        self.dir.mkdir(mode=0o700)
        (self.dir / "mobula.conf").write_text("\nsegment = 3\n")
        self.assertIn("mobula.conf:2: unknown setting segment; did you mean segment-bytes?", self.mobula("up", code=2).stderr)
        self.environment["MOBULA_SLOTS"] = "many"
        self.assertIn("MOBULA_SLOTS: slots is many", self.mobula("up", code=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
