"""At the memory cap: roots are told to come again, what runs may submit what it needs to finish, and flushing makes room.
MOBULA_CHAOS_SEED and MOBULA_CHAOS_SEEDS: the first seed of a cap full of unfinished tasks, and how many (1, 1).
Of `./dev test --long` only; integration/http_cap.py has a part of it for each change."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
# pylint: disable=wrong-import-position,unused-import
from http_cap import HARD, SOFT, Parents, figures, fill, status, test_roots_are_refused_and_what_runs_finishes  # noqa: E402,F401
from lib_http_cluster import BIN, check, ids_of, main, signal_postgres, sql  # noqa: E402


def metrics(c):
    """Of the control store as a whole; empty when the tail did not answer in time."""
    lines = [line for line in c.call("GET", "/metrics")[2].decode().splitlines() if line.startswith("mobula_gcs_") and not line.startswith("mobula_gcs_member_")]
    found = {line.split("{")[0].removeprefix("mobula_gcs_"): float(line.split()[-1]) for line in lines}
    return found if "redis_memory_bytes" in found else {}


def bytes_of_members(c):
    """What each member that answers has, and its Redis, by their own figures: what the caps are held against."""
    lines, sums = c.call("GET", "/metrics")[2].decode().splitlines(), {}
    for line in lines:
        one = re.fullmatch(r'mobula_gcs_member_(?:redis_memory|memory)_bytes{shard="0",member="(.*).sock",role=".*"} (\S+)', line)
        if one:
            sums[one[1]] = sums.get(one[1], 0) + float(one[2])
    return sums


def resident(pid):
    """Without what other processes share with it; 0: it has gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))
    except OSError:
        return 0


class Memory(threading.Thread):
    """Of each member and its Redis, by name: the most that they were seen to hold together, by their own figures and by the kernel's; and how
    often all were asked."""

    def __init__(self, c):
        super().__init__(daemon=True)
        self.c, self.over, self.looks = c, threading.Event(), 0
        with open(c.directory + "/supervisor.json", encoding="utf-8") as file:
            pids = {p["name"]: p["pid"] for p in json.load(file)["processes"]}
        self.pids = {name: (pids[name], pids["redis" + name.removeprefix("gcs")]) for name in pids if re.fullmatch("gcs(-[0-9]+)?", name)}
        self.most, self.resident = dict.fromkeys(self.pids, 0), dict.fromkeys(self.pids, 0)

    def run(self):
        while not self.over.wait(0.05):
            found = bytes_of_members(self.c)
            self.looks += len(found) == len(self.pids)
            for name, pids in self.pids.items():
                self.most[name] = max(self.most[name], found.get(name, 0))
                self.resident[name] = max(self.resident[name], sum(map(resident, pids)))

    def end(self):
        self.over.set()
        self.join()
        check(self.looks >= 3, "memory was looked at", self.looks)
        return self


# Blocks are refused above the hard cap, by what was measured last, at most 50 ms before, and two and a half times each block since. Beside
# that is what comes in one pass of the member's loop: a chunk of 256 KiB for each of its clients (node, gateway, flusher, supervisor) and its
# neighbours in the chain, and up to four copies of it on its way to Redis and in Redis' own buffers. In a chain the head knows what the tail has
# by its last ACK: what was on its way there comes on top, of the node's 64 unanswered blocks with 100 KiB at most a half. Measured where the hard
# cap is met: 18.6 to 20.7 MiB of 22, and 18.4 to 23.0 of 26. With a member that refuses nothing 34 to 35, as parents submit 21 MiB there.
def above_the_cap(members):
    return (4 + min(members - 1, 2)) * 4 * (256 << 10) + (0 if members == 1 else 3 << 20)


# What the kernel counts has also what allocators keep of memory that was in use before: 1.4 times the bytes, measured. Half of what is held and
# not in the sums would be more than this.
RESIDENT_PART = 1.75


def below_the_hard_cap(c, memory, what):
    """Each member."""
    most = figures(c)["hard_bytes"] + above_the_cap(len(memory.most))
    for name, held in memory.most.items():
        print(f"{what}: {name} {held / 2 ** 20:.1f} MiB at most, {memory.resident[name] / 2 ** 20:.1f} resident, of {most / 2 ** 20:.0f}", flush=True)
        check(0 < held < most, f"{name} is below the hard cap: {what}", held, most)
        check(0 < memory.resident[name] < RESIDENT_PART * most, f"and so it is for the kernel: {name}, {what}", memory.resident[name], most)


def caps_worth_of_parents(c, seed, caps):
    """With PostgreSQL: what is unfinished is flushed as well, so there is more of it than the cap holds, whether the cap was met or not."""
    parents, memory, bytes_each = Parents(c, seed), Memory(c), 2000
    memory.start()
    wanted = int(caps * figures(c)["hard_bytes"]) // bytes_each
    deadline = time.monotonic() + 120
    while len(parents.sums) < wanted and time.monotonic() < deadline:
        if not parents.batch():
            time.sleep(0.2)
    check(len(parents.sums) >= wanted, "they are taken, sooner or later", len(parents.sums), wanted)
    c.until("most of it is flushed", lambda: figures(c)["blocks"] < 50, 60)
    reads = lambda: int(c.until("figures of the member", lambda: metrics(c), 60)["cold_reads_total"])
    before, began = reads(), time.monotonic()
    parents.finish("with PostgreSQL")
    took = time.monotonic() - began
    more = reads() - before
    print(f"{len(parents.sums)} parents, refused {len(parents.refused)} times: {took:.1f} s to finish, {more} reads from PostgreSQL", flush=True)
    check(more < len(parents.sums) / 8, "a group of 256 is not read for each of its tasks", more, len(parents.sums))
    below_the_hard_cap(c, memory.end(), "with PostgreSQL")
    return len(parents.sums)


def wait_for_room(c):
    """What can leave memory has: the member's own heap is half of the small cap then, so a part of the cap is no measure."""
    def stays():
        for _ in range(3):
            if figures(c)["block_bytes"] > 1 << 20:
                return False
            time.sleep(0.2)
        return True
    c.until("what was before has left memory", stays, 60)


def parents_without_postgres(c, seed):
    """The reserve between the caps is theirs and their children's."""
    wait_for_room(c)
    parents, memory = Parents(c, seed), Memory(c)
    signal_postgres(c, signal.SIGSTOP)
    try:
        memory.start()
        parents.until_full()
        parents.finish("without PostgreSQL")
        below_the_hard_cap(c, memory.end(), "without PostgreSQL")
    finally:
        signal_postgres(c, signal.SIGCONT)
    return len(parents.sums)


def full_members(c):
    """Members that have said that they are above the hard cap: how often, by name."""
    said = {}
    for name in os.listdir(c.directory + "/logs"):
        with open(f"{c.directory}/logs/{name}", encoding="utf-8", errors="replace") as file:
            said[name] = len(re.findall(r" gcs memory .*full=1", file.read()))
    return {name: times for name, times in said.items() if times}


def parents_above_the_hard_cap(c, seed):
    """What they submit is more than the reserve holds: it is not taken, and sent again until it is."""
    wait_for_room(c)
    before, parents, memory = full_members(c), Parents(c, seed, "late.heavy", (64, 64)), Memory(c)
    signal_postgres(c, signal.SIGSTOP)
    try:
        memory.start()
        deadline = time.monotonic() + 60
        while len(parents.sums) < 300 and time.monotonic() < deadline:  # what is not on disk yet counts twice: one refusal says little
            if not parents.batch():
                time.sleep(0.2)
        check(len(parents.sums) >= 300, "there was room for them", len(parents.sums))
        parents.begin_all()
        c.until("the hard cap is met", lambda: full_members(c) != before, 60)
        time.sleep(8)  # a member that takes all the same has taken all of it by then
    finally:
        signal_postgres(c, signal.SIGCONT)
    below_the_hard_cap(c, memory.end(), "above the hard cap")
    parents.finish("above the hard cap")
    return len(parents.sums)


def test_a_cap_full_of_unfinished_tasks(c):
    c.deploy("late")
    c.until("the flusher", lambda: os.path.exists(c.directory + "/flush.ready"), 60)
    first, count = int(os.environ.get("MOBULA_CHAOS_SEED", 1)), int(os.environ.get("MOBULA_CHAOS_SEEDS", 1))
    for seed in range(first, first + count):
        flushed = caps_worth_of_parents(c, 3 * seed, 1.5)
        kept = parents_without_postgres(c, 3 * seed + 1)
        heavy = parents_above_the_hard_cap(c, 3 * seed + 2)  # not the first one's: its gate is open
        print(f"seed {seed} ok, {flushed} parents with PostgreSQL, {kept} without, {heavy} at the hard cap", flush=True)


def test_slow_postgres_holds_roots_back(c):
    """It takes a MiB a second: less than comes."""
    c.deploy("probe")
    c.until("the flusher", lambda: os.path.exists(c.directory + "/flush.ready"), 60)
    sql(c, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NEW; END';"
           "CREATE TRIGGER slow BEFORE INSERT ON mobula.batch FOR EACH ROW EXECUTE FUNCTION slow()")
    batches, memory = int(sql(c, "SELECT count(*) FROM mobula.batch")), Memory(c)
    memory.start()
    try:
        taken = fill(c, 60, True, "slow")[0]
        more, refused = fill(c, 6, False, "slow")
        check({r[0] for r in refused} == {429} and {r[2] for r in refused} == {"gcs-full"} and all(int(r[1] or 0) >= 1 for r in refused), "429, and when to come again", refused[:5])
        check(more, "some of what comes again is taken")
        check(int(sql(c, "SELECT count(*) FROM mobula.batch")) > batches, "it goes on meanwhile")
        below_the_hard_cap(c, memory.end(), f"with a slow PostgreSQL, {len(taken)} and {len(more)} roots, refused {len(refused)} times")
    finally:
        sql(c, "DROP FUNCTION slow CASCADE")
    taken.update(more)
    c.until("all of it is in PostgreSQL", lambda: status(c).get("postgres", {}).get("behind") == 0, 60)
    found = ids_of(c, "slow")
    check(sorted(found) == sorted(taken), "all that was acknowledged is there, once", len(found), len(taken))
    for task in random.Random(1).sample(sorted(taken), 20):
        name, argument = taken[task]
        check(c.value(name).get("value") == argument, "what it returned", task)
    verify = subprocess.run([BIN + "/mobula", "gcs", "verify", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(verify.returncode == 0, "verify", verify.stdout)


# Behind the others, as it fills memory once more.
from http_cap import test_with_flushing_all_goes_through  # noqa: E402,F401

if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--gcs-replicas", "1", "--flush-delay-ms", "200", "--flush-batch-bytes", "1MiB", "--gcs-soft-bytes", SOFT, "--gcs-hard-bytes", HARD)
