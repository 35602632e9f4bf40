"""What was asked for of a task or an actor is what its record shows: every option, while it waits and when it has ended."""
import json
import time

from lib_http_cluster import check, main, ref

V1 = "/api/v1"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def record(c, task):
    return c.json("GET", f"{V1}/tasks/{task['id']}", expect=200)


def shows(record, wanted, what):
    for field, value in wanted.items():
        check(record.get(field) == value, f"{what}: {field}", record.get(field), value, record)


def test_all_options_of_a_task(c):
    c.deploy("arith")
    c.deploy("probe")
    options = {"name": "all", "resources": {"CPU": 0.5, "GPU": 0.25, "memory": 1000000, "camera": 1}, "num_returns": 2, "max_retries": -1,
               "retry_on_error": True, "priority": -7, "deterministic": True, "labels": {"team": "rl", "empty": "", "run": "a=b"},
               "restart_on_divergence": True}
    body = {"function": "probe.many", "arguments": [2],
            "options": {**options, "timeout_ms": 600000, "delay_ms": 50, "backoff_initial_ms": 20, "backoff_max_ms": 40}}
    before_us = time.time_ns() // 1000
    task = c.json("POST", V1 + "/tasks", body, {"Prefer": "wait=60", "traceparent": TRACE}, expect=200)
    after_us = time.time_ns() // 1000
    check(task.get("state") == "finished", "it ran", task)
    one = record(c, task)
    shows(one, {**options, "cpus": 0.5, "generation": 0, "backoff_initial_us": 20000, "backoff_max_us": 40000}, "given")
    check(one["traceparent"].startswith(TRACE[:35]), "trace", one.get("traceparent"))
    check(before_us + 600000000 <= one["deadline_us"] <= after_us + 600000000, "deadline", one, before_us)
    check(before_us + 50000 <= one["not_before_us"] <= one["started_us"], "not before", one, before_us)


def test_what_nobody_asked_for(c):
    task = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]}, {"Prefer": "wait=60"}, expect=200)
    one = record(c, task)
    shows(one, {"resources": {"CPU": 1}, "cpus": 1, "priority": 0, "max_retries": 3, "num_returns": 1}, "defaults")
    for field in ("labels", "deadline_us", "not_before_us", "retry_on_error", "deterministic", "name", "traceparent", "max_restarts",
                  "restart_on_divergence", "backoff_initial_us", "backoff_max_us"):
        check(field not in one, f"not asked for: {field}", one)


def test_what_a_module_says_of_its_functions(c):
    """It holds for whoever submits one, also when the node has them from the control store."""
    def runs():
        task = c.json("POST", V1 + "/tasks", {"function": "probe.same", "arguments": [3]}, {"Prefer": "wait=60"}, expect=200)
        shows(record(c, task), {"deterministic": True}, "declared so")

    def incarnation():
        status, _, body = c.call("GET", V1 + "/cluster")
        return json.loads(body)["incarnation"] if status == 200 else 0

    c.deploy("probe")
    runs()
    before = incarnation()
    c.kill("mobula-node")
    c.until("the next node", lambda: incarnation() > before)
    runs()


def test_generation_counts_errors(c):
    """Each error that is tried again opens a generation of its own; the pauses between them are those asked for."""
    c.deploy("probe")
    options = {"retry_on_error": True, "max_retries": 3, "backoff_initial_ms": 150, "backoff_max_ms": 200}
    body = {"function": "probe.fails", "arguments": [1], "options": options}
    before = time.monotonic()
    task = c.json("POST", V1 + "/tasks", body, {"Prefer": "wait=60"}, expect=200)
    took = time.monotonic() - before
    check(task["state"] == "failed", "its errors are its end", task)
    shows(record(c, task), {"attempt": 4, "generation": 3}, "retried")
    check(took >= 0.5, "150, 200 and 200 ms of pauses", took)


def test_who_waits_is_answered_at_the_deadline(c):
    """Without an outcome, when the function does not stop; that comes later, once, also if it is a value."""
    c.deploy("probe")
    c.deploy("http_talk")
    late = {"function": "http_talk.count", "arguments": [1, 2500], "options": {"timeout_ms": 1000}}
    for _ in range(5):  # on a loaded machine it may not have begun at its deadline, which is its end
        status, _, body = c.call("POST", V1 + "/tasks", late, {"Prefer": "wait=60"})
        task = json.loads(body)
        if "error" not in task:
            break
    check(status == 202 and task.get("state") == "submitted", "nothing is known yet", status, task)
    check(c.value(task["returns"][0])["state"] == "ready", "a value that came late counts")
    one = record(c, task)
    check(one["state"] == "finished" and one["finished_us"] > one["deadline_us"], "its record tells", one)
    heeds = {"function": "probe.sleeps", "arguments": [20000], "options": {"timeout_ms": 300}}
    status, _, body = c.call("POST", V1 + "/tasks", heeds, {"Prefer": "wait=60"})
    task = json.loads(body)
    check(status == 202 or task["error"]["code"] == "deadline-exceeded", "one that stops when asked", status, task)
    ended = c.value(task["returns"][0])
    check(ended["state"] == "failed" and ended["error"]["code"] == "deadline-exceeded", "is over", ended)


def test_next_attempt_is_shown_before_it_ends(c):
    """The log knows of an attempt when it has ended; the record says which one waits or runs now."""
    options = {"retry_on_error": True, "max_retries": 1, "backoff_initial_ms": 3600000, "backoff_max_ms": 3600000}
    task = c.json("POST", V1 + "/tasks", {"function": "probe.fails", "arguments": [1], "options": options}, expect=202)
    c.until("its first attempt has failed", lambda: record(c, task)["attempt"] == 2)
    shows(record(c, task), {"state": "delayed", "attempt": 2, "generation": 1}, "waits for its second attempt")
    c.json("POST", f"{V1}/tasks/{task['id']}:cancel", {}, expect=202)
    c.until("it has ended", lambda: record(c, task)["state"] == "cancelled")
    shows(record(c, task), {"attempt": 2, "generation": 1}, "ended")


def test_what_waits_shows_it_too(c):
    c.deploy("quickstart")
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [60000]}, expect=202)
    options = {"resources": {"CPU": 2, "tape": 3}, "labels": {"a": "b"}, "priority": 9}
    waits = c.json("POST", V1 + "/tasks", {"function": "quickstart.add", "arguments": [ref(slow["returns"][0]), 1], "options": options}, expect=202)
    shows(record(c, waits), {**options, "state": "waiting"}, "waits")
    c.json("POST", f"{V1}/tasks/{slow['id']}:cancel", {"force": True}, expect=202)


def test_options_of_an_actor(c):
    options = {"name": "the counter", "resources": {"CPU": 0, "camera": 0.5}, "max_restarts": 4, "detached": True, "checkpoint_every": 3}
    body = {"class": "quickstart.Counter", "arguments": [0], "options": options}
    made = c.json("POST", V1 + "/actors", body, {"Prefer": "wait=60", "traceparent": TRACE}, expect=201)
    creation = record(c, {"id": "task_" + made["id"][6:]})
    shows(creation, {**options, "kind": "actor_create", "cpus": 0}, "creation")
    check("max_retries" not in creation, "it restarts", creation)
    call = {"arguments": [2], "options": {"name": "a call", "priority": 3, "timeout_ms": 60000, "labels": {"k": "v"}}}
    called = c.json("POST", f"{V1}/actors/{made['id']}/methods/add", call, {"Prefer": "wait=60"}, expect=200)
    one = record(c, called)
    shows(one, {"name": "a call", "priority": 3, "labels": {"k": "v"}, "kind": "actor_call", "actor": made["id"]}, "call")
    check(one["deadline_us"] > one["submitted_us"] and "resources" not in one, "runs where its actor is", one)
    shows(c.json("GET", f"{V1}/actors/{made['id']}", expect=200), {**options, "state": "alive"}, "living actor")
    c.json("DELETE", f"{V1}/actors/{made['id']}", expect=202)
    c.until("it is dead", lambda: c.json("GET", f"{V1}/actors/{made['id']}")["state"] == "dead")
    shows(c.json("GET", f"{V1}/actors/{made['id']}", expect=200), options, "dead actor")


def test_labels_that_cannot_be(c):
    for labels, pointer in (({"": "x"}, "/"), ({"a=b": "x"}, "/a=b"), ({"a": 1}, "/a"), ({"k": "v" * 510}, "/k"),
                            ({str(i): "" for i in range(17)}, ""), ([], "")):
        body = {"function": "arith.add", "arguments": [1, 2], "options": {"labels": labels}}
        problem = c.json("POST", V1 + "/tasks", body, expect=422)
        check(problem["errors"][0]["pointer"] == "/options/labels" + pointer, "which one", problem)
    most = {f"k{i}": "v" * 200 for i in range(16)}
    task = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2], "options": {"labels": most}}, {"Prefer": "wait=60"}, expect=200)
    check(record(c, task)["labels"] == most, "as many as may be", task)


if __name__ == "__main__":
    main(dict(globals()), "--resources", "GPU=1,camera=1")
