"""Lists over two shards with logs in both: one order of time, cursors that stay exact while tasks come and blocks are flushed, in memory
and from PostgreSQL.   ctest: timeout=280 long"""
import json
import os
import shutil
import subprocess
import sys
import threading

from lib_http_cluster import BIN, Cluster, check, failures

V1 = "/api/v1"
WRITER = os.path.join(os.path.dirname(BIN), "tests", "mobula-log-writer")
TURN = ("--flush-hot-percent", "0", "--flush-delay-ms", "300")


def write(c, name, rounds, tasks, pause_ms=0):
    """Tasks that nodes of both shards logged: their ids, oldest first."""
    done = subprocess.run([WRITER, c.directory, name, str(rounds), str(tasks), str(pause_ms)], capture_output=True, text=True, timeout=120)
    rows = [line.split() for line in done.stdout.splitlines()]
    check(done.returncode == 0 and len(rows) == rounds * tasks, "written", done.stderr, len(rows))
    check({shard for shard, _ in rows} == {"0", "1"}, "in both shards")
    return [task for _, task in rows]


def stores(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, "mobula gcs status", done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def flushed(c):
    if c.flushes:
        c.until("all is flushed", lambda: all(s["member"]["blocks"] == 0 for s in stores(c)), 60)


def pages(c, path, between=None):
    items, cursor = [], None
    for number in range(3000):
        page = c.json("GET", path + (f"&cursor={cursor}" if cursor else ""), expect=200)
        items += page.get("items", [])
        cursor = page.get("next_cursor")
        if not cursor:
            return items
        if between:
            between(number)
    check(False, f"{path} ends", len(items))
    return items


def ids(items):
    return [item["id"] for item in items]


def first_difference(found, expected):
    for i, (a, b) in enumerate(zip(found, expected)):
        if a != b:
            return i, a, b
    return len(found), len(expected)


def test_newest_first_over_shards(c):
    expected = write(c, "order", 40, 30)[::-1]
    for limit in (1000, 97, 30):
        found = ids(pages(c, f"{V1}/tasks?filter=name:order&limit={limit}"))
        check(found == expected, f"in one order, pages of {limit}", first_difference(found, expected))
    flushed(c)
    for limit in (1000, 41):
        items = pages(c, f"{V1}/tasks?filter=name:order&limit={limit}")
        check(ids(items) == expected, f"the same when it was flushed, pages of {limit}", first_difference(ids(items), expected))
        check(all(t["state"] == "finished" for t in items), "states")


def check_order(c, what, items, *parts):
    """Newest first. Of jobs that were flushed together each keeps its order, but they lie in buckets of their own, which come one behind
    the other (docs/gcs.md, "Shards"): only what is in memory is in one order of time."""
    newest_first = [id for part in reversed(parts) for id in reversed(part)]
    found = ids(items)
    if c.flushes:
        for part in parts:
            of_part = [id for id in found if id in set(part)]
            check(of_part == part[::-1], what, first_difference(of_part, part[::-1]))
        check(len(found) == len(newest_first), what, len(found))
    else:
        check(found == newest_first, what, first_difference(found, newest_first))


def test_with_tasks_of_the_node(c):
    c.deploy("arith")
    before = write(c, "mixed", 6, 20)
    nodes = [c.run("arith.add", n, 1, name="mixed")["id"] for n in range(10)]
    behind = write(c, "mixed", 6, 20)
    items = pages(c, f"{V1}/tasks?filter=name:mixed&limit=33")
    check_order(c, "with tasks of the node", items, before, nodes, behind)
    if not c.flushes:
        times = [t["submitted_us"] for t in items]
        check(times == sorted(times, reverse=True), "newest first")
    some = pages(c, f"{V1}/tasks?filter=name:mixed%20AND%20state:finished&limit=29")
    check_order(c, "with a term that only the end says", some, before, nodes, behind)


def test_a_cursor_is_stable_while_others_write(c):
    expected = write(c, "kept", 30, 25)[::-1]
    stop, noise = threading.Event(), []

    def others():
        while not stop.is_set() and len(noise) < 12:
            noise.append(write(c, "noise", 8, 10))

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for limit in (19, 250):
            found = ids(pages(c, f"{V1}/tasks?filter=name:kept&limit={limit}"))
            check(found == expected, f"beside a writer, pages of {limit}", first_difference(found, expected))
    finally:
        stop.set()
        thread.join()


def test_a_cursor_is_stable_across_the_move(c):
    expected = write(c, "moved", 30, 25)[::-1]

    def between(number):
        if number in (2, 9):
            write(c, "later", 4, 20)  # does not come into a list that has begun
        if number == 4:
            flushed(c)

    for path in ("tasks?filter=name:moved&limit=23", "tasks?limit=61"):
        found = [t for t in pages(c, f"{V1}/{path}", between) if t.get("name") == "moved"]
        check(ids(found) == expected, path, first_difference(ids(found), expected))


def test_sorted_over_shards(c):
    expected = write(c, "sorted", 20, 20)
    path = f"{V1}/tasks?filter=name:sort*&limit=90"

    def between(number):
        if number == 1:
            write(c, "sort-later", 4, 20)
            flushed(c)

    newest = ids(pages(c, path + "&sort=-submitted_us", between))
    check(newest == expected[::-1], "newest first, as it was for the first page", first_difference(newest, expected[::-1]))
    later = pages(c, path + "&sort=submitted_us")
    times = [t["submitted_us"] for t in later]
    check(times == sorted(times) and set(ids(later)[:400]) == set(expected) and len(later) == 480, "oldest first, with what came meanwhile", len(later))


def test_sorted_over_many_blocks(c):
    """More of them in each shard than a page of an unsorted list looks at; the nodes that logged them share a clock."""
    expected = write(c, "thin", 2400, 1)

    def between(number):
        if number == 1:
            flushed(c)

    for order in ("submitted_us", "-submitted_us", "-finished_us"):
        found = pages(c, f"{V1}/tasks?filter=name:thin&limit=700&sort={order}", between)
        keys = [t[order.lstrip("-")] for t in found]
        check(keys == sorted(keys, reverse=order[0] == "-"), f"by {order}: in order")
        check(len(found) == 2400 and set(ids(found)) == set(expected), f"by {order}: each once", len(found))
        check(all(t["state"] == "finished" for t in found), f"by {order}: their states")


def test_objects_and_timeline(c):
    tasks = write(c, "made", 12, 20)
    objects = pages(c, f"{V1}/objects?limit=1000")
    check(len(set(ids(objects))) == len(objects), "each object once", len(objects))
    made = [o["task"] for o in objects if o["task"] in set(tasks)]
    check(made == tasks[::-1], "newest first", first_difference(made, tasks[::-1]))
    check(ids(pages(c, f"{V1}/objects?limit=83")) == ids(objects), "pages of objects")
    flushed(c)
    cold = ids(pages(c, f"{V1}/objects?limit=1000"))
    check(sorted(cold) == sorted(ids(objects)), "the same objects when they were flushed", len(cold))
    check(ids(pages(c, f"{V1}/objects?limit=83")) == cold, "pages of objects that were flushed")
    trace = c.json("GET", f"{V1}/timeline?limit=100000", expect=200)
    seen = [e["args"]["task"] for e in trace["traceEvents"] if e.get("args", {}).get("task") in set(tasks)]
    check(sorted(seen) == sorted(tasks) and not trace["otherData"]["truncated"], "timeline", len(seen))


def test_children_in_both_stores(c):
    c.deploy("probe")
    parent = c.run("probe.broods", 300, 1, 0, retry_on_error=True, max_retries=2)
    path = f"{V1}/tasks?filter=parent:{parent['id']}"
    c.until("all have ended", lambda: len(pages(c, path + "%20AND%20finished_us:%3E0&limit=1000")) == 600)
    expected = [f"{attempt}-{i}" for attempt in (2, 1) for i in range(299, -1, -1)]
    for limit in (1000, 61):
        found = [t["name"] for t in pages(c, f"{path}&limit={limit}", lambda number: flushed(c) if number == 2 else None)]
        check(found == expected, f"of two generations, pages of {limit}", first_difference(found, expected))


def test_a_cursor_is_its_lists_own(c):
    write(c, "own", 4, 10)
    cursor = c.json("GET", f"{V1}/tasks?filter=name:own&limit=7", expect=200)["next_cursor"]
    check(c.call("GET", f"{V1}/tasks?filter=name:own&limit=9&cursor={cursor}")[0] == 200, "with another limit")
    for path in ("tasks?filter=name:other", "tasks?filter=name:own&sort=-submitted_us", "objects?limit=7"):
        check(c.call("GET", f"{V1}/{path}&cursor={cursor}")[0] == 400, "in another list", path)
    for changed in (cursor[:-1], cursor + "0", "0" + cursor[1:] if cursor[0] != "0" else "1" + cursor[1:], cursor * 3):
        check(c.call("GET", f"{V1}/tasks?filter=name:own&cursor={changed}")[0] == 400, "spoiled", changed)


def run(flushes, options):
    cluster = Cluster("--gcs-shards", "2", *options)
    cluster.flushes = flushes
    try:
        for name, test in globals().items():
            if name.startswith("test_") and (len(sys.argv) < 2 or any(word in name for word in sys.argv[1:])):
                before = len(failures)
                try:
                    test(cluster)
                except Exception as error:  # a broken answer must not hide the other tests
                    check(False, f"{name}: {type(error).__name__}: {error}")
                print("ok" if len(failures) == before else "not ok", name, "flushed" if flushes else "in memory", flush=True)
    finally:
        cluster.end()


if __name__ == "__main__":
    run(False, ())
    if shutil.which("postgres") or shutil.which("psql"):
        run(True, ("--postgres", "on", *TURN))
    else:
        print("there is no PostgreSQL here: lists of what was flushed are skipped")
    sys.exit(1 if failures else 0)
