"""`mobula up` as it is by default, a chain of two: what dies of the control store is replaced without a person, and nobody notices but by a pause.

ctest: timeout=300 long
"""
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from lib_cli_cluster import BIN, ClusterCase

PROCESSES = ["postgres", "flush", "redis", "redis-1", "gcs", "gcs-1", "master", "node", "gateway"]


WAIT_S = 90  # against hanging only
BACK_S = 5  # a killed member is replaced and the chain at its length again: all of a run but one, whatever else the machine does


def switches(pid):
    """How often the threads of a process have gone to sleep or been sent there."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


class Chain(ClusterCase):
    def setUp(self):
        super().setUp()
        del self.environment["MOBULA_POSTGRES"]

    def add(self, n):
        self.assertEqual(str(n + 5), self.mobula("submit", "quickstart.add", str(n), "5", "--wait", code=0).stdout.strip())

    def tasks(self):
        return len(self.mobula("list", "tasks", "-o", "name", code=0).stdout.split())

    def chain(self):
        """Epoch and length of the newest chain, as the master has said it."""
        log = (self.dir / "logs/master.log").read_text(errors="replace")
        found = re.findall(r"configuration status=ok epoch=(\d+) members=(\d+)", log)
        return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)

    def until_epoch(self, epoch):
        deadline = time.monotonic() + WAIT_S
        while self.chain()[0] < epoch:
            self.assertLess(time.monotonic(), deadline, f"{self.chain()}{self.logs()}")
            time.sleep(0.005)

    def whole_after(self, epoch):
        began = time.monotonic()
        while time.monotonic() - began < WAIT_S:
            now, length = self.chain()
            if now > epoch and length == 2:
                return
            time.sleep(0.02)
        self.fail(f"not whole again: {self.chain()}{self.logs()}")

    def back_after(self, epoch, killed_at):
        """Seconds from then until the master, by its log, had made the first chain of two after that epoch."""
        self.whole_after(epoch)
        log = (self.dir / "logs/master.log").read_text(errors="replace")
        made = re.findall(r"^(\S+)Z .*configuration status=ok epoch=(\d+) members=(\d+)", log, re.MULTILINE)
        whole = next(at for at, now, length in made if int(now) > epoch and int(length) == 2)
        return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() - killed_at

    def gcs_chain(self):
        """What `mobula gcs status` says of the chain: its epoch, and its members by their place; no members while none answers."""
        said = self.mobula("gcs", "status", "-o", "json").stdout
        chain = json.loads(said)["chain"] if said else {"epoch": 0, "members": []}
        return chain["epoch"], {one["member"]: one for one in chain["members"]}

    def seen_status(self, good, seconds):
        """The chain as soon as it is as wanted, which a loaded machine may change at any time; None when it is not."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            epoch, members = self.gcs_chain()
            if len(members) == 2 and good(epoch, members):
                return epoch, members
            time.sleep(0.05)
        return None

    def until_status(self, good):
        seen = self.seen_status(good, WAIT_S)
        self.assertIsNotNone(seen, f"{self.gcs_chain()}{self.logs()}")
        return seen

    def status_beside_one_that_hangs(self):
        """With nobody to end it meanwhile. None: the other one had been left out before, and the chain stands still."""
        supervisor = int((self.dir / "supervisor.pid").read_text(encoding="ascii").split()[0])
        self.whole_after(0)
        stopped = self.pid_of("gcs-1")
        os.kill(supervisor, signal.SIGSTOP)
        try:
            os.kill(stopped, signal.SIGSTOP)
            return self.seen_status(lambda _, members: members["gcs-1.sock"]["state"] == "unavailable" and members["gcs.sock"]["role"] == "sole", 8)
        except ProcessLookupError:  # it ended before it was to be stopped
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
            os.kill(supervisor, signal.SIGCONT)

    def collected(self):
        """Why the members that began a chain again waited for clients, or did not."""
        found = [re.findall(r"gcs collecting .* why=(\S+)", path.read_text(errors="replace")) for path in self.dir.glob("logs/gcs*.log")]
        return sorted(why for one in found for why in one)

    def test_a_start_after_a_stop_waits_for_nobody_and_one_after_a_kill_for_others(self):
        self.up()
        self.deploy()
        self.add(1)
        self.mobula("down", code=0)
        self.assertEqual([], self.collected())
        self.up()
        self.add(2)
        self.assertEqual(["nothing-is-missing"], self.collected())
        os.kill(int((self.dir / "supervisor.pid").read_text().split()[0]), signal.SIGKILL)  # and all die with it
        self.up()
        self.add(3)
        self.assertEqual(["nothing-is-missing", "others-may-come"], self.collected())

    def test_status_shows_each_member(self):
        began = time.monotonic()
        self.up("--gcs-replicas", "2")
        self.deploy()
        self.add(1)

        def whole(epoch, members):
            return all(one["state"] == "serving" and one["epoch"] == epoch for one in members.values()) and \
                {one["role"] for one in members.values()} == {"head", "tail"}

        table = None
        while table is None or not table.startswith(f"chain of 2, epoch {epoch}\n"):  # who has no core for long is left out for a while
            epoch, members = self.until_status(whole)
            table = self.mobula("gcs", "status", code=0).stdout
        self.assertEqual({"gcs.sock", "gcs-1.sock"}, set(members))
        for one in members.values():
            self.assertGreater(min(one["applied"], one["redis_bytes"], one["member_bytes"]), 0, members)
            self.assertGreaterEqual(1000 * (time.monotonic() - began), one["for_ms"], members)
            self.assertEqual(max(m["applied"] for m in members.values()) - one["applied"], one["lag"], members)
        for word in ["ROLE", "FOR MS", "LAG", members["gcs.sock"]["role"]]:
            self.assertIn(word, table)
        now = self.gcs_chain()[1]
        for place, one in members.items():  # it grows for as long as the state is the same
            self.assertTrue(now[place]["epoch"] != one["epoch"] or now[place]["for_ms"] >= one["for_ms"] > 0, (members, now))
        # one that hangs is no reason to say nothing, and is not shown as what it was; what takes its place has another id
        left = None
        for _ in range(5):
            left = left or self.status_beside_one_that_hangs()
        self.assertIsNotNone(left, self.logs())
        self.assertGreater(left[0], epoch)
        self.assertIsNone(left[1]["gcs-1.sock"]["role"])
        back = self.until_status(whole)[1]["gcs-1.sock"]
        self.assertNotEqual(members["gcs-1.sock"]["id"], back["id"])

    @unittest.skipUnless(os.environ.get("MOBULA_TEST_ALL"), "waits for a minute")
    def test_a_member_that_waits_to_be_told_is_not_taken_for_one_that_differs(self):
        """While PostgreSQL hangs nobody tells it: verify does not compare it."""
        self.up("--gcs-replicas", "2")
        self.whole_after(0)
        stopped = [self.pid_of("postgres")]
        stopped += [int(pid) for pid in subprocess.run(["pgrep", "-P", str(stopped[0])], capture_output=True, text=True).stdout.split()]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            os.kill(self.pid_of("gcs-1"), signal.SIGKILL)
            self.until_status(lambda epoch, members: any(one["state"] == "idle" for one in members.values()))
            said = self.mobula("gcs", "verify").stdout
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        self.assertRegex(said, r"(?m)^PARTLY digests of the members")
        self.assertNotIn("FAILED", said)

    @unittest.skipUnless(os.environ.get("MOBULA_TEST_ALL"), "waits for 20 s (unit/gcs/chain/membership has the rule)")
    def test_a_lost_folder_is_waited_for_until_somebody_says_otherwise(self):
        self.up("--gcs-replicas", "2")
        self.deploy()
        self.add(1)
        self.whole_after(0)
        self.mobula("down", code=0)
        shutil.rmtree(self.dir / "gcs-1")
        waits = subprocess.Popen([BIN / "mobula", "up", "--detach"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = waits.stderr.readline()
        self.assertIn(f"{self.dir}/gcs-1 has no data", said)
        self.assertIn("--gcs-start-without-all on", said)
        deadline = time.monotonic() + 60
        while "waits_for_members" not in (self.dir / "logs/master.log").read_text(errors="replace"):
            self.assertLess(time.monotonic(), deadline, self.logs())
            time.sleep(0.1)
        self.assertIn("hint=", (self.dir / "logs/master.log").read_text(errors="replace"))
        self.mobula("down", code=0)
        waits.communicate(timeout=60)
        self.up("--gcs-start-without-all", "on")
        self.add(2)
        self.assertEqual(2, self.tasks())

    def pid_of(self, name):
        """Of what runs: 0 is the pid of what is being started, and to end or stop that would be for this test's own processes."""
        deadline = time.monotonic() + WAIT_S
        while (pid := self.process(name)["pid"]) <= 0:
            self.assertLess(time.monotonic(), deadline, f"{name}{self.logs()}")
            time.sleep(0.02)
        return pid

    def test_what_dies_is_replaced(self):
        self.up()
        self.deploy()
        names = [p["name"] for p in json.loads(self.mobula("status", "-o", "json", code=0).stdout)["processes"]]
        self.assertEqual(PROCESSES, names)
        n, back = 0, []
        for victim in ["gcs", "gcs-1", "redis-1", "gcs"]:
            self.add(n)
            self.whole_after(0)
            epoch, _ = self.chain()
            pid, killed_at = self.pid_of(victim), time.time()
            os.kill(pid, signal.SIGKILL)
            n += 1
            self.add(n)
            back.append(self.back_after(epoch, killed_at))
            self.assertNotEqual(pid, self.pid_of(victim))
            n += 1
        print("a chain of two again after", ", ".join(f"{s:.2f} s" for s in back), file=sys.stderr)
        self.assertLess(sorted(back)[-2], BACK_S, self.logs())
        # one that hangs is ended by the supervisor, because the master asks for it
        epoch, _ = self.chain()
        stopped = self.pid_of("gcs-1")
        os.kill(stopped, signal.SIGSTOP)
        self.add(n)
        self.whole_after(epoch)
        self.assertNotEqual(stopped, self.process("gcs-1")["pid"])
        # and so is one that was stopped before the next master has heard of it: nobody can tell that one its pid
        epoch, _ = self.chain()
        stopped = self.pid_of("gcs")
        os.kill(self.pid_of("master"), signal.SIGKILL)
        os.kill(stopped, signal.SIGSTOP)
        n += 1
        self.add(n)
        self.whole_after(epoch)
        self.assertNotEqual(stopped, self.process("gcs")["pid"])
        # a node that is killed, and one that is stopped: its master has the log sealed and it replaced
        for how in [signal.SIGKILL, signal.SIGSTOP]:
            node = self.pid_of("node")
            os.kill(node, how)
            n += 1
            self.add(n)
            self.assertNotEqual(node, self.process("node")["pid"])
        log = (self.dir / "logs/master.log").read_text(errors="replace")
        self.assertGreaterEqual(log.count("node_log_sealed"), 2, log)
        # a Redis that hangs would hold up its member, and that one the chain
        epoch, _ = self.chain()
        redis = self.pid_of("redis-1")
        os.kill(redis, signal.SIGSTOP)
        n += 1
        self.add(n)
        self.whole_after(epoch)
        self.assertNotEqual(redis, self.process("redis-1")["pid"])
        # a master that hangs is ended by the supervisor: nobody else could leave out who dies meanwhile
        epoch, _ = self.chain()
        master = self.pid_of("master")
        os.kill(master, signal.SIGSTOP)
        os.kill(self.pid_of("gcs-1"), signal.SIGKILL)
        n += 1
        self.add(n)
        self.whole_after(epoch)
        self.assertNotEqual(master, self.process("master")["pid"])
        # without a master data flows
        os.kill(self.pid_of("master"), signal.SIGKILL)
        n += 1
        self.add(n)
        self.assertEqual(n + 1, self.tasks())

    def at_rest(self):
        """Until the heartbeats of members and the clockwork of the master are slow, which they are when nobody has asked for long."""
        deadline, rates = time.monotonic() + WAIT_S, None
        while time.monotonic() < deadline:
            pids = [self.process(name)["pid"] for name in ("gcs", "gcs-1", "master")]
            try:
                before, began = [switches(pid) for pid in pids], time.monotonic()
                time.sleep(0.5)
                spent = time.monotonic() - began
                rates = [(switches(pid) - b) / spent for pid, b in zip(pids, before)]
            except FileNotFoundError:  # one had been too slow and was replaced meanwhile
                self.whole_after(0)
                continue
            if all(rate < 60 for rate in rates):
                return
        self.fail(f"not at rest: {rates}{self.logs()}")

    def test_what_dies_at_rest_is_replaced(self):
        """Nobody asks, so nobody waits, and silence is noticed later; but it is, and a request that comes in between is answered."""
        self.up()
        self.deploy()
        self.whole_after(0)
        n = 0
        cases = [("gcs-1", signal.SIGKILL, False), ("gcs", signal.SIGSTOP, True), ("gcs", signal.SIGKILL, False), ("gcs-1", signal.SIGSTOP, True)]
        for victim, how, asks in cases if os.environ.get("MOBULA_TEST_ALL") else cases[:2]:
            self.at_rest()
            epoch, _ = self.chain()
            os.kill(self.pid_of(victim), how)
            began = time.monotonic()
            if asks:
                self.add(n)
                n += 1
                print(f"{victim} {how.name} at rest, then a task: its result after {time.monotonic() - began:.2f} s", file=sys.stderr)
            else:
                self.until_epoch(epoch + 1)
                print(f"{victim} {how.name} at rest: left out after {time.monotonic() - began:.2f} s", file=sys.stderr)
            self.whole_after(epoch)
        self.assertEqual(n, self.tasks())

    def test_a_master_gives_its_place_back_before_postgresql_leaves(self):
        self.up()
        self.deploy()
        self.add(1)
        self.mobula("down", code=0)
        log = (self.dir / "logs/master.log").read_text(errors="replace")
        self.assertIn("released term=1 done=1", log)  # so the next one did not wait for its time to run out
        self.up()
        self.add(2)
        self.assertEqual(2, self.tasks())

    def names(self):
        return [p["name"] for p in self.status()["processes"]]

    def replicas(self):
        """What `mobula config` says of the next start."""
        row = json.loads(self.mobula("config", "gcs-replicas", "--next", "-o", "json").stdout)[0]
        return row["value"], row["source"]

    def refused(self, *arguments, says):
        for command in (("up", "--detach"), ("config",)):
            result = self.mobula(*command, *(a for a in arguments if command[0] == "up" or a != "--no-postgres"), code=2)
            self.assertIn(says, result.stderr)
            self.assertEqual([], [line for line in self.mobula("status").stdout.splitlines() if "gateway" in line], "nothing was started")

    def test_a_postgresql_that_does_not_start_is_said(self):
        """Masters have their table there, so nothing would ever be ready."""
        self.up()
        self.mobula("down", code=0)
        (self.dir / "pg/global/pg_control").write_bytes(b"torn")
        self.assertIn("postgres does not start (", self.mobula("up", "--detach", code=1).stderr)

    def test_without_postgresql_there_is_one_member(self):
        says = "postgres is off, and gcs-replicas is 2: who is in a chain of several is decided in PostgreSQL"
        self.refused("--postgres", "off", "--gcs-replicas", "2", says=says)
        self.assertIn(says, self.mobula("up", "--detach", "--no-postgres", "--gcs-replicas", "2", code=2).stderr)
        self.assertEqual((2, "default"), self.replicas())
        self.up("--no-postgres")
        self.assertEqual(["redis", "gcs", "node", "gateway"], self.names())
        self.deploy()
        self.add(1)

    def test_a_directory_keeps_its_number_and_a_store_of_one_may_become_a_chain(self):
        self.up("--gcs-replicas", "1")
        self.deploy()
        self.add(1)
        self.mobula("down", code=0)
        self.assertEqual((1, "directory"), self.replicas())
        self.up()  # the default is another number, and was not asked for
        self.assertNotIn("gcs-1", self.names())
        self.mobula("down", code=0)
        self.up("--gcs-replicas", "2")
        self.add(2)
        self.whole_after(0)
        self.mobula("down", code=0)
        self.assertEqual((2, "directory"), self.replicas())
        self.up()
        self.assertEqual(PROCESSES, self.names())
        self.add(3)
        self.assertEqual(3, self.tasks())
        self.mobula("down", code=0)
        # the other member may have more
        self.refused("--gcs-replicas", "1", says="holds a control store of 2 members, and gcs-replicas is 1")
        self.refused("--postgres", "off", says="holds a control store of 2 members: who is in a chain")
        (self.dir / "gcs-replicas").unlink()  # as an earlier version left it
        self.assertEqual((2, "directory"), self.replicas())
        # nor is the lone member fooled that is started beside all this
        (self.dir / "gcs-replicas").write_text("1\n")
        alone = self.mobula("up", "--detach", "--no-postgres")
        self.assertNotEqual(0, alone.returncode)
        self.assertIn("store_of_a_chain", (self.dir / "logs/gcs.log").read_text(errors="replace"))


if __name__ == "__main__":
    unittest.main()
