"""Every route on a real cluster: good input, bad input, no key, wrong key.   ctest: timeout=240 threads"""
import json
import os
import re
import struct
import threading

from lib_http_cluster import check, main, ref

V1 = "/api/v1"


def test_every_described_route_needs_a_key(c):
    text = c.call("GET", "/openapi.yaml")[2].decode()
    path, found = None, []
    for line in text.split("components:")[0].splitlines():
        if match := re.match(r"  (/\S*):$", line):
            path = match.group(1)
        elif match := re.match(r"    (get|put|post|delete):$", line):
            found.append((match.group(1).upper(), re.sub(r"\{\w+\}", "x", path)))
    check(len(found) > 45, "described routes", len(found))
    connection = c.connect()
    for method, at in found:
        if at in ("/livez", "/readyz"):
            check(c.call(method, at, key=None)[0] == 200, at)
            continue
        for key in (None, "mob_sk_aaaaaaaa_" + "a" * 59):
            status, headers, body = c.call(method, at, key=key, connection=connection)
            check(status == 401 and headers["content-type"] == "application/problem+json", f"{method} {at}", status, body)
        if method in ("GET", "DELETE"):
            status, _, body = c.call(method, at, {})
            check(status == 413 and json.loads(body)["code"] == "too-large", f"{method} {at} takes no body", status, body)
        if method == "GET":
            statuses = [c.call(method, at, headers=headers)[0] for headers in ({}, {"Content-Encoding": "gzip"}, {"Content-Encoding": "br"})]
            check(len(set(statuses)) == 1, f"GET {at}: no body has no coding", statuses)


def test_bounds_of_options(c):
    """What the node would refuse is refused before it is asked, with the place."""
    c.deploy("arith")
    c.deploy("quickstart")

    def asked(path, body, options, pointer=None):
        status, _, data = c.call("POST", path, {**body, "options": options})
        answer = json.loads(data)
        where = [one["pointer"] for one in answer.get("errors", [])]
        check(where == [pointer] and status == 422 if pointer else status in (201, 202), f"{options} at {path}", status, pointer, answer)
        return answer

    task = ("/api/v1/tasks", {"function": "arith.add", "arguments": [1, 2]})
    actor = ("/api/v1/actors", {"class": "quickstart.Counter", "arguments": [1]})
    named = asked(*actor, {"name": "n" * 127})
    check(c.json("GET", f"/api/v1/actors/{named['id']}")["name"] == "n" * 127, "the longest name is registered whole")
    asked(*actor, {"name": "n" * 128}, "/options/name")
    asked(*actor, {"name": "\u00e9" * 64}, "/options/name")  # 128 bytes
    asked(*task, {"name": "n" * 256})
    asked(*task, {"name": "n" * 257}, "/options/name")
    eight = {"CPU": 1, **{f"none{i}": 0 for i in range(7)}}
    done = c.json("GET", f"/api/v1/objects/{asked(*task, {'resources': eight})['returns'][0]}?wait=30")
    check(done.get("value") == 3, "eight resources are a demand", done)
    asked(*task, {"resources": {**eight, "none7": 0}}, "/options/resources")
    asked(*task, {"resources": {f"none{i}": 0 for i in range(8)}}, "/options/resources")  # and the CPU
    asked(*task, {"resources": {"r" * 63: 0}})
    asked(*task, {"resources": {"r" * 64: 0}}, "/options/resources")
    for amount in (-1, 0.00001, 9.1e14, "1"):
        asked(*task, {"resources": {"memory": amount}}, "/options/resources/memory")
    status, _, data = c.call("PUT", "/api/v1/endpoints/" + "m" * 102, {"class": "quickstart.Counter"})
    check(status == 422, "names of endpoints are shorter than their actors'", status, data)


def test_functions(c):
    for name in ("arith", "quickstart", "mlp"):
        answer = c.deploy(name)
        check(answer["module"] == name and answer["functions"], "deployed", answer)
    names = [f["name"] for f in c.json("GET", V1 + "/functions", expect=200)["items"]]
    check("arith.add" in names and "quickstart.Counter" in names, "listed", names)
    one = c.json("GET", V1 + "/functions/arith.add", expect=200)
    check(one["signature"] == "i64 a, i64 b -> i64" and one["schema"], "described", one)
    page = c.json("GET", V1 + "/functions?limit=1&filter=name:arith.*&sort=name", expect=200)
    check(len(page["items"]) == 1 and page["next_cursor"], "page", page)
    check(c.json("GET", V1 + "/functions/nope.f")["status"] == 404, "unknown")
    check(c.json("POST", V1 + "/functions", b"no module" * 20, {"Content-Type": "application/octet-stream"})["code"] == "abi-mismatch", "no ELF")
    broken = b"\x7fELF" + b"\0" * 200
    check(c.json("POST", V1 + "/functions", broken, {"Content-Type": "application/octet-stream"})["status"] in (400, 422), "broken ELF")


def test_tasks(c):
    check(c.run("arith.add", 40, 2)["result"] == 42, "add")
    answer = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]}, expect=202)
    check(c.value(answer["returns"][0])["value"] == 3, "value")
    more = c.run("arith.add", ref(answer["returns"][0]), 10, name="named", priority=3, max_retries=0, resources={"CPU": 0.5})
    check(more["result"] == 13, "by reference", more)
    task = c.json("GET", V1 + "/tasks/" + more["id"], expect=200)
    check(task["state"] == "finished" and task["function"] == "arith.add" and task["name"] == "named", "record", task)
    check(task["arguments"] == [ref(answer["returns"][0]), 10] and task["returns"][0]["value"] == 13, "record", task)
    check(task["submitted_us"] <= task["started_us"] <= task["finished_us"], "times", task)
    both = c.run("arith.divmod", 17, 5)
    check([c.value(o)["value"] for o in both["returns"]] == [3, 2], "two returns", both)
    failed = c.run("arith.divmod", 1, 0)
    check(failed["state"] == "failed" and failed["error"]["code"] == "task-failed", "failed", failed)
    check("zero" in failed["error"]["message"] and failed["error"]["task"] == failed["id"], "says why", failed)
    for arguments, pointer in ((["x", 1], "/arguments/0"), ([1], "/arguments"), ([1, 2, 3], "/arguments/2"), ([1.5, 1], "/arguments/0")):
        wrong = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": arguments}, expect=422)
        check(wrong["code"] == "type-mismatch" and wrong["errors"][0]["pointer"] == pointer, "type", wrong)
    unknown = c.json("POST", V1 + "/tasks", {"function": "nope.f"}, expect=404)
    check(unknown["errors"][0]["pointer"] == "/function", "unknown function", unknown)
    check(c.json("GET", V1 + "/tasks/task_" + "a" * 26)["status"] == 404, "unknown task")


def test_a_failure_is_told_in_one_form(c):
    """By the submission, the object, the record, its returns, a problem, events and the timeline: the same JSON."""
    c.deploy("arith")
    c.deploy("probe")
    position = c.json("GET", V1 + "/events", expect=200)["position"]
    fails = c.json("POST", V1 + "/tasks", {"function": "probe.crashes", "options": {"max_retries": 0}}, expect=202)
    depends = c.run("arith.add", ref(fails["returns"][0]), 1)
    told = depends["error"]
    check(list(told) == ["code", "message", "retryable", "task", "signal", "log", "cause"], "its fields", told)
    check(told["code"] == "dependency-failed" and told["task"] == depends["id"] and told["signal"] == 0, "what failed", told)
    cause = told["cause"]
    check(list(cause) == list(told)[:-1] and cause["task"] == fails["id"] and cause["signal"] > 0, "what it came from", cause)
    check(c.value(depends["returns"][0])["error"] == told, "the object")
    record = c.json("GET", f"{V1}/tasks/{depends['id']}", expect=200)
    check(record["error"] == told and record["returns"][0]["value"] == {"error": told}, "the record", record)
    refused = c.json("GET", f"{V1}/objects/{depends['returns'][0]}/data", expect=409)
    check(refused["cause"] == told and refused["code"] == told["code"] and refused["detail"] == told["message"], "a problem", refused)
    events = c.json("GET", f"{V1}/events?after={position}&task={depends['id']}&topics=task.failed&wait=20", expect=200)["events"]
    check([e["data"]["error"] for e in events] == [told], "the event", events)
    spans = c.json("GET", f"{V1}/timeline", expect=200)["traceEvents"]
    check([e["args"]["error"] for e in spans if e["args"].get("task") == fails["id"]] == [cause], "the timeline", spans)


def test_batches(c):
    rows = [[i, 2 * i] for i in range(1000)]
    answer = c.json("POST", V1 + "/tasks:batch", {"function": "arith.add", "rows": rows}, expect=202)
    check(answer["count"] == 1000 and answer["failed"] == 0, "batch", answer["count"])
    ids = [item["returns"][0] for item in answer["items"]]
    done = c.json("POST", V1 + "/objects:wait", {"ids": ids, "num_returns": 1000, "timeout_ms": 30000}, expect=200)
    check(len(done["ready"]) == 1000, "all ready", len(done["ready"]))
    for i in (0, 1, 500, 999):
        check(c.value(ids[i])["value"] == 3 * i, f"row {i}")
    items = [{"function": "arith.add", "arguments": [1, 1]}, {"function": "nope.f"}, {"function": "arith.add", "arguments": ["x", 1]}]
    answer = c.json("POST", V1 + "/tasks:batch", {"items": items}, expect=202)
    codes = [item.get("error", {}).get("code") for item in answer["items"]]
    check(codes == [None, "not-found", "type-mismatch"], "items", codes)


def test_cancel_and_why(c):
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [60000]}, expect=202)
    after = c.json("POST", V1 + "/tasks", {"function": "quickstart.add", "arguments": [ref(slow["returns"][0]), 1]}, expect=202)
    why = c.json("GET", f"{V1}/tasks/{after['id']}/why", expect=200)
    check(why["reason"] == "inputs" and why["inputs"] == slow["returns"], "why", why)
    check(c.json("GET", f"{V1}/objects/{after['returns'][0]}", expect=200)["state"] == "pending", "pending")
    data = c.json("GET", f"{V1}/objects/{after['returns'][0]}/data", expect=409)
    check(data["code"] == "object-not-ready", "not ready", data)
    check(c.call("POST", f"{V1}/tasks/{slow['id']}:cancel", {"force": True})[0] == 202, "cancel")
    check(c.value(slow["returns"][0])["error"]["code"] == "cancelled", "cancelled")
    check(c.value(after["returns"][0])["error"]["code"] == "dependency-failed", "dependent")
    finished = c.run("arith.add", 1, 1)
    check(c.json("POST", f"{V1}/tasks/{finished['id']}:cancel")["code"] == "already-finished", "finished")


def test_objects(c):
    for data, media, kind in ((b"\0\1binary", "application/octet-stream", "bytes"), (b'{"a": [1, 2]}', "application/json", "json"), ("ä".encode(), "text/plain; charset=utf-8", "utf8")):
        status, headers, body = c.call("POST", V1 + "/objects", data, {"Content-Type": media})
        name = json.loads(body)["id"]
        check(status == 201 and headers["location"] == f"{V1}/objects/{name}", "put", status, body)
        check(c.value(name)["type"] == kind, "type", kind)
        check(c.call("GET", f"{V1}/objects/{name}/data")[2] == data, "bytes", kind)
    data = os.urandom(2_000_000)
    name = json.loads(c.call("POST", V1 + "/objects", data, {"Content-Type": "application/octet-stream"})[2])["id"]
    path = f"{V1}/objects/{name}/data"
    status, headers, body = c.call("GET", path)
    check(status == 200 and body == data, "large", status, len(body))
    status, part, body = c.call("GET", path, headers={"Range": "bytes=1000000-1000009", "If-Range": headers["etag"]})
    check(status == 206 and body == data[1000000:1000010], "range", status, part)
    check(c.call("GET", path, headers={"If-None-Match": headers["etag"]})[0] == 304, "not modified")
    check(c.call("HEAD", path)[1]["content-length"] == "2000000", "HEAD")
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    npy = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack("<6f", *range(6))
    keyed = {"Content-Type": "application/x-npy", "Idempotency-Key": "the npy"}
    put = c.json("POST", V1 + "/objects", npy, keyed, expect=201)
    name = put["id"]
    got = c.value(name)
    check(got["value"]["shape"] == [2, 3], "npy")
    stored = len(c.call("GET", f"{V1}/objects/{name}/data")[2])
    check(put["size"] == got["size"] == stored != len(npy), "its size is the object's", put, got["size"], stored)
    check(c.call("POST", V1 + "/objects", npy[:-1], {"Content-Type": "application/x-npy"})[0] == 422, "cut npy")
    unknown = "obj_" + "a" * 32
    check(c.json("GET", f"{V1}/objects/{unknown}?wait=1")["status"] == 404, "unknown object")
    check(c.json("GET", f"{V1}/objects/{unknown}/data")["status"] == 404, "unknown object's data")
    check([c.call("DELETE", f"{V1}/objects/{name}")[0] for _ in range(2)] == [202, 410], "delete, and once more")


def test_actors(c):
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [100]}, expect=201)["id"]
    for amount in (1, 2):
        answer = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [amount]}, expect=202)
    check(c.value(answer["returns"][0])["value"] == 103, "in order", answer)
    record = c.json("GET", f"{V1}/tasks/{answer['id']}", expect=200)
    check(record["actor"] == actor and record["function"].endswith("add"), "call's record", record)
    check(any(a["id"] == actor for a in c.json("GET", V1 + "/actors", expect=200)["items"]), "listed")
    check(c.json("GET", f"{V1}/actors/{actor}", expect=200)["class"] == "quickstart.Counter", "described")
    check(c.json("POST", f"{V1}/actors/{actor}/methods/nope", {})["status"] == 404, "unknown method")
    check(c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": ["x"]})["status"] == 422, "wrong type")
    check(c.json("POST", f"{V1}/actors", {"class": "arith.add"})["status"] in (404, 422), "no class")
    named = {"class": "quickstart.Counter", "arguments": [5], "options": {"name": "one"}}
    first = c.json("POST", V1 + "/actors", named, {"Prefer": "wait=10"})
    check(c.json("POST", V1 + "/actors", named)["code"] == "already-exists", "name is taken")
    named["options"]["if_exists"] = "return"
    again = c.json("POST", V1 + "/actors", named, expect=200)
    check(again["id"] == first["id"] and again["existed"], "the living one", first, again)
    check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "end")
    ended = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, {"Prefer": "wait=10"})
    check(ended.get("state") == "failed" or ended.get("status", 0) >= 400, "call of a dead actor", ended)


def test_jobs(c):
    status, headers, body = c.call("POST", V1 + "/jobs", {"name": "mine"})
    job = json.loads(body)["id"]
    check(status == 201 and headers["location"] == f"{V1}/jobs/{job}", "opened", body)
    answer = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2], "job": job}, {"Prefer": "wait=10"}, expect=200)
    check(c.json("GET", f"{V1}/tasks/{answer['id']}", expect=200)["job"] == job, "task's job")
    listed = c.json("GET", f"{V1}/tasks?filter=job:{job}", expect=200)["items"]
    check([t["id"] for t in listed] == [answer["id"]], "filter by job", listed)
    check(c.json("GET", f"{V1}/jobs/{job}", expect=200)["name"] == "mine", "described")
    check(any(j["id"] == job for j in c.json("GET", V1 + "/jobs", expect=200)["items"]), "listed")
    early = c.json("DELETE", f"{V1}/jobs/{job}?purge=true", expect=409)
    check(early["code"] == "in-use", "what runs is not purged", early)
    check(c.json("DELETE", f"{V1}/jobs/{job}?purge=yes", expect=400)["detail"] == "purge must be true or false", "neither true nor false")
    for purge in ("", "", "?purge=false"):
        check(c.call("DELETE", f"{V1}/jobs/{job}{purge}")[0] == 202, "ended")
    check(c.json("GET", f"{V1}/tasks/{answer['id']}", expect=200)["state"] == "finished", "a request that is sent again erases nothing")
    ended = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2], "job": job})
    check(ended["status"] in (404, 409), "job has ended", ended)
    unknown = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2], "job": "job_" + "a" * 20})
    check(unknown["status"] == 404, "unknown job", unknown)
    check(c.json("POST", V1 + "/tasks", {"function": "arith.add", "job": "x"})["status"] == 422, "malformed job")
    check(c.call("DELETE", f"{V1}/jobs/{job}?purge=true")[0] == 202, "purged")
    c.until("its tasks are gone", lambda: c.call("GET", f"{V1}/tasks/{answer['id']}")[0] == 404, 20)


def test_lists_and_timeline(c):
    seen, path = set(), f"{V1}/tasks?limit=300&filter=function:arith.add"
    while path and len(seen) < 5000:
        status, headers, body = c.call("GET", path)
        page = json.loads(body)
        if not check(status == 200 and not seen & {t["id"] for t in page["items"]}, "page", status, body[:200]):
            break
        seen |= {t["id"] for t in page["items"]}
        match = re.match(r'<(.*)>; rel="next"', headers.get("link", ""))
        path = match and match.group(1)
    check(len(seen) >= 1000, "all tasks over pages", len(seen))
    failed = c.json("GET", f"{V1}/tasks?filter=state:FAILED AND function:arith.divmod".replace(" ", "%20"), expect=200)["items"]
    check(failed and all(t["state"] == "failed" for t in failed), "failed ones", failed)
    check(c.json("GET", f"{V1}/objects?limit=5", expect=200)["items"], "objects")
    check(c.json("GET", f"{V1}/tasks?filter=nonsense")["status"] == 400, "bad filter")
    trace = c.json("GET", f"{V1}/timeline", expect=200)["traceEvents"]
    check(len(trace) > 1000 and all(e["ph"] == "M" or e["ph"] in "Xi" and e["ts"] > 0 for e in trace), "trace", len(trace))
    check(any(e["name"] == "arith.add" for e in trace), "names", trace[:3])
    check(c.json("GET", f"{V1}/timeline?from=1&to=2", expect=200)["traceEvents"] == [], "empty range")
    check(c.json("GET", f"{V1}/nodes", expect=200)["items"][0]["resources"]["CPU"]["total"] >= 1, "nodes")
    check(c.json("GET", f"{V1}/cluster", expect=200)["resources"], "cluster")
    check(b"mobula_http_requests_total" in c.call("GET", "/metrics")[2], "metrics")


def test_logs(c):
    c.deploy("http_talk")
    task = c.run("http_talk.say", "hello")["id"]
    path = f"{V1}/tasks/{task}/logs"
    status, headers, body = c.call("GET", path + "?wait=10")
    check(status == 200 and body == b"said hello\n" and headers["mobula-log-next"] == "11", "log", status, headers, body)
    status, headers, body = c.call("GET", path, headers={"Range": "bytes=5-"})
    check(status == 206 and body == b"hello\n" and headers["content-range"] == "bytes 5-10/11", "range", status, headers)
    check(c.call("GET", path, headers={"Range": "bytes=11-"})[0] == 416, "behind the end")
    check(c.call("GET", path + "?offset=9")[2] == b"o\n", "offset")
    actor = c.json("POST", V1 + "/actors", {"class": "http_talk.Talker"}, expect=201)["id"]
    for text in ("a", "b"):
        c.json("POST", f"{V1}/actors/{actor}/methods/say", {"arguments": [text]}, {"Prefer": "wait=10"}, expect=200)
    check(c.call("GET", f"{V1}/actors/{actor}/logs")[2] == b"made\nsaid a\nsaid b\n", "actor's log", c.call("GET", f"{V1}/actors/{actor}/logs")[2])
    check(c.call("GET", f"{V1}/tasks/task_{'a' * 26}/logs")[0] == 404, "unknown task")


def test_lineage(c):
    a = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]})["returns"][0]
    b = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [ref(a), ref(a)]})["returns"][0]
    d = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [ref(b), ref(a)]})["returns"][0]
    check(c.value(d)["value"] == 9, "value")
    tree = c.json("GET", f"{V1}/objects/{d}/lineage", expect=200)
    check([n["depth"] for n in tree["nodes"]] == [0, 1, 1] and tree["nodes"][0]["inputs"] == [b, a], "tree", tree)
    check(len(c.json("GET", f"{V1}/objects/{d}/lineage?limit=2", expect=200)["nodes"]) == 2, "page")
    shallow = c.json("GET", f"{V1}/objects/{d}/lineage?depth=1&limit=1", expect=200)
    rest = c.json("GET", f"{V1}/objects/{d}/lineage?depth=1&cursor={shallow['next_cursor']}", expect=200)
    check(len(rest["nodes"]) == 2, "next page", rest)
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [0]}, expect=201)["id"]
    for _ in range(3):
        last = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, expect=202)["returns"][0]
    c.value(last)
    nodes = c.json("GET", f"{V1}/objects/{last}/lineage", expect=200)["nodes"]
    check([n["kind"] for n in nodes] == ["actor_call"] * 3 + ["actor_create"], "stateful edges", nodes)
    check([n.get("position") for n in nodes[:3]] in ([2, 1, 0], [3, 2, 1]), "positions", nodes)


def test_read_only_calls(c):
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [10]}, expect=201)["id"]

    def call(method, *arguments):
        return c.json("POST", f"{V1}/actors/{actor}/methods/{method}", {"arguments": arguments}, expect=202)

    calls = [call("add", 1), call("value"), call("value"), call("add", 1), call("value")]
    check([c.value(one["returns"][0])["value"] for one in calls] == [11, 11, 11, 12, 12], "what each saw", calls)
    records = [c.json("GET", f"{V1}/tasks/{one['id']}", expect=200) for one in calls]
    check([r.get("read_only", False) for r in records] == [False, True, True, False, True], "said of them", records)
    check([r["position"] for r in records] == [0, 1, 1, 1, 2], "places", records)
    check(c.json("GET", f"{V1}/actors/{actor}", expect=200)["next_position"] == 2, "of the next call")
    for last, kinds in ((calls[3], 2), (calls[4], 3)):
        nodes = c.json("GET", f"{V1}/objects/{last['returns'][0]}/lineage", expect=200)["nodes"]
        check([n["kind"] for n in nodes] == ["actor_call"] * kinds + ["actor_create"], "stateful edges", nodes)
        reads = {one["id"] for one in calls[1:3]}
        check(not reads & {n["task"] for n in nodes}, "reads are no part of the state", nodes)


def test_events(c):
    position = c.json("GET", f"{V1}/events", expect=200)["position"]
    answer = c.run("arith.add", 1, 2)
    types = []
    for _ in range(10):
        page = c.json("GET", f"{V1}/events?after={position}&task={answer['id']}&wait=5", expect=200)
        position, types = page["position"], types + [e["type"] for e in page["events"]]
        if "task.finished" in types:
            break
    check(types == ["task.submitted", "task.finished"], "events of a task", types)
    again = c.json("GET", f"{V1}/events?after={position}&task={answer['id']}&wait=0.3", expect=200)
    check(again["events"] == [], "no duplicate", again)
    got = []
    waiter = threading.Thread(target=lambda: got.append(c.json("GET", f"{V1}/events?after={position}&function=arith.divmod&wait=20")))
    waiter.start()
    c.run("arith.divmod", 5, 2)
    waiter.join()
    check(got and got[0]["events"], "woken", got)


def test_idempotency(c):
    body = {"function": "arith.add", "arguments": [1, 2]}
    first = c.json("POST", V1 + "/tasks", body, {"Idempotency-Key": "once"}, expect=202)
    again = c.json("POST", V1 + "/tasks", body, {"Idempotency-Key": "once"}, expect=202)
    check(first == again, "one task", first, again)


def test_models(c):
    put = {"class": "mlp.Mlp", "arguments": [1], "max_batch_size": 64, "max_queue_delay_us": 200}
    made = c.json("PUT", f"{V1}/endpoints/mlp", put, expect=201)
    check(made["state"] == "ready", "made", made)
    document = c.json("GET", "/v2/models/mlp", expect=200)
    check(document["inputs"][0]["shape"] == [-1, 1024] and document["outputs"][0]["shape"] == [-1, 16], "metadata", document)
    rows = [[(i + k) % 7 / 7 for k in range(1024)] for i in range(24)]
    one = [{"name": document["inputs"][0]["name"], "shape": [1, 1024], "datatype": "FP32"}]

    def infer(row):
        return c.json("POST", "/v2/models/mlp/infer", {"inputs": [{**one[0], "data": row}]}, expect=200)["outputs"][0]["data"]

    alone = [infer(row) for row in rows[:4]]
    results = [None] * len(rows)

    def one_of_many(i):
        results[i] = infer(rows[i])

    threads = [threading.Thread(target=one_of_many, args=(i,)) for i in range(len(rows))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    close = lambda a, b: a and b and all(abs(x - y) < 1e-4 for x, y in zip(a, b))
    check(all(close(results[i], alone[i]) for i in range(4)), "in a batch as alone")
    check(len({tuple(r) for r in results if r}) == 7, "each its own row", len({tuple(r) for r in results if r}))
    text = json.dumps({"inputs": [{**one[0], "parameters": {"binary_data_size": 4096}}], "parameters": {"binary_data_output": True}}).encode()
    status, headers, body = c.call("POST", "/v2/models/mlp/infer", text + struct.pack("<1024f", *rows[0]), {"Inference-Header-Content-Length": str(len(text))})
    n = int(headers.get("inference-header-content-length", 0))
    check(status == 200 and close(list(struct.unpack("<16f", body[n:])), alone[0]), "binary", status, body[:200])
    check(c.json("POST", "/v2/models/mlp/infer", {"inputs": [{**one[0], "shape": [1, 3], "data": [1, 2, 3]}]})["status"] == 400, "bad shape")
    check(c.json("PUT", f"{V1}/endpoints/bad", {"class": "quickstart.Counter", "arguments": [1]})["status"] == 422, "no infer method")
    check(c.json("PUT", f"{V1}/endpoints/bad", {"class": "nope.X"})["status"] in (404, 422), "no class")
    check([e["name"] for e in c.json("GET", f"{V1}/endpoints?filter=state:ready", expect=200)["items"]] == ["mlp"], "listed")
    check(c.json("GET", f"{V1}/endpoints/mlp", expect=200)["class"] == "mlp.Mlp", "described")
    check(c.json("PUT", f"{V1}/endpoints/mlp", {**put, "arguments": [2]}, expect=200)["state"] == "ready", "replaced")
    check(not close(infer(rows[0]), alone[0]), "the new one answers")
    check(c.call("DELETE", f"{V1}/endpoints/mlp")[0] == 202, "delete")
    check(c.json("GET", "/v2/models/mlp")["status"] == 404, "gone")


if __name__ == "__main__":
    main(dict(globals()))
