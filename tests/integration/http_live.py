"""Tasks that have not ended, over HTTP: what state they are in, and what they write.   ctest: timeout=240"""
import json
import os
import re
import signal
import threading
import time

from lib_http_cluster import check, main, ref

V1 = "/api/v1"


def listed(c, state):
    return {t["id"] for t in c.json("GET", f"{V1}/tasks?limit=1000&filter=state:{state}", expect=200)["items"]}


def cancel(c, *tasks):
    for task in tasks:
        c.call("POST", f"{V1}/tasks/{task['id']}:cancel", {"force": True})


def test_waiting_ready_and_running_are_found(c):
    c.deploy("quickstart")
    c.deploy("http_talk")
    cpus = int(c.json("GET", V1 + "/cluster", expect=200)["resources"]["CPU"]["total"])
    submit = lambda function, *arguments: c.json("POST", V1 + "/tasks", {"function": function, "arguments": list(arguments)}, expect=202)
    running = [submit("quickstart.pause", 60000) for _ in range(cpus)]
    c.until("all slots are taken", lambda: listed(c, "running") == {t["id"] for t in running})
    ready = [submit("quickstart.pause", 60000) for _ in range(2)]
    waiting = [submit("quickstart.add", ref(running[0]["returns"][0]), i) for i in range(3)]
    check(listed(c, "ready") == {t["id"] for t in ready}, "ready", listed(c, "ready"), ready)
    check(listed(c, "waiting") == {t["id"] for t in waiting}, "waiting", listed(c, "waiting"), waiting)
    check(listed(c, "submitted") == set(), "nothing is only submitted", listed(c, "submitted"))
    newest = c.json("GET", f"{V1}/tasks?limit=2", expect=200)
    rest = c.json("GET", f"{V1}/tasks?limit=100&cursor={newest['next_cursor']}", expect=200)["items"]
    states = {t["id"]: t["state"] for t in newest["items"] + rest}
    for state, tasks in (("running", running), ("ready", ready), ("waiting", waiting)):
        for task in tasks:
            check(states[task["id"]] == state, "the list over pages", state, states)
            check(c.json("GET", f"{V1}/tasks/{task['id']}", expect=200)["state"] == state, "the record", state)
    for task in running:  # as the record says
        record = c.json("GET", f"{V1}/tasks/{task['id']}", expect=200)
        item = next(t for t in newest["items"] + rest if t["id"] == task["id"])
        check(item["attempt"] == record["attempt"] and item["worker"] == record["worker"]
              and abs(item["started_us"] - record["started_us"]) < 1000000, "where it runs and since when", item, record)
        found = listed(c, f"running%20AND%20worker:{record['worker']}%20AND%20started_us:%3C={record['started_us'] + 1000000}")
        check(found == {task["id"]}, "found by its worker and start", found, task)
    by_start = c.json("GET", f"{V1}/tasks?limit=100&sort=-started_us&filter=state:running", expect=200)["items"]
    starts = [t["started_us"] for t in by_start]
    check(len(starts) == cpus and starts == sorted(starts, reverse=True), "sorted by their start", by_start)
    check(all("worker" not in t and "started_us" not in t and t["attempt"] == 1 for t in newest["items"] + rest if t["state"] in ("ready", "waiting")), "not begun", newest, rest)
    by_state = c.json("GET", f"{V1}/tasks?limit=100&sort=state", expect=200)["items"]
    check([t["state"] for t in by_state] == sorted(t["state"] for t in by_state), "sorted by state", by_state)
    cancel(c, *running, *ready)
    c.until("all have ended", lambda: not (listed(c, "running") | listed(c, "ready") | listed(c, "waiting")))
    check({t["id"] for t in running} <= listed(c, "cancelled"), "cancelled", listed(c, "cancelled"))


def follow(c, path, task, seen_running):
    """The whole text, read from where the last answer ended; `seen_running` gets what was there while it ran."""
    text, at = b"", 0
    while True:
        status, headers, body = c.call("GET", f"{path}?offset={at}&wait=10")
        check(status == 200, "log", status, body)
        text, at = text + body, int(headers["mobula-log-next"])
        if c.json("GET", f"{V1}/tasks/{task['id']}")["state"] == "running":
            seen_running.append(text)
        if headers["mobula-log-ended"] == "true" or at >= 21:
            return text


def test_logs_of_a_running_task_are_followed(c):
    c.deploy("http_talk")
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.count", "arguments": [3, 500]}, expect=202)
    early = []
    text = follow(c, f"{V1}/tasks/{task['id']}/logs", task, early)
    check(text == b"line 0\nline 1\nline 2\n", "followed", text)
    check(early and early[0].startswith(b"line 0\n") and len(early[0]) < 21, "while it ran", early)
    c.value(task["returns"][0])
    status, headers, body = c.call("GET", f"{V1}/tasks/{task['id']}/logs", headers={"Range": "bytes=7-13"})
    check(status == 206 and body == b"line 1\n" and headers["content-range"] == "bytes 7-13/21", "range", status, headers, body)


def test_the_log_has_each_attempt(c):
    """One that fails and the next mostly run in different workers; one that dies takes its worker with it."""
    options = {"max_retries": 3, "retry_on_error": True}
    body = {"function": "http_talk.try_again", "arguments": [4, 0], "options": options}
    task = c.json("POST", V1 + "/tasks", body, {"Prefer": "wait=30"}, expect=200)
    check(task.get("result") == 4, "the fourth is well", task)
    path = f"{V1}/tasks/{task['id']}/logs"
    parts = [b"try 1\nthen", b"try 2\nthen", b"try 3\nthen", b"try 4\nwell\n"]
    whole = parts[0] + b"".join(b"\n--- attempt %d ---\n%s" % (i + 2, part) for i, part in enumerate(parts[1:]))
    status, headers, body = c.call("GET", path)
    check(status == 200 and body == whole and headers["mobula-log-ended"] == "true", "all of them", status, headers, body)
    for i, part in enumerate(parts):
        status, headers, body = c.call("GET", f"{path}?attempt={i + 1}")
        check(status == 200 and body == part and headers["mobula-log-ended"] == "true", "one of them", i, status, headers, body)
    for at in range(len(whole) + 1):
        status, headers, body = c.call("GET", path, headers={"Range": f"bytes={at}-{at + 6}"})
        if at == len(whole):
            check(status == 416, "behind the end", status)
        elif not check(status == 206 and body == whole[at:at + 7], "a piece", at, status, body):
            break
    status, _, body = c.call("GET", f"{path}?attempt=5")
    check(status == 404 and b"the newest is 4" in body, "there was no fifth", status, body)
    check(c.call("GET", f"{path}?attempt=0")[0] == 400, "they count from 1")


def test_a_later_attempt_is_shown_as_it_runs(c):
    options = {"max_retries": 1, "retry_on_error": True}
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.try_again", "arguments": [2, 60000], "options": options}, expect=202)
    path = f"{V1}/tasks/{task['id']}"

    def second():
        record = c.json("GET", path, expect=200)
        return record if record["attempt"] == 2 and record["state"] == "running" else None

    record = c.until("the second runs", second)
    first = [e for e in c.json("GET", f"{V1}/timeline", expect=200)["traceEvents"] if e.get("cat") == "task" and e["args"].get("task") == task["id"]]
    c.until("it has spoken", lambda: c.call("GET", path + "/logs?attempt=2")[2] == b"try 2\n")
    check(len(first) == 1, "the first has ended", first)
    check(record["started_us"] >= first[0]["ts"] + first[0]["dur"], "times are the second's", record, first)
    check(record["submitted_us"] <= record["inputs_ready_us"] <= record["dispatched_us"] <= record["started_us"], "in order", record)
    check("finished_us" not in record and "cpu_us" not in record, "what is not yet", record)
    check([r["id"] for r in record["returns"]] == task["returns"] and record["error"]["message"] == "try 1", "why it runs again", record)
    early = c.call("GET", path + "/logs?attempt=1&wait=5")
    check(early[1]["mobula-log-ended"] == "true" and early[2] == b"try 1\nthen", "nobody waits for more of the first", early)
    check(c.call("GET", path + "/logs?attempt=2")[1]["mobula-log-ended"] == "false", "there is more to come of the second")
    cancel(c, task)


def test_what_goes_around_stdio_is_followed_too(c):
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.count_directly", "arguments": [2, 60000]}, expect=202)
    path = f"{V1}/tasks/{task['id']}/logs"
    c.until("it has begun", lambda: c.call("GET", path)[2] == b"line 0\n")
    check(c.json("GET", f"{V1}/tasks/{task['id']}")["state"] == "running", "while it runs")
    other = c.json("POST", V1 + "/tasks", {"function": "http_talk.say", "arguments": ["mine"]}, {"Prefer": "wait=20"}, expect=200)
    check(c.call("GET", f"{V1}/tasks/{other['id']}/logs")[2] == b"said mine\n", "another task's are its own")
    cancel(c, task)


def test_what_went_around_stdio_is_there_when_the_task_has_ended(c):
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.count_directly", "arguments": [2, 5]}, {"Prefer": "wait=20"}, expect=200)
    check(c.call("GET", f"{V1}/tasks/{task['id']}/logs")[2] == b"line 0\nline 1\n", "both lines")
    died = c.json("POST", V1 + "/tasks", {"function": "http_talk.last_words_directly", "options": {"max_retries": 0}}, {"Prefer": "wait=30"}, expect=200)
    check(died["state"] == "failed", "it died", died)
    status, _, body = c.call("GET", f"{V1}/tasks/{died['id']}/logs")
    check(status == 200 and body == b"no more stdio\n", "and its worker with it", status, body)


def test_lines_of_the_api(c):
    position = c.json("GET", f"{V1}/events", expect=200)["position"]
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.logs"}, {"Prefer": "wait=20"}, expect=200)
    _, _, body = c.call("GET", f"{V1}/tasks/{task['id']}/logs")
    form = rb"half a line, \d{4}-\d\d-\d\dT[\d:.]+Z WARN reward 0\.5 in line 2\n\S+Z ERROR of nobody\n"
    check(re.fullmatch(form, body), "the task's lines, in order", body)
    events = []

    def logged():
        events.extend(c.json("GET", f"{V1}/events?after={position}&task={task['id']}&wait=1", expect=200)["events"])
        return any(e["type"] == "log" and "reward 0.5 in line 2" in json.dumps(e) for e in events)
    c.until("it is in the event log", logged)


def test_a_range_of_a_running_log(c):
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.count", "arguments": [2, 3000]}, expect=202)
    path = f"{V1}/tasks/{task['id']}/logs"
    c.until("it has begun", lambda: c.call("GET", path)[2] == b"line 0\n")
    status, headers, body = c.call("GET", path, headers={"Range": "bytes=5-"})
    check(status == 206 and body == b"0\n" and headers["content-range"] == "bytes 5-6/7", "range", status, headers, body)
    check(c.call("GET", path, headers={"Range": "bytes=8-"})[0] == 416, "behind what is there")
    cancel(c, task)


def test_logs_of_a_running_call_are_followed(c):
    actor = c.json("POST", V1 + "/actors", {"class": "http_talk.Talker"}, {"Prefer": "wait=10"}, expect=201)["id"]
    path = f"{V1}/actors/{actor}/logs"
    check(c.call("GET", path)[2] == b"made\n", "its construction", c.call("GET", path))
    call = c.json("POST", f"{V1}/actors/{actor}/methods/count", {"arguments": [2, 2000]}, expect=202)
    status, headers, body = c.call("GET", f"{path}?offset=5&wait=10")
    check(status == 200 and body == b"line 0\n", "while it runs", status, body)
    check(c.json("GET", f"{V1}/tasks/{call['id']}")["state"] == "running", "it does")
    status, headers, body = c.call("GET", f"{path}?offset={headers['mobula-log-next']}&wait=10")
    check(body == b"line 1\n", "the rest", body)
    check(c.call("GET", f"{V1}/tasks/{call['id']}/logs?wait=10")[2] == b"line 0\nline 1\n", "the call's own")


def test_logs_longer_than_a_page(c):
    lines = 20000
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.count", "arguments": [lines, 0]}, {"Prefer": "wait=60"}, expect=200)
    want, got, at = "".join(f"line {i}\n" for i in range(lines)).encode(), b"", 0
    while at < len(want):
        status, headers, body = c.call("GET", f"{V1}/tasks/{task['id']}/logs?offset={at}")
        if not check(status == 200 and body, "page", status, at):
            break
        got, at = got + body, int(headers["mobula-log-next"])
    check(got == want, "all of it", len(got), len(want))


def test_the_last_words_of_a_worker_are_kept(c):
    task = c.json("POST", V1 + "/tasks", {"function": "http_talk.last_words", "options": {"max_retries": 0}}, {"Prefer": "wait=30"}, expect=200)
    check(task["state"] == "failed", "it died", task)
    status, _, body = c.call("GET", f"{V1}/tasks/{task['id']}/logs")
    check(status == 200 and body == b"the end is near\n", "its words", status, body)


def test_a_node_that_does_not_answer_holds_up_only_who_asks_it(c):
    """Function and class have to be asked for: by then others are served."""
    c.deploy("arith")
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [1]}, {"Prefer": "wait=20"}, expect=201)["id"]
    time.sleep(1.1)  # what was asked before is not believed for longer
    node, answers = c.pid_of("mobula-node"), []
    ask = lambda path, body: answers.append(c.json("POST", V1 + path, body, {"Prefer": "wait=30"}))
    waiters = [threading.Thread(target=ask, args=args) for args in (
        ("/tasks", {"function": "arith.add", "arguments": [1, 2]}), (f"/actors/{actor}/methods/add", {"arguments": [2]}))]
    os.kill(node, signal.SIGSTOP)
    try:
        for w in waiters:
            w.start()
        time.sleep(0.3)
        begin = time.monotonic()
        status, _, body = c.call("GET", V1 + "/endpoints")
        check(status == 200 and time.monotonic() - begin < 5, "the engine answers what it knows", status, time.monotonic() - begin)
        check(not answers, "the others wait", answers)
    finally:
        os.kill(node, signal.SIGCONT)
    for w in waiters:
        w.join()
    check(sorted(a.get("result", -1) for a in answers) == [3, 3], "and are answered", answers)


def test_one_name_goes_to_one_actor(c):
    """Names are asked for without waiting, so many creations under one are on their way at a time."""
    c.deploy("quickstart")
    for round, (if_exists, others) in enumerate((("fail", 409), ("return", 200)) * 3):
        answers, body = [], {"class": "quickstart.Counter", "arguments": [round], "options": {"name": f"only-{round}", "if_exists": if_exists}}
        create = lambda: answers.append(c.call("POST", V1 + "/actors", body))
        creators = [threading.Thread(target=create) for _ in range(8)]
        for t in creators:
            t.start()
        for t in creators:
            t.join()
        check(sorted(a[0] for a in answers) == sorted([201] + 7 * [others]), "one is made", if_exists, [a[0] for a in answers])
        ids = {json.loads(a[2])["id"] for a in answers if a[0] != 409}
        check(len(ids) == 1, "one id", ids)


if __name__ == "__main__":
    main(dict(globals()))
