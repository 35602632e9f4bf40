"""At the memory cap: roots are told to come again, what runs may submit what it needs to finish, and flushing makes room.
MOBULA_CHAOS_SEED and MOBULA_CHAOS_SEEDS: the first seed of a cap full of unfinished tasks, and how many (1, 1).
Fills memory for minutes under sanitizers, and `http_full` meets the same code there.   ctest: timeout=280 plain long"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from lib_http_cluster import BIN, check, main, signal_postgres

V1 = "/api/v1"
ALL = "MOBULA_TEST_ALL" in os.environ  # twice the memory, and three times as long under load
SOFT, HARD = ("24MiB", "36MiB") if ALL else ("12MiB", "18MiB")
UNDER_WAY = 16 << 20  # received and not stored: passes and windows that were full when the cap was met


def figures(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)["member"]


def fill(c, seconds, stop_at_full, length=700):
    """Roots with arguments of twice `length` characters until one is refused; how many were taken, and the refusals."""
    taken, refused, deadline = 0, [], time.monotonic() + seconds
    connection = c.connect()
    body = {"function": "probe.echo_utf8"}
    while time.monotonic() < deadline:
        body["rows"] = [[os.urandom(length).hex()] for _ in range(200)]
        status, headers, data = c.call("POST", V1 + "/tasks:batch", body, connection=connection)
        if status == 202:
            taken += 200
            continue
        refused.append((status, headers.get("retry-after"), json.loads(data).get("code")))
        if stop_at_full:
            break
        time.sleep(float(headers.get("retry-after", 1)) / 4)
    connection.close()
    return taken, refused


def run_parents(c, parents, results, taken):
    """Roots, each a time to sleep in ms and a number of children, which come again when they are refused; `taken` tells of each
    that is in, `results` by its arguments what came of it."""
    def one(ms, children):
        body = {"function": "late.parent", "arguments": [ms, children]}
        deadline = time.monotonic() + 60
        status, _, answer = c.call("POST", V1 + "/tasks", body)
        while status == 429 and time.monotonic() < deadline:
            time.sleep(0.2)
            status, _, answer = c.call("POST", V1 + "/tasks", body)
        check(status == 202, "a parent is taken", status, answer)
        task = json.loads(answer)
        taken.append(task["id"])
        results.append((ms, children, c.value(task["returns"][0], 60).get("value")))
    threads = [threading.Thread(target=one, args=parent) for parent in parents]
    for thread in threads:
        thread.start()
    return threads


def sums(parents):
    """What they return: the sum of what their children do, which is their number."""
    return sorted((ms, children, children * (children - 1) // 2) for ms, children in parents)


def test_roots_are_refused_and_what_runs_finishes(c):
    c.deploy("late")
    c.deploy("probe")
    c.until("the flusher", lambda: os.path.exists(c.directory + "/flush.ready"), 60)
    signal_postgres(c, signal.SIGSTOP)  # from here on nothing leaves memory
    try:
        def full():  # what is not on disk yet counts twice, so there may be room again a moment later
            _, refused = fill(c, 60, True)
            check(refused and refused[0][0] == 429 and refused[0][1] and refused[0][2] == "gcs-full", "a root is refused", refused)
            time.sleep(1.5)
            status, headers, _ = c.call("POST", V1 + "/tasks", {"function": "late.one", "arguments": [1]})
            return status == 429 and int(headers["retry-after"]) >= 1
        c.until("the cap is reached, and stays", full, 90)
        check(c.json("GET", V1 + "/tasks?limit=5", expect=200)["items"], "reads go on")
    finally:
        signal_postgres(c, signal.SIGCONT)
    c.until("there is room again", lambda: c.call("POST", V1 + "/tasks", {"function": "late.one", "arguments": [1]})[0] == 202, 60)


def a_cap_full_of_unfinished_tasks(c, seed, slower):
    """How many parents had not finished when the cap was met, if they sleep for that many times as long."""
    rng = random.Random(seed)
    parents = [(rng.randint(2000, 6000) * slower, rng.randint(1, 1000)) for _ in range(rng.randint(2, 12))]
    results, taken = [], []
    c.until("room", lambda: c.call("POST", V1 + "/tasks", {"function": "late.one", "arguments": [1]})[0] == 202, 60)
    threads = run_parents(c, parents, results, taken)
    c.until("all parents are taken, and sleep or wait for a slot", lambda: len(taken) == len(parents), 60)
    signal_postgres(c, signal.SIGSTOP)
    try:
        _, refused = fill(c, 60, True, rng.choice([50, 700, 5000]))
        check(refused and refused[0][0] == 429, "the cap is reached", seed, refused)
        unfinished = len(parents) - len(results)
        for thread in threads:
            thread.join(70)
        check(sorted(results) == sums(parents), "they finish all the same", seed, results)
        f = figures(c)  # takes 10 s: it asks PostgreSQL, too
        check(f["redis_bytes"] + f["member_bytes"] < f["hard_bytes"] + UNDER_WAY, "below the hard cap", seed, f)
    finally:
        signal_postgres(c, signal.SIGCONT)
    return unfinished


def test_a_cap_full_of_unfinished_tasks(c):
    first, count = int(os.environ.get("MOBULA_CHAOS_SEED", 1)), int(os.environ.get("MOBULA_CHAOS_SEEDS", 1))
    shown, slower = 0, 1
    for seed in range(first, first + count):
        unfinished = a_cap_full_of_unfinished_tasks(c, seed, slower)
        shown += unfinished > 0
        print(f"seed {seed} ok, {unfinished} had not finished when the cap was met", flush=True)
    while shown == 0 and slower < 4:  # memory was filled so slowly that all were done
        slower *= 2
        shown += a_cap_full_of_unfinished_tasks(c, first, slower) > 0
    check(shown > 0, "the cap is full of unfinished tasks in one round at least")


def test_with_flushing_all_goes_through(c):
    results = []
    c.until("room", lambda: c.call("POST", V1 + "/tasks", {"function": "late.one", "arguments": [1]})[0] == 202, 60)
    parents = [(3000, 300)] * 4
    threads = run_parents(c, parents, results, [])
    before = figures(c)["applied"]
    taken, refused = fill(c, 15 if ALL else 5, False)
    for thread in threads:
        thread.join(70)
    check(sorted(results) == sums(parents), "nested tasks", results)
    check({r[0] for r in refused} <= {429} and all(r[1] for r in refused), "only 429, with a time", refused[:5])
    check(taken > 0 and figures(c)["applied"] > before, "roots are taken", taken)
    verify = subprocess.run([BIN + "/mobula", "gcs", "verify", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(verify.returncode == 0, "verify", verify.stdout)


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--gcs-replicas", "1", "--flush-delay-ms", "200", "--flush-batch-bytes", "1MiB", "--gcs-soft-bytes", SOFT, "--gcs-hard-bytes", HARD)
