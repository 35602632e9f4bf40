"""The PostgreSQL of `mobula up`, and the flusher beside it: made, killed, half made. Node and gateway are stand-ins, as in cli_supervisor.py.

ctest: timeout=300 long
"""
import os
import pathlib
import signal
import stat
import subprocess
import time
import unittest

from lib_cli_supervised import PROCESSES, STOP_SECONDS, Supervised


class Postgres(Supervised):
    def up_with_postgres(self):
        self.mobula("up", "--detach", "--postgres", "on", "--gcs-replicas", "1", code=0)
        self.wait("PostgreSQL", lambda: self.process("postgres")["state"] == "ready")

    def query(self, sql):
        return subprocess.run(["psql", "-X", "-At", "-h", self.dir / "pg", "-p", "1", "-U", "mobula", "-d", "postgres", "-c", sql],
                              check=True, capture_output=True, text=True, timeout=90).stdout.strip()

    def test_postgres_is_made_behind_a_cluster_that_is_ready(self):
        del self.environment["MOBULA_POSTGRES"]
        self.mobula("up", "--detach", "--gcs-replicas", "1", code=0)
        self.assertEqual("ready", self.status()["state"], "nothing waits for initdb")
        self.assertEqual(["postgres", "flush", *PROCESSES], [p["name"] for p in self.status()["processes"]])
        self.wait("PostgreSQL", lambda: self.process("postgres")["state"] == "ready")
        self.assertEqual("1", self.query("select 1"))
        self.assertEqual("off|", self.query("select (select setting from pg_settings where name = 'jit'), "
                                            "(select setting from pg_settings where name = 'listen_addresses')"))
        data = (self.dir / "pg").stat()
        self.assertEqual(0o700, stat.S_IMODE(data.st_mode))
        if os.geteuid() == 0:
            for path in ["pg", "pg/mobula.conf", "gcs", "gcs/redis.conf"]:
                self.assertNotEqual(0, (self.dir / path).stat().st_uid, path)
            for name in ["postgres", "redis"]:
                pid = self.process(name)["pid"]
                text = pathlib.Path(f"/proc/{pid}/status").read_text()
                uids = next(line for line in text.splitlines() if line.startswith("Uid:")).split()[1:]
                self.assertNotIn("0", uids, name)
                groups = next(line for line in text.splitlines() if line.startswith("Groups:")).split()[1:]
                self.assertEqual([], groups, name)
        self.query("create table kept (a int)")
        self.query("insert into kept values (7)")
        began = time.monotonic()
        self.mobula("down", code=0)
        self.assertLess(time.monotonic() - began, STOP_SECONDS)
        self.assertIn("database system is shut down", (self.dir / "logs/postgres.log").read_text())
        self.up_with_postgres()
        self.assertEqual("7", self.query("select a from kept"))
        self.assertNotIn("not properly shut down", (self.dir / "logs/postgres.log").read_text())

    def ends_of(self, name):
        """What the supervisor's log says of each."""
        log = (self.dir / "logs/supervisor.log").read_text()
        return [line for line in log.splitlines() if f"died process={name}" in line]

    def test_a_killed_postgres_comes_back_with_what_was_committed(self):
        self.up_with_postgres()
        self.query("create table kept (a int)")
        for i in range(3):
            self.query(f"insert into kept values ({i})")
            killed = self.process("postgres")["pid"]
            os.kill(killed, signal.SIGKILL)
            # the next one may end, too, while what the killed one has begun holds its shared memory: not the last end is looked at
            self.wait("its end is told", lambda i=i: sum("signal 9" in line for line in self.ends_of("postgres")) > i)
            self.wait("PostgreSQL", lambda: self.process("postgres")["state"] == "ready" and self.process("postgres")["pid"] != killed)
            self.assertIn(f'how="{self.process("postgres")["last_exit"]}"', self.ends_of("postgres")[-1], "status tells the last one")
            for name in PROCESSES:
                self.assertEqual(0, self.process(name)["restarts"], f"{name} does not care")
        self.assertEqual("3", self.query("select count(*) from kept"))
        log = (self.dir / "logs/supervisor.log").read_text()
        pauses = [int(line.split("in_ms=")[1].split()[0]) for line in log.splitlines() if "restarting process=postgres" in line]
        lived_ms = [int(line.split("lived_ms=")[1].split()[0]) for line in self.ends_of("postgres")]
        self.assertEqual(len(lived_ms), len(pauses), "a pause for each end")
        self.assertEqual(0, pauses[0])
        for before, pause, lived in zip(pauses, pauses[1:], lived_ms[1:]):
            if lived < 10000:  # who lived that long, on a slow machine, starts over
                self.assertGreater(pause, 0)
                self.assertGreaterEqual(pause, before, "each pause is at least as long as the one before")

    def test_the_flusher_stands_beside_the_others(self):
        self.up_with_postgres()
        self.wait("the flusher", lambda: self.process("flush")["state"] == "ready")
        self.assertEqual("1", self.query("select count(*) from mobula.watermark"), "the schema is there")
        maps = pathlib.Path(f"/proc/{self.process('postgres')['pid']}/maps").read_text(encoding="utf-8", errors="replace")
        elsewhere = [line for line in maps.splitlines() if "/dev/shm/" in line and str(self.dir) not in line]
        self.assertEqual([], elsewhere, "what a killed PostgreSQL leaves lies in the cluster's directory")
        for i in range(2):
            os.kill(self.process("flush")["pid"], signal.SIGKILL)
            self.wait("a restart", lambda i=i: self.process("flush")["restarts"] > i)
            self.wait("the flusher", lambda: self.process("flush")["state"] == "ready")
        pid = self.process("flush")["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.wait("another flusher", lambda: self.process("flush")["state"] == "ready" and self.process("flush")["pid"] != pid)
        for name in ["postgres", *PROCESSES]:
            self.assertEqual(0, self.process(name)["restarts"], f"{name} does not care")
        self.wait_ready()
        # A newer program's database: refused, said, and the cluster goes on without.
        self.query("insert into mobula.migration (version, name, digest) select max(version) + 1, 'x', 'x' from mobula.migration")
        os.kill(self.process("flush")["pid"], signal.SIGKILL)
        self.wait("a refusal", lambda: self.process("flush")["last_exit"] == "exit status 3")
        self.assertEqual("degraded", self.status()["state"])
        self.assertIn("version", self.process("flush")["last_line"])
        self.mobula("migrate", code=5)
        self.query("delete from mobula.migration where name = 'x'")
        self.assertIn("nothing to do", self.mobula("migrate", code=0).stdout)
        self.wait_ready()
        began = time.monotonic()
        self.mobula("down", code=0)
        self.assertLess(time.monotonic() - began, STOP_SECONDS)
        self.assertFalse((self.dir / "flush.ready").exists())
        self.mobula("migrate", code=6)

    def test_a_flusher_that_died_is_missing_until_it_is_ready(self):
        late, real = self.control / "late.flush", (self.bin / "mobula-flush").resolve()
        (self.bin / "mobula-flush").unlink()
        (self.bin / "mobula-flush").write_text(f'#!/bin/sh\nwhile [ -e "{late}" ]; do sleep 0.02; done\nexec "{real}" "$@"\n')
        (self.bin / "mobula-flush").chmod(0o755)
        late.touch()
        self.up_with_postgres()
        self.wait("the flusher's start", lambda: self.process("flush")["state"] == "starting")
        self.assertEqual("ready", self.status()["state"], "nobody waits for its first start")
        late.unlink()
        self.wait("the flusher", lambda: self.process("flush")["state"] == "ready")
        late.touch()
        os.kill(self.process("flush")["pid"], signal.SIGKILL)
        self.wait("its restart", lambda: self.process("flush")["restarts"] == 1 and self.process("flush")["state"] == "starting")
        self.assertEqual("degraded", self.status()["state"])
        late.unlink()
        self.wait_ready()
        self.assertEqual("ready", self.process("flush")["state"])

    def test_half_a_data_directory_is_made_anew(self):
        self.mobula("up", "--detach", "--postgres", "on", "--gcs-replicas", "1", code=0)
        self.wait("initdb at work", lambda: (self.dir / "pg.new/base").exists() or (self.dir / "pg").exists())
        os.kill(self.supervisor(), signal.SIGKILL)
        self.wait("the end of all", lambda: self.pids_of_this_test() == [])
        (self.dir / "pg.new").mkdir(exist_ok=True)
        (self.dir / "pg.new/torn").touch()
        self.up_with_postgres()
        self.assertEqual("1", self.query("select 1"))
        self.assertFalse((self.dir / "pg/torn").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
