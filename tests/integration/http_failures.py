"""`GET /tasks?filter=state:failed`: through the index of failures, from memory and from PostgreSQL alike.
ctest: timeout=280"""
import json
import shutil
import subprocess
import sys
import threading

from lib_http_cluster import BIN, check, main

V1 = "/api/v1"
FAILED = f"{V1}/tasks?filter=state:failed"


def status(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, "mobula gcs status", done.stderr)
    return json.loads(done.stdout)


def lies(c):
    """(something is in memory, something was flushed)"""
    figures = status(c)
    return figures["member"]["blocks"] > 0, int(figures["flush"]["flushed"]) > 0


def flushed(c):
    c.until("all is flushed", lambda: status(c)["member"]["blocks"] == 0, 60)


def submit(c, name, count, function="arith.divmod"):
    """Every fourth ends badly: the ids of those."""
    rows = [[i, i % 4] for i in range(count)]
    batch = c.json("POST", V1 + "/tasks:batch", {"function": function, "rows": rows, "options": {"name": name}}, expect=202)
    ids = [item["id"] for item in batch["items"]]
    first = [item["returns"][0] for item in batch["items"]]
    c.json("POST", V1 + "/objects:wait", {"ids": first, "num_returns": count, "timeout_ms": 60000}, expect=200)
    return ids[::4]


def pages(c, path, between=None):
    items, cursor = [], None
    for number in range(3000):
        page = c.json("GET", path + (f"&cursor={cursor}" if cursor else ""), expect=200)
        items += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            return items
        if between:
            between(number)
    check(False, f"{path} ends", len(items))
    return items


def check_list(items, ids, what):
    times = [t["finished_us"] for t in items]
    check(times == sorted(times, reverse=True), what + ": newest end first", times[:8])
    check(sorted(t["id"] for t in items) == sorted(ids), what + ": each once", len(items), len(ids))
    check(all(t["state"] == "failed" and t["code"] for t in items), what + ": states")


def test_failures_in_both_stores(c):
    c.deploy("arith")
    old = submit(c, "both", 400)
    flushed(c)

    def both():
        new = submit(c, "both", 120)
        before = lies(c)
        rows = pages(c, f"{FAILED}%20AND%20name:both&limit=17")
        old.extend(new)
        check_list(rows, old, "both")
        return before == (True, True) and lies(c)[0]

    c.until("a list of both", both, 60)  # the flusher may have been quicker
    hot = pages(c, f"{FAILED}%20AND%20name:both&limit=1000")
    flushed(c)
    cold = pages(c, f"{FAILED}%20AND%20name:both&limit=1000")
    check(hot == cold, "the same rows after the move", len(hot), len(cold))
    for limit in (1, 23, 100):
        check(pages(c, f"{FAILED}%20AND%20name:both&limit={limit}") == cold, f"pages of {limit}")


def test_a_cursor_is_stable_while_blocks_are_flushed(c):
    ids = submit(c, "moving", 800)

    def between(number):
        if number == 2:
            flushed(c)  # what is listed
        if number % 8 == 0:
            submit(c, "later", 40)  # newer ones do not come into a list that has begun

    check_list(pages(c, f"{FAILED}%20AND%20name:moving&limit=9", between), ids, "moving")


def test_pages_while_others_write(c):
    ids = submit(c, "kept", 600)
    stop = threading.Event()

    def write():
        for _ in range(15):  # every list reads past what is newer, so there is an end to it
            if not stop.is_set():
                submit(c, "noise", 200)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for limit in (7, 40):
            check_list(pages(c, f"{FAILED}%20AND%20name:kept&limit={limit}"), ids, f"beside a writer, {limit}")
    finally:
        stop.set()
        writer.join()


def test_what_the_filter_names(c):
    others = submit(c, "divided", 200)
    mine = submit(c, "ended", 240, "arith.divide")
    for place in ("memory", "PostgreSQL"):
        check_list(pages(c, f"{FAILED}%20AND%20function:arith.divide&limit=25"), mine, "by function, " + place)
        check(pages(c, f"{FAILED}%20AND%20function:arith.divide%20AND%20name:divided") == [], "no such, " + place)
        rows = pages(c, f"{FAILED}%20AND%20name:divided&limit=1000")
        check_list(rows, others, "by name, " + place)
        middle = rows[len(rows) // 2]["finished_us"]
        older, newer = "finished_us:%3C" + str(middle), "finished_us:%3E=" + str(middle)
        some = pages(c, f"{FAILED}%20AND%20name:divided%20AND%20{newer}&limit=10")
        rest = pages(c, f"{FAILED}%20AND%20name:divided%20AND%20{older}&limit=10")
        check(some + rest == rows and 0 < len(rest) < len(rows), "by time, " + place, len(some), len(rest))
        job = rows[0]["job"]
        check(pages(c, f"{FAILED}%20AND%20name:divided%20AND%20job:{job}&limit=1000") == rows, "by job, " + place)
        flushed(c)
    task = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2], "options": {"delay_ms": 600000}}, expect=202)["id"]
    check(c.call("POST", f"{V1}/tasks/{task}:cancel", {})[0] == 202, "cancel")
    cancelled = f"{V1}/tasks?filter=state:cancelled"
    c.until("cancelled is its own state", lambda: [t["id"] for t in pages(c, cancelled)] == [task])
    check(task not in {t["id"] for t in pages(c, FAILED + "&limit=1000")}, "and not failed")
    for cursor in ("f1", "f1.2.3", "1.2", "c1.2.3.4.5.6", "ff", "f1.2.3.4.5"):
        check(c.call("GET", FAILED + "&cursor=" + cursor)[0] == 400, "a cursor of something else: " + cursor)


if __name__ == "__main__":
    if not shutil.which("postgres") and not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--flush-hot-percent", "0", "--flush-delay-ms", "1500")
