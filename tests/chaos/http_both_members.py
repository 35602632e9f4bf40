"""Both members of the control store are killed within 5 ms: whoever asks meanwhile is told so, typed and in time, and afterwards all that was
acknowledged is there and what was refused can be sent again, once.   ctest: timeout=300

By turns nobody starts them before all were answered, or the supervisor does at once. MOBULA_CHAOS_SEEDS=N (1) from MOBULA_CHAOS_SEED on.
"""
import contextlib
import json
import os
import random
import signal
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from lib_http_cluster import BIN, Cluster, check, failures, ids_of  # pylint: disable=wrong-import-position

V1 = "/api/v1"
GAP_S = 0.005
ANSWER_S = 15  # a request while no member answers (gcs-away-ms), beside what it asks to wait for
SLOW_S = 8  # of a loaded machine; the connection itself gives up two seconds later
TASKS = 30


def task(i, name):
    return {"function": "arith.divmod", "arguments": [i, 7], "options": {"name": name}}


def pids(c):
    with open(c.directory + "/supervisor.json", encoding="utf-8") as file:
        found = {p["name"]: p["pid"] for p in json.load(file)["processes"]}
    with open(c.directory + "/supervisor.pid", encoding="ascii") as file:
        found["supervisor"] = int(file.read().split()[0])
    return found


def whole(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    members = json.loads(done.stdout)["chain"]["members"] if done.returncode == 0 else []
    return len(members) == 2 and all(one["state"] == "serving" for one in members)


@contextlib.contextmanager
def at_once():
    """Before all others, where that is allowed: a loaded machine would let tens of milliseconds pass between two signals."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def kill_both(c, draw, holds):
    """Ends both; with `holds` nobody starts them again until the supervisor is continued."""
    found = pids(c)
    victims = [found["gcs"], found["gcs-1"]]
    draw.shuffle(victims)
    gap = draw.uniform(0, GAP_S * 0.8)
    if holds:
        os.kill(found["supervisor"], signal.SIGSTOP)
    with at_once():
        began = time.monotonic()
        os.kill(victims[0], signal.SIGKILL)
        while time.monotonic() - began < gap:
            pass
        os.kill(victims[1], signal.SIGKILL)
        took = time.monotonic() - began
    return found["supervisor"], took


class Ask(threading.Thread):
    """One request of a client that waits for its answer as long as it takes, up to 10 s past its deadline."""

    def __init__(self, c, method, path, body=None, headers=None, wait_s=0):
        super().__init__(daemon=True)
        self.c, self.request, self.wait_s = c, (method, path, body, headers), wait_s
        self.answer, self.took = None, None

    def run(self):
        began = time.monotonic()
        try:
            self.answer = self.c.call(*self.request, connection=self.c.connect())
        except OSError as error:
            self.answer = error
        self.took = time.monotonic() - began

    def in_time(self, seed):
        self.join(self.wait_s + ANSWER_S + SLOW_S + 10)
        check(self.took is not None and self.took < self.wait_s + ANSWER_S + SLOW_S, f"seed {seed}: answered in time", self.request, self.took, self.answer)

    def status(self):
        return self.answer[0] if isinstance(self.answer, tuple) else None

    def is_refused(self):
        """That the control store is away, as an error that programs can act on."""
        if self.status() != 503:
            return False
        said = json.loads(self.answer[2])
        return said["code"] == "unavailable" and said["retryable"] is True and int(self.answer[1]["retry-after"]) > 0


def asks(c, seed, known):
    made = []
    for i, wait_s in enumerate((0, 2)):
        headers = {"Idempotency-Key": f"{seed}-{i}", **({"Prefer": f"wait={wait_s}"} if wait_s else {})}
        made.append(Ask(c, "POST", V1 + "/tasks", task(100 + i, f"refused-{seed}"), headers, wait_s))
    made.append(Ask(c, "GET", f"{V1}/tasks/{known['id']}"))
    made.append(Ask(c, "GET", f"{V1}/tasks?filter=name:known-{seed}"))
    made.append(Ask(c, "POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": [[1, 2]], "options": {"name": f"batch-{seed}"}}, {"Idempotency-Key": f"{seed}-batch"}))
    return made


def check_answers(seed, made, holds):
    for one in made:
        one.in_time(seed)
        good = one.is_refused() if holds else one.is_refused() or one.status() in (200, 202)
        check(good, f"seed {seed}: a typed error", one.request, one.answer)


def check_afterwards(c, seed, known, made):
    for i, one in enumerate(known):
        record = c.json("GET", f"{V1}/tasks/{one['id']}", expect=200)
        check(record.get("state") == "finished", f"seed {seed}: acknowledged", i, record)
        check(c.value(one["returns"][0]).get("value") == i // 7, f"seed {seed}: its result", i)
    check(sorted(ids_of(c, f"known-{seed}")) == sorted(one["id"] for one in known), f"seed {seed}: listed once")
    sent_again = [json.loads(c.call("POST", V1 + "/tasks", one.request[2], one.request[3])[2]) for one in made[:2]]
    check([c.value(one["returns"][1]).get("value") for one in sent_again] == [100 % 7, 101 % 7], f"seed {seed}: sent again", sent_again)
    check(sorted(ids_of(c, f"refused-{seed}")) == sorted(one["id"] for one in sent_again), f"seed {seed}: each once", sent_again)


def one_seed(c, seed):
    draw, holds = random.Random(seed), seed % 2 == 1
    c.until("a whole chain", lambda: whole(c))
    known = [c.json("POST", V1 + "/tasks", task(i, f"known-{seed}"), {"Prefer": "wait=60"}, expect=200) for i in range(TASKS)]
    supervisor, gap = kill_both(c, draw, holds)
    began = time.monotonic()
    try:
        made = asks(c, seed, known[0])
        for one in made:
            one.start()
        check_answers(seed, made, holds)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    away = time.monotonic() - began
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200)
    check_afterwards(c, seed, known, made)
    c.until("a whole chain again", lambda: whole(c))
    print(f"seed {seed}: both killed within {1000 * gap:.1f} ms, {'held' if holds else 'started again at once'}: answers {[one.status() for one in made]} after up to "
          f"{max(one.took for one in made):.1f} s, all back {time.monotonic() - began - away:.1f} s later", flush=True)


def main():
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    first = int(os.environ.get("MOBULA_CHAOS_SEED", 1))
    cluster = Cluster("--postgres", "on", "--gcs-replicas", "2")
    try:
        cluster.deploy("arith")
        for seed in range(first, first + int(os.environ.get("MOBULA_CHAOS_SEEDS", 1))):
            one_seed(cluster, seed)
    except Exception as error:  # pylint: disable=broad-except
        check(False, f"{type(error).__name__}: {error}")
    finally:
        cluster.end()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
