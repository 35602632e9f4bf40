"""At the control store's memory cap over HTTP: 429 with the numbers and Retry-After, until an ended job is deleted.   ctest: timeout=240"""
import json
import os
import re
import time

from lib_http_cluster import check, main

V1 = "/api/v1"
SOFT_BYTES = 12 << 20


def refusal(c, path, body, headers=None):
    status, head, data = c.call("POST", V1 + path, body, headers)
    return status, head, json.loads(data)


def check_full(what, status, headers, problem):
    check(status == 429 and problem["code"] == "gcs-full" and problem["retryable"], f"{what}: refused", status, problem)
    check(int(headers.get("retry-after", 0)) >= 1, f"{what}: when to come again", headers)
    numbers = [int(n) for n in re.findall(r"\d+", problem.get("detail", ""))]
    check(len(numbers) >= 2 and numbers[0] >= numbers[1] == SOFT_BYTES, f"{what}: the numbers", problem)


def fill(c):
    """Until batches are refused: the job that holds it all, the last refusal, and the tasks that were acknowledged."""
    job = c.json("POST", V1 + "/jobs", {"name": "large"}, expect=201)["id"]
    taken, refused_in_a_row = [], 0
    while refused_in_a_row < 2 and len(taken) < 40000:
        rows = [[os.urandom(700).hex()] for _ in range(100)]
        status, headers, answer = refusal(c, "/tasks:batch", {"function": "probe.echo_utf8", "rows": rows, "job": job})
        if status == 202:
            taken += [item["id"] for item in answer["items"] if "id" in item]
            refused_in_a_row = 0
        else:
            refused_in_a_row += 1
            time.sleep(1.5)  # what is not on disk yet counts twice, so there may be room again a moment later
    check(len(taken) >= 1000, "much was taken first", len(taken))
    return job, status, headers, answer, taken


def empty(c, job):
    check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "the job ends")
    check(c.call("DELETE", f"{V1}/jobs/{job}?purge=true")[0] == 202, "and is purged")
    c.until("there is room again", lambda: c.call("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]})[0] == 202)


def test_the_cap_is_told_and_a_deleted_job_makes_room(c):
    for name in ("arith", "probe"):
        c.deploy(name)
    kept = c.run("arith.add", 20, 22)
    job, status, headers, answer, _ = fill(c)
    check_full("a batch", status, headers, answer)
    check_full("a task", *refusal(c, "/tasks", {"function": "arith.add", "arguments": [1, 2]}))
    check_full("a put", *refusal(c, "/objects", b"bytes", {"Content-Type": "application/octet-stream"}))
    check_full("an actor", *refusal(c, "/actors", {"class": "probe.Account", "arguments": [5]}))
    check(c.value(kept["returns"][0])["value"] == 42, "what is there is read")
    check(c.json("GET", f"{V1}/tasks?limit=1", expect=200)["items"], "lists answer")
    empty(c, job)
    check(c.run("arith.add", 1, 2).get("result") == 3, "tasks run")


def test_what_only_the_node_refuses_is_not_acknowledged(c):
    """The gateway hears of the cap a moment after the node: here never."""
    c.down()
    os.environ["MOBULA_FAILPOINTS"] = "gateway.cap_unheard=error"
    try:
        c.up()
    finally:
        del os.environ["MOBULA_FAILPOINTS"]
    job, *_, taken = fill(c)
    add = {"function": "arith.add", "arguments": [1, 2]}
    for what, path, body, more in (("a task", "/tasks", add, {}), ("one with a key", "/tasks", add, {"Idempotency-Key": "unheard"}),
                                   ("a batch", "/tasks:batch", {"function": "arith.add", "rows": [[1, 2], [3, 4]]}, {})):
        status, headers, problem = refusal(c, path, body, more)
        check(status == 429 and problem["code"] == "gcs-full" and problem["retryable"], f"{what}: the node's word", status, problem)
        check(int(headers.get("retry-after", 0)) >= 1, f"{what}: when to come again", headers)
    for task in taken[-250:]:  # of the batches in which the cap was met
        check(c.call("GET", f"{V1}/tasks/{task}")[0] == 200, "what was acknowledged is known", task)
    empty(c, job)


if __name__ == "__main__":
    main(dict(globals()), "--gcs-soft-bytes", str(SOFT_BYTES), "--gcs-hard-bytes", str(4 * SOFT_BYTES))
