"""Models behind HTTP: how calls are stacked, that nothing of them stays, and that a model comes back.   ctest: timeout=240"""
import json
import os
import re
import struct
import threading
import time

from lib_http_cluster import at_once, check, main

V1 = "/api/v1"


def serve(c, name, sleep_ms, **options):
    c.deploy("batcher")
    c.json("PUT", f"{V1}/endpoints/{name}", {"class": "batcher.Batcher", "arguments": [sleep_ms], **options}, expect=201)
    ask(c, name, [[0]])  # the actor runs


def ask(c, name, rows, connection=None):
    """Infers; the answer's rows: [rows of the call, sum]."""
    shape = [len(rows), len(rows[0])]
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": [v for row in rows for v in row]}]}
    answer = c.json("POST", f"/v2/models/{name}/infer", body, expect=200, connection=connection)
    data = answer["outputs"][0]["data"]
    return [data[i:i + 2] for i in range(0, len(data), 2)]


def ask_at_once(c, name, calls):
    """All of them together; answers in the order of calls, and the seconds of each."""
    connections = [c.connect() for _ in calls]

    def one(i):
        begin = time.monotonic()
        return ask(c, name, calls[i], connections[i]), time.monotonic() - begin

    for connection in connections:
        connection.connect()
    answers = at_once([lambda i=i: one(i) for i in range(len(calls))])
    for connection in connections:
        connection.close()
    return [answer for answer, _ in answers], [seconds for _, seconds in answers]


def sizes(answers):
    return [answer[0][0] for answer in answers]


def test_a_full_batch_does_not_wait(c):
    serve(c, "full", 0, max_batch_size=4, max_queue_delay_us=1000000)
    answers, seconds = ask_at_once(c, "full", [[[i, 1]] for i in range(4)])
    check(sizes(answers) == [4, 4, 4, 4], "four calls of one row run as one", answers)
    check([a[0][1] for a in answers] == [1, 2, 3, 4], "and each gets its own row", answers)
    check(max(seconds) < 0.9, "at once", seconds)


def test_texts_go_in(c):
    c.deploy("batcher")
    c.json("PUT", f"{V1}/endpoints/texts", {"class": "batcher.Texts"}, expect=201)

    def lengths(texts, factors, expect):
        inputs = [{"name": "x", "datatype": "BYTES", "shape": [len(texts)], "data": texts}, {"name": "w", "datatype": "FP32", "shape": [len(factors)], "data": factors}]
        return c.json("POST", "/v2/models/texts/infer", {"inputs": inputs}, expect=expect)

    for texts in ([], [""], ["a", "bcd"], ["ä"] * 10, ["x" * 100000, "y"]):
        answer = lengths(texts, [2] * len(texts), 200)
        check(answer["outputs"][0]["data"] == [2 * len(t.encode()) for t in texts], "their lengths", texts[:2], answer)
    answer = lengths(["a", "b"], [1], 400)
    check("input w" in answer["error"] and "input x" in answer["error"], "sizes that do not fit each other", answer)
    c.call("DELETE", f"{V1}/endpoints/texts")


def test_texts_come_out(c):
    """As JSON and as bytes."""
    c.deploy("batcher")
    refusal = c.json("PUT", f"{V1}/endpoints/twice", {"class": "batcher.Twice", "max_batch_size": 8}, expect=422)
    check("elements have one size" in refusal["detail"], "they are not stacked", refusal)
    c.json("PUT", f"{V1}/endpoints/twice", {"class": "batcher.Twice"}, expect=201)

    def ask_twice(rows, outputs=None):
        inputs = [{"name": "x", "datatype": "BYTES", "shape": [len(rows), 2], "data": [t for row in rows for t in row]}]
        status, headers, data = c.call("POST", "/v2/models/twice/infer", {"inputs": inputs, **({"outputs": outputs} if outputs else {})})
        check(status == 200, "inferred", status, data[:300])
        return headers, data

    ask_twice([["", ""]])  # the actor runs
    calls = [[["a", "bcd"]], [["", "ä"], ["x" * 3000, "y"]], [["last", ""]]]
    for rows, (_, data) in zip(calls, at_once([lambda rows=rows: ask_twice(rows) for rows in calls])):
        output = json.loads(data)["outputs"][0]
        check(output["shape"] == [len(rows), 2] and output["data"] == [2 * t for row in rows for t in row], "each has its own", rows, output)
    headers, data = ask_twice([["a", "bcd"]], [{"name": "y", "parameters": {"binary_data": True}}])
    length = int(headers["inference-header-content-length"])
    check(data[length:] == struct.pack("<I", 2) + b"aa" + struct.pack("<I", 6) + b"bcdbcd", "as bytes", data)
    c.call("DELETE", f"{V1}/endpoints/twice")


ONE_ROW = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}


def behind_gate(c, gate, **options):
    """A call that runs in a version of the endpoint `leaving` and ends when its gate opens: what it was answered, when it has been waited for."""
    c.call("PUT", f"{V1}/endpoints/leaving", {"class": "batcher.Gate", "arguments": [gate], **options})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(c.call("POST", "/v2/models/leaving/infer", ONE_ROW)))
    thread.start()
    c.until("it runs", lambda: os.path.exists(gate + ".in"))

    def answer():
        thread.join(60)
        return answers[0]
    return answer


def check_gone(answer, what):
    status, headers, body = answer
    check(status == 503 and json.loads(body)["retryable"] and "retry-after" in headers and "replaced" in json.loads(body)["error"], what, status, body)


def no_gate_lives(c):
    actors = c.json("GET", f"{V1}/actors?limit=1000", expect=200)["items"]
    return len([a for a in actors if a["class"] == "batcher.Gate" and a["state"] != "dead"]) == 0


def replace(c):
    c.json("PUT", f"{V1}/endpoints/leaving", {"class": "batcher.Batcher", "arguments": [0]}, expect=200)
    check(c.call("POST", "/v2/models/leaving/infer", ONE_ROW)[0] == 200, "the new version answers at once")


def test_puts_of_one_name_at_once(c):
    """Each has an actor of its own, also those of one microsecond."""
    c.deploy("batcher")
    body = {"class": "batcher.Batcher", "arguments": [0]}
    for i in range(6):
        connections = [c.connect() for _ in range(16)]
        for connection in connections:
            connection.connect()
        answers = at_once([lambda k=k: c.call("PUT", f"{V1}/endpoints/rush", body, connection=k) for k in connections])
        bad = [a for a in answers if a[0] not in (200, 201, 503)]  # 503: not placed yet, on a machine without a core
        check(not bad and min(a[0] for a in answers) < 300, f"round {i}: all are served one after the other", bad[:2])
        status, _, data = c.call("POST", "/v2/models/rush/infer", ONE_ROW)
        check(status == 200, f"round {i}: the last one's actor lives", status, data)
        for connection in connections:
            connection.close()
    c.call("DELETE", f"{V1}/endpoints/rush")


def test_a_call_ends_on_the_version_that_it_began_on(c):
    c.deploy("batcher")
    gate = f"{c.directory}/drained"
    answer = behind_gate(c, gate)
    replace(c)
    check(not no_gate_lives(c), "the old version lives as long as its call")
    with open(gate + ".open", "w", encoding="ascii"):
        pass
    status, _, body = answer()
    check(status == 200 and json.loads(body)["outputs"][0]["data"] == [1, 1], "it is answered", status, body)
    c.until("then the old version ends", lambda: no_gate_lives(c))
    answer = behind_gate(c, f"{c.directory}/late", timeout_ms=2000)
    replace(c)
    status, _, body = answer()
    check(status == 503 and "did not answer within" in json.loads(body)["error"], "no longer than any call", status, body)
    c.until("its version ends with it", lambda: no_gate_lives(c))


def test_a_call_that_runs_while_its_endpoint_goes_may_come_again(c):
    c.deploy("batcher")
    answer = behind_gate(c, f"{c.directory}/deleted")
    c.call("DELETE", f"{V1}/endpoints/leaving")
    check_gone(answer(), "deleted")
    answer = behind_gate(c, f"{c.directory}/both")
    replace(c)
    c.call("DELETE", f"{V1}/endpoints/leaving")
    check_gone(answer(), "replaced, then deleted")
    check(c.call("POST", "/v2/models/leaving/infer", ONE_ROW)[0] == 404, "and then")
    answer = behind_gate(c, f"{c.directory}/first")
    second = behind_gate(c, f"{c.directory}/second")
    replace(c)
    check_gone(answer(), "of two versions the older one")
    with open(f"{c.directory}/second.open", "w", encoding="ascii"):
        pass
    check(second()[0] == 200, "and not the other")
    c.call("DELETE", f"{V1}/endpoints/leaving")
    c.until("nothing stays", lambda: no_gate_lives(c))


def test_the_delay_is_waited_for(c):
    serve(c, "slow", 0, max_batch_size=64, max_queue_delay_us=400000)
    answers, seconds = ask_at_once(c, "slow", [[[1, 2]]])
    check(sizes(answers) == [1] and seconds[0] >= 0.4, "one call waits its delay for company", answers, seconds)
    answers, seconds = ask_at_once(c, "slow", [[[i, 0]] for i in range(3)])
    check(sizes(answers) == [3, 3, 3], "what comes in that time runs with it", answers)
    check(max(seconds) < 5, "and leaves when the first has waited", seconds)


def test_no_batch_is_larger_than_allowed(c):
    serve(c, "small", 50, max_batch_size=4, max_queue_delay_us=0)
    calls = [[[i, 0]] * (1 + i % 3) for i in range(24)]
    answers, _ = ask_at_once(c, "small", calls)
    check(all(a is not None and len(a) == len(call) for a, call in zip(answers, calls)), "every call has its rows", answers)
    check(all(row[1] == i for i, a in enumerate(answers) for row in a), "and its own", answers)
    check(max(sizes(answers)) <= 4, "at most four rows run together", sizes(answers))
    check(max(sizes(answers)) > 1, "what waited behind the first ran together", sizes(answers))
    status, _, answer = infer_within(c, "small", [[7, 7]] * 9, 0)
    check((status, json.loads(answer)["error"]) == (400, "input x: its batch (first dimension) is 9, and max_batch_size is 4"), "nor is a call", status, answer)


def test_shapes_do_not_mix(c):
    serve(c, "shapes", 50, max_batch_size=64, max_queue_delay_us=200000)
    answers, _ = ask_at_once(c, "shapes", [[[1] * (2 + i % 2)] for i in range(8)])
    check([a[0][1] for a in answers] == [2, 3] * 4, "rows of two and of three numbers", answers)
    check(max(sizes(answers)) <= 4, "were not stacked", answers)


def waiting_calls(c, name):
    metrics = c.call("GET", "/metrics")[2].decode()
    return int(re.search(rf'^nv_inference_pending_request_count\{{model="{name}",version="1"\}} (\d+)$', metrics, re.MULTILINE).group(1))


def test_an_idle_replica_is_asked_at_once(c):
    c.deploy("batcher")
    gate = c.directory + "/gate"
    c.json("PUT", f"{V1}/endpoints/idle", {"class": "batcher.Gate", "arguments": [gate], "max_batch_size": 64}, expect=201)
    first = threading.Thread(target=ask, args=(c, "idle", [[0, 0]]))
    first.start()
    c.until("a call runs, without a second one", lambda: os.path.exists(gate + ".in"))
    answers = [None] * 6

    def one(i):
        answers[i] = ask(c, "idle", [[i, 0]])

    others = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for thread in others:
        thread.start()
    c.until("the others wait", lambda: waiting_calls(c, "idle") == 6)
    with open(gate + ".open", "w", encoding="ascii"):
        pass
    for thread in (first, *others):
        thread.join(60)
    check(None not in answers and sizes(answers) == [6] * 6, "what came while it worked runs as one", answers)
    check([a[0][1] for a in answers] == list(range(6)), "each row by itself", answers)


def infer_within(c, name, rows, timeout_us):
    body = {"parameters": {"timeout": timeout_us},
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [len(rows), len(rows[0])], "data": [v for row in rows for v in row]}]}
    return c.call("POST", f"/v2/models/{name}/infer", body)


def check_too_late(answer, what):
    status, headers, body = answer
    check(status == 503 and b"timeout of 100000 us" in body and "retry-after" in headers, what, status, body)


def test_a_call_has_the_time_that_it_says(c):
    c.deploy("batcher")
    gate = c.directory + "/timed"
    c.json("PUT", f"{V1}/endpoints/timed", {"class": "batcher.Gate", "arguments": [gate], "max_batch_size": 2}, expect=201)
    process = c.json("GET", V1 + "/actors/" + c.json("GET", V1 + "/endpoints/timed")["actor"])["pid"]
    check_too_late(infer_within(c, "timed", [[1, 0]], 100000), "while it runs")
    check(os.path.exists(gate + ".in"), "it had begun")
    check_too_late(infer_within(c, "timed", [[1, 0]], 100000), "while it waits to be sent")
    check(waiting_calls(c, "timed") == 0, "it does not wait any more")
    patient = [None, None]

    def one(i):
        patient[i] = ask(c, "timed", [[i + 5, 0]])

    # One that waits and one that leaves are a batch that goes to the worker, behind the one that runs there; so is the next one with itself.
    first = threading.Thread(target=one, args=(0,))
    first.start()
    c.until("it waits", lambda: waiting_calls(c, "timed") == 1)
    check_too_late(infer_within(c, "timed", [[7, 0]], 100000), "of a batch with others")
    second = threading.Thread(target=one, args=(1,))
    second.start()
    c.until("it waits", lambda: waiting_calls(c, "timed") == 1)
    with open(gate + ".open", "w", encoding="ascii"):
        pass
    for thread in (first, second):
        thread.join(60)
    check(patient == [[[2, 5]], [[1, 6]]], "each has its own row, of a batch of two and of one", patient)
    check(infer_within(c, "timed", [[1, 0]], 60000000)[0] == 200 and infer_within(c, "timed", [[1, 0]], 0)[0] == 200, "in time; 0 is none")
    for bad in (-1, "5", 1.5, 1 << 62):
        check(infer_within(c, "timed", [[1, 0]], bad)[0] == 400, "no microseconds", bad)
    check(c.json("GET", V1 + "/actors/" + c.json("GET", V1 + "/endpoints/timed")["actor"])["pid"] == process, "the replica lives on")


def test_a_call_that_fails_says_why(c):
    """In the protocol's field, and as failures are told anywhere."""
    c.deploy("batcher")
    c.json("PUT", f"{V1}/endpoints/broken", {"class": "batcher.Gate", "arguments": [c.directory + "/not/there"]}, expect=201)
    status, _, answer = infer_within(c, "broken", [[1, 0]], 0)
    problem = json.loads(answer)
    cause = problem["cause"]
    check((status, problem["error"], problem["code"]) == (409, "cannot make the file", "task-failed"), "the problem", status, problem)
    check(list(cause) == ["code", "message", "retryable", "task", "signal", "log"], "a failure", cause)
    check((cause["code"], cause["message"]) == ("task-failed", "cannot make the file"), "its words", cause)


def test_a_call_that_ends_its_model_does_not_hold_up_others(c):
    """It ran as often as a task would, and is told of the death; who comes behind it is answered."""
    c.deploy("batcher")
    c.json("PUT", f"{V1}/endpoints/fuse", {"class": "batcher.Fuse", "max_batch_size": 4}, expect=201)
    status, _, answer = infer_within(c, "fuse", [[-1, 0]], 0)
    problem = json.loads(answer)
    check((status, problem["code"], problem.get("cause", {}).get("signal")) == (409, "worker-died", 6), "the death", status, problem)
    status, _, answer = infer_within(c, "fuse", [[-2, 0]], 0)
    check((status, json.loads(answer)["detail"]) == (422, "the model's output seen has 0 rows for the 1 of its call"), "rows", answer)
    status, _, answer = infer_within(c, "fuse", [[1, 2]], 0)
    check(status == 200, "it is there again", status, answer)


def asked_together(c, name, rows):
    """One call for each row, as one batch of them all: (status, answer) of each."""
    body = lambda row: {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": row}]}
    answers = at_once([lambda row=row: c.call("POST", f"/v2/models/{name}/infer", body(row)) for row in rows])
    return [(status, json.loads(answer)) for status, _, answer in answers]


def test_who_is_refused_does_not_cost_others_their_answers(c):
    """By the model's word, or since nobody knows whose rows its output has."""
    serve_fuse = {"class": "batcher.Fuse", "max_batch_size": 8, "max_queue_delay_us": 1000000}
    c.deploy("batcher")
    c.call("PUT", f"{V1}/endpoints/fuse", serve_fuse)
    for bad, said in ((-3, (409, "a row is refused")), (-2, (422, "the model's output seen has 0 rows for the 1 of its call"))):
        for guilty in ([0], [7], [2, 3, 6], list(range(8))):
            answers = asked_together(c, "fuse", [[bad if i in guilty else i, 1] for i in range(8)])
            told = [i for i, (status, answer) in enumerate(answers) if (status, answer.get("detail")) == said]
            check(told == guilty, f"{bad}: who is told", guilty, answers)
            innocent = [(i, a["outputs"][0]["data"][1]) for i, (s, a) in enumerate(answers) if s == 200]
            check(innocent == [(i, i + 1) for i in range(8) if i not in guilty], f"{bad}: the others have their own", guilty, answers)
    answers = asked_together(c, "fuse", [[-1 if i == 3 else i, 1] for i in range(8)])
    check({(status, answer["code"]) for status, answer in answers} == {(409, "worker-died")}, "who ends the process ends its batch", answers)
    check(waiting_calls(c, "fuse") == 0, "nobody waits")
    c.call("DELETE", f"{V1}/endpoints/fuse")


def counts(c, name):
    """Of a model: requests that succeeded, that failed, rows, runs; as its statistics and the metrics say."""
    stats = c.json("GET", f"/v2/models/{name}/stats", expect=200)["model_stats"][0]
    of = stats["inference_stats"]
    told = (of["success"]["count"], of["fail"]["count"], stats["inference_count"], stats["execution_count"])
    check(of["queue"]["count"] == of["compute_infer"]["count"] == told[0], "times are of requests that succeeded", stats)
    check(of["success"]["ns"] == of["queue"]["ns"] + of["compute_infer"]["ns"] and (of["fail"]["ns"] > 0) == (told[1] > 0), "times", stats)
    text = c.call("GET", "/metrics")[2].decode()
    figure = lambda figure: int(re.search(rf'^{figure}\{{model="{name}",version="1"\}} (\d+)$', text, re.MULTILINE).group(1))
    check(told == tuple(map(figure, ("nv_inference_request_success", "nv_inference_request_failure", "nv_inference_count", "nv_inference_exec_count"))), "metrics", told)
    check(figure("nv_inference_request_duration_us") == of["success"]["ns"] // 1000, "their time", stats)
    return told


def test_counts_are_tritons(c):
    c.deploy("batcher")
    c.json("PUT", f"{V1}/endpoints/counted", {"class": "batcher.Fuse", "max_batch_size": 64, "max_queue_delay_us": 1000000}, expect=201)
    check(counts(c, "counted") == (0, 0, 0, 0), "none")
    ask(c, "counted", [[i, 0] for i in range(64)])
    check(counts(c, "counted") == (1, 0, 64, 1), "64 rows of one request", counts(c, "counted"))
    answers, _ = ask_at_once(c, "counted", [[[i, 0]] for i in range(64)])
    check(sizes(answers) == [64] * 64, "64 requests as one batch", sizes(answers))
    check(counts(c, "counted") == (65, 0, 128, 2), "64 requests in one run", counts(c, "counted"))
    check(infer_within(c, "counted", [[-3, 0]] * 64, 0)[0] == 409, "refused by the model")
    check(counts(c, "counted") == (65, 1, 128, 3), "a failure", counts(c, "counted"))
    check(infer_within(c, "counted", [[1, 0]], 100000)[0] == 503, "too late before it was sent")
    check(counts(c, "counted") == (65, 2, 128, 3), "a failure without a run", counts(c, "counted"))
    check(c.call("POST", "/v2/models/counted/infer", {"inputs": []})[0] == 400, "malformed")
    check(counts(c, "counted") == (65, 2, 128, 3), "which the model never saw", counts(c, "counted"))
    c.call("DELETE", f"{V1}/endpoints/counted")


def test_a_model_has_the_time_that_its_endpoint_says(c):
    gate = c.directory + "/hurried"
    body = {"class": "batcher.Gate", "arguments": [gate], "timeout_ms": 400}
    check(c.json("PUT", f"{V1}/endpoints/hurried", body, expect=201)["timeout_ms"] == 400, "as asked for")
    status, headers, answer = infer_within(c, "hurried", [[1, 0]], 0)
    check(status == 503 and b"within the 400 ms of its endpoint" in answer and "retry-after" in headers, "no longer", status, answer)
    check(os.path.exists(gate + ".in"), "it had begun")
    status, _, answer = infer_within(c, "hurried", [[1, 0]], 100000)
    check(status == 503 and b"timeout of 100000 us" in answer, "a call may say less", status, answer)
    with open(gate + ".open", "w", encoding="ascii"):
        pass
    c.kill("mobula-gateway")

    def back():
        try:
            c.read_address()
            return c.call("GET", "/v2/models/hurried/ready")[0] == 200
        except OSError:
            return False

    c.until("it is back", back, 60)
    check(c.json("GET", f"{V1}/endpoints/hurried", expect=200)["timeout_ms"] == 400, "the next gateway knows it")
    check(c.json("GET", "/v2/models/hurried/config", expect=200)["parameters"]["timeout_ms"]["string_value"] == "400", "its configuration")
    for bad in (0, -1, 3600001, "5"):
        check(c.call("PUT", f"{V1}/endpoints/hurried", {**body, "timeout_ms": bad})[0] == 422, "out of bounds", bad)
    serve(c, "default", 0)
    check(c.json("GET", f"{V1}/endpoints/default", expect=200)["timeout_ms"] == 30000, "the default")
    if os.environ.get("MOBULA_TEST_ALL"):
        c.json("PUT", f"{V1}/endpoints/long", {"class": "batcher.Batcher", "arguments": [63000], "timeout_ms": 120000}, expect=201)
        check(infer_within(c, "long", [[1, 0]], 0)[0] == 200, "longer than a request may otherwise take")


def store(c):
    return c.json("GET", V1 + "/nodes")["items"][0]["store"]


def test_nothing_of_a_call_stays(c):
    serve(c, "many", 0, max_batch_size=600)
    connection = c.connect()
    before = store(c)
    for _ in range(300):
        ask(c, "many", [[1.5] * 4], connection)  # inside of the call, both ways
        ask(c, "many", [[1.5] * 300], connection)  # arguments in the segment
        ask(c, "many", [[1.5] * 8] * 600, connection)  # results too
    after = store(c)
    # Marks that keep the gateway's ring moving are 24 bytes in a table entry, and go with their age.
    check(after["objects"] < before["objects"] + 200, "objects", before, after)
    check(after["used_bytes"] < before["used_bytes"] + (2 << 20), "bytes", before, after)
    check(after["spilled_objects"] == before["spilled_objects"], "on disk", before, after)
    connection.close()


def test_unlogged_calls_are_no_events_of_their_actor(c):
    """The log says with the next call that it has how many it has not; that is its own affair."""
    after = c.json("GET", V1 + "/events", expect=200)["position"]
    serve(c, "quiet", 0)
    actor = [e for e in c.json("GET", V1 + "/endpoints")["items"] if e["name"] == "quiet"][0]["actor"]
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n"
    npy = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack("<2f", 3, 4)
    rows = c.json("POST", V1 + "/objects", npy, {"Content-Type": "application/x-npy"}, expect=201)["id"]
    call = c.json("POST", f"{V1}/actors/{actor}/methods/infer", {"arguments": [{"$ref": rows}]}, {"Prefer": "wait=20"}, expect=200)["id"]
    ends = f"{V1}/events?after={after}&task={call}&wait=2"
    c.until("the call is told", lambda: any(e["type"] == "task.finished" for e in c.json("GET", ends, expect=200)["events"]))
    events = c.json("GET", f"{V1}/events?after={after}&limit=1000", expect=200)["events"]
    told = [e["type"] for e in events if e["subject"] == actor]
    check(told == ["actor.started"], "events of the actor", told)


def test_a_model_comes_back_after_its_node(c):
    serve(c, "back", 0, max_batch_size=8)
    actor = [e for e in c.json("GET", V1 + "/endpoints")["items"] if e["name"] == "back"][0]["actor"]
    c.kill("mobula-node")
    answered = []

    def infer_again():
        status, headers, body = c.call("POST", "/v2/models/back/infer", {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]})
        answered.append(status)
        check(status in (200, 503), "an answer or a typed error", status, body)
        return status == 200

    c.until("the model answers again", infer_again, 60)
    check(ask(c, "back", [[20, 22]]) == [[1, 42]], "and well")
    entry = [e for e in c.json("GET", V1 + "/endpoints")["items"] if e["name"] == "back"]
    check(entry and entry[0]["state"] == "ready" and entry[0]["actor"] == actor, "the same actor, made again", entry, actor)


def test_a_model_comes_back_after_everything(c):
    serve(c, "all", 0, max_batch_size=8, max_queue_delay_us=1000)
    c.json("PUT", f"{V1}/endpoints/gone", {"class": "batcher.Batcher", "arguments": [0]}, expect=201)
    c.call("DELETE", f"{V1}/endpoints/gone")
    c.until("it is gone", lambda: c.call("GET", "/v2/models/gone")[0] == 404)
    before = [e for e in c.json("GET", V1 + "/endpoints")["items"] if e["name"] == "all"][0]
    c.down()
    c.up()
    c.until("the model is ready", lambda: c.call("GET", "/v2/models/all/ready")[0] == 200, 60)
    check(ask(c, "all", [[1, 2], [3, 4]]) == [[2, 3], [2, 7]], "it answers")
    after = [e for e in c.json("GET", V1 + "/endpoints")["items"] if e["name"] == "all"]
    check(after and after[0] == before, "as it was", before, after)
    check(c.call("GET", "/v2/models/gone")[0] == 404, "what was deleted stays so")


if __name__ == "__main__":
    main(dict(globals()))
