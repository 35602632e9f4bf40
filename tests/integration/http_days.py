"""Days that retention drops from PostgreSQL: what living actors need of them stays, whose job it ever was, and who follows events is told.
ctest: timeout=280"""
import json
import os
import shutil
import signal
import subprocess
import sys

from http_retention import given, in_use, keeper, put_of, take
from lib_http_cluster import BIN, check, main, sql

V1 = "/api/v1"
KEPT = "SELECT count(*) FROM pg_tables WHERE tablename = 'bucket_d2000000'"


def gcs(c, *words):
    done = subprocess.run([BIN + "/mobula", "gcs", *words, "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, f"mobula gcs {words}", done.stdout, done.stderr)
    return done.stdout


def postgres_is_up(c):
    """What is past retention before it is flushed never comes to PostgreSQL, so nothing begins before that is there."""
    ask = ["psql", "-X", "-q", "-At", "-h", c.directory + "/pg", "-p", "1", "-U", "mobula", "-d", "postgres", "-c", "SELECT count(*) FROM mobula.watermark"]
    c.until("the flusher has its tables", lambda: subprocess.run(ask, capture_output=True, timeout=60).returncode == 0, 60)


def flushed(c):
    c.until("all is flushed", lambda: json.loads(gcs(c, "status", "-o", "json"))["member"]["blocks"] == 0, 60)


def age(c):
    """What is in PostgreSQL becomes three days old; true when it was dropped."""
    days = [int(day) for day in sql(c, "SELECT DISTINCT day FROM mobula.bucket WHERE day < 2000000").split()]
    made = "".join(f"CREATE TABLE IF NOT EXISTS mobula.{table}_d{day - 3} PARTITION OF mobula.{table} FOR VALUES FROM ({day - 3}) TO ({day - 2});"
                   for day in days for table in ("bucket", "stream_day", "failure"))
    moved = "".join(f"UPDATE mobula.{table} SET day = day - 3 WHERE day < 2000000;" for table in ("bucket", "stream_day", "failure", "job_day"))
    sql(c, made + moved + "UPDATE mobula.batch SET day_min = day_min - 3, day_max = day_max - 3")
    old = " OR ".join(f"tablename = 'bucket_d{day - 3}'" for day in days)
    return c.until("the days are dropped", lambda: sql(c, "SELECT count(*) FROM pg_tables WHERE " + old) == "0", 60)


def create(c, name, job, arguments, **options):
    body = {"class": name, "arguments": arguments, "job": job, "options": {"detached": True, "max_restarts": -1, **options}}
    return c.json("POST", V1 + "/actors", body, {"Prefer": "wait=20"}, expect=201)["id"]


def add(c, actor, amount=1):
    return c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [amount]}, {"Prefer": "wait=30"}).get("result")


def job_of(c, name):
    return c.json("POST", f"{V1}/jobs", {"name": name}, expect=201)["id"]


def called_by_a_job(c, job, actor, calls):
    body = {"function": "probe.calls_actor", "arguments": [actor, calls], "job": job}
    return c.json("POST", V1 + "/tasks", body, {"Prefer": "wait=30"}, expect=200).get("result")


def kill_worker_of(c, actor):
    os.kill(c.json("GET", f"{V1}/actors/{actor}", expect=200)["pid"], signal.SIGKILL)


def kill_node(c):
    c.kill("mobula-node")
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200 and c.run("arith.add", 1, 2).get("result") == 3, 60)


def next_events(c, after, wait=10):
    return c.json("GET", f"{V1}/events?after={after}&limit=1000&wait={wait}&function=arith.add", expect=200)


def streamed_kinds(c, after, count):
    """Of the first server-sent events behind a position."""
    connection, kinds = c.connect(), []
    headers = {"Authorization": "Bearer " + c.token, "Accept": "text/event-stream", "Last-Event-ID": after}
    connection.request("GET", f"{V1}/events?function=arith.add", headers=headers)
    response = connection.getresponse()
    while len(kinds) < count:
        line = response.readline().decode()
        if not line:
            break
        if line.startswith("event: ") and line[7:].strip() != "bookmark":
            kinds.append(line[7:].strip())
    connection.close()
    return kinds


def test_actors_outlive_their_days(c):
    postgres_is_up(c)
    for module in ("arith", "quickstart", "probe"):
        c.deploy(module)
    own, caller, later = job_of(c, "own"), job_of(c, "caller"), job_of(c, "later")
    counter = create(c, "quickstart.Counter", own, [100])
    account = create(c, "probe.Account", own, [5], checkpoint_every=4)
    check(called_by_a_job(c, caller, counter, 300) == 400, "calls of a job")
    check([add(c, counter) for _ in range(3)] == [401, 402, 403], "calls of the standing job")
    check(called_by_a_job(c, caller, account, 10) == 15, "calls of one with checkpoints")
    others = [c.run("arith.add", i, 1)["id"] for i in range(5)]
    for job in (own, caller):
        check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "the job ends", job)
    flushed(c)
    age(c)
    check(sql(c, KEPT) == "1", "what they need is kept")
    check(all(c.call("GET", f"{V1}/tasks/{task}")[0] == 404 for task in others) or int(sql(c, "SELECT count(*) FROM mobula.bucket WHERE day = 2000000")) > 0, "the rest is gone")
    kill_worker_of(c, counter)
    check(add(c, counter) == 404, "the state after its worker's end")
    kill_node(c)
    check(add(c, counter) == 405 and add(c, account) == 16, "the states after the node's end")
    check(called_by_a_job(c, later, counter, 20) == 425, "more calls")
    check(c.call("DELETE", f"{V1}/jobs/{later}")[0] == 202, "that job ends, too")
    flushed(c)
    age(c)
    gcs(c, "verify")
    kill_node(c)
    check(add(c, counter) == 426 and add(c, account) == 17, "and once more, a part of it from earlier")
    for actor in (counter, account):
        check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "its end")
    c.until("nothing is kept for the dead", lambda: sql(c, KEPT) == "0", 60)


def test_actors_keep_what_their_calls_were_given(c):
    """By other jobs, and in other groups and rows of the database than the calls are."""
    postgres_is_up(c)
    for module in ("arith", "holder"):
        c.deploy(module)
    jobs = {name: job_of(c, name) for name in ("own", "small", "large", "chain", "seed", "other")}
    values = given(c, jobs) + [put_of(c, 3, 100), put_of(c, 4, 300_000)]
    flushed(c)
    body = {"function": "arith.add", "rows": [[i, 1] for i in range(1000)], "job": jobs["other"]}
    others = [item["id"] for _ in range(8) for item in c.json("POST", V1 + "/tasks:batch", body, expect=202)["items"]]
    c.until("they end", lambda: c.json("GET", f"{V1}/tasks/{others[-1]}", expect=200)["state"] == "finished")
    flushed(c)
    actor = keeper(c, job=jobs["own"])
    taken = [take(c, actor, value, n).get("result") for n, value in enumerate(values)]
    check(taken == [1, 2, 3, 4, 5], "calls", taken)
    for job in jobs.values():
        check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "the job ends", job)
    for name in ("small", "large", "chain", "seed"):
        in_use(c, jobs[name], actor)
    flushed(c)
    age(c)
    check(sql(c, KEPT) == "1", "what they need is kept")
    check(any(c.call("GET", f"{V1}/tasks/{others[at]}")[0] == 404 for at in range(2000, 7000, 1000)), "the rest is gone")
    for again in range(2):
        kill_node(c)
        answer = take(c, actor, values[again], again)
        check(answer.get("result") == 6 + again, "its state after the node's end", again, answer)
    flushed(c)
    age(c)
    kill_node(c)
    answer = take(c, actor, values[2], 2)
    check(answer.get("result") == 8, "and once more, all of it from earlier", answer)
    check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "its end")
    c.until("nothing is kept for the dead", lambda: sql(c, KEPT) == "0", 60)


def asks(c, actor, path, n):
    return c.json("POST", f"{V1}/actors/{actor}/methods/asks", {"arguments": [path, n]}, {"Prefer": "wait=30"}).get("result")


def test_what_calls_submitted_does_not_run_again(c):
    """300 children of a call, in two groups, and one of another; they leave marks."""
    postgres_is_up(c)
    for module in ("arith", "holder"):
        c.deploy(module)
    marks, job = c.directory + "/marks", job_of(c, "asker")
    actor = keeper(c, job=job)
    check([asks(c, actor, marks, n) for n in (300, 1)] == [300, 301], "calls with children")
    check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "the job ends")
    for again in range(2):
        flushed(c)
        age(c)
        kill_node(c)
        check(asks(c, actor, marks, 0) == 301, "its state after the node's end", again)
        check(os.path.getsize(marks) == 301, "each child ran once", again, os.path.getsize(marks))
    check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "its end")
    c.until("nothing is kept for the dead", lambda: sql(c, KEPT) == "0", 60)


def test_events_tell_of_days_that_are_gone(c):
    postgres_is_up(c)
    c.deploy("arith")
    begin = c.json("GET", f"{V1}/events", expect=200)["position"]
    gone = [c.run("arith.add", i, 1)["id"] for i in range(20)]
    middle = next(e["position"] for e in next_events(c, begin)["events"] if e["subject"] == gone[0])
    flushed(c)
    age(c)
    kept = [c.run("arith.add", i, 2)["id"] for i in range(5)]
    c.kill("mobula-gateway")  # it has the newest in memory

    def ready():
        try:
            c.read_address()
            return c.call("GET", "/readyz", key=None)[0] == 200
        except OSError:
            return False

    c.until("the gateway is back", ready)
    for position in (begin, middle):
        page = next_events(c, position)
        check(page.get("gap") is True, "a gap is told", page)
        subjects = [e["subject"] for e in page["events"]]
        for _ in range(50):
            if set(kept) <= set(subjects):
                break
            page = next_events(c, page["position"], 1)
            check(not page.get("gap"), "once", page)
            subjects += [e["subject"] for e in page["events"]]
        check(set(kept) <= set(subjects) and not set(gone) & set(subjects), "and then what is there", len(subjects))
        kinds = streamed_kinds(c, position, 3)
        check(kinds[:1] == ["gap"] and "gap" not in kinds[1:], "as a stream", kinds)
    now = c.json("GET", f"{V1}/events", expect=200)["position"]
    after = c.run("arith.add", 1, 3)["id"]
    page = next_events(c, now)
    check(not page.get("gap") and after in {e["subject"] for e in page["events"]}, "who is not late misses nothing", page)


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--flush-hot-percent", "0", "--flush-delay-ms", "100", "--flush-maintain-ms", "300", "--retention-s", "4s")
