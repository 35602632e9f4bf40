"""Idempotency keys: one outcome for each, over restarts and kills of the gateway.   ctest: timeout=300 long"""
import json
import os
import sys
import time

from lib_http_cluster import Cluster, check, failures

V1 = "/api/v1"


def back(c):
    try:
        c.read_address()
        return c.call("GET", "/readyz", key=None)[0] == 200
    except (OSError, ValueError):
        return False


def kill_gateway(c):
    c.kill("mobula-gateway")
    c.until("the gateway is back", lambda: back(c))


def keyed(c, path, body, key, headers=None, **options):
    status, head, data = c.call("POST", V1 + path, body, {"Idempotency-Key": key, **(headers or {})}, **options)
    return status, head.get("idempotent-replayed"), json.loads(data)


def insist(c, path, body, key, headers=None):
    """As a client does that was cut off: the same request until it is answered."""
    answer = None
    for _ in range(50):
        try:
            answer = keyed(c, path, body, key, headers)
            if answer[0] not in (409, 503):
                return answer
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
        c.until("the gateway is back", lambda: back(c))
    check(False, f"{path} is never answered", answer)


def executions(c, function):
    """Tasks of this function that the lineage knows."""
    return c.json("GET", f"{V1}/tasks?limit=1000&filter=function:{function}", expect=200)["items"]


def octets(data):
    return data, {"Content-Type": "application/octet-stream"}


def parts(*contents):
    body = b"".join(b'--=+=\r\nContent-Disposition: form-data; name="p%d"\r\n\r\n%s\r\n' % (i, one) for i, one in enumerate(contents))
    return body + b"--=+=--\r\n", {"Content-Type": 'multipart/form-data; boundary="=+="'}


def requests_of(c, actor):
    """One of each creating route that makes something of its own: name -> (path, body, headers)."""
    return {
        "task": ("/tasks", {"function": "arith.add", "arguments": [1, 2], "options": {"timeout_ms": 60000}}, None),
        "waited": ("/tasks", {"function": "arith.add", "arguments": [3, 4]}, {"Prefer": "wait=20"}),
        "rows": ("/tasks:batch", {"function": "arith.add", "rows": [[i, 1] for i in range(300)]}, None),
        "items": ("/tasks:batch", {"items": [{"function": "arith.add", "arguments": [5, 5]}, {"function": "nope.f"}]}, None),
        "actor": ("/actors", {"class": "quickstart.Counter", "arguments": [7], "options": {"name": "keyed"}}, None),
        "call": (f"/actors/{actor}/methods/add", {"arguments": [1]}, None),
        "small": ("/objects", *octets(b"small")),
        "large": ("/objects", *octets(b"large" * 50000)),
        "parts": ("/objects", *parts(b"l" * 10, b"l" * 100000, b"")),
        "job": ("/jobs", {"name": "keyed"}, None),
    }


def test_answers_outlive_the_gateway():
    c = Cluster()
    try:
        for module in ("arith", "quickstart"):
            c.deploy(module)
        actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [0]}, {"Prefer": "wait=10"})["id"]
        requests = requests_of(c, actor)
        first = {name: keyed(c, path, body, name, headers) for name, (path, body, headers) in requests.items()}
        for name, (status, replayed, answer) in first.items():
            check(status in (200, 201, 202) and not replayed, name, status, answer)
        for life in ("the same gateway", "another one"):
            for name, (path, body, headers) in requests.items():
                status, replayed, answer = insist(c, path, body, name, headers)
                check(answer == first[name][2], f"{name}: the same answer by {life}", answer, first[name][2])
                check(replayed == "true" and status == first[name][0], f"{name}: replayed by {life}", status, replayed)
            if life == "the same gateway":
                kill_gateway(c)
        job = first["job"][2]["id"]
        in_job = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 1], "job": job}, {"Prefer": "wait=10"})
        check(in_job.get("result") == 2, "the job is open again", in_job)
        other = {**requests["task"][1], "arguments": [1, 3]}
        status, _, problem = keyed(c, "/tasks", other, "task")
        check(status == 422 and problem["code"] == "invalid-argument", "another body", status, problem)
        kill_gateway(c)
        status, _, problem = keyed(c, "/tasks", other, "task")
        check(status == 422 and "another body" in problem["detail"], "another body by another gateway", status, problem)
        check(keyed(c, "/tasks", requests["task"][1], "task")[2] == first["task"][2], "and the first one stands")
        path, body, headers = requests["parts"]
        for another in (body.replace(b"l", b"L"), *parts(b"one alone")[:1]):
            check(keyed(c, path, another, "parts", headers)[0] == 422, "other parts", another[:60])
        check(keyed(c, path, *octets(b"small")[:1], "parts", octets(b"")[1])[0] == 422, "a value for parts")
        check(len({one["id"] for one in first["parts"][2]["items"]}) == 3, "three objects", first["parts"])
        check(c.call("GET", f"{V1}/objects/{first['parts'][2]['items'][1]['id']}/data")[2] == b"l" * 100000, "the second part's bytes")
        rows = first["rows"][2]["items"]
        check(c.value(rows[299]["returns"][0])["value"] == 300, "the rows' values")
        check(c.value(first["call"][2]["returns"][0])["value"] == 1, "the call's value")
        calls = c.json("GET", f"{V1}/actors/{actor}", expect=200)
        again = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [10]}, {"Prefer": "wait=10"})
        check(again["result"] == 11, "the keyed call ran once", again, calls)
        check(len(executions(c, "arith.add")) == 1 + 1 + 300 + 1 + 1, "each task once", len(executions(c, "arith.add")))
    finally:
        c.end()


def killed_at(failpoint, half):
    """The second keyed request of each gateway dies with it at this place; a client insists.

    A run takes every other kind of request; with MOBULA_TEST_ALL=1 all of them.
    """
    os.environ["MOBULA_FAILPOINTS"] = f"{failpoint}=kill@2"
    c = Cluster()
    try:
        for module in ("arith", "quickstart"):
            c.deploy(module)
        actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [0]}, {"Prefer": "wait=10"})["id"]
        expected = 0
        # `waited` and `job` are answered by a result, or by the node's word: no acknowledgement; `parts` has several claims
        kinds = [(name, request) for name, request in requests_of(c, actor).items() if name not in ("waited", "job", "parts")]
        called = any(name == "call" for name, _ in kinds[half::2]) or "MOBULA_TEST_ALL" in os.environ
        for name, (path, body, headers) in kinds if "MOBULA_TEST_ALL" in os.environ else kinds[half::2]:
            kill_gateway(c)
            warm = keyed(c, "/tasks", {"function": "arith.add", "arguments": [0, 0]}, "warm " + name)
            check(warm[0] == 202, "warm", warm)
            before = c.pid_of("mobula-gateway")
            status, replayed, answer = insist(c, path, body, name, headers)
            check(c.pid_of("mobula-gateway") != before, f"{name}: the gateway died of it")
            check(status in (200, 201, 202), f"{name}: answered in the end", status, answer)
            kill_gateway(c)
            check(insist(c, path, body, name, headers)[2] == answer, f"{name}: and the same ever after")
            other = body.replace(b"l", b"L") if isinstance(body, bytes) else {**body, "job": "job_" + "a" * 20}
            check(insist(c, path, other, name, headers)[0] == 422, f"{name}: another body")
            tasks = {"task": 1, "rows": 300, "items": 1}.get(name, 0)
            expected += tasks + 1
            check(len(executions(c, "arith.add")) == expected, f"{name}: each task once", len(executions(c, "arith.add")), expected)
        total = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [10]}, {"Prefer": "wait=10"})
        check(total["result"] == (11 if called else 10), "the call ran once", total)
        listed = [o["id"] for o in c.json("GET", f"{V1}/objects?limit=1000", expect=200)["items"]]
        check(len(listed) == len(set(listed)), "each object once", len(listed))
    finally:
        del os.environ["MOBULA_FAILPOINTS"]
        c.end()


def test_a_kill_between_acknowledgement_and_answer():
    killed_at("gateway.keyed_acked", 0)


def test_a_kill_between_claim_and_submission():
    killed_at("gateway.key_claimed", 1)


def test_a_kill_between_two_parts():
    """The gateway's second request dies with it behind its second part; each life has five claims."""
    os.environ["MOBULA_FAILPOINTS"] = "gateway.key_claimed=kill@6"
    c = Cluster()
    try:
        body, headers = parts(b"first", b"second" * 20000, b"third")
        first = keyed(c, "/objects", body, "one", headers)
        before = c.pid_of("mobula-gateway")
        second = insist(c, "/objects", body, "two", headers)
        check(c.pid_of("mobula-gateway") != before, "the gateway died of it")
        check(first[0] == second[0] == 201 and second[1] == "true", "answered in the end, as a repetition", first, second)
        kill_gateway(c)
        check(insist(c, "/objects", body, "two", headers)[2] == second[2], "and the same ever after")
        ids = [one["id"] for answer in (first, second) for one in answer[2]["items"]]
        listed = [one["id"] for one in c.json("GET", f"{V1}/objects?limit=1000", expect=200)["items"]]
        check(sorted(ids) == sorted(listed) and len(set(ids)) == 6, "each part is one object", ids, listed)
        values = [c.call("GET", f"{V1}/objects/{one}/data")[2] for one in ids]
        check(values == [b"first", b"second" * 20000, b"third"] * 2, "of its bytes", [len(one) for one in values])
    finally:
        del os.environ["MOBULA_FAILPOINTS"]
        c.end()


def test_a_claim_meets_the_end_of_the_control_store():
    """The gateway learns of it by sending the claim, before the thread that watches its descriptors has looked at them again."""
    os.environ["MOBULA_FAILPOINTS"] = "gateway.before_watch=delay:250"
    c = Cluster()
    try:
        c.deploy("arith")
        body = {"function": "arith.add", "arguments": [1, 2]}
        insist(c, "/tasks", body, "before")  # the control store has just answered, so that thread is on its way
        pid = c.kill("mobula-gcs")
        c.until("it has ended", lambda: c.pid_of("mobula-gcs") != pid)
        begin = time.monotonic()
        status, _, answer = insist(c, "/tasks", body, "after")
        check(status == 202, "taken", status, answer, time.monotonic() - begin)
    finally:
        del os.environ["MOBULA_FAILPOINTS"]
        c.end()


def kept_over_a_kill(c, body, age_s):
    """A key and what it stands for, which a killed gateway did not forget: of the first time that was quicker than the key's age."""
    for attempt in range(10):
        begin, key = time.monotonic(), f"old{attempt}"
        first = keyed(c, "/tasks", body, key)[2]
        kill_gateway(c)
        again = insist(c, "/tasks", body, key)[2]
        if time.monotonic() - begin < age_s:
            check(again == first, "kept", again, first)
            return key, first
    check(False, "a gateway is back sooner than keys are old")


def test_a_key_means_something_new_when_it_is_old():
    age_s = 2
    c = Cluster("--idempotency-s", f"{age_s}s")
    try:
        c.deploy("arith")
        body = {"function": "arith.add", "arguments": [1, 2]}
        key, first = kept_over_a_kill(c, body, age_s)
        time.sleep(age_s + 0.5)
        status, replayed, second = insist(c, "/tasks", {**body, "arguments": [3, 4]}, key)
        check(status == 202 and not replayed and second["id"] != first["id"], "new", status, second, first)
        check(c.value(second["returns"][0])["value"] == 7, "its value")
    finally:
        c.end()


def until_full(c, body, limit):
    """Keyed requests until one is refused for its key: how many were taken, and that answer."""
    taken, status, head, problem = 0, 202, {}, {}
    while taken < limit and problem.get("code") in (None, "gcs-full"):
        status, head, data = c.call("POST", V1 + "/tasks", body, {"Idempotency-Key": f"many-{taken}"}, connection=c.many)
        taken += status == 202
        problem = {} if status == 202 else json.loads(data)
        if problem:
            time.sleep(0.2)  # lineage is on its way to PostgreSQL
    return taken, status, head, problem


def test_keys_take_no_more_than_their_share_of_the_cap():
    age_s = 40  # the slowest machine sends them in less; old ones make room for new ones
    c = Cluster("--postgres", "on", "--gcs-soft-bytes", "16MiB", "--gcs-hard-bytes", "32MiB", "--flush-delay-ms", "200ms", "--flush-hot-percent", "1", "--idempotency-s", f"{age_s}s")
    try:
        c.deploy("arith")
        c.many = c.connect()
        body = {"function": "arith.add", "arguments": [1, 2]}
        began = time.monotonic()
        first = keyed(c, "/tasks", body, "many-0")
        taken, status, head, problem = until_full(c, body, 20000)
        check(status == 429 and problem.get("code") == "queue-full" and int(head.get("retry-after", 0)) > 0, "refused", taken, status, head, problem)
        check(1000 < taken < 12000, "what a quarter of 16 MiB holds", taken)
        if time.monotonic() - began < age_s / 2:
            check(keyed(c, "/tasks", body, "many-0")[2] == first[2], "one that is known is answered")
        check(c.run("arith.add", 3, 4)["result"] == 7, "without a key it goes on")
        c.until("old keys have gone", lambda: keyed(c, "/tasks", body, "later")[0] == 202, 3 * 60 + age_s)
    finally:
        c.end()


if __name__ == "__main__":
    for test_name, test in list(globals().items()):
        if test_name.startswith("test_") and (not sys.argv[1:] or any(word in test_name for word in sys.argv[1:])):
            count = len(failures)
            test()
            print("ok" if len(failures) == count else "not ok", test_name, flush=True)
    sys.exit(1 if failures else 0)
