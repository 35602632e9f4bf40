"""Lineage of the standing job ages out, but never what a living actor needs.   ctest: timeout=240 long"""
import json
import os
import signal
import time

from lib_http_cluster import check, main, ref

V1 = "/api/v1"
RETENTION_S = 1
JOBS = 3000 if os.environ.get("MOBULA_TEST_ALL") else 40


def gone(c, task):
    return c.call("GET", f"{V1}/tasks/{task}")[0] == 404


def kill_worker_of(c, actor):
    os.kill(c.json("GET", f"{V1}/actors/{actor}", expect=200)["pid"], signal.SIGKILL)


def call(c, actor, amount):
    return c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [amount]}, {"Prefer": "wait=30"})


def test_finished_tasks_age_out(c):
    for module in ("arith", "quickstart"):
        c.deploy(module)
    early = time.monotonic()
    old = [c.run("arith.add", i, i) for i in range(20)]
    asked, newest = time.monotonic(), c.run("arith.add", 20, 20)["id"]
    seen = c.json("GET", f"{V1}/tasks/{newest}")
    check(seen.get("state") == "finished" or time.monotonic() - asked > RETENTION_S, "it is there first", seen)
    old.append({"id": newest})
    value = json.loads(c.call("POST", V1 + "/objects", b"x" * 100, {"Content-Type": "application/octet-stream"})[2])["id"]
    c.until("old tasks are gone", lambda: all(gone(c, t["id"]) for t in old))
    check(time.monotonic() - early > RETENTION_S, "not before their time", time.monotonic() - early)
    listed = {t["id"] for t in c.json("GET", f"{V1}/tasks?limit=1000", expect=200)["items"]}
    check(not listed & {t["id"] for t in old}, "the list says the same", listed)
    lost = c.json("GET", f"{V1}/objects/{value}")
    check(lost.get("status") == 404 or lost.get("state") in ("ready", "lost"), "an old put is there or lost, never wrong", lost)


def test_an_unfinished_task_stays_until_it_has_ended(c):
    running = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [5000 * RETENTION_S]}, expect=202)
    neighbour = c.run("arith.add", 1, 1)
    time.sleep(3 * RETENTION_S)
    check(c.json("GET", f"{V1}/tasks/{running['id']}", expect=200)["state"] == "running", "it stays")
    check(not gone(c, neighbour["id"]), "with its group")
    check(c.value(running["returns"][0])["value"] == 5000 * RETENTION_S, "and ends")
    c.until("and goes", lambda: gone(c, running["id"]) and gone(c, neighbour["id"]))


def test_children_of_an_old_parent_that_are_left_are_listed(c):
    """Its first groups have aged out, so the list is read from the log."""
    c.deploy("probe")
    parent = c.json("POST", V1 + "/tasks", {"function": "probe.broods", "arguments": [600, 0, 4000 * RETENTION_S]}, expect=202)
    children = f"{V1}/tasks?filter=parent:{parent['id']}&limit=1000"

    def names():
        return {t["name"] for t in c.json("GET", children, expect=200)["items"]}

    c.until("all are there", lambda: {"1-0", "1-599", "early"} <= names())
    c.until("the first go", lambda: "1-0" not in names())
    c.until("the last comes", lambda: "late" in names())
    check("1-0" not in names() and {"early", "late"} <= names(), "what is left", sorted(names())[:5])
    check(c.call("POST", f"{V1}/tasks/{parent['id']}:cancel", {"force": True})[0] == 202, "cancel")


def test_an_actor_without_checkpoints_keeps_its_edges(c):
    actor = c.json("POST", V1 + "/actors", {"class": "quickstart.Counter", "arguments": [100], "options": {"max_restarts": -1}}, {"Prefer": "wait=20"}, expect=201)["id"]
    check([call(c, actor, n)["result"] for n in (1, 2, 3)] == [101, 103, 106], "calls")
    before = c.run("arith.add", 1, 1)
    time.sleep(3 * RETENTION_S)
    check(not gone(c, before["id"]), "what came behind its creation stays as well")
    kill_worker_of(c, actor)
    check(call(c, actor, 4).get("result") == 110, "its state after a restart", call(c, actor, 0))
    c.kill("mobula-node")
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200 and c.run("arith.add", 1, 2).get("result") == 3)
    time.sleep(3 * RETENTION_S)
    kill_worker_of(c, actor)
    check(call(c, actor, 5).get("result") == 115, "its state after the node's end and a restart", call(c, actor, 0))
    check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "end")
    c.until("with it, all goes", lambda: gone(c, before["id"]))


def jobs_of(c, ids):
    return {j["id"] for j in c.json("GET", V1 + "/jobs?limit=1000", expect=200)["items"]} & ids


def test_ended_jobs_are_forgotten(c):
    """With their lineage: the node's list of them and the control store's rows; what lives stays."""
    lives = c.json("POST", V1 + "/jobs", {"name": "lives"}, expect=201)["id"]
    ids = set()
    for i in range(JOBS):
        job = c.json("POST", V1 + "/jobs", {"name": f"job-{i}"}, expect=201)["id"]
        ids.add(job)
        if i % 10 == 0:
            c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [i, 1], "job": job}, {"Prefer": "wait=20"}, expect=200)
        check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "it ends", job)
    c.until("all are forgotten", lambda: not jobs_of(c, ids), 60)
    for job in sorted(ids)[::JOBS // 5]:
        check(c.call("GET", f"{V1}/jobs/{job}")[0] == 404, "one by one too", job)
    check(jobs_of(c, {lives}) == {lives}, "the one that has not ended stays")
    c.json("POST", V1 + "/jobs", {"name": "behind"}, expect=201)  # its row is written behind those that go
    c.kill("mobula-node")
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200 and c.run("arith.add", 1, 2).get("result") == 3)
    left = jobs_of(c, ids | {lives})
    check(left == {lives}, "a later node reads the same from the control store", left)


def job_of(c, name):
    return c.json("POST", f"{V1}/jobs", {"name": name}, expect=201)["id"]


def counter(c, **more):
    body = {"class": "quickstart.Counter", "arguments": [100], "options": {"detached": True, "max_restarts": -1}, **more}
    return c.json("POST", V1 + "/actors", body, {"Prefer": "wait=20"}, expect=201)["id"]


def after_the_nodes_end(c):
    c.kill("mobula-node")
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200 and c.run("arith.add", 1, 2).get("result") == 3)


def in_use(c, job, actor):
    answer = c.json("DELETE", f"{V1}/jobs/{job}?purge=true", expect=409)
    check(answer.get("code") == "in-use" and actor in answer.get("detail", ""), "a deletion names the actor", answer)


def test_an_actor_needs_its_own_job_and_that_of_its_callers(c):
    """Its own has ended; the calls are the standing job's."""
    own, other = job_of(c, "own"), job_of(c, "other")
    actor = counter(c, job=own)
    calls = [call(c, actor, 1) for _ in range(2)]
    check([each.get("result") for each in calls] == [101, 102], "calls", calls)
    aged = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 1], "job": other}, {"Prefer": "wait=30"})
    for job in (own, other):
        check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "its end")
    in_use(c, own, actor)
    c.until("what no actor needs has aged", lambda: gone(c, aged["id"]))
    time.sleep(2 * RETENTION_S)
    check(not gone(c, calls[0]["id"]) and not gone(c, calls[1]["id"]), "the actor's calls stay")
    kill_worker_of(c, actor)
    answer = call(c, actor, 1)
    check(answer.get("result") == 103, "its state after a restart", answer)
    after_the_nodes_end(c)
    time.sleep(2 * RETENTION_S)
    answer = call(c, actor, 1)
    check(answer.get("result") == 104, "its state after the node's end", answer)
    in_use(c, own, actor)
    check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "end")
    c.until("with it, all goes", lambda: gone(c, calls[0]["id"]))
    for job in (own, other):
        c.until("and the job", lambda: c.call("GET", f"{V1}/jobs/{job}")[0] == 404 or c.call("DELETE", f"{V1}/jobs/{job}?purge=true")[0] == 202)


def keeper(c, **more):
    body = {"class": "holder.Keeper", "options": {"detached": True, "max_restarts": -1}, **more}
    return c.json("POST", V1 + "/actors", body, {"Prefer": "wait=20"}, expect=201)["id"]


def take(c, actor, value, n):
    return c.json("POST", f"{V1}/actors/{actor}/methods/take", {"arguments": [ref(value), n]}, {"Prefer": "wait=30"})


def put_of(c, n, size):
    """What holder.makes gives, put by a client."""
    body = bytes((n + i // 4096) % 256 for i in range(size))
    return json.loads(c.call("POST", V1 + "/objects", body, {"Content-Type": "application/octet-stream"})[2])["id"]


def result_of(c, job, function, *arguments):
    body = {"function": function, "arguments": list(arguments), "job": job}
    return c.json("POST", V1 + "/tasks", body, {"Prefer": "wait=30"}, expect=200)["returns"][0]


def given(c, jobs):
    """Values 0 to 2 of other jobs: in the completion, in the store, and in the store by tasks of two jobs."""
    seed = result_of(c, jobs["seed"], "arith.add", 1, 1)
    return [result_of(c, jobs["small"], "holder.makes", 0, 100),
            result_of(c, jobs["large"], "holder.makes", 1, 100_000),
            result_of(c, jobs["chain"], "holder.makes", ref(seed), 100_000)]


def take_put(c, actor, n, size):
    """On a slow machine it may have aged before it is taken."""
    for _ in range(10):
        answer = take(c, actor, put_of(c, n, size), n)
        if "result" in answer:
            return answer
    return answer


def test_a_replay_that_lacks_an_argument_says_so(c):
    c.deploy("holder")
    actor, values = keeper(c, job=job_of(c, "own")), [put_of(c, n, 100) for n in range(2)]
    taken = [take(c, actor, value, n) for n, value in enumerate(values)]
    check([each.get("result") for each in taken] == [1, 2], "calls", taken)
    check(c.call("DELETE", f"{V1}/objects/{values[1]}")[0] == 202, "somebody deletes the value")
    after_the_nodes_end(c)
    answer = take(c, actor, values[0], 0)
    error = answer.get("error", {})
    says = [part in error.get("message", "") for part in (values[1], taken[1]["id"], "position 1 ", "it was deleted")]
    check(error.get("code") == "actor-died" and all(says), "which argument of which call is gone", answer)


def test_what_calls_were_given_is_kept(c):
    """By jobs that have ended, and by clients long ago. It is looked up when something is to go: before a job is
    deleted, or by retention."""
    c.deploy("holder")
    jobs = {name: job_of(c, name) for name in ("own", "small", "large", "chain", "seed", "other")}
    values = given(c, jobs)
    time.sleep(2 * RETENTION_S)
    actor = keeper(c, job=jobs["own"])
    taken = [take(c, actor, value, n) for n, value in enumerate(values)]
    taken += [take_put(c, actor, 3, 100), take_put(c, actor, 4, 300_000)]  # the second has a file
    check([each.get("result") for each in taken] == [1, 2, 3, 4, 5], "calls", taken)
    aged = result_of(c, jobs["other"], "arith.add", 1, 1)
    for job in jobs.values():
        check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "its end")
    in_use(c, jobs["small"], actor)
    c.until("what no actor needs has aged", lambda: c.call("GET", f"{V1}/objects/{aged}/lineage")[0] == 404)
    time.sleep(2 * RETENTION_S)
    for again in range(2):
        for name in ("small", "large", "chain", "seed"):
            in_use(c, jobs[name], actor)
        after_the_nodes_end(c)
        answer = take(c, actor, values[1], 1)
        check(answer.get("result") == 6 + again, "its state after the node's end", again, answer)
        time.sleep(2 * RETENTION_S)
    check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "end")
    for name in ("small", "large", "chain", "seed"):
        c.until("and then the jobs go", lambda: c.call("GET", f"{V1}/jobs/{jobs[name]}")[0] == 404)


def first_frame(c, after):
    """Of a stream of events behind a position, passing over what only marks time."""
    connection = c.connect()
    headers = {"Authorization": "Bearer " + c.token, "Accept": "text/event-stream", "Last-Event-ID": after}
    connection.request("GET", f"{V1}/events?function=arith.add", headers=headers)
    response, kind = connection.getresponse(), ""
    while kind in ("", "bookmark"):
        line = response.readline().decode()
        if not line:
            break
        kind = line[7:].strip() if line.startswith("event: ") else kind
    connection.close()
    return kind


def test_who_follows_events_is_told_what_aged(c):
    events = lambda after, wait=10: c.json("GET", f"{V1}/events?after={after}&limit=1000&wait={wait}&function=arith.add", expect=200)
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    old = [c.run("arith.add", i, 1)["id"] for i in range(5)]
    c.until("they are gone", lambda: all(gone(c, task) for task in old), 60)
    running = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [600000]}, expect=202)
    kept = c.run("arith.add", 1, 2)["id"]  # in its group, so it stays
    c.kill("mobula-gateway")  # it has the newest events in memory

    def back():
        try:
            c.read_address()
            return c.call("GET", "/readyz", key=None)[0] == 200
        except OSError:
            return False

    c.until("the gateway is back", back, 60)
    # Of this gateway's group: what comes now stays, however slow the machine is. Only what aged before is gone.
    c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [ref(running["returns"][0]), 1]}, expect=202)
    for round in ("the same member", "one that has read its blocks again"):
        page = events(begin)
        check(page.get("gap") is True, "a long-poll is told", round, page)
        seen = [e["subject"] for e in page["events"]]
        for _ in range(50):  # to the present: who has read a part is late for the rest
            page = events(page["position"], 0)
            seen += [e["subject"] for e in page["events"]]
            if kept in seen and not page["events"] and not page.get("gap"):
                break
        check(kept in seen and not set(old) & set(seen), "and then what is there", round, seen)
        check(first_frame(c, begin) == "gap", "a stream is told", round)
        last = page["position"]
        late = c.run("arith.add", 2, 3)["id"]
        page = events(last)
        check(not page.get("gap") and late in [e["subject"] for e in page["events"]], "who is not late misses nothing", round, page)
        c.kill("mobula-gcs")
        c.until("the member is back", lambda: c.run("arith.add", 1, 2).get("result") == 3, 60)
    c.call("POST", f"{V1}/tasks/{running['id']}:cancel", {"force": True})


if __name__ == "__main__":
    main(dict(globals()), "--retention-s", f"{RETENTION_S}s")
