"""What was acknowledged and is in no log any more reads as `lost`, not as what never was.   ctest: timeout=300

Everything is killed, and the end of Redis' file is cut off, as if it had never reached the disk: the control store starts again from less
than was acknowledged, and names the loss. Before that an unknown id is 404.
"""
import glob
import json
import os
import signal
import subprocess

from lib_http_cluster import BIN, check, main, ref, with_slot

V1 = "/api/v1"
OCTETS = {"Content-Type": "application/octet-stream"}
NO_TASK, NO_ACTOR, NO_OBJECT, NO_PUT = "task_" + "a" * 26, "actor_" + "a" * 26, "obj_" + "a" * 32, "obj_" + "a" * 30 + "ea"
SEEN = "mobula gcs status"


# ---- the box ----

def parents():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] not in "ZX":
            found[int(pid)] = int(words[1])
    return found


def kill_everything(c):
    with open(c.directory + "/supervisor.pid", encoding="ascii") as file:
        pids = [int(file.read().split()[0])]
    of = parents()
    for one in pids:
        pids += [pid for pid, parent in of.items() if parent == one]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    c.until("all are gone", lambda: not set(pids) & set(parents()))


def files_of_redis(c):
    """The newest of each member's, and its size."""
    newest = (max(glob.glob(folder + "/*.incr.aof"), key=os.path.getmtime) for folder in glob.glob(c.directory + "/gcs*/appendonlydir"))
    return {file: os.path.getsize(file) for file in newest}


def named_losses(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60, check=True)
    return [one for shard in done.stdout.splitlines() for one in json.loads(shard)["named_losses"]]


def starts_again(c):
    c.up()
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200)


# ---- what an id reads as ----

def problem(c, method, path, status, code, body=None):
    got, head, data = c.call(method, V1 + path, body)
    document = json.loads(data)
    check(got == status and document.get("code") == code, f"{method} {path}: {status} {code}", got, document)
    check(head["content-type"] == "application/problem+json", f"{method} {path}: a problem", head)
    check(not document.get("retryable"), f"{method} {path}: asking again does not help", document)
    if code == "lost":
        check(SEEN in document["detail"] and "T" in document["detail"], f"{method} {path}: says what and when", document)
    else:
        check(SEEN not in document.get("detail", ""), f"{method} {path}: speaks of no loss", document)
    return document


def of_task(c, task, status, code):
    for method, what in (("GET", ""), ("GET", "/why"), ("GET", "/logs"), ("GET", "/items"), ("POST", ":cancel")):
        problem(c, method, f"/tasks/{task}{what}", status, code, {} if method == "POST" else None)


def of_actor(c, actor, status, code):
    for method, what in (("GET", ""), ("GET", "/logs"), ("DELETE", ""), ("POST", "/methods/add")):
        problem(c, method, f"/actors/{actor}{what}", status, code, {"arguments": [1]} if method == "POST" else None)


def never_was(c):
    of_task(c, NO_TASK, 404, "not-found")
    of_actor(c, NO_ACTOR, 404, "not-found")
    for name in (NO_OBJECT, NO_PUT):
        for method, what in (("GET", ""), ("GET", "?wait=5"), ("GET", "/data"), ("GET", "/lineage"), ("DELETE", "")):
            problem(c, method, f"/objects/{name}{what}", 404, "not-found")
        problem(c, "POST", "/objects:wait", 404, "not-found", {"ids": [name], "timeout_ms": 5000})
        check(depends_on(c, name).get("error", {}).get("code") == "dependency-failed", "a task that depends on it")
    malformed(c)


def malformed(c):
    problem(c, "GET", "/tasks/task_short", 404, "not-found")
    problem(c, "GET", "/objects/obj_short", 404, "not-found")
    problem(c, "POST", "/objects:wait", 422, "invalid-argument", {"ids": ["obj_short"]})


def depends_on(c, name):
    """The record of a task that has it as its argument, and has ended."""
    _, _, data = c.call("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [ref(name), 1]}, {"Prefer": "wait=30"})
    said = json.loads(data)
    task = said.get("id") or said.get("cause", {}).get("task_id") or said["instance"].split("/")[-1]
    return c.json("GET", f"{V1}/tasks/{task}", expect=200)


def is_lost(c, name):
    for query in ("", "?wait=5"):
        said = c.json("GET", f"{V1}/objects/{name}{query}", expect=200)
        check(said["state"] == "lost" and said["error"]["code"] == "lost" and SEEN in said["error"]["message"], "its state is lost", said)
    for method, what in (("GET", "/data"), ("GET", "/data?wait=5"), ("GET", "/lineage"), ("DELETE", "")):
        problem(c, method, f"/objects/{name}{what}", 410, "lost")
    said = c.json("POST", V1 + "/objects:wait", {"ids": [name], "timeout_ms": 30000}, expect=200)
    check(said == {"ready": [name], "pending": []}, "who waits for it waits no longer", said)
    record = depends_on(c, name)
    error = record.get("error", {})
    check(record["state"] == "failed" and error.get("code") == "dependency-failed", "who depends on it fails", record)
    cause = error.get("cause") or {}
    check(cause.get("code") == "lost" and SEEN in cause.get("message", ""), "and says why", record)


# ---- tests, in this order ----

MADE = {}


def acknowledged(c, word):
    ended = c.run("arith.add", 1, 2)
    put = c.json("POST", V1 + "/objects", word.encode(), OCTETS, expect=201)
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [1]}, {"Prefer": "wait=30"})
    return {"task": ended["id"], "object": ended["returns"][0], "put": put["id"], "actor": actor["id"]}


def with_key(c):
    return c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [40, 2]}, {"Prefer": "wait=30", "Idempotency-Key": "once"}, expect=200)


def test_1_before_any_loss_an_unknown_id_never_was(c):
    for name in ("arith", "quickstart"):
        c.deploy(name)
    MADE["kept"] = acknowledged(c, "kept")
    check(named_losses(c) == [], "nothing is lost")
    never_was(c)


def test_2_what_was_acknowledged_and_lost_reads_as_lost(c):
    kept = files_of_redis(c)
    lost = acknowledged(c, "lost")
    keyed = with_key(c)
    check(c.value(lost["object"]).get("value") == 3, "it was there")
    kill_everything(c)
    for file, size in kept.items():
        check(os.path.getsize(file) > size, "there is something to cut off", file)
        os.truncate(file, size)
    starts_again(c)
    check([one for one in named_losses(c) if one["kind"] == "log"], "a log is named", named_losses(c))
    kept = MADE["kept"]
    check(c.json("GET", f"{V1}/tasks/{kept['task']}", expect=200).get("state") == "finished", "what is in the log is as it was")
    check(c.value(kept["object"]).get("value") == 3, "its value too")
    check(c.call("GET", f"{V1}/objects/{kept['put']}/data")[2] == b"kept", "a put too")
    of_task(c, lost["task"], 410, "lost")
    of_actor(c, lost["actor"], 410, "lost")
    is_lost(c, lost["object"])
    is_lost(c, lost["put"])
    malformed(c)
    is_lost(c, keyed["returns"][0])
    check(with_key(c)["id"] == keyed["id"], "sent again with its key it has the same id")
    check(c.value(keyed["returns"][0]).get("value") == 42, "and is there")


def test_3_what_the_log_rules_out_never_was(c):
    """Its task is known, and gave one value."""
    problem(c, "GET", f"/objects/{with_slot(MADE['kept']['object'], 9)}", 404, "not-found")


if __name__ == "__main__":
    main(globals())
