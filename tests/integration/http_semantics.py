"""What the API says in the cases beside the straight way: ids that never were, fields that no item has, what ended or
was deleted.   ctest: timeout=240"""
from lib_http_cluster import check, main, ref

V1 = "/api/v1"
NO_TASK, NO_OBJECT, NO_ACTOR, NO_JOB = "task_" + "a" * 26, "obj_" + "a" * 32, "actor_" + "a" * 26, "job_" + "a" * 20


def neighbour(task):
    """An id of the same group as a task that exists: the log has the group, and nothing of this one."""
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    return task[:-3] + letters[(letters.index(task[-3]) + 1) % 32] + task[-2:]


def problem(c, method, path, status, code, body=None):
    document = c.json(method, path, body, expect=status)
    check(document.get("code") == code, f"{method} {path}: code", document)
    return document


def test_ids_that_never_were(c):
    c.deploy("arith")
    c.deploy("quickstart")
    known = c.run("arith.add", 1, 2)
    for task in (NO_TASK, neighbour(known["id"])):
        for method, path in (("GET", ""), ("GET", "/why"), ("GET", "/logs"), ("POST", ":cancel")):
            problem(c, method, f"{V1}/tasks/{task}{path}", 404, "not-found")
        for method, path in (("GET", ""), ("GET", "/logs"), ("DELETE", "")):
            problem(c, method, f"{V1}/actors/actor_{task[5:]}{path}", 404, "not-found")
        problem(c, "POST", f"{V1}/actors/actor_{task[5:]}/methods/add", 404, "not-found", {"arguments": [1]})
    for unknown in (NO_OBJECT, known["returns"][0][:-2] + "ea"):
        check(unknown != known["returns"][0], "another object", unknown)
        for path in ("", "?wait=5", "/data", "/lineage"):
            problem(c, "GET", f"{V1}/objects/{unknown}{path}", 404, "not-found")
        document = problem(c, "POST", V1 + "/objects:wait", 404, "not-found", {"ids": [known["returns"][0], unknown], "num_returns": 2, "timeout_ms": 5000})
        check(document["errors"][0]["pointer"] == "/ids/1", "which one", document)
    for method in ("GET", "DELETE"):
        problem(c, method, f"{V1}/jobs/{NO_JOB}", 404, "not-found")
        problem(c, method, f"{V1}/endpoints/nowhere", 404, "not-found")
    # A task is not an actor, whatever its id is made of.
    problem(c, "GET", f"{V1}/actors/actor_{known['id'][5:]}", 404, "not-found")
    problem(c, "GET", f"{V1}/actors/actor_{known['id'][5:]}/logs", 404, "not-found")


def test_waiting_for_what_failed_is_over(c):
    failed = c.run("arith.divmod", 1, 0)
    answer = c.json("POST", V1 + "/objects:wait", {"ids": failed["returns"], "num_returns": 2}, expect=200)
    check(answer["ready"] == failed["returns"], "failed objects are ready", answer)


def test_cancel_tells_running_from_ended_from_never(c):
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [60000]}, expect=202)
    c.until("it runs", lambda: c.json("GET", f"{V1}/tasks/{slow['id']}").get("state") == "running")
    check(c.call("POST", f"{V1}/tasks/{slow['id']}:cancel", {"force": True})[0] == 202, "running")
    c.value(slow["returns"][0])
    document = problem(c, "POST", f"{V1}/tasks/{slow['id']}:cancel", 409, "already-finished")
    check("cancelled" in document["detail"], "says how it ended", document)
    problem(c, "POST", f"{V1}/tasks/{c.run('arith.add', 1, 1)['id']}:cancel", 409, "already-finished")


def test_logs_of_what_has_not_run(c):
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [60000]}, expect=202)
    waits = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [ref(slow["returns"][0]), 1]}, expect=202)
    status, headers, body = c.call("GET", f"{V1}/tasks/{waits['id']}/logs")
    check(status == 200 and body == b"" and headers["mobula-log-ended"] == "false", "empty so far", status, headers, body)
    c.call("POST", f"{V1}/tasks/{slow['id']}:cancel", {"force": True})


LISTS = ("tasks", "objects", "actors", "functions", "jobs", "nodes", "endpoints")


def test_filter_and_sort_take_the_fields_that_items_have(c):
    c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [0]}, {"Prefer": "wait=10"}, expect=201)
    for kind in LISTS:
        for query in ("filter=colour:red", "sort=colour", "sort=-colour", "filter=id:x%20AND%20colour:red"):
            document = problem(c, "GET", f"{V1}/{kind}?{query}", 400, "bad-request")
            check('"colour"' in document["detail"] and "name" in document["detail"] or "id" in document["detail"], "names the fields", document)
        items = c.json("GET", f"{V1}/{kind}?limit=20", expect=200)["items"]
        check(items or kind == "endpoints", f"{kind} are listed", items)
        for field in {name for item in items for name, value in item.items() if not isinstance(value, (dict, list))}:
            for query in (f"filter={field}:*", f"sort={field}", f"sort=-{field}"):
                check(c.call("GET", f"{V1}/{kind}?limit=1&{query}")[0] == 200, f"{kind}?{query}")
    problem(c, "GET", f"{V1}/tasks?filter=state", 400, "bad-request")
    problem(c, "GET", f"{V1}/tasks?filter=" + "%20AND%20".join(["id:x"] * 9), 400, "bad-request")


if __name__ == "__main__":
    main(dict(globals()))
