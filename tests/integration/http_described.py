"""What the description promises of reports, traces, priorities, modules of other machines and bad input.   ctest: timeout=120"""
import json
import platform
import struct

from lib_http_cluster import MODULES, check, main

V1 = "/api/v1"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BINARY = {"Content-Type": "application/octet-stream"}


# ---- signatures as JSON Schema ----

def argument_types(schema):
    return [(one.get("title"), one["description"]) for one in schema["properties"]["arguments"].get("prefixItems", [])]


def test_functions_and_classes_are_described(c):
    c.deploy("quickstart")
    add = c.json("GET", f"{V1}/functions/quickstart.add", expect=200)
    check(argument_types(add["schema"]) == [("a", "i64"), ("b", "i64")] and "methods" not in add, "a function", add)
    counter = c.json("GET", f"{V1}/functions/quickstart.Counter", expect=200)
    check(argument_types(counter["schema"]) == [("start", "i64")], "a class has its constructor's", counter)
    check(list(counter["methods"]) == ["add", "value"], "and its methods", counter)
    method = counter["methods"]["add"]
    check(method["signature"] == "i64 amount -> i64" and argument_types(method["schema"]) == [("amount", "i64")], "each with one", method)
    check(method["schema"]["properties"]["returns"]["minItems"] == 1, "and what it returns", method)


# ---- modules that this machine cannot run ----

def module_at(image):
    """Where `mob_module_v1` lies in the bytes of a 64-bit ELF file: its symbol's section says so."""
    sections_at, size, count = *struct.unpack_from("<Q", image, 40), *struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + i * size) for i in range(count)]
    symbols = next(s for s in sections if s[1] == 11)  # SHT_DYNSYM
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, section, value = struct.unpack_from("<IBBHQ", image, at)
        if image[names + name:].startswith(b"mob_module_v1\0"):
            return sections[section][4] + value - sections[section][3]
    raise ValueError("no module")


def refuse(c, image, *words):
    known = c.json("GET", f"{V1}/functions?limit=1000", expect=200)["items"]
    document = c.json("POST", V1 + "/functions", bytes(image), BINARY, expect=422)
    check(document.get("code") == "abi-mismatch", "code", document)
    for word in words:
        check(word in document.get("detail", ""), f"the refusal names {word}", document)
    check(c.json("GET", f"{V1}/functions?limit=1000", expect=200)["items"] == known, "nothing of it is deployed")


def test_modules_for_elsewhere_are_refused(c):
    with open(f"{MODULES}/probe.so", "rb") as file:
        image = file.read()
    here = platform.machine()
    abi, = struct.unpack_from("<I", image, module_at(image))
    changed = bytearray(image)
    struct.pack_into("<I", changed, module_at(image), abi + 41)
    refuse(c, changed, f"ABI {abi + 41}", f"ABI {abi}")
    changed = bytearray(image)
    struct.pack_into("<H", changed, 18, 243)  # e_machine: RISC-V
    refuse(c, changed, "machine 243", here)
    other = here[::-1].encode()  # what the module itself says
    refuse(c, image.replace(b"\0" + here.encode() + b"\0", b"\0" + other + b"\0"), other.decode(), here)
    c.deploy("probe")  # unchanged, it is taken


def test_mistakes_in_a_module_are_named(c):
    for name, words in (("wrong_signature", ("Counter.add: ", "no such type")), ("two_of_a_name", ("two functions twin",))):
        with open(f"{MODULES}/{name}.so", "rb") as file:
            document = c.json("POST", V1 + "/functions", file.read(), BINARY, expect=422)
        for word in words:
            check(word in document.get("detail", ""), f"{name}: {word}", document)
    for image in (b"a word", b"a longer text that is no module either" * 100):
        document = c.json("POST", V1 + "/functions", image, BINARY, expect=422)
        check("not an ELF shared object" in document.get("detail", ""), "no module", document)


# ---- what a function reports of itself ----

def events_of(c, query, last="task.finished"):
    """Until one of type `last`; `query` begins with the position to read on from."""
    position, terms = query.split("&", 1)
    events = []
    for _ in range(20):
        page = c.json("GET", f"{V1}/events?{position}&{terms}&wait=2", expect=200)
        events, position = events + page["events"], "after=" + page["position"]
        if any(e["type"] == last for e in events):
            break
    return events


def run_in_job(c, function):
    position = c.json("GET", f"{V1}/events", expect=200)["position"]
    job = c.json("POST", V1 + "/jobs", {"name": "reports"}, expect=201)["id"]
    task = c.json("POST", V1 + "/tasks", {"function": function, "job": job}, {"Prefer": "wait=20"}, expect=200)
    return job, task["id"], position


def test_misreports_are_refused_and_leave_no_event(c):
    job, task, position = run_in_job(c, "probe.misreports")
    check(c.json("GET", f"{V1}/tasks/{task}", expect=200)["returns"][0].get("value") == (1 << 13) - 1, "all refused")
    events = [e for e in events_of(c, f"after={position}&job={job}") if not e["type"].startswith("task.")]
    check([e["type"] for e in events if e["type"] not in ("job", "log")] == ["progress"], "only the one that was told", events)
    told = next(e["data"] for e in events if e["type"] == "progress")
    check(told["fraction"] == 1 and told["message"].startswith("\ufffd\u00e4\u00e4") and told["message"].endswith("\u00e4"), "its text", told)


def test_reports_show_as_events_and_in_the_timeline(c):
    job, task, position = run_in_job(c, "probe.reports")
    want = {"test.event": {"n": 1}, "progress": {"fraction": 0.5, "message": 'half "way"'}, "test.span": {}}
    for query in (f"after={position}&function=probe.reports", f"after={position}&job={job}"):
        events = [e for e in events_of(c, query) if e["type"] in want]
        check({e["type"]: e["data"] for e in events} == want and len(events) == 3, query, events)
        check(all(e["subject"] == task and e["job"] == job for e in events), "whose", events)
    trace = [e for e in c.json("GET", f"{V1}/timeline?job={job}", expect=200)["traceEvents"] if e["ph"] != "M"]
    slices = {e["name"]: e for e in trace}
    check(sorted(slices) == ["probe.reports", "progress", "test.event", "test.span"] and len(trace) == 4, "all of the job", trace)
    check(slices["test.event"]["args"] == {"task": task, "attempt": 1, "data": {"n": 1}}, "what it says, too", slices["test.event"])
    check(slices["progress"]["args"]["data"]["fraction"] == 0.5, "how far it is", slices["progress"])
    check({n: e["ph"] for n, e in slices.items()} == {"probe.reports": "X", "progress": "i", "test.event": "i", "test.span": "X"}, "span or point", trace)
    check(all(e["args"]["task"] == task for e in trace), "whose", trace)
    worker = c.json("GET", f"{V1}/tasks/{task}", expect=200)["worker"]
    check({e["tid"] for e in trace} == {worker}, "all on its worker's track", worker, trace)
    whole, span = slices["probe.reports"], slices["test.span"]
    check(whole["ts"] <= span["ts"] and span["ts"] + span["dur"] <= whole["ts"] + whole["dur"], "the span lies in its task", trace)
    check(all(span["ts"] <= slices[n]["ts"] <= span["ts"] + span["dur"] + 2 for n in ("progress", "test.event")), "points lie in the span", trace)


def test_spans_that_overlap_lie_on_tracks_of_their_own(c):
    c.deploy("probe")
    job, task, _ = run_in_job(c, "probe.overlaps")
    trace = c.json("GET", f"{V1}/timeline?job={job}", expect=200)["traceEvents"]
    worker = c.json("GET", f"{V1}/tasks/{task}", expect=200)["worker"]
    at = {e["name"]: e for e in trace if e["ph"] == "X"}
    begin, end = {n: e["ts"] for n, e in at.items()}, {n: e["ts"] + e["dur"] for n, e in at.items()}
    check(begin["test.first"] < begin["test.second"] < begin["test.third"] < end["test.third"] <= end["test.first"] < end["test.second"], "they overlap", at)
    tracks = {n: e["tid"] for n, e in at.items()}
    check(tracks["probe.overlaps"] == tracks["test.first"] == tracks["test.third"] == worker != tracks["test.second"], "one is beside the others", tracks)
    names = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    check(names[worker] == f"worker {worker}" and names[tracks["test.second"]] == f"worker {worker}, overlapping 1", "its name", names)


def test_output_shows_as_events(c):
    job, task, position = run_in_job(c, "probe.talks")
    for query in (f"after={position}&function=probe.talks", f"after={position}&task={task}"):
        events = events_of(c, query, "log")
        text = "".join(e["data"]["text"] for e in events if e["type"] == "log" and e["subject"] == task and e["job"] == job)
        check(sorted(text.splitlines()) == ["and on stderr", "hello from a task"], query, events)


# ---- options that a caller sets ----

def trace_of(c, task):
    return c.json("GET", f"{V1}/tasks/{task}", expect=200).get("traceparent")


def test_traceparent_goes_into_the_task(c):
    header = {"traceparent": TRACE}
    body = {"function": "probe.nothing"}
    check(trace_of(c, c.json("POST", V1 + "/tasks", body, header, expect=202)["id"]) == TRACE, "of a task")
    check(trace_of(c, c.json("POST", V1 + "/tasks", body, expect=202)["id"]) is None, "none was given")
    for bad in ("banana", TRACE.upper(), TRACE + "x", TRACE[:-1], "ff" + TRACE[2:], TRACE[:3] + 32 * "0" + TRACE[35:]):
        check(trace_of(c, c.json("POST", V1 + "/tasks", body, {"traceparent": bad}, expect=202)["id"]) is None, "malformed counts as none", bad)
    batch = c.json("POST", V1 + "/tasks:batch", {"items": [body, body]}, header, expect=202)
    check([trace_of(c, item["id"]) for item in batch["items"]] == [TRACE, TRACE], "of a batch")
    actor = c.json("POST", V1 + "/actors", {"class": "probe.Account", "arguments": [1]}, header, expect=201)["id"]
    check(trace_of(c, "task_" + actor[6:]) == TRACE, "of a constructor")
    call = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, header, expect=202)
    check(trace_of(c, call["id"]) == TRACE, "of a method's call")
    c.call("DELETE", f"{V1}/actors/{actor}")


def test_the_higher_priority_starts_first(c):
    cpus = c.json("GET", f"{V1}/nodes", expect=200)["items"][0]["resources"]["CPU"]["total"]

    def submit(ms, priority):
        body = {"function": "probe.sleeps", "arguments": [ms], "options": {"resources": {"CPU": cpus}, "priority": priority}}
        return c.json("POST", V1 + "/tasks", body, expect=202)

    busy = submit(60000, 0)  # has all slots until it is cancelled
    c.until("it runs", lambda: c.json("GET", f"{V1}/tasks/{busy['id']}").get("state") == "running")
    waiting = {priority: submit(1, priority) for priority in (0, -7, 3, 9)}
    check(c.call("POST", f"{V1}/tasks/{busy['id']}:cancel")[0] == 202, "cancelled")
    for task in waiting.values():
        check(c.value(task["returns"][0]).get("value") == 1, "runs", task)
    records = {p: c.json("GET", f"{V1}/tasks/{t['id']}", expect=200) for p, t in waiting.items()}
    check(all(r["priority"] == p for p, r in records.items()), "in the record", records)
    order = sorted(records, key=lambda p: records[p]["started_us"])
    check(order == [9, 3, 0, -7], "by priority, not by age", order)


# ---- bad input ----

def test_bad_times_and_jobs(c):
    for query in ("from=x", "to=x", "from=-1", "to=1.5", "from=", "from=5&to=1", "limit=0"):
        document = c.json("GET", f"{V1}/timeline?{query}", expect=400)
        check(document.get("code") == "bad-request" and query.split("=")[0] in document["detail"], query, document)
    for job, status in (("x", 400), ("task_" + "a" * 26, 400), ("job_" + "a" * 19, 400), ("job_" + "a" * 20, 404)):
        document = c.json("GET", f"{V1}/timeline?job={job}", expect=status)
        check("job" in document["detail"], "it says of what", document)
    jobs = [j["id"] for j in c.json("GET", f"{V1}/jobs?limit=1000", expect=200)["items"]]
    for body, pointer in (([], ""), ({"name": 1}, "/name"), ({"name": "x" * 64}, "/name"), ({"weight": 0}, "/weight"), ({"weight": 1001}, "/weight"), ({"detached": "yes"}, "/detached"), ({"colour": "red"}, "/colour")):
        document = c.json("POST", V1 + "/jobs", body, expect=422)
        check([e["pointer"] for e in document.get("errors", [])] == [pointer], "what is wrong", body, document)
    check(c.json("POST", V1 + "/jobs", b'{"name":', {"Content-Type": "application/json"}, expect=400)["code"] == "bad-request", "no JSON")
    check([j["id"] for j in c.json("GET", f"{V1}/jobs?limit=1000", expect=200)["items"]] == jobs, "none was opened")


def test_versions_of_a_model(c):
    c.deploy("mlp")
    c.json("PUT", f"{V1}/endpoints/versioned", {"class": "mlp.Mlp", "arguments": [1]}, expect=201)
    body = {"inputs": [{"name": "state", "datatype": "FP32", "shape": [1, 1024], "data": [0.5] * 1024}]}
    model = "/v2/models/versioned"
    answers = [c.json("POST", model + path, body, expect=200) for path in ("/infer", "/versions/1/infer")]
    check(len(answers[0]["outputs"][0]["data"]) == 16 and answers[0]["outputs"] == answers[1]["outputs"], "the same model", answers)
    for path in ("/stats", "/versions/1/stats"):
        stats, = c.json("GET", model + path, expect=200)["model_stats"]
        check(stats["name"] == "versioned" and stats["version"] == "1", "whose", stats)
        check(stats["inference_count"] == 2 and stats["execution_count"] == 2, "both calls", stats)
        check(stats["inference_stats"]["success"]["count"] == 2 and stats["inference_stats"]["success"]["ns"] > 0, "and their time", stats)
    for version in ("2", "x"):
        document = c.json("POST", f"{model}/versions/{version}/infer", body, expect=404)
        check(document.get("error"), "the protocol's field", document)
        for path in ("", "/stats", "/ready", "/config"):
            check(c.json("GET", f"{model}/versions/{version}{path}", expect=404)["code"] == "not-found", path)
    c.json("PUT", f"{V1}/endpoints/beside", {"class": "mlp.Mlp", "arguments": [1]}, expect=201)
    every = {one["name"]: one for one in c.json("GET", "/v2/models/stats", expect=200)["model_stats"]}
    check(every["versioned"] == stats and every["beside"]["inference_count"] == 0, "of all models", every)
    c.call("DELETE", f"{V1}/endpoints/beside")
    wrong = json.loads(json.dumps(body))
    wrong["inputs"][0]["shape"] = [1, 1023]
    check(c.json("POST", model + "/versions/1/infer", wrong, expect=400).get("error"), "a shape that does not fit")
    c.call("DELETE", f"{V1}/endpoints/versioned")


if __name__ == "__main__":
    main(dict(globals()))
