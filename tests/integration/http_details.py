"""Details that a careful client relies on: every return of a task, values that a query cannot have, cursors of other lists, texts
that are none, hashes, metrics in their format, conditional answers, events at once."""
import base64
import http.client
import json
import os
import re
import subprocess
import time

from lib_http_cluster import BIN, Cluster, check, main, ref, with_slot

V1 = "/api/v1"
WAIT = {"Prefer": "wait=60"}


def refused(c, path, *words):
    """400, and the detail says what is wrong and what would be right."""
    problem = c.json("GET", V1 + path, expect=400)
    check(problem.get("code") == "bad-request", f"{path}: code", problem)
    for word in words:
        check(word in problem.get("detail", ""), f"{path}: says {word}", problem)


def mobula(c, *arguments, code=0):
    done = subprocess.run([BIN + "/mobula", *arguments, "--dir", c.directory], capture_output=True, text=True, timeout=90)
    check(done.returncode == code, f"mobula {arguments}", done)
    return done


def test_every_return_of_a_task(c):
    c.deploy("arith")
    c.deploy("probe")
    two = c.json("POST", V1 + "/tasks", {"function": "arith.divmod", "arguments": [17, 5]}, WAIT, expect=200)
    check((two["result"], two["results"]) == (3, [3, 2]), "both", two)
    one = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]}, WAIT, expect=200)
    check(one["result"] == 3 and "results" not in one, "one has one", one)
    many = c.json("POST", V1 + "/tasks", {"function": "probe.many", "arguments": [1100], "options": {"num_returns": 1100}}, WAIT, expect=200)
    check(len(many["results"]) == 1100 == len(many["returns"]), "all of them", len(many.get("results", [])))
    values = [c.value(with_slot(many["returns"][0], i))["value"] for i in (0, 1, 999, 1099)]
    check([many["results"][i] for i in (0, 1, 999, 1099)] == values, "in their order", values, many["results"][:3])
    failed = c.json("POST", V1 + "/tasks", {"function": "arith.divmod", "arguments": [1, 0]}, WAIT, expect=200)
    check(failed["state"] == "failed" and "results" not in failed, "failed", failed)
    check(mobula(c, "get", two["id"]).stdout == "3\n2\n", "get shows both")
    check(mobula(c, "submit", "--wait", "arith.divmod", "17", "5").stdout == "3\n2\n", "submit shows both")
    check(mobula(c, "get", one["id"]).stdout == "3\n", "get of one")
    shown = [json.loads(line) for line in mobula(c, "get", two["id"], "-o", "jsonl").stdout.splitlines()]
    check([o["id"] for o in shown] == two["returns"], "get -o jsonl", shown)


def test_how_many_returns_are_wanted(c):
    """Of functions and of methods: as many as the signature has, or of a variadic return any number."""
    c.deploy("arith")
    c.deploy("probe")
    actor = c.json("POST", V1 + "/actors", {"class": "probe.Account", "arguments": [5]}, expect=201)["id"]
    routes = {"task": lambda name: (V1 + "/tasks", {"function": name}), "call": lambda name: (f"{V1}/actors/{actor}/methods/{name}", {})}

    def ask(route, name, arguments, wanted, expect=200):
        path, body = routes[route](name)
        return c.json("POST", path, {**body, "arguments": arguments, "options": {"num_returns": wanted}}, WAIT, expect=expect)

    for route, name, arguments, wanted in (("task", "arith.add", [1, 2], 1), ("task", "arith.divmod", [17, 5], 2), ("task", "probe.nothing", [], 1),
                                           ("task", "probe.many", [3], 3), ("call", "add", [1], 1), ("call", "many", [20], 20)):
        made = ask(route, name, arguments, wanted)
        check(made["state"] == "finished" and len(made["returns"]) == wanted, f"{name} with {wanted}", made)
        check(wanted < 3 or made["results"] == [i * i for i in range(wanted)], "and they are right", made)
    for route, name, arguments, wanted in (("task", "arith.add", [1, 2], 2), ("task", "arith.divmod", [17, 5], 1), ("task", "probe.counts", [2], 1),
                                           ("call", "add", [1], 3), ("call", "add", [1], 3000), ("call", "counts", [2], 2)):
        said = ask(route, name, arguments, wanted, expect=422)
        check(said["errors"][0]["pointer"] == "/options/num_returns" and "signature is" in said["detail"], f"{name} with {wanted}", said)
    check(ask("call", "total", [], 1)["result"] == 6, "what was refused was not called")
    c.json("DELETE", f"{V1}/actors/{actor}", expect=202)


def test_filters_with_values_that_cannot_be(c):
    for path, *words in (
            ("/tasks?filter=state:bogus", "filter", "state", "tasks", "running|", "failed", "bogus"), ("/tasks?filter=state:retry*", "state"),
            ("/tasks?filter=id:task_short", "id", "task_"), ("/tasks?filter=job:task_" + "a" * 26, "job_"), ("/tasks?filter=parent:x*", "task_"),
            ("/tasks?filter=worker:seven", "worker", "number"), ("/tasks?filter=finished_us:%3Enow", "number"),
            ("/tasks?filter=code:nope", "code", "codes of problems"), ("/objects?filter=type:i65", "type", "i64"),
            ("/objects?filter=state:waiting", "ready|"), ("/actors?filter=state:sleeping", "alive|"), ("/actors?filter=detached:maybe", "true|false"),
            ("/jobs?filter=state:done", "running|"), ("/jobs?filter=weight:heavy", "number"), ("/functions?filter=kind:method", "function|class"),
            ("/nodes?filter=state:dead", "live"), ("/endpoints?filter=state:live", "ready|"), ("/endpoints?filter=actor:me", "actor_"),
            ("/tasks?filter=state", "filter", "field:value"), ("/tasks?sort=colour", "sort", "colour")):
        refused(c, path, *words)
    for path in ("/tasks?filter=state:FAIL*", "/tasks?filter=state:*", "/tasks?filter=id:TASK_*", "/tasks?filter=worker:1*", "/objects?filter=type:I64",
                 "/tasks?filter=code:task-*", "/tasks?filter=worker:%3E=0%20AND%20finished_us:%3C99", "/jobs?filter=standing:TRUE"):
        c.json("GET", V1 + path, expect=200)


def test_events_and_timeline_with_values_that_cannot_be(c):
    for path, *words in (
            ("/events?task=task_x", "task"), ("/events?job=", "job"), ("/events?actor=task_" + "a" * 26, "actor"), ("/events?function=", "function"),
            ("/events?task=task_" + "a" * 26 + "&job=job_" + "a" * 20, "at most one"), ("/events?after=nowhere", "after"),
            ("/events?topics=" + "x" * 40, "topics"), ("/events?limit=0", "limit"), ("/events?wait=soon", "wait"), ("/events?until=5", "until"),
            ("/timeline?from=5&to=4", "from", "to"), ("/timeline?job=x", "job"), ("/timeline?from=-1", "from")):
        refused(c, path, *words)


def test_cursors_belong_to_their_list(c):
    for i in range(3):
        c.run("arith.add", i, i)
    page = lambda path: c.json("GET", f"{V1}/{path}", expect=200)
    cursor = page("tasks?limit=1&filter=name:*%20AND%20state:*")["next_cursor"] or page("tasks?limit=1")["next_cursor"]
    check(page("tasks?limit=1")["next_cursor"], "there are more")
    cursor = page("tasks?limit=1")["next_cursor"]
    check(len(page(f"tasks?limit=2&cursor={cursor}")["items"]) == 2, "another limit is fine")
    for path in ("tasks?filter=state:finished", "tasks?sort=-submitted_us", "objects?limit=1", "functions?limit=1", "tasks?filter=state:failed"):
        refused(c, f"/{path}&cursor={cursor}", "cursor")
    of_functions = page("functions?limit=1")["next_cursor"]
    refused(c, f"/jobs?cursor={of_functions}", "cursor")
    check(page(f"functions?limit=1&cursor={of_functions}")["items"], "its own")
    worn = [cursor[:at] + ("2" if cursor[at] == "1" else "1") + cursor[at + 1:] for at in range(8, len(cursor))]
    for bad in ("x", "1.2", cursor + "x", cursor + "1", cursor[:8], cursor[:-1], "a" * 300, *worn):
        refused(c, f"/tasks?cursor={bad}", "cursor")
    stream = c.json("POST", V1 + "/tasks", {"function": "probe.counts", "arguments": [3]}, WAIT, expect=200)
    other = c.json("POST", V1 + "/tasks", {"function": "probe.counts", "arguments": [4]}, WAIT, expect=200)
    items = page(f"tasks/{stream['id']}/items?limit=2")
    check(len(page(f"tasks/{stream['id']}/items?cursor={items['next_cursor']}")["items"]) == 1, "goes on", items)
    refused(c, f"/tasks/{other['id']}/items?cursor={items['next_cursor']}", "cursor")
    tree = c.json("POST", V1 + "/tasks", {"function": "probe.tree", "arguments": [2]}, WAIT, expect=200)
    lineage = page(f"objects/{tree['returns'][0]}/lineage?limit=2")
    check(page(f"objects/{tree['returns'][0]}/lineage?limit=2&cursor={lineage['next_cursor']}")["nodes"], "goes on")
    refused(c, f"/objects/{stream['returns'][0] if stream['returns'] else tree['returns'][0]}/lineage?depth=3&cursor={lineage['next_cursor']}", "cursor")


def test_text_is_utf8(c):
    for body, expect in (("gr\u00fc\u00dfe \U0001f600".encode(), 201), (b"", 201), (b"caf\xe9", 400), (b"\xc0\x80", 400), (b"\xed\xa0\x80", 400), (b"ok\xff", 400)):
        status, _, data = c.call("POST", V1 + "/objects", body, {"Content-Type": "text/plain"})
        check(status == expect, f"{body!r}", status, data)
        if status == 400:
            check("UTF-8" in json.loads(data)["detail"] and "octet-stream" in json.loads(data)["detail"], "says so", data)
    parts = (b'--x\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: text/plain\r\n\r\n\xff\r\n--x--\r\n')
    check(c.call("POST", V1 + "/objects", parts, {"Content-Type": "multipart/form-data; boundary=x"})[0] == 400, "in a part")


def test_why_names_the_worker_of_the_record(c):
    c.deploy("quickstart")
    c.run("quickstart.add", 1, 2)
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [700]}, expect=202)
    running = lambda: (w := c.json("GET", f"{V1}/tasks/{slow['id']}/why")).get("reason") == "running" and w
    why = c.until("it runs", running)
    live = c.json("GET", f"{V1}/tasks/{slow['id']}", expect=200)
    c.value(slow["returns"][0])
    record = c.json("GET", f"{V1}/tasks/{slow['id']}", expect=200)
    check(why["worker"] == record["worker"], "one number", why, record["worker"])
    check(live["state"] == "finished" or live.get("worker", record["worker"]) == record["worker"], "while it ran, too", live)


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|\+?Inf|NaN))')


FIGURES_OF_THE_FLUSHER = {"mobula_gcs_watermark_position", "mobula_gcs_watermark_lag"} | {
    "mobula_gcs_postgres_" + name for name in ("batches", "tasks", "failed_tasks", "days", "gaps", "bytes")}
FIGURES_OF_HEARTBEATS = {"mobula_gcs_member_" + name for name in ("realtime", "lease_milliseconds", "suspicion_milliseconds")}


def parse_metrics(text):
    """As Prometheus' text format says, with a help for each family: {family: type}; anything else fails."""
    families, helps, open_family, seen = {}, {}, None, set()
    check(text.endswith("\n"), "ends with a line")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            check(name not in helps and name not in families and text.endswith(".") and "\\" not in text, "one help, before the type", line)
            check(text not in helps.values(), "its own", line)
            helps[name] = text
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            check(list(helps)[-1:] == [name], "the help of a family stands right before its type", line)
            check(kind in ("counter", "gauge", "histogram", "summary", "untyped"), "type", line)
            check(name not in families, "a family is announced once", line)
            check(kind == "counter" or not name.endswith("_total"), "only counters are named so", line)
            families[name] = kind
            open_family = name
            continue
        match = SAMPLE.fullmatch(line)
        if not check(match, "a sample", line):
            continue
        name = match.group(1)
        family = re.sub("_(bucket|sum|count)$", "", name) if families.get(re.sub("_(bucket|sum|count)$", "", name)) == "histogram" else name
        check(family == open_family, "lines of one family stand together, behind its type", line, open_family)
        check((name, match.group(2)) not in seen, "each sample once", line)
        seen.add((name, match.group(2)))
    return families


def test_metrics_are_in_their_format(c):
    c.deploy("mlp")
    for name in ("first", "second"):
        c.json("PUT", f"{V1}/endpoints/{name}", {"class": "mlp.Mlp", "arguments": [1]}, expect=201)
    c.call("GET", V1 + "/tasks")
    c.call("GET", V1 + "/nothing")
    status, headers, body = c.call("GET", "/metrics")
    families = parse_metrics(body.decode())
    without = {name for name in families if not re.search(rb"^%s(_bucket)?[{ ]" % name.encode(), body, re.MULTILINE)}
    check(without == FIGURES_OF_THE_FLUSHER | FIGURES_OF_HEARTBEATS, "all have samples, but of a flusher that is not there and of heartbeats, which a sole member does not send", without)
    check(status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"), "type", headers)
    node = c.json("GET", V1 + "/nodes", expect=200)["items"][0]
    told = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if line.startswith("mobula_node_"))
    check(told['mobula_node_resource_capacity{node="node",resource="CPU"}'] == f"{node['resources']['CPU']['total']:.15g}", "CPUs", told)
    memory = float(told['mobula_node_resource_capacity{node="node",resource="memory"}'])
    check(memory == node["resources"]["memory"]["total"], "memory to the byte", memory, node["resources"])
    check(told['mobula_node_workers{node="node",state="actors"}'] == "2" == str(node["workers"]["actors"]), "both models' workers", told)
    check(told['mobula_node_store_segment_bytes{node="node"}'] == str(node["store"]["segment_bytes"]), "the segment", told)
    check(0 < int(told['mobula_node_tasks_finished_total{node="node"}']) <= node["finished"], "tasks", told, node)
    for name, kind in (("mobula_node_tasks", "gauge"), ("mobula_node_log_bytes_total", "counter"), ("mobula_http_requests_total", "counter"), ("mobula_http_request_duration_seconds", "histogram"), ("mobula_gcs_up", "gauge"),
                       ("nv_inference_request_success", "counter"), ("nv_inference_pending_request_count", "gauge")):
        check(families.get(name) == kind, name, families)
    check(body.count(b'nv_inference_count{model="') == 2, "both models")
    buckets = [int(n) for n in re.findall(rb'seconds_bucket\{method="GET",route="/api/v1/tasks",le="[^"]*"\} (\d+)', body)]
    check(buckets == sorted(buckets) and len(buckets) == 12, "buckets grow", buckets)
    for name in ("first", "second"):
        c.call("DELETE", f"{V1}/endpoints/{name}")


def test_not_modified_has_no_length_of_its_own(c):
    data = b"0123456789" * 10
    object_id = json.loads(c.call("POST", V1 + "/objects", data, {"Content-Type": "application/octet-stream"})[2])["id"]
    connection = c.connect()
    for path in (f"{V1}/objects/{object_id}/data", "/openapi.yaml"):
        _, headers, _ = c.call("GET", path, connection=connection)
        for _ in range(2):
            status, again, body = c.call("GET", path, headers={"If-None-Match": headers["etag"]}, connection=connection)
            check(status == 304 and body == b"" and again["etag"] == headers["etag"], path, status, again)
            check(again.get("content-length") in (None, headers.get("content-length")), "length", again)
        check(c.call("GET", path, connection=connection)[0] == 200, "the connection goes on")
    connection.close()


def test_events_without_waiting_come_at_once(c):
    position = c.json("GET", V1 + "/events", expect=200)["position"]
    check(position, "a position", position)
    connection = c.connect()
    took = []
    for _ in range(20):
        begin = time.monotonic()
        c.call("GET", f"{V1}/events?after={position}&function=never.was", connection=connection)
        took.append(time.monotonic() - begin)
    connection.close()
    check(min(took) < 0.1, "no pause", took)  # it was 0.25 s for each
    c.run("arith.add", 1, 2)
    seen = []
    while not any(e["type"] == "task.finished" for e in seen):
        page = c.json("GET", f"{V1}/events?after={position}&function=arith.add", expect=200)
        seen, position = seen + page["events"], page["position"]


def test_the_timeline_has_names_and_tracks(c):
    c.deploy("probe")
    c.run("arith.add", 1, 2)
    c.run("probe.crashes", max_retries=0)
    c.run("arith.add", 1, 2)
    died = lambda: (t := c.json("GET", f"{V1}/timeline", expect=200)["traceEvents"]) and any(e["name"] == "worker.died" for e in t) and t
    trace = c.until("a worker died", died) or []
    tracks = {(e["pid"], e["tid"]) for e in trace if e["ph"] != "M"}
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    check(tracks <= set(names), "each track has a name", tracks, names)
    check({e["pid"] for e in trace if e["name"] == "process_name"} == {pid for pid, _ in tracks}, "and each process")
    check(len([e for e in trace if e["name"] == "thread_name"]) == len(names), "once")
    for e in trace:
        if e.get("cat") == "node":
            check(names[e["pid"], e["tid"]] == "node" and "task" not in e["args"], "of the node", e)
        elif e.get("cat") == "task":
            check(names[e["pid"], e["tid"]] == f"worker {e['tid']}", "of a worker", e)
    check([e["args"]["worker"] for e in trace if e["name"] == "worker.died"], "says whose end")


def shown(c, query=""):
    """Tasks of the timeline by their ends, the newest last; what it says of the rest. What a node tells of its workers
    meanwhile counts for the limit, and is among the rest as `others`."""
    trace = c.json("GET", f"{V1}/timeline{query}", expect=200)
    tasks = [e for e in trace["traceEvents"] if e.get("cat") == "task"]
    others = [e for e in trace["traceEvents"] if e["ph"] != "M" and e.get("cat") != "task"]
    return sorted(tasks, key=lambda e: e["ts"] + e["dur"]), dict(trace["otherData"], others=others)


def test_the_timeline_shows_the_newest(c):
    """Also of a log that is longer than one answer reads, and names of tasks whose submission it did not read."""
    c.deploy("arith")
    connection = c.connect()
    body = {"function": "arith.add", "arguments": [1, 2]}
    ids = [json.loads(c.call("POST", V1 + "/tasks", body, {"Prefer": "wait=30"}, connection=connection)[2])["id"] for _ in range(2000)]
    tasks, rest = shown(c)
    check([e["args"]["task"] for e in tasks[-100:]] == ids[-100:] and len(tasks) < 2000, "without a limit", len(tasks), rest)
    check(rest["truncated"] and all(e["ts"] + e["dur"] >= rest["complete_from"] for e in tasks), "and says since when", rest)
    seen, pages = {e["args"]["task"] for e in tasks}, 1
    while rest["truncated"] and pages < 50 and set(ids) - seen:
        tasks, rest = shown(c, f"?to={rest['complete_from']}")
        seen |= {e["args"]["task"] for e in tasks}
        pages += 1
    check(set(ids) <= seen, "what was before is asked for by its time", len(set(ids) - seen), pages)
    tasks, rest = shown(c, "?limit=7")
    shown_tasks = 7 - len(rest["others"])
    check([e["args"]["task"] for e in tasks] == ids[-shown_tasks:] and rest["truncated"], "with a limit", tasks, rest)
    oldest = min([e["ts"] + e["dur"] for e in tasks] + [e["ts"] for e in rest["others"]])
    check(oldest == rest["complete_from"], "since its oldest", tasks[0], rest)
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.add", "rows": [[i, 1] for i in range(1000)]}, expect=202)["items"]
    c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch], "num_returns": 1000, "timeout_ms": 60000}, expect=200)
    tasks, rest = shown(c, "?limit=20")
    check(len(tasks) + len(rest["others"]) == 20 and {e["name"] for e in tasks} == {"arith.add"}, "of a batch that was submitted long before", tasks, rest)


def timeline_that_is_full(failpoint):
    """Of tasks one after another, in a cluster of its own, whose second reading ends early."""
    os.environ["MOBULA_FAILPOINTS"] = failpoint
    try:
        c = Cluster()
    finally:
        del os.environ["MOBULA_FAILPOINTS"]
    try:
        c.deploy("arith")
        ids = [c.run("arith.add", i, 1)["id"] for i in range(40)]
        return ids, *shown(c)
    finally:
        c.end()


def test_a_timeline_that_is_full_shows_the_newest(_):
    ids, tasks, rest = timeline_that_is_full("timeline.full=error@5")
    check([e["args"]["task"] for e in tasks][-1:] == ids[-1:], "the newest is there", len(tasks), rest)
    check([e["args"]["task"] for e in tasks] == ids[40 - len(tasks):], "and what was before it", len(tasks), rest)
    check(rest["truncated"] and all(e["ts"] + e["dur"] >= rest["complete_from"] for e in tasks), "since when", rest)
    ids, tasks, rest = timeline_that_is_full("timeline.full=error")
    whole = [e["args"]["task"] for e in tasks if e["ts"] + e["dur"] >= rest["complete_from"]]
    check(rest["truncated"] and whole == ids[40 - len(whole):], "a reading of one block claims no more", tasks, rest)


def test_a_batch_that_is_too_long_has_one_error(c):
    for body in ({"function": "arith.add", "rows": [[1, 2]] * 1001}, {"items": [{"function": "arith.add", "arguments": [1, 2]}] * 1001}):
        errors = c.json("POST", V1 + "/tasks:batch", body, expect=422)["errors"]
        check(len(errors) == 1 and errors[0]["pointer"] in ("/rows", "/items") and "1000" in errors[0]["message"], "one", errors)
    errors = c.json("POST", V1 + "/tasks:batch", {"rows": {}}, expect=422)["errors"]
    check([e["pointer"] for e in errors] == ["/rows", "/function"], "each once", errors)
    errors = c.json("POST", V1 + "/tasks:batch", {}, expect=422)["errors"]
    check(len(errors) == 1, "neither", errors)


def test_items_of_a_batch_say_where(c):
    items = [{"function": "arith.add", "arguments": a} for a in ([1, 2], ["x", 2], [1])] + [{"function": "no.no", "arguments": []}]
    made = c.json("POST", V1 + "/tasks:batch", {"items": items}, expect=202)["items"]
    where = [m["error"]["errors"][0]["pointer"] if "error" in m else None for m in made]
    check(where == [None, "/items/1/arguments/0", "/items/2/arguments", "/items/3/function"], "items", made)
    made = c.json("POST", V1 + "/tasks:batch", {"function": "arith.add", "rows": [[1, 2], [1, []], [1]]}, expect=202)["items"]
    where = [m["error"]["errors"][0]["pointer"] if "error" in m else None for m in made]
    check(where == [None, "/rows/1/1", "/rows/2"], "rows", made)


def test_problems_say_what_and_where(c):
    c.deploy("arith")
    c.deploy("quickstart")
    submit = lambda body, status=422: c.json("POST", V1 + "/tasks", body, WAIT, expect=status)
    one = submit({"function": "arith.add", "bogus": 1})
    check(one["detail"].startswith("/bogus: unknown field; there are: function arguments"), "which, and which there are", one)
    two = submit({"function": "", "options": {"priority": 1.5}})
    check(two["detail"].startswith("/function: must have 1 to 512 bytes; and 1 more") and len(two["errors"]) == 2, "the first, and how many", two)
    returns = submit({"function": "arith.add", "arguments": [1, 2], "options": {"num_returns": 5}})
    check(returns["errors"][0]["pointer"] == "/options/num_returns" and "i64 a, i64 b -> i64" in returns["detail"], "returns", returns)
    check("POST /api/v1/actors" in submit({"function": "quickstart.Counter", "arguments": [1]})["detail"], "a class")
    check(len(c.json("POST", V1 + "/objects:wait", {}, expect=422)["errors"]) == 1, "one error")
    for kind in ("job", "function", "endpoint"):
        check(c.json("GET", f"{V1}/{kind}s/none", expect=404)["detail"] == f"no such {kind}: none", kind)
    refused(c, "/tasks?limit=5&sort=id&limit=6", "limit", "twice")
    check("--hosts" in c.json("GET", V1 + "/tasks", None, {"Host": "other.example"}, expect=421)["detail"], "what to do")
    option = submit({"function": "arith.add", "arguments": [1, 2], "options": {"bogus": 1}})
    check(option["detail"].endswith(" restart_on_divergence"), "every option there is, the last one too", option)
    nul = c.call("POST", V1 + "/tasks", b'{"function": "arith.add", "arguments": ["a\\u0000b"]}', {"Content-Type": "application/json"})
    check(nul[0] == 400 and "\\u0000 is not taken" in json.loads(nul[2])["detail"], "NUL", nul)


def test_errors_of_arguments_are_those_of_the_page(c):
    """docs/signatures.md quotes what a client hears; what a driver hears: unit/common/wire/signature."""
    with open(os.environ.get("MOBULA_SOURCE_DIR", ".") + "/docs/signatures.md", encoding="utf-8") as file:
        page = " ".join(file.read().split())
    quoted = re.search(r"`(b: expected [^`]*)`", page)
    check(quoted, "the page quotes one")
    answer = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, "x"]}, expect=422)
    check(quoted and answer["detail"] == quoted.group(1) and answer["errors"][0]["pointer"] == "/arguments/1", "as it is", answer)


def test_integers_beyond_64_bits(c):
    """As 1e19: numbers for f64, and none for i64."""
    vast = 12345678901234567890
    told = c.run("arith.divide", vast, 10)
    check(told.get("result") == vast / 10, "taken for f64", told)
    told = c.run("arith.divide", -vast, 2.5)
    check(told.get("result") == -vast / 2.5, "a negative one", told)
    answer = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, vast]}, expect=422)
    check("b: expected i64" in answer["detail"] and answer["errors"][0]["pointer"] == "/arguments/1", "refused by its name", answer)
    for fine in (2**63 - 1, -(2**63)):
        check(c.run("arith.add", fine, 0).get("result") == fine, "the last that are integers", fine)
    for beyond in (2**63, -(2**63) - 2048):
        answer = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [beyond, 0]}, expect=422)
        check("an integer out of range" in answer["detail"], "the first that are none", answer)
    for exact in (2**63 - 1024, 10**18, 2**53 + 2):
        told = c.run("arith.add", float(exact), 0)
        check(told.get("result") == exact, "what f64 holds is taken to the last digit", (exact, told))


def test_json_keeps_its_numbers(c):
    c.deploy("probe")
    put = c.run("probe.kinds", {"a": [0.1, 1.10, -2.5]})
    record = c.call("GET", f"{V1}/tasks/{put['id']}")[2].decode()
    check('"arguments":[{"a":[0.1,1.1,-2.5]}]' in record, "as they were written", record)


def test_what_any_becomes(c):
    """The row of `any` in docs/signatures.md."""
    c.deploy("probe")
    put = c.json("POST", V1 + "/objects", "AB".encode(), {"Content-Type": "application/octet-stream"}, expect=201)["id"]
    values = [1, 1.5, "x", True, None, {"a": 1}, [1], {"$bytes": "aGk="}, 2**64, {"$ref": put}, {"$bytes": "aGk=", "b": 1}, -(2**63)]
    kinds = "i64 f64 utf8 bool null json json bytes f64 bytes json i64"
    told = c.run("probe.kinds", *values)
    check(told.get("result") == kinds, "each has its type", told)


def test_a_tensor_of_another_shape_is_pointed_at(c):
    c.deploy("probe")
    for rows in (2, 400):  # inline, and by reference
        body = {"function": "probe.rows", "arguments": [[[1, 2, 3, 4]] * rows, [1] * (rows - 1)]}
        answer = c.json("POST", V1 + "/tasks", body, expect=422)
        said = f"argument 1 (w): expected tensor<f32>[n] n={rows}, found tensor<f32>[{rows - 1}]"
        check(answer["detail"] == said and answer["errors"][0]["pointer"] == "/arguments/1", "which one", answer)
    text = c.json("POST", V1 + "/objects", {"value": "none"}, expect=201)["id"]
    told = c.run("arith.add", {"$ref": text}, 1)
    check("argument 0 (a): expected i64, found json" in told["error"]["message"], "when it is known", told)


def test_names_of_users_cannot_forge_log_lines(c):
    job = c.json("POST", V1 + "/jobs", {"name": 'mine" forged=1 \\ \t.'}, expect=201)["id"]
    c.json("DELETE", f"{V1}/jobs/{job}", expect=202)

    def said():
        with open(c.directory + "/logs/node.log", encoding="utf-8") as file:
            return [line for line in file if "forged" in line]

    c.until("opened and ended", lambda: len(said()) >= 2)
    lines = said()
    check(len(lines) == 2 and all('="mine\\" forged=1 \\\\  ."' in line for line in lines), "opened and ended, each in its quotes", lines)


if __name__ == "__main__":
    main(dict(globals()))
