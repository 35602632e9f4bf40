"""Unfinished tasks whose specs were flushed to PostgreSQL, while that is away and the node dies: nothing is lost or doubled, what waits says
for what, and all goes on when it is back (docs/adr/flush-unfinished.md).   ctest: timeout=280 long"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from lib_http_cluster import BIN, check, main, ref, signal_postgres

V1 = "/api/v1"
COUNT = 12


def status(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, "gcs status", done.stdout, done.stderr)
    return json.loads(done.stdout)


def submit(c, function, *arguments):
    return c.json("POST", V1 + "/tasks", {"function": function, "arguments": list(arguments)}, expect=202)


def finals(c, ids):
    """How often each of these tasks ended, by the logs."""
    ended = {}
    for one in ids:
        dump = subprocess.run([BIN + "/mobula", "gcs", "dump", one, "--dir", c.directory], capture_output=True, text=True, timeout=60)
        lines = [json.loads(line) for line in dump.stdout.splitlines()]
        ended[one] = sum(line["entry"] == "completion" and line["status"] == "ok" for line in lines)
    return ended


def left_unfinished(c, name):
    """Tasks that wait for a gate, each with one behind it that leaves a line when it runs; all in PostgreSQL, none in the member."""
    c.deploy("chaos")
    gate, trace = f"{c.directory}/gate-{name}", f"{c.directory}/trace-{name}"
    gated = [submit(c, "chaos.gated", gate) for _ in range(COUNT)]
    behind = [submit(c, "chaos.traced", trace, ref(task["returns"][0])) for task in gated]
    c.until("all is flushed, and is unfinished", lambda: (f := status(c)) and f["member"]["blocks"] == 0 and f["flush"]["unfinished_groups"] > 0, 60)
    return gate, trace, gated, behind


def all_end_once(c, trace, gated, behind):
    for task in behind:
        check(c.value(task["returns"][0], 60).get("state") == "ready", "it ends well", task)
    with open(trace, encoding="ascii") as file:
        ran = file.read().splitlines()
    check(len(ran) == COUNT and len(set(ran)) == COUNT, "each ran once", ran)
    ids = [task["id"] for task in gated + behind]
    c.until("their ends are in the logs", lambda: all(finals(c, ids).values()), 60)
    check(set(finals(c, ids).values()) == {1}, "each ended once", finals(c, ids))


def typed(c, method, path, body=None):
    """503 at once, with a time to come again, and why."""
    begin = time.monotonic()
    code, headers, text = c.call(method, path, body)
    took = time.monotonic() - begin
    problem = json.loads(text)
    good = code == 503 and problem["code"] == "unavailable" and problem["retryable"] and "retry-after" in headers and took < 30
    check(good, f"{method} {path}: not now", code, text, took)
    return problem["detail"]


def test_the_node_lives_while_postgres_is_away(c):
    gate, trace, gated, behind = left_unfinished(c, "lives")
    signal_postgres(c, signal.SIGSTOP)
    try:
        why = c.json("GET", f"{V1}/tasks/{behind[0]['id']}/why", expect=200)
        check(why["reason"] == "input-pending" or "input" in json.dumps(why), "it waits for its input, as always", why)
        with open(gate, "w", encoding="ascii"):
            pass
        for task in behind:
            check(c.value(task["returns"][0], 60).get("state") == "ready", "it needs no database", task)
        check(c.run("chaos.mix", 1).get("state") == "finished", "and new tasks run")
    finally:
        signal_postgres(c, signal.SIGCONT)
    all_end_once(c, trace, gated, behind)


def test_the_node_dies_while_postgres_is_away(c):
    c.deploy("chaos")
    finished = c.run("chaos.mix", 5)
    gate, trace, gated, behind = left_unfinished(c, "dies")
    before = status(c)["member"]["incarnations"]
    signal_postgres(c, signal.SIGSTOP)
    try:
        c.kill("mobula-node")
        waits = lambda: [(r["state"], r.get("waits_for")) for r in status(c)["recoveries"]]
        c.until("the record says what the next incarnation waits for", lambda: ("running", "postgres") in waits(), 60)
        check(b'\nmobula_gcs_recoveries_waiting{shard="0"} 1\n' in c.call("GET", "/metrics")[2], "so do metrics")
        check(c.call("GET", "/livez", key=None)[0] == 200 and c.call("GET", "/readyz", key=None)[0] == 503, "the gateway lives, and is not ready")
        c.until("callers are told", lambda: "waits for PostgreSQL" in typed(c, "GET", f"{V1}/tasks/{behind[0]['id']}/why"), 30)
        for method, path, body in (("POST", V1 + "/tasks", {"function": "chaos.mix", "arguments": [1]}), ("GET", f"{V1}/tasks/{behind[0]['id']}", None),
                                   ("GET", f"{V1}/objects/{behind[0]['returns'][0]}?wait=2", None), ("GET", f"{V1}/tasks/{finished['id']}", None)):
            typed(c, method, path, body)
        with open(gate, "w", encoding="ascii"):
            pass
        reads = status(c)["flush"]["reads"]
        c.until("it asks again and again", lambda: status(c)["flush"]["reads"] >= reads + 3, 60)
        check(status(c)["member"]["incarnations"] == before + 1, "one incarnation waits: it does not end, and come again", status(c)["recoveries"])
        check(not os.path.exists(trace), "nothing has run that may have run")
    finally:
        signal_postgres(c, signal.SIGCONT)
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200, 60)
    all_end_once(c, trace, gated, behind)
    check(c.json("GET", f"{V1}/tasks/{finished['id']}", expect=200)["state"] == "finished", "and what had ended is there")


def test_a_start_reads_tasks_with_keys_in_pages(c):
    """Each is alone in its group, since its id follows from its key: a look-up for each would take a start minutes."""
    count = 400
    c.deploy("chaos")
    gate, trace = f"{c.directory}/gate-keys", f"{c.directory}/trace-keys"
    gated = submit(c, "chaos.gated", gate)
    for i in range(count):
        body = {"function": "chaos.traced", "arguments": [trace, ref(gated["returns"][0])]}
        c.json("POST", V1 + "/tasks", body, {"Idempotency-Key": f"many-{i}"}, expect=202)
    c.until("all is flushed, and is unfinished", lambda: (f := status(c)) and f["member"]["blocks"] == 0 and f["flush"]["unfinished_groups"] >= count, 60)
    before = status(c)
    node = c.kill("mobula-node")
    c.until("the next incarnation is there", lambda: (p := c.pid_of("mobula-node")) and p != node and any(r.get("tasks", 0) > count for r in status(c)["recoveries"]), 60)
    reads = status(c)["flush"]["reads"] - before["flush"]["reads"]
    check(0 < reads < count / 4, "one read for many of them", reads)
    with open(gate, "w", encoding="ascii"):
        pass
    c.until("all have run", lambda: os.path.exists(trace) and len(open(trace, encoding="ascii").read().splitlines()) >= count, 60)
    with open(trace, encoding="ascii") as file:
        ran = file.read().splitlines()
    check(len(ran) == count and len(set(ran)) == count, "each ran once", len(ran), len(set(ran)))
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200, 60) # they need no gateway, the next test does


def test_an_actor_outlives_it(c):
    c.deploy("quickstart")
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [10], "options": {"max_restarts": -1}}, {"Prefer": "wait=20"}, expect=201)["id"]
    add = lambda: c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, {"Prefer": "wait=60"}).get("result")
    check([add() for _ in range(3)] == [11, 12, 13], "before")
    c.until("its log is flushed", lambda: status(c)["member"]["blocks"] == 0, 60)
    signal_postgres(c, signal.SIGSTOP)
    try:
        c.kill("mobula-node")
        c.until("the next incarnation waits", lambda: any(r.get("waits_for") == "postgres" for r in status(c)["recoveries"]), 60)
    finally:
        signal_postgres(c, signal.SIGCONT)
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200, 60)
    check(add() == 14, "it is as it was")
    check(c.json("GET", f"{V1}/actors/{actor}", expect=200)["state"] == "alive", "and lives")


def test_a_node_that_waits_can_be_stopped(c):
    gate, _, _, behind = left_unfinished(c, "stopped")
    signal_postgres(c, signal.SIGSTOP)
    try:
        c.kill("mobula-node")
        c.until("the next incarnation waits", lambda: any(r.get("waits_for") == "postgres" for r in status(c)["recoveries"]), 60)
        pid = c.pid_of("mobula-node")
        os.kill(pid, signal.SIGTERM)
        c.until("it ends", lambda: c.pid_of("mobula-node") != pid, 30)
    finally:
        signal_postgres(c, signal.SIGCONT)
    with open(gate, "w", encoding="ascii"):
        pass
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200, 60)
    for task in behind:
        check(c.value(task["returns"][0], 60).get("state") == "ready", "it ends well", task)


if __name__ == "__main__":
    if not shutil.which("postgres") and not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--gcs-replicas", "1", "--gcs-cold-wait-ms", "2000", "--flush-hot-percent", "0", "--flush-delay-ms", "100", "--flush-maintain-ms", "500")
