"""Flushing under a chain of two whose members are killed in turn: everything is read back, whoever is the tail.   ctest: timeout=280"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from lib_http_cluster import BIN, check, ids_of, main

V1 = "/api/v1"


def status(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else None


def all_flushed(c):
    figures = status(c)
    return figures and figures["member"]["blocks"] == 0


def kill_member(c, name):
    with open(c.directory + "/supervisor.json", encoding="utf-8") as file:
        os.kill(next(p["pid"] for p in json.load(file)["processes"] if p["name"] == name), signal.SIGKILL)
    c.until("two members", lambda: all(p["state"] == "ready" for p in processes(c)), 60)


def processes(c):
    done = subprocess.run([BIN + "/mobula", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)["processes"]


def members(c, figure):
    """Of each member what /metrics says of it: {(place, role): value}."""
    lines = c.call("GET", "/metrics")[2].decode().splitlines()
    found = [re.fullmatch(r'mobula_gcs_member_' + figure + r'{shard="0",member="(.*)",role="(.*)"} (\S+)', line) for line in lines]
    return {(one[1], one[2]): float(one[3]) for one in found if one}


def roles(c):
    return sorted(role for (_, role), is_up in members(c, "up").items() if is_up)


def test_metrics_tell_of_each_member(c):
    c.until("two members", lambda: roles(c) == ["head", "tail"], 60)
    c.deploy("arith")
    up, applied, lag = members(c, "up"), members(c, "applied_position"), members(c, "lag")
    check({place for place, _ in up} == {"gcs.sock", "gcs-1.sock"} and min(applied.values()) > 0, "both", up, applied)
    check(min(lag.values()) == 0 and all(max(applied.values()) - applied[one] >= 0 for one in lag), "how far they are", applied, lag)
    realtime = next(iter(members(c, "realtime").values()))
    lease, suspicion = ((90.0, 100.0), (10.0, 12.0))[int(realtime)]
    for name, value in (("realtime", realtime), ("lease_milliseconds", lease), ("suspicion_milliseconds", suspicion)):
        told = members(c, name)
        check(set(told) == set(up) and set(told.values()) == {value}, "how they send heartbeats", name, told)
    pids = {p["name"]: p["pid"] for p in processes(c)}
    with open(c.directory + "/supervisor.pid", encoding="ascii") as file:
        hung = [pids["gcs-1"], pids["master"], int(file.read().split()[0])]  # nobody may end it meanwhile
    for pid in reversed(hung):
        os.kill(pid, signal.SIGSTOP)
    try:
        up, epochs = members(c, "up"), members(c, "epoch")
        check(up.get(("gcs-1.sock", "unknown")) == 0 and sum(up.values()) == 1, "the one that hangs", up)
        check([place for place, _ in epochs] == ["gcs.sock"], "has no figures", epochs)
    finally:
        for pid in hung:
            os.kill(pid, signal.SIGCONT)
    c.until("two members", lambda: roles(c) == ["head", "tail"], 60)


def counted(c):
    """What goes through the chain is counted by the member that tells the figures, the tail, since it started."""
    c.json("POST", V1 + "/tasks", {"function": "arith.divmod", "arguments": [7, 2]}, headers={"Prefer": "wait=20"})
    figures = dict(line.split() for line in c.call("GET", "/metrics")[2].decode().splitlines() if line.startswith("mobula_gcs_") and "{shard=" in line)
    return all(int(figures.get(f'mobula_gcs_{name}_total{{shard="0"}}', 0)) > 0 for name in ("appends", "append_bytes", "puts"))


def test_what_goes_through_is_counted(c):
    c.deploy("arith")
    c.until("counted", lambda: counted(c), 30)


def test_members_are_killed_in_turn(c):
    c.deploy("arith")
    c.until("the flusher", lambda: os.path.exists(c.directory + "/flush.ready"), 60)
    expected = []
    for round_number, victim in enumerate(["gcs", "gcs-1", "gcs-1", "gcs"]):
        batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": [[i, i % 3] for i in range(300)], "options": {"name": "turn"}}, expect=202)
        expected += [item["id"] for item in batch["items"]]
        c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": 300, "timeout_ms": 60000}, expect=200)
        kill_member(c, victim)
        c.until("all is flushed", lambda: all_flushed(c), 60)
        found = ids_of(c, "turn")
        check(sorted(found) == sorted(expected), "each task once", round_number, len(found), len(set(found)), len(expected))
        record = c.json("GET", f"{V1}/tasks/{expected[7]}", expect=200)
        check(record.get("arguments") == [7, 1], "a record", record)
    c.until("the whole chain in the metrics", lambda: roles(c) == ["head", "tail"], 60)  # the last one killed has joined again
    verify = subprocess.run([BIN + "/mobula", "gcs", "verify", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(verify.returncode == 0, "verify", verify.stdout, verify.stderr)


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--flush-hot-percent", "0", "--flush-delay-ms", "100")
