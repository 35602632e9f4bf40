"""What /events tells: deaths and starts of nodes and workers, and of tasks that were submitted long before.   ctest: timeout=240"""
import json
import os
import signal
import subprocess
import threading

from lib_http_cluster import BIN, check, main

V1 = "/api/v1"


def position(c):
    return c.json("GET", f"{V1}/events", expect=200)["position"]


def collect(c, after, until, query="", seconds=30):
    """Events from a position on, until one of them satisfies."""
    events = []

    def more():
        nonlocal after
        page = c.json("GET", f"{V1}/events?after={after}&wait=2{query}")
        after = page.get("position") or after
        events.extend(page.get("events", []))
        return any(until(e) for e in events)

    c.until(f"an event {query}", more, seconds)
    return events


def of_type(events, kind):
    return [e for e in events if e["type"] == kind]


def submit(c, function, *arguments, **more):
    return c.json("POST", V1 + "/tasks", {"function": function, "arguments": list(arguments), **more}, expect=202)


def test_a_completion_reaches_filters_that_never_saw_its_spec(c):
    for module in ("quickstart", "http_talk", "arith"):
        c.deploy(module)
    actor = c.json("POST", V1 + "/actors", {"class": "http_talk.Talker"}, {"Prefer": "wait=10"}, expect=201)["id"]
    slow = submit(c, "quickstart.pause", 8000)
    job = c.json("POST", V1 + "/jobs", {"name": "events"}, expect=201)["id"]
    in_job = submit(c, "quickstart.pause", 8000, job=job)
    call = c.json("POST", f"{V1}/actors/{actor}/methods/count", {"arguments": [1, 8000]}, expect=202)
    rows = [[i, i] for i in range(300)]  # specs of others stand between
    c.json("POST", V1 + "/tasks:batch", {"function": "arith.add", "rows": rows}, expect=202)
    c.kill("mobula-gateway")  # which remembers them
    c.until("the gateway is back", lambda: back(c))
    after = position(c)
    seen = {}

    def watch(name, query, task):
        seen[name] = collect(c, after, lambda e: e["type"] == "task.finished" and e["subject"] == task, query)

    watchers = [threading.Thread(target=watch, args=args) for args in (
        ("function", "&function=quickstart.pause", slow["id"]), ("job", f"&job={job}", in_job["id"]),
        ("actor", f"&actor={actor}", call["id"]), ("task", f"&task={slow['id']}", slow["id"]))]
    for w in watchers:
        w.start()
    for w in watchers:
        w.join()
    found = {e["subject"] for e in of_type(seen["function"], "task.finished")}
    check({slow["id"]} <= found <= {slow["id"], in_job["id"]}, "by function", seen["function"])
    check(not of_type(seen["function"], "task.submitted"), "submitted before", seen["function"])
    check([e["subject"] for e in seen["job"]] == [in_job["id"]], "by job", seen["job"])
    check(call["id"] in {e["subject"] for e in of_type(seen["actor"], "task.finished")}, "by actor", seen["actor"])


def test_specs_of_many_are_found(c):
    """More than one group of neighbours, whose completions come at once."""
    gate = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [3000]}, expect=202)
    rows = [[{"$ref": gate["returns"][0]}, i] for i in range(900)]
    made = c.json("POST", V1 + "/tasks:batch", {"function": "quickstart.add", "rows": rows}, expect=202)["items"]
    c.kill("mobula-gateway")
    c.until("the gateway is back", lambda: back(c))
    after, found = position(c), set()
    want = {m["id"] for m in made}

    def all_found():
        nonlocal after
        page = c.json("GET", f"{V1}/events?after={after}&wait=5&limit=1000&function=quickstart.add", expect=200)
        after = page["position"]
        check(not page.get("gap"), "no gap", page.get("gap"))
        found.update(e["subject"] for e in of_type(page["events"], "task.finished"))
        return found >= want

    c.until("all completions", all_found)
    check(found == want, "each of them", len(found), len(want))


def back(c):
    try:
        c.read_address()
        return c.call("GET", "/readyz", key=None)[0] == 200
    except (OSError, ValueError):
        return False


def test_a_worker_dies(c):
    after = position(c)
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.last_words", "options": {"max_retries": 0}}, {"Prefer": "wait=20"}, expect=200)
    check(task["state"] == "failed", "it died", task)
    events = collect(c, after, lambda e: e["type"] == "worker.died")
    died = of_type(events, "worker.died")
    check(len(died) == 1 and died[0]["data"]["pid"] > 0 and "signal" in died[0]["data"]["reason"], "once, with its pid and why", died)
    check("job" not in died[0] and died[0]["subject"], "it is nobody's job", died)
    check(started_instead(c, after) != died[0]["data"]["pid"], "another one instead")


def started_instead(c, after):
    """The pid of a worker that was started since. One that idled takes the place of a dead one, so they die until none is left that idles."""
    cpus = int(c.json("GET", V1 + "/cluster", expect=200)["resources"]["CPU"]["total"])
    for _ in range(10):
        for b in [submit(c, "quickstart.pause", 300) for _ in range(2 * cpus)]:
            c.value(b["returns"][0])
        started = of_type(c.json("GET", f"{V1}/events?after={after}&limit=1000")["events"], "worker.started")
        if started:
            return started[0]["data"]["pid"]
        c.json("POST", V1 + "/tasks", {"function": "http_talk.last_words", "options": {"max_retries": 0}}, {"Prefer": "wait=20"}, expect=200)
    check(False, "a worker was started")


def test_an_actor_dies_and_is_started_again(c):
    after = position(c)
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [5], "options": {"max_restarts": 1}}, {"Prefer": "wait=10"}, expect=201)["id"]
    plain = submit(c, "quickstart.add", 1, 2)["id"]
    calls = {"before": c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [0]}, {"Prefer": "wait=20"}, expect=200)["id"]}
    os.kill(c.json("GET", f"{V1}/actors/{actor}", expect=200)["pid"], signal.SIGKILL)
    # what comes before its death is noticed has a place in its first life, and runs in the second
    c.until("it is started again", lambda: c.json("GET", f"{V1}/actors/{actor}", expect=200)["incarnation"] == 2)
    back_again = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, {"Prefer": "wait=20"})
    check(back_again["result"] == 6, "it is back", back_again)
    calls["after"] = back_again["id"]
    events = collect(c, after, lambda e: e["type"] == "actor.started" and e["data"]["incarnation"] == 2)
    types = [e["type"] for e in events if e["subject"] == actor]
    check(types == ["actor.started", "actor.died", "actor.started"], "its life", types)
    for name, incarnation in (("before", 1), ("after", 2)):
        record = c.json("GET", f"{V1}/tasks/{calls[name]}", expect=200)
        done = [e for e in collect(c, after, lambda e: e["type"] == "task.finished", f"&task={calls[name]}") if e["type"] == "task.finished"]
        check(done and done[0]["data"]["incarnation"] == incarnation == record["incarnation"], "the call's incarnation", done, record)
        check(done and done[0]["data"]["position"] == record["position"], "its place in the actor's log", done, record)
        by_method = collect(c, after, lambda e: e["subject"] == calls[name] and e["type"] == "task.finished", "&function=quickstart.Counter.add")
        check({e["subject"] for e in by_method} <= set(calls.values()), "only calls of the method", by_method)
        called = collect(c, after, lambda e: e["type"] == "task.submitted", f"&task={calls[name]}")[0]["data"]["function"]
        check(called == "quickstart.Counter.add" == record["function"], "what was called", called, record)
    check("incarnation" not in collect(c, after, lambda e: e["type"] == "task.finished", f"&task={plain}")[-1]["data"], "a plain task has none")
    check(len(of_type(events, "worker.died")) == 1, "and its worker's end", events)


def streamed(c, after, query, count):
    """The first of them from a position on, as server-sent events."""
    connection, found, kind = c.connect(), [], ""
    connection.request("GET", f"{V1}/events?{query[1:]}", headers={"Authorization": "Bearer " + c.token, "Accept": "text/event-stream", "Last-Event-ID": after})
    response = connection.getresponse()
    while len(found) < count:
        line = response.readline().decode().rstrip("\n")
        kind = line[7:] if line.startswith("event: ") else kind
        if line.startswith("data: ") and kind != "bookmark":
            found.append(json.loads(line[6:]))
    connection.close()
    return found


def test_what_a_function_sends_says_which_attempt_did(c):
    after = position(c)
    task = submit(c, "http_talk.try_again", 4, 0, options={"max_retries": 5, "retry_on_error": True})["id"]
    events = collect(c, after, lambda e: e["type"] == "task.finished", f"&task={task}")
    ends = [e["data"]["attempt"] for e in events if e["type"] in ("task.retrying", "task.finished")]
    check(ends == [1, 2, 3, 4], "it was tried by turns with an error and a dead worker", events)
    for kind in ("talk.try", "progress", "talk.span"):
        check([e.get("attempt") for e in of_type(events, kind)] == [1, 2, 3, 4], f"{kind}: each says its attempt", of_type(events, kind))
    tried = of_type(events, "talk.try")
    check([e["data"] for e in tried] == [{"try": i} for i in (1, 2, 3, 4)], "their data is the function's", tried)
    check(not any("incarnation" in e or "actor_position" in e for e in tried), "a plain task has no turn", tried)
    check(streamed(c, after, f"&task={task}", len(events)) == events, "the same as a stream")
    spans = [e for e in c.json("GET", f"{V1}/timeline", expect=200)["traceEvents"] if e["name"] == "talk.span" and e["args"]["task"] == task]
    check(sorted((e["args"].get("attempt") for e in spans), key=str) == [1, 2, 3, 4], "and in the timeline", spans)


def test_what_an_actor_sends_says_its_turn(c):
    after = position(c)
    actor = c.json("POST", V1 + "/actors", {"class": "http_talk.Talker", "options": {"max_restarts": 1}}, {"Prefer": "wait=20"}, expect=201)["id"]
    tell = lambda what: c.json("POST", f"{V1}/actors/{actor}/methods/tell", {"arguments": [what]}, {"Prefer": "wait=20"}, expect=200)["id"]
    calls = [tell(0), tell(1)]
    os.kill(c.json("GET", f"{V1}/actors/{actor}", expect=200)["pid"], signal.SIGKILL)
    c.until("it is started again", lambda: c.json("GET", f"{V1}/actors/{actor}", expect=200)["incarnation"] == 2)
    calls.append(tell(2))
    for what, (call, incarnation) in enumerate(zip(calls, (1, 1, 2))):
        record = c.json("GET", f"{V1}/tasks/{call}", expect=200)
        told = of_type(collect(c, after, lambda e: e["type"] == "task.finished", f"&task={call}"), "talk.told")
        check(told and told[0]["data"] == {"told": what}, "it was told", told)
        said = [(e.get("attempt"), e.get("incarnation"), e.get("actor_position")) for e in told[:1]]
        check(said == [(1, incarnation, record["position"])], "by its attempt, and in its turn", said, record)


def test_a_node_dies(c):
    after = position(c)
    node = c.json("GET", V1 + "/nodes", expect=200)["items"][0]
    before = node["incarnation"]
    ran = {before: c.run("arith.add", 1, 2)["id"]}
    c.kill("mobula-node")
    c.until("ready again", lambda: back(c) and c.run("arith.add", 1, 2).get("result") == 3)
    events = collect(c, after, lambda e: e["type"] == "node.started")
    died, started = of_type(events, "node.died"), of_type(events, "node.started")
    now = c.json("GET", V1 + "/nodes", expect=200)["items"][0]["incarnation"]
    ran[now] = c.run("arith.add", 1, 2)["id"]
    for incarnation, task in ran.items():
        record = c.json("GET", f"{V1}/tasks/{task}", expect=200)
        check((record["node"], record["node_incarnation"]) == (node["id"], incarnation), "records say where", record, node["id"], incarnation)
    check(len(died) == 1 and died[0]["data"]["died"] == before, "the one that was", died, before)
    check(started[0]["data"]["previous"] == before and started[0]["data"]["incarnation"] == now > before, "and the one that is", started, now)
    trace = c.json("GET", f"{V1}/timeline", expect=200)["traceEvents"]
    check({"node.died", "worker.died"} <= {e["name"] for e in trace}, "the timeline has them")


def gcs_recoveries(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, "gcs status", done.stdout, done.stderr)
    return json.loads(done.stdout)["recoveries"]


def recoveries_by_metrics(c):
    """By state; `waiting` runs, and waits for PostgreSQL."""
    told = dict(line.rsplit(" ", 1) for line in c.call("GET", "/metrics")[2].decode().splitlines() if not line.startswith("#"))
    of = {state: told.get(f'mobula_gcs_recoveries{{shard="0",state="{state}"}}') for state in ("running", "ended", "unknown")}
    return {**of, "waiting": told.get('mobula_gcs_recoveries_waiting{shard="0"}')}


def incarnation_other_than(c, before):
    status, _, body = c.call("GET", V1 + "/nodes")
    now = json.loads(body)["items"][0]["incarnation"] if status == 200 else before
    return now if now != before else None


def test_a_recovery_is_seen(c):
    after = position(c)
    tasks = [submit(c, "quickstart.pause", 600000)["id"] for _ in range(5)]
    before = c.json("GET", V1 + "/nodes", expect=200)["items"][0]["incarnation"]
    c.kill("mobula-node")
    now = c.until("the next one answers", lambda: incarnation_other_than(c, before))
    events = collect(c, after, lambda e: e["type"] == "node.recovered" and e["data"]["recovered"] == before)
    ended = [e["data"] for e in of_type(events, "node.recovered") if e["data"]["recovered"] == before]
    check([(e["incarnation"], e["tasks"]) for e in ended] == [(now, 5)], "the event says that all have an owner, once", ended, now)
    ours = lambda: [r for r in c.json("GET", V1 + "/nodes", expect=200)["items"][0]["recoveries"] if r["incarnation"] == before]
    rows = lambda: [(r["incarnation"], r["by"], r["state"], r.get("tasks"), r["takeovers"]) for r in gcs_recoveries(c)]
    c.until("the record says so", lambda: rows() == [(before, now, "ended", 5, 0)])
    check([(r["state"], r["tasks"], r["unfinished"]) for r in ours()] == [("ended", 5, 5)], "and the node", ours())
    check(recoveries_by_metrics(c) == {"running": "0", "ended": "1", "unknown": "0", "waiting": "0"}, "and metrics", recoveries_by_metrics(c))
    for task in tasks:
        check(c.call("POST", f"{V1}/tasks/{task}:cancel")[0] in (200, 202), "cancelled")
    c.until("the log is recovered", lambda: [r["state"] for r in ours()] == ["recovered"] and gcs_recoveries(c) == [])
    check(set(recoveries_by_metrics(c).values()) == {"0"}, "and metrics", recoveries_by_metrics(c))


def test_a_node_that_is_told_to_stop_did_not_die(c):
    after = position(c)
    c.down()
    c.up()
    events = collect(c, after, lambda e: e["type"] == "node.started")
    check(len(of_type(events, "node.stopped")) == 1 and not of_type(events, "node.died"), "stopped", events)


if __name__ == "__main__":
    main(dict(globals()))
