"""Over HTTP nobody sees where lineage lies: records, lists, lineage and timeline, hot, flushed to PostgreSQL, and across the move.
ctest: timeout=280"""
import json
import os
import shutil
import signal
import subprocess
import sys

from lib_http_cluster import BIN, check, main, ref

V1 = "/api/v1"


def gcs(c, *words, code=0):
    done = subprocess.run([BIN + "/mobula", "gcs", *words, "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(done.returncode == code, f"mobula gcs {words}", done.returncode, done.stdout, done.stderr)
    return done.stdout


def status(c):
    return json.loads(gcs(c, "status", "-o", "json"))


def flushed(c):
    """Everything that was logged so far is in PostgreSQL, and not in the member."""
    c.until("all is flushed", lambda: status(c)["member"]["blocks"] == 0, 60)


def pages(c, path, first=None):
    items, cursor = [], None
    if first:
        items, cursor = list(first["items"]), first["next_cursor"]
        if not cursor:
            return items
    for _ in range(3000):
        page = c.json("GET", path + (f"&cursor={cursor}" if cursor else ""), expect=200)
        items += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            return items
    check(False, f"{path} ends", len(items))
    return items


def submit(c, name, rows):
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": rows, "options": {"name": name}}, expect=202)
    c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": len(rows), "timeout_ms": 60000}, expect=200)
    return [item["id"] for item in batch["items"]], [item["returns"] for item in batch["items"]]


def test_records_and_lists_of_what_was_flushed(c):
    c.deploy("arith")
    ids, returns = submit(c, "moved", [[i, i % 3] for i in range(900)])
    flushed(c)
    whole = c.json("GET", f"{V1}/tasks?filter=name:moved&limit=1000", expect=200)
    check({t["id"] for t in whole["items"]} == set(ids) and len(whole["items"]) == 900, "all of them once", len(whole["items"]))
    check(sum(t["state"] == "failed" for t in whole["items"]) == 300, "their states")
    for limit in (97, 256, 899):
        some = pages(c, f"{V1}/tasks?filter=name:moved&limit={limit}")
        check(some == whole["items"], f"pages of {limit}", len(some))
    failed = pages(c, f"{V1}/tasks?filter=name:moved%20AND%20state:failed&limit=41")
    by_end = sorted((t for t in whole["items"] if t["state"] == "failed"), key=lambda t: -t["finished_us"])
    check([t["finished_us"] for t in failed] == [t["finished_us"] for t in by_end], "failed ones, newest end first", len(failed))
    check({t["id"] for t in failed} == {t["id"] for t in by_end} and len(failed) == 300, "each once", len(failed))
    objects = pages(c, f"{V1}/objects?limit=300")
    made = {o for i, pair in enumerate(returns) for o in (pair if i % 3 else pair[:1])}
    every = [o["id"] for o in objects]
    check(made <= set(every) and len(set(every)) == len(every), "objects", len(every), len(set(every)))
    check(pages(c, f"{V1}/objects?limit=77") == objects, "pages of objects")
    for i in range(0, 900, 111):
        record = c.json("GET", f"{V1}/tasks/{ids[i]}", expect=200)
        check(record["state"] == ("failed" if i % 3 == 0 else "finished") and record["arguments"] == [i, i % 3], "record", record)
    check(c.value(returns[100][0])["value"] == 100, "a value")
    check(int(status(c)["flush"]["reads"]) > 0, "it was read from there")


def test_a_list_goes_on_across_the_move(c):
    for round_number in range(4):
        name = f"across{round_number}"
        ids, _ = submit(c, name, [[i, 1] for i in range(600)])
        path = f"{V1}/tasks?filter=name:{name}&limit=61"
        first = c.json("GET", path, expect=200)
        second = c.json("GET", path + f"&cursor={first['next_cursor']}", expect=200)
        flushed(c)
        rest = pages(c, path, second)
        check(sorted(t["id"] for t in first["items"] + rest) == sorted(ids), "each once", round_number, len(first["items"]), len(rest))


def test_lineage_and_timeline(c):
    a = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]}, expect=202)
    b = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [ref(a["returns"][0]), 4]}, expect=202)
    check(c.value(b["returns"][0])["value"] == 7, "the sum")
    hot = c.json("GET", f"{V1}/objects/{b['returns'][0]}/lineage", expect=200)
    flushed(c)
    cold = c.json("GET", f"{V1}/objects/{b['returns'][0]}/lineage", expect=200)
    check(cold == hot, "the same lineage", hot, cold)
    trace = c.json("GET", f"{V1}/timeline?limit=100000", expect=200)
    tasks = [e["args"]["task"] for e in trace["traceEvents"] if "task" in e.get("args", {})]
    check(tasks.count(a["id"]) == 1 and tasks.count(b["id"]) == 1, "timeline", len(tasks))


def test_tools(c):
    task = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [20, 22]}, {"Prefer": "wait=30"}, expect=200)
    flushed(c)
    for of in (task["id"], task["returns"][0]["id"] if isinstance(task["returns"][0], dict) else task["returns"][0]):
        lines = [json.loads(line) for line in gcs(c, "dump", of).splitlines()]
        check([line["from"] for line in lines] == ["postgres"] * len(lines), "from", lines)
        if of == task["id"]:
            check([line["entry"] for line in lines] == ["spec", "completion"], "entries", lines)
    gcs(c, "dump", "task_" + "a" * 26, code=3)
    gcs(c, "dump", "nonsense", code=2)
    checks = [json.loads(line) for line in gcs(c, "verify", "-o", "json").splitlines()]
    check(len(checks) == 5 and all(line["ok"] for line in checks), "verify", checks)
    figures = status(c)
    check(figures["postgres"]["watermark"] == figures["flush"]["flushed"], "watermark", figures)


def metrics(c):
    code, _, text = c.call("GET", "/metrics")
    check(code == 200, "metrics", code)
    return dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))


def test_metrics_say_what_status_says(c):
    c.deploy("arith")
    submit(c, "counted", [[i, 1] for i in range(50)])
    flushed(c)

    before, told, after = status(c), metrics(c), status(c)
    check(told['mobula_gcs_up{shard="0"}'] == "1", "up")
    for name, part, figure in (  # these grow, also by being asked for
        ("epoch", "member", "epoch"), ("applied_position", "member", "applied"), ("committed_position", "member", "committed"),
        ("durable_position", "member", "durable"), ("flushed_position", "flush", "flushed"),
    ):
        value = int(told[f'mobula_gcs_{name}{{shard="0"}}'])
        check(0 < int(before[part][figure]) <= value <= int(after[part][figure]), name, before[part][figure], value, after[part][figure])
    for name, figure in (("memory_soft_bytes", "soft_bytes"), ("memory_hard_bytes", "hard_bytes"), ("incarnations", "incarnations")):
        check(told[f'mobula_gcs_{name}{{shard="0"}}'] == str(before["member"][figure]), name, told)
    check(told['mobula_gcs_cold_readers{shard="0"}'] == "1", "the flusher reads", told)
    check(int(told["mobula_http_connections_total"]) > 0 and told["mobula_http_connections_refused_total"] == "0", "connections", told)
    pid = c.pid_of("mobula-gcs")
    os.kill(pid, signal.SIGSTOP)
    try:
        told = metrics(c)
        check(told.get("mobula_gcs_up") == "0" and "mobula_http_connections" in told, "without the control store", sorted(told)[:5])
    finally:
        os.kill(pid, signal.SIGCONT)
    c.until("up again", lambda: metrics(c).get('mobula_gcs_up{shard="0"}') == "1", 30)


def test_a_restart_finds_it(c):
    ids, returns = submit(c, "kept", [[i, 2] for i in range(200)])
    flushed(c)
    c.down()
    c.up()
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200)
    kept = pages(c, f"{V1}/tasks?filter=name:kept&limit=33")
    check(sorted(t["id"] for t in kept) == sorted(ids), "after a restart", len(kept))
    check(c.value(returns[150][0])["value"] == 75, "a value")
    check(c.run("arith.add", 1, 2).get("result") == 3, "and it runs")


if __name__ == "__main__":
    if not shutil.which("postgres") and not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--flush-hot-percent", "0", "--flush-delay-ms", "100")
