"""Rows of checkpoints go with their job when that is deleted, also when its lineage is in PostgreSQL.   ctest: timeout=240"""
import json
import shutil
import subprocess
import sys

from lib_http_cluster import BIN, check, main

V1 = "/api/v1"
ACTORS = 5


def figures(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, "mobula gcs status", done.stdout, done.stderr)
    return json.loads(done.stdout)["member"]


def account(c, job, calls):
    options = {"detached": True, "max_restarts": -1, "checkpoint_every": 1}
    body = {"class": "probe.Account", "arguments": [5], "job": job, "options": options}
    actor = c.json("POST", V1 + "/actors", body, {"Prefer": "wait=20"}, expect=201)["id"]
    for i in range(calls):
        answer = c.json("POST", f"{V1}/actors/{actor}/methods/add", {"arguments": [1]}, {"Prefer": "wait=30"})
        check(answer.get("result") == 6 + i, "a call", answer)
    return actor


def test_they_go_when_their_job_is_deleted(c):
    c.deploy("probe")
    check(c.run("probe.same", 7).get("result") == 7, "a task")  # what there is from the first task on
    before = figures(c)["keys"]
    job = c.json("POST", f"{V1}/jobs", {"name": "with checkpoints"}, expect=201)["id"]
    actors = [account(c, job, 2) for _ in range(ACTORS)]
    own = 1 + 2 * ACTORS  # the job's row, and of each actor its own and its checkpoint's
    c.until("all rows are there", lambda: figures(c)["keys"] == before + own)
    for actor in actors:
        check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "its end")
    check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "its job's")
    c.until("the actors' rows go", lambda: figures(c)["keys"] == before + 1 + ACTORS)
    c.until("all is flushed", lambda: figures(c)["blocks"] == 0)
    check(figures(c)["keys"] == before + 1 + ACTORS, "the checkpoints stay as long as their lineage", figures(c)["keys"] - before)
    c.until("it is purged", lambda: c.call("DELETE", f"{V1}/jobs/{job}?purge=true")[0] == 202)
    c.until("and its checkpoints", lambda: figures(c)["keys"] <= before)


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--flush-hot-percent", "0", "--flush-delay-ms", "100", "--flush-maintain-ms", "300")
