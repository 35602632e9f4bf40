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

from lib_http_cluster import BIN, check, ids_of, main, signal_postgres, sql

V1 = "/api/v1"
ALL = "MOBULA_TEST_ALL" in os.environ  # twice the memory, and three times as long under load
SOFT, HARD = ("24MiB", "36MiB") if ALL else ("12MiB", "18MiB")


def status(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)


def figures(c):
    return status(c)["member"]


def fill(c, seconds, stop_at_full, name="filler"):
    """Roots with arguments of 1400 characters until one is refused; of each that was taken, by its id, what it returns and its argument; and the refusals."""
    taken, refused, deadline = {}, [], time.monotonic() + seconds
    connection = c.connect()
    body = {"function": "probe.echo_utf8", "options": {"name": name}}
    while time.monotonic() < deadline:
        body["rows"] = [[os.urandom(700).hex()] for _ in range(200)]
        status, headers, data = c.call("POST", V1 + "/tasks:batch", body, connection=connection)
        if status == 202:
            taken.update((item["id"], (item["returns"][0], row[0])) for item, row in zip(json.loads(data)["items"], body["rows"]) if "error" not in item)
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


def member_metrics(c):
    """Of the member; empty when it did not answer in time."""
    lines = [line for line in c.call("GET", "/metrics")[2].decode().splitlines() if line.startswith("mobula_gcs_")]
    figures_of = {line.split("{")[0].removeprefix("mobula_gcs_").removeprefix("member_"): float(line.split()[-1]) for line in lines}
    return figures_of if "memory_bytes" in figures_of else {}


class Memory(threading.Thread):
    """The most that Redis and the member, by their own figures, were seen to hold together, and how often they were asked."""

    def __init__(self, c):
        super().__init__(daemon=True)
        self.c, self.over, self.most, self.looks = c, threading.Event(), 0, 0

    def run(self):
        while not self.over.wait(0.05):
            m = member_metrics(self.c)
            if m:
                self.most = max(self.most, m["redis_memory_bytes"] + m["memory_bytes"])
                self.looks += 1

    def end(self):
        self.over.set()
        self.join()
        check(self.looks >= 3, "memory was looked at", self.looks)
        return self.most


def wait_for_the_disk(c):
    """What is there now; something small is always coming."""
    applied = figures(c)["applied"]
    c.until("it is on the disk", lambda: figures(c)["durable"] >= applied, 60)


class Parents:
    """Roots that wait for one which waits for a file: none has finished. Each is as large as a page of text, and submits children."""

    def __init__(self, c, seed, function="late.laden", children=(0, 3)):
        self.c, self.rng, self.sums, self.refused, self.function, self.children = c, random.Random(seed), {}, [], function, children
        self.gate = f"{c.directory}/gate-{seed}"
        self.job = None
        c.until("room for the job", lambda: self.has_a_job(c, f"parents-{seed}"), 90)
        self.begin = c.json("GET", V1 + "/events", expect=200)["position"]
        c.until("room", lambda: self.wait_for_the_file(c), 60)

    def has_a_job(self, c, name):
        """Workers that waited for children hold nearly all places of the segment until they have been idle for a minute."""
        status, headers, data = c.call("POST", V1 + "/jobs", {"name": name})
        answer = json.loads(data)
        check(status == 201 or (status == 503 and answer["code"] == "store-full" and headers.get("retry-after")), "a job, or later", status, answer)
        self.job = answer.get("id")
        return self.job

    def wait_for_the_file(self, c):
        status, _, body = c.call("POST", V1 + "/tasks", {"function": "late.gate", "arguments": [self.gate]})
        self.awaited = json.loads(body)["returns"][0] if status == 202 else None
        return self.awaited

    def batch(self):
        """False: the cap is met, and Retry-After says when to come again."""
        counts = [self.rng.randint(*self.children) for _ in range(100)]
        rows = [[{"$ref": self.awaited}, n, self.rng.randbytes(1000).hex()] for n in counts]
        status, headers, data = self.c.call("POST", V1 + "/tasks:batch", {"function": self.function, "rows": rows, "job": self.job})
        answer = json.loads(data)
        items = answer["items"] if status == 202 else []
        codes = {item["error"]["code"] for item in items if "error" in item} | ({answer["code"]} if status != 202 else set())
        check(status in (202, 429) and codes <= {"gcs-full", "queue-full"} and (status == 202 or int(headers.get("retry-after", 0)) >= 1), "only full", status, answer)
        self.sums.update((item["id"], (item["returns"][0], n)) for item, n in zip(items, counts) if "error" not in item)
        self.refused += [status] * ("gcs-full" in codes)
        return status == 202

    def until_full(self):
        """Until three in a row are refused while all is on the disk: what is not counts twice."""
        deadline, row = time.monotonic() + 60, 0
        while row < 3 and time.monotonic() < deadline:
            refused = len(self.refused)
            taken = self.batch()
            row = row + 1 if len(self.refused) > refused else 0
            if not taken:
                wait_for_the_disk(self.c)
        check(row == 3 and len(self.sums) > 500, "the soft cap is met, and stays", row, len(self.refused), len(self.sums))

    def begin_all(self):
        with open(self.gate, "w", encoding="ascii"):
            pass

    def finish(self, what):
        """All do, each once, and so do their children."""
        self.begin_all()
        ends, position, deadline = {}, self.begin, time.monotonic() + 150
        wanted = len(self.sums) + sum(n for _, n in self.sums.values())
        while sum(ends.values()) < wanted and time.monotonic() < deadline:
            page = self.c.json("GET", f"{V1}/events?after={position}&limit=1000&wait=5&job={self.job}", expect=200)
            check(not page.get("gap"), "no gap", what)
            position = page["position"]
            for event in page["events"]:
                if event["type"] in ("task.finished", "task.failed", "task.cancelled"):
                    key = (event["subject"], event["type"])
                    ends[key] = ends.get(key, 0) + 1
        once = set(ends.values()) == {1} and all((task, "task.finished") in ends for task in self.sums)
        wrong = [key for key in ends if ends[key] != 1 or key[1] != "task.finished"]
        why = [] if once else [self.c.json("GET", f"{V1}/tasks/{task}").get("error") for task, _ in wrong[:3]]
        check(once and len(ends) == wanted, f"all finish, each once: {what}", len(ends), wanted, len(wrong), wrong[:3], why)
        for task in self.rng.sample(sorted(self.sums), 10):
            name, n = self.sums[task]
            check(self.c.value(name).get("value") == n * (n - 1) // 2, "the sum of its children", what, task)


ANSWERS_MAX = 4 * (3 << 20)  # answers from PostgreSQL that a member has under way: COLD_ANSWERS_MAX, each COLD_PAGE_BYTES_MAX at most
IN_A_PASS = 4 * 4 * (256 << 10)


def below_the_hard_cap(c, most, answers, what):
    """Blocks are refused above it, by what was measured last, at most 50 ms before, and two and a half times each block since. Beside that are
    what comes in one pass of the member's loop (a chunk of 256 KiB for each of its clients: node, gateway, flusher, supervisor), up to four copies
    of it on its way to Redis and in Redis' own buffers; and answers from PostgreSQL."""
    hard, slack = figures(c)["hard_bytes"], IN_A_PASS + answers
    print(f"{what}: {most / 2 ** 20:.1f} MiB at most, under a hard cap of {hard / 2 ** 20:.0f}", flush=True)
    check(0 < most < hard + slack, f"below the hard cap: {what}", most, hard, slack)


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
    reads = lambda: int(c.until("figures of the member", lambda: member_metrics(c), 60)["cold_reads_total"])
    before, began = reads(), time.monotonic()
    parents.finish("with PostgreSQL")
    took = time.monotonic() - began
    more = reads() - before
    print(f"{len(parents.sums)} parents, refused {len(parents.refused)} times: {took:.1f} s to finish, {more} reads from PostgreSQL", flush=True)
    check(more < len(parents.sums) / 8, "a group of 256 is not read for each of its tasks", more, len(parents.sums))
    below_the_hard_cap(c, memory.end(), ANSWERS_MAX, "with PostgreSQL")
    return len(parents.sums)


def parents_without_postgres(c, seed):
    """The reserve between the caps is theirs and their children's."""
    def held():
        m = member_metrics(c)
        return (m["redis_memory_bytes"] + m["memory_bytes"]) / m["memory_soft_bytes"] if m else 1
    c.until("what was before has left memory, but for what the flusher keeps there", lambda: held() < 0.6, 60)
    parents, memory = Parents(c, seed), Memory(c)
    signal_postgres(c, signal.SIGSTOP)
    try:
        memory.start()
        parents.until_full()
        parents.finish("without PostgreSQL")
        below_the_hard_cap(c, memory.end(), 0, "without PostgreSQL")
    finally:
        signal_postgres(c, signal.SIGCONT)
    return len(parents.sums)


def test_a_cap_full_of_unfinished_tasks(c):
    c.deploy("late")
    c.until("the flusher", lambda: os.path.exists(c.directory + "/flush.ready"), 60)
    first, count = int(os.environ.get("MOBULA_CHAOS_SEED", 1)), int(os.environ.get("MOBULA_CHAOS_SEEDS", 1))
    for seed in range(first, first + count):
        flushed = caps_worth_of_parents(c, 2 * seed, 1.5)
        kept = parents_without_postgres(c, 2 * seed + 1)
        print(f"seed {seed} ok, {flushed} parents with PostgreSQL, {kept} without", flush=True)


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
        below_the_hard_cap(c, memory.end(), ANSWERS_MAX, f"with a slow PostgreSQL, {len(taken)} and {len(more)} roots, refused {len(refused)} times")
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
    check(taken and figures(c)["applied"] > before, "roots are taken", len(taken))
    verify = subprocess.run([BIN + "/mobula", "gcs", "verify", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(verify.returncode == 0, "verify", verify.stdout)


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--gcs-replicas", "1", "--flush-delay-ms", "200", "--flush-batch-bytes", "1MiB", "--gcs-soft-bytes", SOFT, "--gcs-hard-bytes", HARD)
