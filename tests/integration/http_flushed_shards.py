"""Two shards with two members each and a flusher each: what left memory is read back, over the end of one shard's member.   ctest: timeout=280"""
import json
import os
import shutil
import signal
import subprocess
import sys

from lib_http_cluster import BIN, check, ids_of, main

V1 = "/api/v1"


def mobula(c, *arguments):
    return subprocess.run([BIN + "/mobula", *arguments, "--dir", c.directory], capture_output=True, text=True, timeout=120)


def processes(c):
    return {p["name"]: p for p in json.loads(mobula(c, "status", "-o", "json").stdout)["processes"]}


def all_flushed(c):
    done = mobula(c, "gcs", "status", "-o", "json")
    shards = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode == 0 and len(shards) == 2 and all(s["member"]["blocks"] == 0 for s in shards)


def test_each_shard_has_its_master_and_flusher(c):
    names = list(processes(c))
    check(names[:3] == ["postgres", "flush", "flush-s1"] and {"master", "master-s1"} <= set(names), "processes", names)
    c.until("the flushers", lambda: all(os.path.exists(f"{c.directory}/flush{s}.ready") for s in ("", "-s1")), 60)


def test_what_was_flushed_is_read_back(c):
    c.deploy("arith")
    expected = []
    for victim in ("gcs-1", None):  # the tail of the shard that has the log
        rows = [[i, i % 3] for i in range(300)]
        batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": rows, "options": {"name": "turn"}}, expect=202)
        expected += [item["id"] for item in batch["items"]]
        c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": 300, "timeout_ms": 60000}, expect=200)
        if victim:
            before = processes(c)[victim]
            os.kill(before["pid"], signal.SIGKILL)
            c.until("two members", lambda: whole(c, victim, before), 60)
        c.until("all is flushed", lambda: all_flushed(c), 60)
        found = ids_of(c, "turn")
        check(sorted(found) == sorted(expected), "each task once", len(found), len(set(found)), len(expected))
    check(c.json("GET", f"{V1}/tasks/{expected[7]}", expect=200).get("arguments") == [7, 1], "a record")
    verify = mobula(c, "gcs", "verify")
    check(verify.returncode == 0 and "shard 1: " in verify.stdout, "verify", verify.stdout, verify.stderr)
    c.down()
    c.up()
    check(sorted(ids_of(c, "turn")) == sorted(expected), "after a restart")


def whole(c, name, before):
    now = processes(c)
    return now[name]["restarts"] > before["restarts"] and all(p["state"] == "ready" for p in now.values())


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--gcs-shards", "2", "--flush-hot-percent", "0", "--flush-delay-ms", "100")
