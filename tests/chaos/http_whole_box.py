"""Everything is killed in one moment, PostgreSQL too, and starts again with its wall clock an hour off, both ways.   ctest: timeout=300 long

A run has three lives: the clock is right, then an hour off (later or earlier, by seed), then right again, so each way is met in each
run. Every process of the box takes the clock from MOBULA_TEST_WALL_OFFSET_S, Redis and PostgreSQL by tests/preload/wall_shift.c. What had finished reads as before, by id, in lists and by
time; what had not finishes once; an actor goes on from its state. Odd seeds have a chain of two, even ones a chain of one.
Where the system lets it, the first life has a monotonic clock of its own, as of a machine that ran for long: the next life is that of a
machine that has begun anew. MOBULA_CHAOS_SEEDS=N makes N runs (2; with sanitizers 1), MOBULA_CHAOS_SEED=S begins with S (1).
"""
import atexit
import glob
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from lib_http_cluster import BIN, Cluster, check, failures, ref, sql  # pylint: disable=wrong-import-position
from http_dag_kill import mix, nest  # pylint: disable=wrong-import-position

V1 = "/api/v1"
HOUR_S, RETENTION_S = 3600, 2 * 3600  # nothing of a run is past its retention, whatever the clock
PAGE, PATIENCE_S = 7, 90
RUNS_FOR_LONG = ("unshare", "--time", "--monotonic", "1000000", "--boottime", "1000000")
KINDS = {"mobula", "mobula-node", "mobula-worker", "mobula-gateway", "mobula-gcs", "mobula-flush", "redis-server", "postgres"}
TIMES = ("inputs_ready_us", "dispatched_us", "started_us", "finished_us")


# ---- processes ----

def parents():
    """Of each process: {pid: (pid of its parent, whether it still runs)}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
            found[int(pid)] = (int(words[1]), words[0] not in "ZX")
        except OSError:
            continue
    return found


def tree(root):
    """A process and all below it."""
    found, todo, of = [], [root], parents()
    while todo:
        found.append(todo.pop())
        todo += [pid for pid, (parent, runs) in of.items() if parent == found[-1] and runs]
    return found


def kinds(pids):
    """Of those that run."""
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
                found.add(file.read().strip())
        except OSError:
            continue
    return found


def kill_everything(c, draw):
    """Of every kind there is one at least: the flusher begins when PostgreSQL is there."""
    with open(c.directory + "/supervisor.pid", encoding="ascii") as file:
        supervisor = int(file.read().split()[0])
    c.until("all kinds of processes run", lambda: c.kinds <= kinds(tree(supervisor)))
    pids = tree(supervisor)
    draw.shuffle(pids)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    c.until("all are gone", lambda: not [pid for pid, (_, runs) in parents().items() if runs and pid in pids])


def library_for_all():
    """As root, Redis and PostgreSQL run under users who may not read where the tree lies."""
    folder = tempfile.mkdtemp(prefix="mobula-preload-")
    atexit.register(shutil.rmtree, folder, True)
    os.chmod(folder, 0o755)
    copy = shutil.copy(BIN + "/../tests/wall_shift.so", folder)
    os.chmod(copy, 0o755)
    return copy


WALL_SHIFT = library_for_all()


def set_clock(clock_s):
    """Of what is started from here on."""
    os.environ["MOBULA_TEST_WALL_OFFSET_S"] = str(clock_s)
    os.environ["LD_PRELOAD"] = WALL_SHIFT
    sanitized = os.environ.get("ASAN_OPTIONS", "").split(":")  # its runtime wants to be the first library
    os.environ["ASAN_OPTIONS"] = ":".join([word for word in sanitized if word] + ["verify_asan_link_order=0"] * ("verify_asan_link_order=0" not in sanitized))


def start(c, clock_s):
    set_clock(clock_s)
    c.under = ()
    c.up()
    c.until("ready", lambda: ready(c))
    check_clocks(c)


def redis_time(path):
    """Of the last line of its log: it takes commands of members only."""
    with open(path, encoding="utf-8", errors="replace") as file:
        said = re.findall(r"(\d+ \w+ \d{4} \d\d:\d\d:\d\d)\.\d+ [*#]", file.read())
    return int(time.mktime(time.strptime(said[-1], "%d %b %Y %H:%M:%S")))


def check_clocks(c):
    """Of the processes that are not ours."""
    c.until("PostgreSQL", lambda: subprocess.run(["pg_isready", "-q", "-h", c.directory + "/pg", "-p", "1"], check=False).returncode == 0)
    redis = [redis_time(path) for path in glob.glob(c.directory + "/logs/redis*.log")]
    others = [*redis, int(sql(c, "SELECT extract(epoch FROM clock_timestamp())::bigint"))]
    check(len(redis) >= 1 and all(abs(other - now_us() // 1000000) < 300 for other in others), "their clocks are the box's", others, now_us())


def ready(c):
    try:
        c.read_address()
        return c.call("GET", "/readyz", key=None)[0] == 200
    except (OSError, ValueError, http.client.HTTPException):
        return False


def gcs(c, *words):
    return subprocess.run([*c.under, BIN + "/mobula", "gcs", *words, "--dir", c.directory], capture_output=True, text=True, timeout=120, check=False)


def flushed(c):
    def all_there():
        done = gcs(c, "status", "-o", "json")
        figures = json.loads(done.stdout) if done.returncode == 0 else {}
        return "postgres" in figures and figures["postgres"]["behind"] == 0
    c.until("all is in PostgreSQL", all_there)


class Box(Cluster):
    """Its monotonic clocks have run for long in its first life, and begin anew with the next, as they do when a machine does."""
    under = RUNS_FOR_LONG if subprocess.run([*RUNS_FOR_LONG, "true"], capture_output=True, check=False).returncode == 0 else ()

    def down(self):
        subprocess.run([*self.under, BIN + "/mobula", "down", "--dir", self.directory], capture_output=True, timeout=60, check=False)


# ---- what a client asks ----

def keyed(c, path, body, key):
    """Until it is answered."""
    deadline, answer = time.monotonic() + PATIENCE_S, None
    while time.monotonic() < deadline:
        try:
            answer = c.call("POST", V1 + path, body, {"Idempotency-Key": key})
            if answer[0] in (200, 201, 202):
                return json.loads(answer[2])
            if answer[0] not in (409, 429, 503):
                break
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer = error
        time.sleep(0.05)
    raise AssertionError(f"{path} {key}: {answer}")


def begin_list(c, path):
    """The first page, and the cursor behind it."""
    page = c.json("GET", f"{V1}{path}&limit={PAGE}", expect=200)
    return page["items"], page["next_cursor"]


def pages(c, path, cursor=None):
    """Rows of a list from a cursor on."""
    rows = []
    while True:
        page = c.json("GET", f"{V1}{path}&limit={PAGE}" + (f"&cursor={cursor}" if cursor else ""), expect=200)
        rows += page.get("items", [])
        cursor = page.get("next_cursor")
        if not cursor:
            return rows


def events_from(c, position, of, until):
    """Until `until` says of all of them that it is enough."""
    found, gaps, deadline = [], 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        page = c.json("GET", f"{V1}/events?after={position}&limit=1000&wait=1&{of}", expect=200)
        found += page["events"]
        gaps += page.get("gap") is True
        position = page["position"]
        if until(found):
            break
    return found, gaps


# ---- what is submitted ----

class Work:
    """Of one life: a part that finishes there, and a part that the next life has to finish. All of it has keys, as of a client that was cut off."""

    def __init__(self, c, draw, name):
        self.c, self.draw, self.name = c, draw, name
        self.gate = f"{c.directory}/gate-{name}"
        self.done, self.open, self.done_calls, self.open_calls, self.standing = {}, {}, {}, {}, {}  # {task: (object, value)}
        self.objects, self.answers = {}, {}  # {object: bytes}, {key: (path, body, answer)}

    def make(self, what, path, body):
        answer = keyed(self.c, path, body, f"{self.name}-{what}")
        self.answers[f"{self.name}-{what}"] = (path, body, answer)
        return answer

    def begin_job(self, what):
        return self.make(f"job-{what}", "/jobs", {"name": f"{what}-{self.name}"})["id"]

    def task(self, what, function, arguments, value, to):
        job = {"job": self.job if to is self.done else self.later} if to is not self.standing else {}
        answer = self.make(what, "/tasks", {"function": function, "arguments": arguments, **job, "options": {"max_retries": -1}})
        to[answer["id"]] = (answer["returns"][0], value)
        return answer

    def rows(self, what, divisor, count):
        """Tasks that fail when the divisor is 0."""
        body = {"function": "arith.divmod", "rows": [[i, divisor] for i in range(count)], "job": self.job, "options": {"name": f"{what}-{self.name}", "max_retries": 0}}
        return self.make(what, "/tasks:batch", body)["items"]

    def put(self, size):
        data = self.draw.randbytes(size)
        answer = self.c.call("POST", V1 + "/objects", data, {"Content-Type": "application/octet-stream"})
        check(answer[0] == 201, "a put", answer)
        self.objects[json.loads(answer[2])["id"]] = data

    def finish_some(self):
        """Acknowledged, and it has ended."""
        number = self.draw.getrandbits(40)
        self.begin_us = now_us()
        self.job, self.later = self.begin_job("job"), self.begin_job("later")
        for i, item in enumerate(self.rows("done", 3, 4 * PAGE)):
            self.done[item["id"]] = (item["returns"][0], i // 3)
        parent = self.task("nest", "chaos.nest", [number, 3, 2], nest(number, 3, 2), self.done)
        self.parent = parent["id"]
        self.task("mix", "chaos.mix", [number, ref(parent["returns"][0])], mix(mix(number, nest(number, 3, 2)), 1), self.done)
        for item in self.rows("bad", 0, 2 * PAGE):
            check(self.c.value(item["returns"][0]).get("state") == "failed", "it fails", self.name)
        for size in (100, 200000):
            self.put(size)
        for i in range(PAGE):  # of no job that anybody began: what of it is older than the retention goes, while other jobs run
            self.task(f"stands-{i}", "chaos.mix", [i], mix(i, 1), self.standing)
        values(self.c, {**self.done, **self.standing}, self.name)

    def leave_some(self):
        """Running, queued, waiting for one that runs, blocked on a child: until the gate is there."""
        gated = [self.task(f"gated-{i}", "chaos.gated", [self.gate], 7, self.open) for i in range(6)]
        for i, task in enumerate(gated):
            self.task(f"waits-{i}", "chaos.mix", [i, ref(task["returns"][0])], mix(mix(i, 7), 1), self.open)
        self.task("blocks", "chaos.blocks", [self.gate], 7, self.open)
        self.waited = gated[-1]["returns"][0]

    def open_gate(self):
        with open(self.gate, "w", encoding="ascii"):
            pass


def values(c, tasks, what):
    for task, (name, value) in tasks.items():
        answer = c.value(name)
        check(answer.get("value") == value, "a value", what, task, answer, value)


class Keeper:
    """An actor with a name over all lives, and its model."""

    def __init__(self, c, seed):
        self.state, self.calls = mix(seed, 0), 0
        options = {"name": "keeper", "detached": True, "max_restarts": -1, "resources": {"CPU": 0}}
        self.body = {"class": "chaos.Chain", "arguments": [seed], "options": options}
        self.id = keyed(c, "/actors", self.body, "keeper")["id"]

    def step(self, work, argument, value, to):
        self.state, self.calls = mix(self.state, value), self.calls + 1
        body = {"arguments": [argument], "options": {"max_retries": -1}}
        answer = work.make(f"step-{self.calls}", f"/actors/{self.id}/methods/step", body)
        to[answer["id"]] = (answer["returns"][0], self.state)


# ---- what is compared ----

def lists_of(work):
    day = f"finished_us:>={work.begin_us} AND finished_us:<={work.end_us}"
    quoted = lambda text: text.replace(" ", "%20").replace(">", "%3E").replace("<", "%3C")
    return {"by name": f"/tasks?filter=name:done-{work.name}", "by job": quoted(f"/tasks?filter=job:{work.job} AND state:finished"),
            "failures": quoted(f"/tasks?filter=state:failed AND job:{work.job}"), "by time": quoted(f"/tasks?filter={day} AND name:done-{work.name}"),
            "failures by time": quoted(f"/tasks?filter=state:failed AND {day} AND name:bad-{work.name}"), "children": f"/tasks?filter=parent:{work.parent}"}


def picture(c, work):
    """All that is said of what has finished: {what: value}."""
    found = {}
    for what, path in lists_of(work).items():
        found[what] = pages(c, path)
    check([len(found[what]) for what in ("by name", "by time")] == 2 * [4 * PAGE], "lists", work.name, {what: len(rows) for what, rows in found.items()})
    check([len(found[what]) for what in ("failures", "failures by time")] == 2 * [2 * PAGE], "lists of failures", work.name)
    for task in [*work.done, *work.done_calls, *work.standing, *(row["id"] for row in found["failures"])]:
        found[task] = c.json("GET", f"{V1}/tasks/{task}", expect=200)
    for name, data in work.objects.items():
        found[name] = c.call("GET", f"{V1}/objects/{name}/data?wait=10")[2] == data
        check(found[name], "what was put", work.name, name)
    found["lineage"] = c.json("GET", f"{V1}/objects/{next(reversed(work.done.values()))[0]}/lineage", expect=200)
    return found


def in_order(what, rows):
    """Only a list of failures keeps its order while blocks are flushed."""
    return rows if what.startswith("failures") else sorted(rows, key=lambda row: row["id"])


def compare(before, after, work, when):
    for what, value in before.items():
        now = after.get(what)
        same = in_order(what, now) == in_order(what, value) if isinstance(value, list) else now == value
        check(same, f"{what} as before, {when}", work.name, value, now)


def check_times(record, what):
    """Of one attempt no time is before the one that it follows."""
    times = [record[name] for name in TIMES if record.get(name)]
    return check(times == sorted(times) and len(times) >= 2, "times of a record", what, times, record)


def check_timeline(c):
    trace = c.json("GET", f"{V1}/timeline?limit=100000", expect=200)["traceEvents"]
    odd = [e for e in trace if e.get("dur", 0) < 0 or e.get("args", {}).get("queued_us", 0) < 0]
    check(len(trace) > 50 and not odd, "the timeline has no negative durations", odd[:3])


def check_jobs(c):
    jobs = c.json("GET", f"{V1}/jobs?limit=1000", expect=200)["items"]
    odd = [job for job in jobs if job["ended_us"] and job["ended_us"] < job["started_us"]]
    check(jobs and not odd, "no job ended before it began", odd)


def now_us():
    """By the clock of the box."""
    return time.time_ns() // 1000 + int(os.environ["MOBULA_TEST_WALL_OFFSET_S"]) * 1000000


class Life:
    """One, until everything is killed, and what the next has to find."""

    def __init__(self, c, draw, keeper, name):
        self.c, self.work = c, Work(c, draw, name)
        work = self.work
        work.finish_some()
        for _ in range(3):
            number = draw.getrandbits(40)
            keeper.step(work, number, number, work.done_calls)
        values(c, {**work.done, **work.done_calls}, name)
        work.end_us = now_us()
        self.picture = picture(c, work)
        for task in [*work.done, *work.standing]:
            check_times(self.picture[task], name)
        if draw.randrange(2):
            flushed(c)
        self.begun = {what: begin_list(c, path) for what, path in lists_of(work).items() if what != "children"}
        self.position = c.json("GET", f"{V1}/events", expect=200)["position"]
        work.leave_some()
        keeper.step(work, ref(work.waited), 7, work.open_calls)
        if draw.randrange(2):  # what is unfinished lies in PostgreSQL alone, or in the members
            flushed(c)
        self.stopped = threading.Event()
        self.late = threading.Thread(target=self.submit_late)
        self.late.start()
        time.sleep(draw.uniform(0.05, 0.5))  # so that the kill meets it

    def submit_late(self):
        """Until somebody dies: what is acknowledged is there."""
        number = 0
        while not self.stopped.is_set():
            number += 1
            body = {"function": "chaos.mix", "arguments": [number], "job": self.work.later, "options": {"max_retries": -1}}
            try:
                answer = self.c.call("POST", V1 + "/tasks", body, {"Idempotency-Key": f"{self.work.name}-late-{number}"})
            except (OSError, http.client.HTTPException):
                return
            if answer[0] == 202:
                answer = json.loads(answer[2])
                self.work.answers[f"{self.work.name}-late-{number}"] = ("/tasks", body, answer)
                self.work.open[answer["id"]] = (answer["returns"][0], mix(number, 1))

    def end(self, draw):
        kill_everything(self.c, draw)
        self.stopped.set()
        self.late.join()

    def check_after(self, when):
        """By the next life, whose clock is another."""
        c, work = self.c, self.work
        compare(self.picture, picture(c, work), work, when)
        for what, (rows, cursor) in self.begun.items():
            rows = in_order(what, rows + pages(c, lists_of(work)[what], cursor))
            check(rows == in_order(what, self.picture[what]), f"a list goes on, {what}, {when}", work.name, len(rows), len(self.picture[what]))
        for key, (path, body, answer) in work.answers.items():
            again = keyed(c, path, body, key)
            same = again["items"] == answer["items"] if "items" in answer else again["id"] == answer["id"]
            check(same, f"a key has its answer, {when}", key, again, answer)
        work.open_gate()
        values(c, {**work.open, **work.open_calls}, when)
        self.check_events(when)
        check(c.call("DELETE", f"{V1}/jobs/{work.later}")[0] == 202, "the job ends", when)
        for task in [*work.open, *work.open_calls]:
            record = c.until("it is logged", lambda task=task: finished_record(c, task))
            if not check_times(record, when):
                break

    def check_events(self, when):
        """Behind the place where the life before was: what came to its end since, once, and nothing of before."""
        work = self.work
        ends = lambda found: [e["subject"] for e in found if e["type"] == "task.finished"]
        for of, tasks in ((f"job={work.later}", work.open), *((f"task={task}", [task]) for task in work.open_calls)):
            found, gaps = events_from(self.c, self.position, of, lambda found, tasks=tasks: set(tasks) <= set(ends(found)))
            times = {task: ends(found).count(task) for task in tasks}
            check(gaps == 0 and set(times.values()) == {1}, f"each finishes once, {when}", work.name, of, gaps, times)
            odd = [e for e in found if (e.get("data") or {}).get("duration_us", 0) < 0]
            check(not odd, f"no event has a negative duration, {when}", odd[:3])
        again = self.c.json("GET", f"{V1}/events?after={self.position}&limit=1000&wait=0&job={work.job}", expect=200)
        check(not again["events"] and not again.get("gap"), f"no event is told again, {when}", work.name, again)
        every = lambda found: set(work.done) <= set(ends(found))
        found, gaps = events_from(self.c, "earliest", f"job={work.job}", every)
        check(gaps == 0 and every(found), f"those of before are there, {when}", work.name, gaps, len(found))


def finished_record(c, task):
    status, _, body = c.call("GET", f"{V1}/tasks/{task}")
    record = json.loads(body)
    return record if status == 200 and record.get("state") == "finished" else None


def one(seed):
    draw, begin = random.Random(seed), time.monotonic()
    replicas, ahead = 1 + seed % 2, HOUR_S if seed // 2 % 2 == 0 else -HOUR_S
    set_clock(0)
    options = ["--postgres", "on", "--gcs-replicas", str(replicas), "--retention-s", f"{RETENTION_S}s", "--flush-delay-ms", "100", "--flush-maintain-ms", "300",
               "--flush-hot-percent", draw.choice(["0", "50"])]
    c = Box(*options)
    try:
        c.kinds = KINDS | ({"mobula-master"} if replicas > 1 else set())
        for module in ("arith", "chaos"):
            c.deploy(module)
        keeper = Keeper(c, draw.getrandbits(40))
        lives, clocks = [], (0, ahead, 0)
        for number, clock_s in enumerate(clocks):
            if number > 0:
                lives[-1].end(draw)
                start(c, clock_s)
                for life in lives[:-1]:
                    compare(life.picture, picture(c, life.work), life.work, f"two lives later, clock {clock_s}")
                lives[-1].check_after(f"clock {clocks[number - 1]} and then {clock_s}")
                check_timeline(c)
                check_jobs(c)
            lives.append(Life(c, draw, keeper, f"s{seed}l{number}"))
        lives[-1].work.open_gate()
        values(c, {**lives[-1].work.open, **lives[-1].work.open_calls}, "the last life")
        answer = keyed(c, "/actors", keeper.body, "keeper")
        check(answer["id"] == keeper.id, "the actor is known by its key", answer)
        lives[-1].stopped.set()
        lives[-1].late.join()
        verify = gcs(c, "verify")
        check(verify.returncode == 0, "verify", verify.stdout, verify.stderr)
    finally:
        c.end()
    print(f"seed {seed}: chain of {replicas}, clock {ahead} s and back, {time.monotonic() - begin:.1f} s", flush=True)


def main():
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    first = int(os.environ.get("MOBULA_CHAOS_SEED", 1))
    for seed in range(first, first + int(os.environ.get("MOBULA_CHAOS_SEEDS", 1 if os.environ.get("MOBULA_SANITIZE") else 2))):
        try:
            one(seed)
        except Exception as error:  # pylint: disable=broad-except
            check(False, f"seed {seed}: {type(error).__name__}: {error}")
        if failures:
            break
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
