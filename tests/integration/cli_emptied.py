"""A cluster of one member whose Redis comes back without its files: `mobula up` and `mobula gcs status` say what was there and what helps,
nothing runs on an empty store, and what is given up is named.

ctest: timeout=500
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

from lib_cli_cluster import BIN, ClusterCase

WAIT_S = 60  # against hanging only
SOON_S = 15  # until a person is told, on a machine that others use
REFUSAL = "Redis is empty, and had data: epoch "
WATERMARK_AT = 16 + 8 + 16 + 4 * 8  # in each record of the note (gcs/shard/store_note.c)
WHAT_HELPS = "Put its files back; or start with nothing: gcs-start-without-all on"


class Emptied(ClusterCase):
    def add(self, n):
        self.assertEqual(str(n + 5), self.mobula("submit", "quickstart.add", str(n), "5", "--wait", code=0).stdout.strip())

    def tasks(self):
        return len(self.mobula("list", "tasks", "-o", "name", code=0).stdout.split())

    def begun(self):
        self.up()
        self.deploy()
        self.add(1)

    def files(self, name="appendonlydir"):
        return self.dir / "gcs" / name

    def named_losses(self):
        said = self.mobula("gcs", "status", "-o", "json", code=0).stdout
        return json.loads(said)["named_losses"]

    def take_files_away_under_it(self):
        redis = self.process("redis")["pid"]
        os.rename(self.files(), self.files("away"))
        os.kill(redis, signal.SIGKILL)

    def put_files_back(self):
        shutil.rmtree(self.files(), ignore_errors=True)
        os.rename(self.files("away"), self.files())

    def until_gcs_status_refuses(self):
        began = time.monotonic()
        while REFUSAL not in (said := self.mobula("gcs", "status").stderr):
            self.assertLess(time.monotonic() - began, WAIT_S, said + self.logs())
        self.assertLess(time.monotonic() - began, SOON_S)
        self.assertIn(f"{self.dir}/gcs.sock", said)
        self.assertIn(WHAT_HELPS, said)

    def refused_by_up(self):
        began = time.monotonic()
        said = self.mobula("up", "--detach", code=1).stderr
        self.assertLess(time.monotonic() - began, SOON_S)
        self.assertIn("gcs does not start", said)
        self.assertIn(REFUSAL, said)
        self.assertIn(WHAT_HELPS, said)

    def assert_goes_on_without(self, before):
        """An empty store that says so, at once and in its next life."""
        self.up("--gcs-start-without-all", "on")
        lost = [one for one in self.named_losses() if one["kind"] == "store"]
        self.assertEqual(1, len(lost), lost)
        self.assertGreaterEqual(lost[0]["to_seq"], lost[0]["seq"])
        self.assertIn('{"kind":"store"', self.mobula("gcs", "status", code=0).stdout)
        self.assertEqual(0, self.tasks())
        self.deploy()
        self.add(2)
        self.assertEqual(1, self.tasks())
        self.assertGreater(json.loads(self.mobula("gcs", "status", "-o", "json", code=0).stdout)["chain"]["epoch"], before)
        self.mobula("down", code=0)
        self.up()
        self.assertEqual(1, self.tasks())
        self.assertEqual(lost, [one for one in self.named_losses() if one["kind"] == "store"])

    def epoch(self):
        return json.loads(self.mobula("gcs", "status", "-o", "json", code=0).stdout)["chain"]["epoch"]

    def test_emptied_under_it_and_given_up(self):
        self.begun()
        epoch = self.epoch()
        self.take_files_away_under_it()
        self.until_gcs_status_refuses()
        deadline = time.monotonic() + WAIT_S
        while REFUSAL not in (gcs := self.process("gcs"))["last_line"]:
            self.assertLess(time.monotonic(), deadline, gcs)
        self.mobula("down", code=0)
        self.refused_by_up()
        self.until_gcs_status_refuses()  # with nothing running as well
        self.assert_goes_on_without(epoch)

    def test_emptied_under_it_and_put_back_while_it_runs(self):
        """Nobody need stop the cluster for it: Redis reads them when it starts."""
        self.begun()
        self.take_files_away_under_it()
        self.until_gcs_status_refuses()
        redis = self.process("redis")["pid"]
        self.put_files_back()
        os.kill(redis, signal.SIGKILL)
        deadline = time.monotonic() + WAIT_S
        while self.status()["state"] != "ready":
            self.assertLess(time.monotonic(), deadline, self.logs())
        self.assertEqual(1, self.tasks())
        self.assertEqual([], [one for one in self.named_losses() if one["kind"] == "store"])
        self.add(2)

    def test_emptied_while_it_was_down(self):
        self.begun()
        epoch = self.epoch()
        self.mobula("down", code=0)
        os.rename(self.files(), self.files("away"))
        self.refused_by_up()
        self.put_files_back()
        self.up()
        self.assertEqual(1, self.tasks())
        self.assertEqual([], self.named_losses())
        os.kill(int((self.dir / "supervisor.pid").read_text().split()[0]), signal.SIGKILL)  # and all die with it, as with the box
        shutil.rmtree(self.dir / "gcs")  # with what Redis had there besides
        self.refused_by_up()
        self.assert_goes_on_without(epoch)

    def with_postgresql(self):
        self.environment["MOBULA_POSTGRES"] = "on"
        self.environment["MOBULA_FLUSH_DELAY_MS"] = "100"

    def flushed(self):
        return json.loads(self.mobula("gcs", "status", "-o", "json", code=0).stdout).get("postgres", {"watermark": 0, "behind": 1, "gaps": 0})

    def until_flushed(self, beyond):
        deadline = time.monotonic() + WAIT_S
        while (now := self.flushed())["watermark"] <= beyond or now["behind"] > 0:
            self.assertLess(time.monotonic(), deadline, f"{now}{self.logs()}")
        return now

    def until_noted(self):
        """The member is told what the database has, and notes that it is there."""
        deadline = time.monotonic() + WAIT_S
        while not any(struct.unpack_from("<Q", (self.dir / "gcs.sock.stored").read_bytes(), at + WATERMARK_AT)[0] for at in (0, 4096)):
            self.assertLess(time.monotonic(), deadline)

    def test_what_postgresql_has_stays_readable(self):
        """And what comes is flushed, too: no position is given out again that a batch there has."""
        self.with_postgresql()
        self.up("--gcs-replicas", "1")
        self.deploy()
        self.add(1)
        self.until_flushed(0)
        self.until_noted()
        self.take_files_away_under_it()
        self.until_gcs_status_refuses()
        self.mobula("down", code=0)
        refused = self.mobula("up", "--detach", "--gcs-replicas", "2", code=1).stderr  # nor is it one to begin a chain with
        self.assertIn(REFUSAL, refused)
        self.up("--gcs-start-without-all", "on")
        self.deploy()
        self.add(2)
        lost = [one for one in self.named_losses() if one["kind"] == "store"]
        self.assertEqual(1, len(lost))
        now = self.until_flushed(lost[0]["to_seq"])
        self.assertEqual(1, now["gaps"])
        self.assertEqual(2, self.tasks())
        self.mobula("gcs", "verify", code=0)

    def begin_a_chain(self, *options):
        """Of two, with a task in PostgreSQL."""
        self.with_postgresql()
        self.up("--gcs-replicas", "2", *options)
        self.deploy()
        self.add(1)
        self.until_flushed(0)

    def until_master_says(self, text):
        deadline = time.monotonic() + WAIT_S
        while text not in (self.dir / "logs/master.log").read_text(errors="replace"):
            self.assertLess(time.monotonic(), deadline, self.logs())
            time.sleep(0.05)

    def until_deployed(self):
        """By a gateway that may still have to hear that nothing is left."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self.deploy()
            except OSError as why:
                self.assertLess(time.monotonic(), deadline, f"{why}{self.logs()}")
                time.sleep(0.1)

    def assert_goes_on_behind(self, before):
        """What PostgreSQL has is there, what comes gets there, and all else is named; gives what was lost."""
        lost = [one for one in self.named_losses() if one["kind"] == "store"]
        self.assertEqual(1, len(lost), lost)
        self.assertGreater(lost[0]["to_seq"], lost[0]["seq"])
        self.assertGreater(lost[0]["seq"], 0)  # which PostgreSQL knew
        self.assertGreaterEqual(lost[0]["epoch"], before)
        self.assertGreater(self.epoch(), lost[0]["epoch"])
        self.assertEqual(1, self.tasks())
        self.add(2)
        now = self.until_flushed(lost[0]["to_seq"])
        self.assertEqual(1, now["gaps"])
        self.assertEqual(2, self.tasks())
        self.mobula("gcs", "verify", code=0)
        return lost

    def assert_chain_goes_on_without(self, before):
        """And names that once, in each next life too."""
        self.up("--gcs-start-without-all", "on")
        self.until_master_says("begins_anew")
        self.until_deployed()
        lost = self.assert_goes_on_behind(before)
        self.mobula("down", code=0)
        self.up()
        self.add(3)
        self.assertEqual(3, self.tasks())
        self.assertEqual(lost, [one for one in self.named_losses() if one["kind"] == "store"])

    def test_a_chain_of_which_no_store_is_left(self):
        self.begin_a_chain()
        before = self.epoch()
        self.mobula("down", code=0)
        for member in ("gcs", "gcs-1"):
            shutil.rmtree(self.dir / member)
        with subprocess.Popen([BIN / "mobula", "up", "--detach"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as waits:
            said = waits.stderr.readline()
            self.assertIn("no member of shard 0 of the control store has data", said)
            self.assertIn("--gcs-start-without-all on", said)
            self.until_master_says("begins with nothing but what PostgreSQL has")
            self.assertNotIn("begins_anew", (self.dir / "logs/master.log").read_text(errors="replace"))
            self.mobula("down", code=0)
            waits.communicate(timeout=WAIT_S)
        self.assert_chain_goes_on_without(before)

    def test_a_chain_that_was_given_up_beforehand_goes_on_by_itself(self):
        """Those who were its clients live, hear that nothing of theirs is left, and begin anew, too."""
        self.begin_a_chain("--gcs-start-without-all", "on")
        before = self.epoch()
        members = [self.process(name)["pid"] for name in ("redis", "redis-1")]
        for member in ("gcs", "gcs-1"):
            os.rename(self.dir / member / "appendonlydir", self.dir / member / "away")
        for pid in members:
            os.kill(pid, signal.SIGKILL)
        self.until_master_says("begins_anew")
        self.until_deployed()
        self.assert_goes_on_behind(before)

    def test_a_note_of_a_later_version_is_refused(self):
        self.begun()
        self.mobula("down", code=0)
        note = self.dir / "gcs.sock.stored"
        kept = note.read_bytes()
        note.write_bytes(kept.replace(b"mobula stored 1", b"mobula stored 2"))
        began = time.monotonic()
        words = "is of version 2, and this program knows version 1"
        self.assertIn(words, self.mobula("up", "--detach", code=1).stderr)
        self.assertIn(words, self.mobula("gcs", "status").stderr)
        self.assertLess(time.monotonic() - began, 2 * SOON_S)
        note.write_bytes(kept)
        self.up()
        self.assertEqual(1, self.tasks())

    def test_a_directory_that_is_gone_is_a_new_cluster(self):
        self.begun()
        self.mobula("down", code=0)
        for path in self.dir.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.up()
        self.assertEqual(0, self.tasks())
        self.assertEqual([], self.named_losses())


if __name__ == "__main__":
    unittest.main(verbosity=2)
