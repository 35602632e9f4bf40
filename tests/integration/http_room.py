"""Puts, jobs and tasks that have to wait for room or for the node, over HTTP: nobody else waits with them.   ctest: timeout=240"""
import ctypes
import errno
import json
import os
import random
import signal
import subprocess
import tempfile
import threading

from lib_http_cluster import Cluster, check, main, ref

V1 = "/api/v1"
MIB = 1 << 20
BYTES = {"Content-Type": "application/octet-stream"}


def content(size, seed):
    return random.Random(seed).randbytes(size)


def put(c, size, seed):
    status, _, body = c.call("POST", V1 + "/objects", content(size, seed), BYTES)
    return status, json.loads(body)


def is_there(c, object_id, size, seed):
    status, _, body = c.call("GET", f"{V1}/objects/{object_id}/data")
    return check(status == 200 and body == content(size, seed), "its bytes", status, size, len(body))


def in_threads(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for t in threads:
        t.start()
    return threads


def served_beside(c, what, ask):
    """While the node stands still `ask` waits for it; what needs no node is answered before that."""
    node, answers = c.pid_of("mobula-node"), []
    os.kill(node, signal.SIGSTOP)
    try:
        threads = in_threads([lambda: answers.append(ask())])
        for _ in range(20):  # the engine takes requests in order, so soon this one is behind `ask`
            status, _, body = c.call("GET", V1 + "/endpoints")
            check(status == 200, f"{what}: others are served", status, body)
        check(not answers, f"{what}: it waits for the node", answers)
    finally:
        os.kill(node, signal.SIGCONT)
    for t in threads:
        t.join()
    return answers[0]


def test_who_needs_room_waits_alone(c):
    for i in range(3):  # most of the store
        status, answer = put(c, 15 * MIB, i)
        check(status == 201, "put", answer)
    status, answer = served_beside(c, "a large put", lambda: put(c, 25 * MIB, "large"))
    if check(status == 201, "put when there was room", answer):
        is_there(c, answer["id"], 25 * MIB, "large")


def test_who_opens_a_job_waits_alone(c):
    job = served_beside(c, "a job", lambda: c.json("POST", V1 + "/jobs", {"name": "patient"}, expect=201))
    c.deploy("arith")
    task = {"function": "arith.add", "arguments": [20, 22], "job": job["id"]}
    check(c.json("POST", V1 + "/tasks", task, {"Prefer": "wait=20"}, expect=200)["result"] == 42, "it takes tasks")


def test_many_large_puts_beside_quick_tasks(c):
    """Together three times the store: each gets its turn, and tasks go on."""
    c.deploy("arith")
    puts, quick, over = [], [], threading.Event()

    def tasks():
        while not over.is_set():
            quick.append(c.run("arith.add", len(quick), 1).get("result") == len(quick) + 1)

    one = lambda i: lambda: puts.append((i, *put(c, (10 + i) * MIB, i)))
    others = in_threads([tasks])
    for t in in_threads([one(i) for i in range(8)]):
        t.join()
    over.set()
    others[0].join()
    check([p[1] for p in puts] == 8 * [201], "all were put", [p[1:] for p in puts if p[1] != 201])
    check(quick and all(quick), "tasks ran", len(quick))
    for i, status, answer in puts:
        if status == 201:
            is_there(c, answer["id"], (10 + i) * MIB, i)


def test_large_arguments_find_room(c):
    c.deploy("probe")
    rows = [["x" * (900 << 10) + str(i)] for i in range(12)]
    results = []
    submit = lambda i: lambda: results.append((i, c.json("POST", V1 + "/tasks", {"function": "probe.echo_utf8", "arguments": rows[i]}, expect=202)))
    threads = in_threads([submit(i) for i in range(12)] * 2)
    for t in threads:
        t.join()
    for i, task in results:
        status, _, body = c.call("GET", f"{V1}/objects/{task['returns'][0]}?wait=30")
        check(status == 200 and json.loads(body)["state"] == "ready", "done", body[:200])
        check(c.call("GET", f"{V1}/objects/{task['returns'][0]}/data")[2].decode() == rows[i][0], "the argument")
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "probe.echo_utf8", "rows": rows[:1]}, expect=202)
    for i, item in enumerate(batch["items"]):
        c.value(item["returns"][0])
        check(c.call("GET", f"{V1}/objects/{item['returns'][0]}/data")[2].decode() == rows[i][0], "the row")


def test_a_node_that_dies_while_values_are_put(c):
    """What was answered with 201 is there."""
    puts = []
    one = lambda i: lambda: puts.append((i, *put(c, (3 + i) * MIB, i)))
    threads = in_threads([one(i) for i in range(10)])
    c.until("some are put", lambda: puts)
    c.kill("mobula-node")
    for t in threads:
        t.join()
    c.until("the next node is there", lambda: c.call("GET", "/readyz", key=False)[0] == 200)
    check(all(status in (201, 500, 503) for _, status, _ in puts), "answers", [(p[1], p[2].get("code")) for p in puts])
    check(len(puts) == 10, "each has an answer", len(puts))
    for i, status, answer in puts:
        if status == 201:
            c.value(answer["id"])
            is_there(c, answer["id"], (3 + i) * MIB, i)


def redis_of(c):
    """Its command line does not say whose it is."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
                is_redis = file.read().startswith("redis")
            if is_redis and os.readlink(f"/proc/{pid}/cwd").startswith(c.directory + "/"):
                return int(pid)
        except OSError:
            continue
    return None


def test_who_takes_no_writes_is_not_ready(c):
    """A store that cannot write to its disk says nothing: what it is given waits."""
    check(c.call("GET", "/readyz")[0] == 200, "ready")
    redis, answers = redis_of(c), []
    os.kill(redis, signal.SIGSTOP)
    try:
        threads = in_threads([lambda: answers.append(put(c, 10, "late"))])
        c.until("it is told", lambda: c.call("GET", "/readyz")[0] == 503)
        problem = c.json("GET", "/readyz", expect=503)
        check("acknowledgement from the control store" in problem["detail"] and problem["retryable"], "with the reason", problem)
        check(c.call("GET", "/livez")[0] == 200 and not answers, "it lives, and the put waits", answers)
    finally:
        os.kill(redis, signal.SIGCONT)
    for t in threads:
        t.join()
    check(answers[0][0] == 201, "the put", answers)
    check(c.call("GET", "/readyz")[0] == 200, "ready again")


def own_mounts():
    """What is mounted from here on is this process' and its children's. False: that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, recursive, private = 0x20000, 16384, 1 << 18
    return libc.unshare(new_namespace) == 0 and libc.mount(b"none", b"/", None, recursive | private, None) == 0


def test_a_full_disk_of_the_control_store_is_not_ready(c):
    """The tail says it, before a write has waited for long, and to who writes nothing."""
    if not own_mounts():
        print("no mounts of its own here: skipped")
        return
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", place], check=True)
        before, tempfile.tempdir = tempfile.gettempdir(), place
        try:
            full_disk(Cluster("--gcs-durability", "always"))
        finally:
            tempfile.tempdir = before
            subprocess.run(["umount", "-l", place], check=True)


def full_disk(c):
    answers, filler = [], c.directory + "/filler"
    try:
        check(c.call("GET", "/readyz")[0] == 200, "ready")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * (1 << 20)) == 1 << 20:
                    pass
                while file.write(b"x"):
                    pass
            except OSError as error:
                check(error.errno == errno.ENOSPC, "the disk is full", error)
        # More than fits into the last page of its file.
        threads = in_threads([lambda i=i: answers.append(put(c, 900, i)) for i in range(12)])
        problem = c.until("it is told", lambda: (p := c.call("GET", "/readyz", key=False))[0] == 503 and json.loads(p[2]))
        check("the control store takes no writes (shard 0): its Redis" in problem["detail"] and "disk" in problem["detail"], "with the reason", problem)
        check(problem["code"] == "unavailable" and problem["retryable"], "for now", problem)
        check(c.call("GET", "/livez", key=False)[0] == 200, "it lives")
        os.unlink(filler)
        for t in threads:
            t.join()
        check([a[0] for a in answers] == [201] * 12, "the puts", answers)
        c.until("ready again", lambda: c.call("GET", "/readyz", key=False)[0] == 200)
    finally:
        if os.path.exists(filler):
            os.unlink(filler)
        c.end()


if __name__ == "__main__":
    main(dict(globals()), "--segment-bytes", "64MiB")
