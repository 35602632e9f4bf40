"""Over HTTP nobody sees where lineage lies: records, lists, lineage and timeline, hot, flushed to PostgreSQL, and across the move.
ctest: timeout=280 long"""
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from http_gateways import Gateway
from lib_http_cluster import BIN, at_once, check, main, ref, signal_postgres

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


def test_children_before_and_after_the_move(c):
    c.deploy("probe")
    parent = c.run("probe.broods", 300, 1, 0, retry_on_error=True, max_retries=2)
    path = f"{V1}/tasks?filter=parent:{parent['id']}"
    c.until("all have ended", lambda: len(pages(c, path + "%20AND%20finished_us:%3E0&limit=1000")) == 600)
    first = c.json("GET", path + "&limit=70", expect=200)
    flushed(c)
    cold = pages(c, path + "&limit=1000")
    check([t["name"] for t in cold] == [f"{attempt}-{i}" for attempt in (2, 1) for i in range(299, -1, -1)], "newest first", len(cold))
    check(pages(c, path + "&limit=70", first) == cold, "from a cursor before the move")
    check(pages(c, path + "%20AND%20state:failed&limit=33") == [t for t in cold if t["state"] == "failed"], "by state")


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


# ---- events ----


def events(c, after, query, limit=1000, until=None, seconds=60):
    """From a position on, until `until` says that all are there: the events, and the last answer's position."""
    found, deadline = [], time.monotonic() + seconds
    while time.monotonic() < deadline:
        page = c.json("GET", f"{V1}/events?after={after}&limit={limit}&wait=1{query}", expect=200)
        check(not page.get("gap"), "no gap", query, page.get("gap"))
        check(len(page["events"]) <= limit, "limit", len(page["events"]))
        after = page["position"]
        found += page["events"]
        if until(found):
            return found, after
    check(False, "the events came", query, len(found), found[-2:])
    return found, after


def streamed(c, after, query, count):
    """The same as server-sent events."""
    connection, found = c.connect(), []
    connection.request("GET", f"{V1}/events?{query[1:]}", headers={"Authorization": "Bearer " + c.token, "Accept": "text/event-stream", "Last-Event-ID": after})
    response, kind = connection.getresponse(), ""
    while len(found) < count:
        line = response.readline().decode().rstrip("\n")
        kind = line[7:] if line.startswith("event: ") else kind
        check(kind != "gap", "no gap", line)
        if line.startswith("data: ") and kind != "bookmark":
            found.append(json.loads(line[6:]))
    connection.close()
    return found


def forget(c):
    """The gateway has recent events in memory; a new one has none."""
    c.kill("mobula-gateway")
    c.until("the gateway is back", lambda: ready(c))


def place(event):
    """In the log of the one shard."""
    text = event["position"].upper()
    return base64.b32decode(text + "=" * (-len(text) % 8))


def of_tasks(found):
    return [e for e in found if e["type"].startswith("task.")]


def test_who_follows_a_gateway_that_stood_still_misses_nothing(c):
    """Blocks left the member before this gateway had read them: who follows it is given them from PostgreSQL, also who asks again only then."""
    c.deploy("probe")
    second, streams = Gateway(c), {}
    begin = second.json("GET", f"{V1}/events", expect=200)["position"]
    job = c.json("POST", V1 + "/jobs", {"name": "still"}, expect=201)["id"]
    count = 6000

    def follow():
        streams["events"] = streamed(second, begin, f"&job={job}", 2 * count)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    events(second, begin, f"&job={job}", until=lambda found: True)  # it listens to the member
    os.kill(second.process.pid, signal.SIGSTOP)
    ids = []
    for _ in range(count // 500):
        rows = [[os.urandom(700).hex()] for _ in range(500)]
        batch = c.json("POST", V1 + "/tasks:batch", {"function": "probe.echo_utf8", "rows": rows, "job": job}, expect=202)
        ids += [item["id"] for item in batch["items"]]
        c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": 500, "timeout_ms": 60000}, expect=200)
    flushed(c)
    os.kill(second.process.pid, signal.SIGCONT)
    wanted = sorted(2 * ids)
    time.sleep(1)  # nobody asks while the gateway hears what it missed
    found, _ = events(second, begin, f"&job={job}", until=lambda found: len(of_tasks(found)) >= 2 * count)
    check(sorted(e["subject"] for e in of_tasks(found)) == wanted, "each once", len(found))
    follower.join(60)
    check(sorted(e["subject"] for e in of_tasks(streams["events"])) == wanted, "each once, as a stream", len(streams["events"]))
    second.end()


def test_events_of_what_was_flushed(c):
    c.deploy("arith")
    c.deploy("quickstart")
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    job = c.json("POST", V1 + "/jobs", {"name": "told"}, expect=201)["id"]
    rows = [[i, i % 3] for i in range(700)]
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": rows, "job": job, "options": {"max_retries": 0}}, expect=202)
    ids = [item["id"] for item in batch["items"]]
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [0]}, {"Prefer": "wait=20"}, expect=201)["id"]
    calls = [c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, {"Prefer": "wait=20"}, expect=200)["id"] for _ in range(3)]
    all_called = lambda found: len(of_tasks(found)) >= 8
    hot_calls, _ = events(c, begin, f"&actor={actor}", until=all_called)
    places = [(e["subject"], e["data"]["incarnation"], e["data"]["position"]) for e in hot_calls if e["type"] == "task.finished" and e["subject"] in calls]
    first = places[0][2] if places else 0
    check(places == [(call, 1, first + i) for i, call in enumerate(calls)], "calls have their place", hot_calls)
    all_there = lambda found: len(of_tasks(found)) >= 1400
    hot, end = events(c, begin, f"&job={job}", until=all_there)
    check(sorted(e["subject"] for e in hot if e["type"] == "task.submitted") == sorted(ids), "submitted", len(hot))
    check(sum(e["type"] == "task.failed" for e in hot) == 234, "failed")
    flushed(c)
    forget(c)
    for query in (f"&job={job}", "&function=arith.divmod"):
        whole = hot if query.startswith("&job") else of_tasks(hot)
        cold, _ = events(c, begin, query, until=all_there)
        check([e for e in cold if e["type"] != "job"] == [e for e in whole if e["type"] != "job"], "as they were", query, len(cold), len(whole))
        for limit, at in ((61, 5), (256, 333), (1000, 1204)):  # from the middle of a block on
            wanted = whole[at + 1:]
            part, _ = events(c, whole[at]["position"], query, limit, lambda found: len(found) >= len(wanted))
            check([e["position"] for e in part] == [e["position"] for e in wanted], "goes on", query, at, len(part), len(wanted))
        check(streamed(c, whole[0]["position"], query, len(whole) - 1)[:-1] == whole[1:-1], "as a stream", query)
    cold_calls, _ = events(c, begin, f"&actor={actor}", until=all_called)
    check(of_tasks(cold_calls) == of_tasks(hot_calls), "calls, too", cold_calls, hot_calls)
    check(of_tasks(streamed(c, begin, f"&actor={actor}", len(hot_calls))) == of_tasks(hot_calls), "calls as a stream")
    oldest, _ = events(c, "earliest", f"&job={job}", until=all_there)
    check(of_tasks(oldest) == of_tasks(hot), "from the oldest on", len(oldest))
    check(streamed(c, "earliest", f"&job={job}", 20)[-5:] == oldest[15:20], "from the oldest on, as a stream")
    one, _ = events(c, begin, f"&task={ids[350]}", until=lambda found: len(found) >= 2)
    check([e["type"] for e in one] == ["task.submitted", "task.finished"], "of one task", one)
    failed, _ = events(c, begin, f"&job={job}&topics=task.failed", until=lambda found: len(found) >= 234)
    check(failed == [e for e in hot if e["type"] == "task.failed"], "by topic", len(failed))
    again = c.json("GET", f"{V1}/events?after={end}&job={job}&wait=0.2", expect=200)
    check(of_tasks(again["events"]) == [], "nothing twice", again)


def test_what_functions_sent_keeps_its_attempt(c):
    c.deploy("http_talk")
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    options = {"max_retries": 3, "retry_on_error": True}
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.try_again", "arguments": [3, 0], "options": options}, {"Prefer": "wait=30"}, expect=200)["id"]
    actor = c.json("POST", V1 + "/actors", {"class": "http_talk.Talker"}, {"Prefer": "wait=20"}, expect=201)["id"]
    calls = [c.json("POST", f"{V1}/actors/{actor}/methods/tell", {"arguments": [i]}, {"Prefer": "wait=20"}, expect=200) for i in range(3)]
    turns = [(1, 1, c.json("GET", f"{V1}/tasks/{call['id']}", expect=200)["position"]) for call in calls]
    sent = lambda found: [e for e in found if e["type"] in ("talk.try", "progress", "talk.span", "talk.told")]
    queries = {f"&task={task}": 9, f"&actor={actor}": 3}
    hot = {query: sent(events(c, begin, query, until=lambda found: len(sent(found)) >= count)[0]) for query, count in queries.items()}
    flushed(c)
    forget(c)
    for query, count in queries.items():
        cold = sent(events(c, begin, query, until=lambda found: len(sent(found)) >= count)[0])
        check(cold == hot[query], "as they were", query, cold, hot[query])
    of_task, of_actor = hot.values()
    check([e.get("attempt") for e in of_task] == [1, 1, 1, 2, 2, 2, 3, 3, 3], "their attempts", of_task)
    check([(e.get("attempt"), e.get("incarnation"), e.get("actor_position")) for e in of_actor] == turns, "their turns", of_actor, turns)


def follow(c, after, query):
    """To the present: whom the events are about, how many gaps were told, how many polls found nothing more."""
    seen, gaps, quiet = [], 0, 0
    for _ in range(100):
        page = c.json("GET", f"{V1}/events?after={after}&limit=50&wait=0.5{query}", expect=200)
        gaps += page.get("gap") is True
        seen += [e["subject"] for e in page["events"]]
        after, quiet = page["position"], 0 if page["events"] or page.get("gap") else quiet + 1
        if quiet == 2:
            break
    return seen, gaps, quiet


def test_events_past_a_deleted_job(c):
    """Who follows the log is told that something is gone, once, and goes on; who follows another job is not."""
    c.deploy("arith")
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    jobs = [c.json("POST", V1 + "/jobs", {"name": name}, expect=201)["id"] for name in ("before", "gone", "behind")]
    ids = []
    for job in jobs:
        rows = [[i, 1] for i in range(60)]
        batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": rows, "job": job}, expect=202)
        c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": 60, "timeout_ms": 60000}, expect=200)
        ids.append({item["id"] for item in batch["items"]})
    flushed(c)
    for query in ("", "?purge=true"):
        check(c.call("DELETE", f"{V1}/jobs/{jobs[1]}{query}")[0] == 202, "it ends, and is purged", query)
    c.until("its tasks are gone", lambda: c.call("GET", f"{V1}/tasks/{min(ids[1])}")[0] == 404, 60)
    forget(c)
    found = ()

    def followed():  # each reader of PostgreSQL looks every two seconds who was deleted
        nonlocal found
        found = follow(c, begin, "&function=arith.divmod")
        return not ids[1] & set(found[0])

    c.until("what was deleted is given to nobody", followed, 60)
    seen, gaps, quiet = found
    check(quiet == 2 and gaps > 0, "there is an end, and a gap", quiet, gaps)
    check(sorted(seen) == sorted(2 * [*ids[0], *ids[2]]), "what was not deleted", len(seen), gaps)
    events(c, begin, f"&job={jobs[0]}", until=lambda found: len(of_tasks(found)) >= 120)


def test_events_across_the_moving_watermark(c):
    """A reader follows from the beginning while tasks run and their blocks move: each event once, those of a task in order."""
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    ids, stop = [], threading.Event()

    def run():
        for round_number in range(12):
            ids.extend(submit(c, f"moving{round_number}", [[i, 1] for i in range(150)])[0])
            time.sleep(0.2)  # two delays of the flusher: what was is moved
        stop.set()

    runner = threading.Thread(target=run)
    runner.start()
    enough = lambda found: stop.is_set() and len(of_tasks(found)) >= 2 * len(ids)
    readers, seen = [], {}
    for name, start, limit in (("behind", 0.0, 40), ("later", 1.5, 1000)):
        def read(name=name, start=start, limit=limit):
            time.sleep(start)
            seen[name], _ = events(c, begin, "&function=arith.divmod", limit, enough)
        readers.append(threading.Thread(target=read))
        readers[-1].start()
    for thread in readers + [runner]:
        thread.join()
    flushed(c)
    forget(c)
    seen["cold"], _ = events(c, begin, "&function=arith.divmod", 997, enough)
    for name, found in seen.items():
        check([e["type"] for e in found].count("task.submitted") == len(ids), "submitted", name, len(found))
        check(sorted(e["subject"] for e in found if e["type"] == "task.finished") == sorted(ids), "each once", name, len(found))
        places = [place(e) for e in found]
        check(places == sorted(set(places)), "in order", name)
    check(seen["behind"] == seen["cold"] and seen["later"] == seen["cold"], "whoever reads, and when", {name: len(found) for name, found in seen.items()})


def test_who_reads_the_past_holds_nobody_up(c):
    c.deploy("arith")
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    old, _ = submit(c, "old", [[i, 1] for i in range(40)])
    flushed(c)
    forget(c)
    now = c.json("GET", f"{V1}/events", expect=200)["position"]
    late = {}
    with c.stopped("mobula-flush"):
        reader = threading.Thread(target=lambda: late.update(found=events(c, begin, "&function=arith.divmod", until=lambda found: len(found) >= 2 * len(old))[0]))
        reader.start()
        new, _ = submit(c, "new", [[i, 1] for i in range(20)])
        fresh, _ = events(c, now, "&function=arith.divmod", until=lambda found: len(found) >= 40)
        check({e["subject"] for e in fresh} == set(new) and "found" not in late, "the present goes on", len(fresh))
    reader.join()
    check({e["subject"] for e in late["found"][:80]} == set(old), "and the past is there", len(late["found"]))


def ready(c):
    try:
        c.read_address()
        return c.call("GET", "/readyz", key=None)[0] == 200
    except (OSError, ValueError):
        return False


def test_objects_that_cannot_be_looked_up_are_not_pending(c):
    """Of a task that only PostgreSQL knows, while nobody answers for it; and of one that runs."""
    c.deploy("quickstart")
    c.deploy("arith")
    _, returns = submit(c, "away", [[i, 2] for i in range(4)])
    flushed(c)
    c.kill("mobula-node")
    c.until("ready again", lambda: ready(c) and c.run("arith.add", 1, 2).get("result") == 3)
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [60000]}, expect=202)
    signal_postgres(c, signal.SIGSTOP)
    try:
        paths = [returns[0][0], returns[1][0] + "?wait=0.01", returns[2][0] + "?wait=3", returns[3][0] + "/data", slow["returns"][0] + "?wait=1", slow["returns"][0]]
        # The node itself gives up looking after 10 s, which must not read as ready.
        waits = [([returns[0][0], slow["returns"][0]], 500), ([slow["returns"][0], returns[1][0]], 10500), ([slow["returns"][0]], 500)]
        asks = [lambda path=path: c.call("GET", f"{V1}/objects/{path}") for path in paths]
        asks += [lambda ids=ids, ms=ms: c.call("POST", V1 + "/objects:wait", {"ids": ids, "timeout_ms": ms}) for ids, ms in waits]
        answers = at_once(asks)
    finally:
        signal_postgres(c, signal.SIGCONT)
    for path, (code, headers, body) in zip(paths[:4], answers):
        problem = json.loads(body)
        check(code == 503 and problem["code"] == "unavailable" and problem["retryable"] and "retry-after" in headers, path, code, body)
    for path, (code, _, body) in zip(paths[4:], answers[4:6]):
        check(code == 200 and json.loads(body)["state"] == "pending", f"{path}: it runs", code, body)
    for at, (code, headers, body) in enumerate(answers[6:8]):
        problem = json.loads(body)
        check(code == 503 and problem["code"] == "unavailable" and "retry-after" in headers, f"wait {at}", code, body)
        check(problem["errors"][0]["pointer"] == f"/ids/{at}", "which one", problem)
    check(answers[8][0] == 200 and json.loads(answers[8][2]) == {"ready": [], "pending": slow["returns"]}, "a wait for what runs", answers[8])
    for i in range(4):
        check(c.value(returns[i][0])["value"] == i // 2, "and then they are there", i)
    c.call("POST", f"{V1}/tasks/{slow['id']}:cancel")


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
    check(len(checks) == 9 and all(line["ok"] for line in checks), "verify", checks)
    figures = status(c)
    check(figures["postgres"]["watermark"] == figures["flush"]["flushed"], "watermark", figures)


def test_status_without_postgres(c):
    """It says what it knows of the members, and does not wait for a database that hangs."""
    pid = next(p["pid"] for p in json.loads(subprocess.run([BIN + "/mobula", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60).stdout)["processes"]
               if p["name"] == "postgres")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    finally:
        os.kill(pid, signal.SIGCONT)
    figures = json.loads(done.stdout)
    check(done.returncode == 0 and int(figures["member"]["applied"]) > 0 and "postgres" not in figures, "the member's side", done.returncode, figures)
    check("within 2 s" in done.stderr, "and what is missing", done.stderr)
    check("postgres" in status(c), "and then it is there again")


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
    member = '{shard="0",member="gcs.sock",role="sole"}'
    check(told["mobula_gcs_member_up" + member] == "1", "the member", told)
    check(told[f'mobula_gcs_member_state{member[:-1]},state="serving"}}'] == "1", "its state", told)
    check(told[f'mobula_gcs_member_store{member[:-1]},store="ok"}}'] == "1" and before["chain"]["members"][0]["store"] == "ok", "its store", told)
    for name, figure in (("epoch", "epoch"), ("applied_position", "applied"), ("committed_position", "committed"), ("durable_position", "durable")):
        value = int(told[f"mobula_gcs_member_{name}{member}"])
        check(before["chain"]["members"][0][figure] <= value <= after["chain"]["members"][0][figure], name, before["chain"], value, after["chain"])
    seconds = float(told["mobula_gcs_member_state_seconds" + member])
    check(before["chain"]["members"][0]["for_ms"] <= 1000 * seconds <= after["chain"]["members"][0]["for_ms"], "for how long", before["chain"], seconds)
    check(told["mobula_gcs_member_lag" + member] == "0" and int(told["mobula_gcs_member_memory_bytes" + member]) > 0
          and int(told["mobula_gcs_member_redis_memory_bytes" + member]) > 0 and int(told["mobula_gcs_member_duplicates_total" + member]) >= 0, "the rest", told)
    check(not [line for line in told if "_lease_milliseconds" in line] and "lease_ms" not in before["chain"]["members"][0], "a sole member sends no heartbeats", told)
    for name, figure in (("memory_soft_bytes", "soft_bytes"), ("memory_hard_bytes", "hard_bytes"), ("incarnations", "incarnations")):
        check(told[f'mobula_gcs_{name}{{shard="0"}}'] == str(before["member"][figure]), name, told)
    check(told['mobula_gcs_cold_readers{shard="0"}'] == "1", "the flusher reads", told)
    watermark, lag = (int(told[f'mobula_gcs_watermark_{name}{{shard="0"}}']) for name in ("position", "lag"))
    check(0 < before["postgres"]["watermark"] <= watermark <= after["postgres"]["watermark"], "the watermark", before, watermark, after)
    check(lag <= after["postgres"]["behind"] + after["postgres"]["watermark"] - watermark, "and how far behind", lag, after)
    check(int(told["mobula_http_connections_total"]) > 0 and told["mobula_http_connections_refused_total"] == "0", "connections", told)
    pid = c.pid_of("mobula-gcs")
    os.kill(pid, signal.SIGSTOP)
    try:
        told = metrics(c)
        check(told.get('mobula_gcs_up{shard="0"}') == "0" and "mobula_http_connections" in told, "without the control store", sorted(told)[:5])
        members = [line for line in told if line.startswith("mobula_gcs_member_")]
        check(members == ['mobula_gcs_member_up{shard="0",member="gcs.sock",role="unknown"}'] and told[members[0]] == "0", "nor its member", members)
    finally:
        os.kill(pid, signal.SIGCONT)
    c.until("up again", lambda: metrics(c).get('mobula_gcs_up{shard="0"}') == "1", 30)


def figures_of_postgres(c):
    """As /metrics has them and as the tool has them, which asks PostgreSQL itself."""
    told, asked = metrics(c), status(c)["postgres"]
    names = (("batches", "batches"), ("tasks", "tasks"), ("failed_tasks", "failed"), ("days", "days"), ("gaps", "gaps"), ("bytes", "bytes"))
    return {figure: (int(told.get(f'mobula_gcs_postgres_{name}{{shard="0"}}', -1)), asked[figure]) for name, figure in names}


def postgres_is_told(c):
    return all(told == asked for figure, (told, asked) in figures_of_postgres(c).items() if figure != "bytes")


def test_what_postgres_has_is_told(c):
    c.until("PostgreSQL", lambda: "postgres" in status(c), 60)
    before = figures_of_postgres(c)["tasks"][1]
    submit(c, "told", [[i, i % 2] for i in range(40)])
    c.until("it is there", lambda: figures_of_postgres(c)["tasks"][1] >= before + 40 and postgres_is_told(c), 60)
    figures = figures_of_postgres(c)
    check(all(figures[name][0] > 0 for name in ("batches", "tasks", "failed", "days")), "and something", figures)
    size, asked = figures["bytes"]
    check(asked / 2 <= size <= 2 * asked, "its size, as of some seconds ago", figures)
    c.kill("mobula-gcs")
    c.until("the next member is told as well", lambda: postgres_is_told(c), 60)


def test_a_flusher_that_stands_still_is_seen_by_its_lag(c):
    lag = lambda: int(metrics(c)['mobula_gcs_watermark_lag{shard="0"}'])
    submit(c, "counted", [[i, 2] for i in range(50)])
    c.until("it has caught up", lambda: lag() == 0, 60)
    at = metrics(c)['mobula_gcs_watermark_position{shard="0"}']
    with c.stopped("mobula-flush"):
        submit(c, "behind", [[i, 3] for i in range(50)])
        check(lag() > 0 and metrics(c)['mobula_gcs_watermark_position{shard="0"}'] == at, "what is not in PostgreSQL", lag(), at)
    c.until("it goes on", lambda: lag() == 0, 60)
    c.kill("mobula-gcs")
    c.until("the next member is told as well", lambda: int(metrics(c).get('mobula_gcs_watermark_position{shard="0"}', 0)) >= int(at), 60)


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
    main(globals(), "--postgres", "on", "--gcs-replicas", "1", "--flush-hot-percent", "0", "--flush-delay-ms", "100", "--flush-maintain-ms", "500")
