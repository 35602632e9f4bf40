"""Sorted lists of more blocks of the log than one page of an unsorted list looks at: most of them in PostgreSQL, many lists at once
beside other requests, and the error of one that takes too long.   ctest: timeout=280"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time

from lib_http_cluster import BIN, Cluster, at_once, check, failures

V1 = "/api/v1"
FLUSHES = ("--postgres", "on", "--flush-hot-percent", "0", "--flush-delay-ms", "300")
KEEPS = ("--postgres", "on", "--flush-hot-percent", "90")
ORDERS = ("submitted_us", "-submitted_us", "finished_us", "-finished_us")


def one_by_one(c, name, count):
    """Tasks that are waited for, each with two blocks of its own: their ids, oldest first."""
    connection, ids = c.connect(), []
    for i in range(count):
        body = {"function": "arith.add", "arguments": [i, 1], "options": {"name": name}}
        status, _, data = c.call("POST", V1 + "/tasks", body, {"Prefer": "wait=20"}, connection=connection)
        if not check(status == 200, f"task {i} has ended", status, data):
            break
        ids.append(json.loads(data)["id"])
    connection.close()
    return ids


def pages(c, path, between=None):
    items, cursor = [], None
    for number in range(3000):
        page = c.json("GET", path + (f"&cursor={cursor}" if cursor else ""), expect=200)
        check(page.get("truncated") is False, "a sorted list is whole", path)
        items += page.get("items", [])
        cursor = page.get("next_cursor")
        if not cursor:
            return items
        if between:
            between(number)
    check(False, f"{path} ends", len(items))
    return items


def check_order(c, name, ids, limit, between=None):
    for order in ORDERS:
        found = pages(c, f"{V1}/tasks?filter=name:{name}&sort={order}&limit={limit}", between)
        expected = ids[::-1] if order[0] == "-" else ids
        check([t["id"] for t in found] == expected, f"by {order}, pages of {limit}: all, in order", len(found), len(ids))
        check(all(t["state"] == "finished" for t in found), f"by {order}: their states")


def blocks_in_memory(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    return sum(json.loads(line)["member"]["blocks"] for line in done.stdout.splitlines())


def flushed(c):
    c.until("all is flushed", lambda: blocks_in_memory(c) == 0)


def again_with(c, options):
    c.down()
    c.options = options
    c.up()
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200)


def test_most_are_in_postgres(c):
    """They lie there in other blocks and in another order than in memory, behind more blocks in memory than a page of an unsorted list looks at."""
    ids = one_by_one(c, "cold", 1500)
    flushed(c)
    again_with(c, KEEPS if c.has_postgres else ())
    ids += one_by_one(c, "cold", 600)
    check(blocks_in_memory(c) > 1024, "many blocks in memory", blocks_in_memory(c))
    check_order(c, "cold", ids, 450)
    again_with(c, FLUSHES if c.has_postgres else ())
    flushed(c)
    check_order(c, "cold", ids, 1000)
    hot = one_by_one(c, "cold", 300)
    found = pages(c, f"{V1}/tasks?filter=name:cold&sort=submitted_us&limit=400", lambda number: flushed(c) if number == 1 else None)
    check([t["id"] for t in found] == ids + hot, "flushed between two pages", len(found))
    found = pages(c, f"{V1}/tasks?filter=name:cold&sort=-finished_us&limit=400", lambda number: one_by_one(c, "cold", 20) if number < 3 else None)
    check([t["id"] for t in found] == (ids + hot)[::-1], "what is newer than the first page is not in it", len(found))


def test_times_in_the_filter(c):
    """Ends that lie behind the times that are asked for are known all the same."""
    ids = [t["id"] for t in pages(c, f"{V1}/tasks?sort=submitted_us&filter=name:cold&limit=1000")]
    rows = {t["id"]: t for t in pages(c, f"{V1}/tasks?sort=id&filter=name:cold&limit=1000")}
    first, last = rows[ids[700]]["submitted_us"], rows[ids[900]]["submitted_us"]
    for order in ORDERS:
        found = pages(c, f"{V1}/tasks?filter=name:cold%20AND%20submitted_us:%3E={first}%20AND%20submitted_us:%3C={last}&sort={order}&limit=90")
        expected = [i for i in ids if first <= rows[i]["submitted_us"] <= last]
        check([t["id"] for t in found] == (expected[::-1] if order[0] == "-" else expected), f"between two times, by {order}", len(found), len(expected))
        check(all(t == rows[t["id"]] for t in found), f"the same rows, by {order}")
    end = rows[ids[300]]["finished_us"]
    found = pages(c, f"{V1}/tasks?filter=name:cold%20AND%20finished_us:%3C={end}&sort=-finished_us&limit=90")
    check([t["id"] for t in found] == ids[300::-1], "that had ended by then", len(found))


def test_many_at_once(c):
    """They wait for each other; the rest does not wait for them."""
    ids = one_by_one(c, "many", 1200)
    stop, slowest = threading.Event(), [0]

    def others():
        while not stop.is_set():
            begin = time.monotonic()
            check(c.run("arith.add", 1, 2).get("result") == 3, "a task beside them")
            slowest[0] = max(slowest[0], time.monotonic() - begin)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        answers = at_once([lambda order=order: c.call("GET", f"{V1}/tasks?filter=name:many&sort={order}&limit=100") for order in ORDERS * 3])
    finally:
        stop.set()
        thread.join()
    for order, (status, _, data) in zip(ORDERS * 3, answers):
        page = json.loads(data)
        check(status == 200 and [t["id"] for t in page["items"]] == (ids[::-1] if order[0] == "-" else ids)[:100], f"by {order}, among many", status, page.get("detail"))
    check(slowest[0] < 5, "tasks go on", slowest[0])
    # Each of these has its turn to wait for; those that are too many are told to come again.
    answers = at_once([lambda: c.call("GET", f"{V1}/objects?sort=size&limit=10") for _ in range(60)])
    for status, headers, data in answers:
        check(status == 200 or (status == 429 and "retry-after" in headers and json.loads(data)["code"] == "queue-full"), "an answer or its turn later", status, data[:300])
    check(sum(answer[0] == 200 for answer in answers) >= 30, "most are answered", [answer[0] for answer in answers])


def late(_):
    """In a cluster whose readings are late at once."""
    os.environ["MOBULA_FAILPOINTS"] = "gateway.whole_late=error@3"
    try:
        c = Cluster()
    finally:
        del os.environ["MOBULA_FAILPOINTS"]
    try:
        c.deploy("arith")
        ids = one_by_one(c, "late", 20)
        status, headers, data = c.call("GET", f"{V1}/tasks?filter=name:late&sort=submitted_us")
        problem = json.loads(data)
        check(status == 422 and headers["content-type"] == "application/problem+json", "a problem", status, headers)
        check(problem["code"] == "too-much-to-read" and not problem["retryable"] and "retry-after" not in headers, "typed", problem)
        check(all(word in problem["detail"] for word in ("10 s", "job:", "submitted_us", "finished_us")), "says what to narrow", problem)
        found = pages(c, f"{V1}/tasks?filter=name:late&sort=submitted_us&limit=7")
        check([t["id"] for t in found] == ids, "the next one is read", len(found))
    finally:
        c.end()


def run(name, test, cluster):
    before = len(failures)
    try:
        test(cluster)
    except Exception as error:  # a broken answer must not hide the other tests
        check(False, f"{name}: {type(error).__name__}: {error}")
    print("ok" if len(failures) == before else "not ok", name, flush=True)


if __name__ == "__main__":
    run("late", late, None)
    has_postgres = shutil.which("postgres") or shutil.which("psql")
    cluster = Cluster(*(FLUSHES if has_postgres else ()))
    cluster.has_postgres = has_postgres
    if not has_postgres:
        print("there is no PostgreSQL here: lists of what was flushed are skipped")
        flushed = lambda c: None  # noqa: E731
    try:
        cluster.deploy("arith")
        for name, test in list(globals().items()):
            if name.startswith("test_") and (len(sys.argv) < 2 or any(word in name for word in sys.argv[1:])):
                run(name, test, cluster)
    finally:
        cluster.end()
    sys.exit(1 if failures else 0)
