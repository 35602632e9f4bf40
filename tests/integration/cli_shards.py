"""A control store of two shards with two members each: work of every kind, one shard failing over, the whole cluster started again.

ctest: timeout=300 long
"""
import json
import os
import pathlib
import signal
import subprocess
import threading

from lib_http_cluster import BIN, Cluster, check, main

V1 = "/api/v1"
WRITER = os.path.join(os.path.dirname(BIN), "tests", "mobula-log-writer")
ENDS = "function=arith.add&topics=task.finished"
SHARDS = ("--postgres", "on", "--gcs-shards", "2")  # of two members each, the default
MEMBERS = ["redis", "redis-1", "redis-s1", "redis-s1-1", "gcs", "gcs-1", "gcs-s1", "gcs-s1-1", "master", "master-s1"]


def mobula(c, *arguments):
    return subprocess.run([BIN + "/mobula", *arguments, "--dir", c.directory], capture_output=True, text=True, timeout=120)


def processes(c):
    return json.loads(mobula(c, "status", "-o", "json").stdout)["processes"]


def stores(c):
    """What `mobula gcs status` says of each shard."""
    done = mobula(c, "gcs", "status", "-o", "json")
    check(done.returncode == 0, "gcs status", done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def kill_member(c, name):
    """And waits until the chain is as long as before."""
    before = next(p for p in processes(c) if p["name"] == name)
    os.kill(before["pid"], signal.SIGKILL)
    return before["restarts"]


def whole(c, name, restarts):
    now = {p["name"]: p for p in processes(c)}
    return now[name]["restarts"] > restarts and all(p["state"] == "ready" for p in now.values())


def run(c, n):
    answer = c.run("arith.add", n, 1)
    check(answer.get("result") == n + 1, "a task", n, answer)
    return answer["id"]


def position(c):
    """Behind all that has ended: the gateway follows the log, and may not have read the last of it yet."""
    after, last = c.json("GET", f"{V1}/events", expect=200)["position"], run(c, 0)
    subjects = []
    while last not in subjects:
        subjects, after = finished(c, after, 1)
    return after


def finished(c, after, count, seconds=60):
    """Subjects of task.finished from a position on, page by page, and the last position."""
    subjects = []

    def more():
        nonlocal after
        page = c.json("GET", f"{V1}/events?after={after}&wait=1&limit=7&{ENDS}", expect=200)
        check(not page.get("gap"), "no gap", page)
        after = page["position"]
        subjects.extend(e["subject"] for e in page["events"])
        return len(subjects) >= count

    c.until(f"{count} events", more, seconds)
    return subjects, after


def test_its_processes(c):
    names = [p["name"] for p in processes(c)]
    check(names == ["postgres", "flush", "flush-s1", *MEMBERS, "node", "gateway"], "processes", names)
    check([s["shard"] for s in stores(c)] == [0, 1], "shards", stores(c))


def test_work_of_every_kind(c):
    for module in ("arith", "quickstart"):
        c.deploy(module)
    ids = [run(c, n) for n in range(20)]
    rows = [[i, i] for i in range(300)]
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.add", "rows": rows}, expect=202)["items"]
    check(c.value(batch[299]["returns"][0])["value"] == 598, "of a batch")
    for n in range(30):  # rows of actors, names and keys are spread over both shards
        actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [n], "options": {"name": f"counter-{n}"}},
                       {"Prefer": "wait=20"}, expect=201)
        called = c.json("POST", f"{V1}/actors/{actor['id']}/methods/add", {"arguments": [1]}, {"Prefer": "wait=20"})
        check(called.get("result") == n + 1, "a call", called)
        again = c.call("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [0], "options": {"name": f"counter-{n}"}},
                       {"Prefer": "wait=20"})
        check(again[0] == 409, "a name is taken once", n, again)
    keyed = [c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [n, n]}, {"Idempotency-Key": f'"key-{n}"'}, expect=202)["id"] for n in range(20)]
    same = [c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [n, n]}, {"Idempotency-Key": f'"key-{n}"'})["id"] for n in range(20)]
    check(keyed == same, "keys", keyed, same)
    keys = [s["member"]["keys"] for s in stores(c)]
    check(min(keys) >= 20, "rows are on both shards", keys)
    for task in keyed:  # later tests follow events from where all these are over
        c.until("it has ended", lambda: c.json("GET", f"{V1}/tasks/{task}", expect=200)["state"] == "finished")
    found = listed(c, "arith.add")
    check(len(found) == len(set(found)) == 340 and set(ids) <= set(found), "the list", len(found), len(set(found)))
    record = c.json("GET", f"{V1}/tasks/{ids[3]}", expect=200)
    check(record["state"] == "finished", "a record", record)


def listed(c, function):
    items, cursor = [], ""
    while True:
        page = c.json("GET", f"{V1}/tasks?limit=97&filter=function:{function}{cursor}", expect=200)
        items += [task["id"] for task in page["items"]]
        if not page.get("next_cursor"):
            return items
        cursor = "&cursor=" + page["next_cursor"]


def test_events_go_on_while_one_shard_fails_over(c):
    after, seen, expected = position(c), [], []
    victims = ("gcs-s1-1", "gcs-1", "gcs", "gcs-s1") if os.environ.get("MOBULA_TEST_ALL") else ("gcs-s1-1", "gcs")
    for victim in victims:
        restarts = kill_member(c, victim)
        expected += [run(c, n) for n in range(12)]
        subjects, after = finished(c, after, 12)
        seen += subjects
        c.until(f"{victim} is back", lambda: whole(c, victim, restarts), 60)
        expected.append(run(c, 100))
        subjects, after = finished(c, after, 1)
        seen += subjects
        c.kill("mobula-gateway")  # the position is all that the next one has
        c.until("the gateway is back", lambda: back(c))
    check(seen == expected, "each once, in the order of the log", len(seen), len(expected), set(expected) ^ set(seen))


def follow(c, after, count, limit=1000, each=lambda seen: None):
    """Ends of tasks from a position on, and the positions of its pages with how many were seen before each."""
    seen, marks = [], []

    def more(wait=1):
        nonlocal after
        marks.append((after, len(seen)))
        page = c.json("GET", f"{V1}/events?after={after}&wait={wait}&limit={limit}&{ENDS}", expect=200)
        check(not page.get("gap"), "no gap", page)
        after = page["position"]
        seen.extend(e["subject"] for e in page["events"])
        each(seen)
        return len(seen) >= count

    c.until(f"{count} events", more, 60)
    more(0.2)  # what is repeated may come last
    return seen, marks


def follow_streams(c, after, count, seen):
    """The same by streams of 17 events each: the next one begins behind the last event's id."""
    last = None
    while len(seen) < count:
        connection, frame, behind = c.connect(), {}, len(seen) + 17
        headers = {"Authorization": "Bearer " + c.token, "Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        connection.request("GET", f"{V1}/events?after={after}&{ENDS}", headers=headers)
        response = connection.getresponse()
        check(response.status == 200, "a stream", response.status)
        while len(seen) < min(behind, count):
            line = response.readline().decode()
            if not line:  # it ended
                break
            if line != "\n":
                name, _, text = line.rstrip("\n").partition(": ")
                frame[name] = text
                continue
            last = frame.get("id", last)
            check(frame.get("event") != "gap", "no gap", frame)
            if frame.get("event") == "task.finished":
                seen.append(json.loads(frame["data"])["subject"])
            frame = {}
        connection.close()


def check_each_once(what, seen, written):
    """In the order of each log: (shard, task)s."""
    for shard in ("0", "1"):
        of_log = [task for s, task in written if s == shard]
        there = set(of_log)
        found = [task for task in seen if task in there]
        check(found == of_log, f"{what}: the log of shard {shard}", len(found), len(of_log), there - set(found))
    check(len(seen) == len(written), f"{what}: and nothing else", len(seen), len(written))


def test_both_shards_have_events_while_one_fails_over(c):
    """Whoever comes back with a position hears what is behind it in each shard, wherever in the fail-over it was given."""
    function = next(f["id"] for f in c.json("GET", V1 + "/functions", expect=200)["items"] if f["name"] == "arith.add")
    for victim in ("gcs-s1-1", "gcs-1"):
        begin, killed, streamed, count = position(c), [], [], 80 * 6
        with subprocess.Popen([WRITER, c.directory, victim, "80", "6", "40", function], stdout=subprocess.PIPE, text=True) as writer:
            stream = threading.Thread(target=follow_streams, args=(c, begin, count, streamed), daemon=True)
            stream.start()

            def kill(seen):
                if not killed and len(seen) > count / 4:
                    killed.extend((len(seen), kill_member(c, victim)))

            seen, marks = follow(c, begin, count, 7, kill)
            written = [tuple(line.split()) for line in writer.communicate(timeout=60)[0].splitlines()]
        check(writer.returncode == 0 and len(written) == count, "written", writer.returncode, len(written))
        check({s for s, t in written if t in seen[killed[0]:]} == {"0", "1"}, "both shards go on", killed)
        check_each_once("pages", seen, written)
        stream.join(60)
        check_each_once("streams", streamed, written)
        c.until(f"{victim} is back", lambda: whole(c, victim, killed[1]), 60)
        for again in ("from what the gateway keeps", "by the next gateway"):
            for mark, before in marks[:-1:9]:
                rest = [(s, t) for s, t in written if t not in seen[:before]]
                check_each_once(f"{again}, behind {before}", follow(c, mark, len(rest))[0], rest)
            c.kill("mobula-gateway")
            c.until("the gateway is back", lambda: back(c))


def back(c):
    try:
        c.read_address()
        return c.call("GET", "/readyz")[0] == 200
    except OSError:
        return False


def test_a_stream_misses_nothing(c):
    """Server-sent events, over the end of a member of the shard that has the logs."""
    connection, seen, expected = c.connect(), [], []
    headers = {"Authorization": "Bearer " + c.token, "Accept": "text/event-stream"}
    connection.request("GET", f"{V1}/events?after={position(c)}&{ENDS}", headers=headers)
    response = connection.getresponse()

    def read():
        while len(seen) < 20:
            line = response.readline().decode()
            if not line:
                return
            if line.startswith("data: ") and '"task.finished"' in line:
                seen.append(json.loads(line[6:])["subject"])

    reader = threading.Thread(target=read)
    reader.start()
    restarts = kill_member(c, "gcs-1")
    expected += [run(c, n) for n in range(20)]
    reader.join(60)
    check(seen == expected, "each once", len(seen), len(expected))
    connection.close()
    c.until("whole again", lambda: whole(c, "gcs-1", restarts), 60)


def test_the_whole_cluster_starts_again(c):
    before = listed(c, "arith.add")
    actor = next(a for a in c.json("GET", V1 + "/actors?limit=1000", expect=200)["items"] if a.get("name") == "counter-7")["id"]
    c.down()
    c.up()
    check(listed(c, "arith.add") == before, "the same tasks in the same order", len(before))
    called = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, {"Prefer": "wait=30"})
    check(called.get("result") == 9, "the actor went on", called)
    verify = mobula(c, "gcs", "verify")
    check(verify.returncode == 0 and "shard 1: " in verify.stdout, "verify", verify.stdout, verify.stderr)
    dump = mobula(c, "gcs", "dump", before[0])
    check(dump.returncode == 0 and before[0] in dump.stdout, "dump", dump.stdout, dump.stderr)
    newest = {store["shard"]: store["member"]["committed"] for store in stores(c)}
    for line in map(json.loads, dump.stdout.splitlines()):
        check(0 < line["seq"] <= newest.get(line["shard"], 0), "positions of dump are those of status", line, newest)
    # killed, not stopped
    os.kill(int((pathlib.Path(c.directory) / "supervisor.pid").read_text().split()[0]), signal.SIGKILL)
    c.up()
    check(listed(c, "arith.add") == before, "after a kill of everything")
    for store in stores(c):
        named = store["named_losses"]
        check(len(named) == store["member"]["losses"] <= 100, "each loss is named", store["member"]["losses"], named)
        check(all(one["kind"] in ("log", "client") for one in named), "as what it is", named)
    run(c, 1)


def test_another_number_of_shards_is_refused(c):
    c.down()
    c.options = ()
    for shards in ("1", "3"):
        refused = mobula(c, "up", "--detach", "--postgres", "on", "--gcs-shards", shards)
        check(refused.returncode != 0 and "Use --gcs-shards 2 here" in refused.stderr, "refused", refused.stderr)
    c.options = SHARDS
    c.up()
    run(c, 5)
    alone = Cluster()  # one shard, as before there were several
    alone.deploy("arith")
    run(alone, 1)
    alone.down()
    refused = mobula(alone, "up", "--detach", *SHARDS, "--gcs-replicas", "2")
    check(refused.returncode != 0 and "Use --gcs-shards 1 here" in refused.stderr, "refused", refused.stderr)
    alone.up()
    check(len(listed(alone, "arith.add")) == 1, "what was there is there")
    alone.end()


if __name__ == "__main__":
    main(globals(), *SHARDS)
