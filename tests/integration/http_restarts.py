"""What HTTP clients see while processes die: errors that say "try again", then everything goes on.   ctest: timeout=240 long"""
import json
import os
import signal
import threading
import time

from lib_http_cluster import check, main, ref

V1 = "/api/v1"


def test_node_is_killed(c):
    c.deploy("arith")
    c.deploy("quickstart")
    before = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [20, 22]}, expect=202)
    check(c.value(before["returns"][0])["value"] == 42, "before")
    running = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [1500]}, expect=202)
    waited = []
    waiter = threading.Thread(target=lambda: waited.append(c.value(running["returns"][0], 50)))
    waiter.start()
    c.until("it waits", lambda: "\nmobula_http_parked 1\n" in c.call("GET", "/metrics")[2].decode())
    c.kill("mobula-node")
    check(c.call("GET", "/livez", key=None)[0] == 200, "the gateway lives")
    status, headers, body = c.call("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]}, {"Prefer": "wait=20"})
    check(status == 200 or (status == 503 and "retry-after" in headers), "an answer or a typed error", status, body)
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200)
    c.until("tasks run", lambda: c.run("arith.add", 1, 2).get("result") == 3)
    check(c.value(before["returns"][0])["value"] == 42, "a result from before", c.value(before["returns"][0]))
    waiter.join(60)
    check(waited and waited[0].get("value") == 1500, "a task that ran", waited)


def test_each_run_after_a_kill_has_an_attempt_of_its_own(c):
    task = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [3000]}, expect=202)
    path = f"{V1}/tasks/{task['id']}"

    def running():
        record = json.loads(c.call("GET", path)[2])
        return record if record.get("state") == "running" else None

    for died in range(3):
        record = c.until("it runs", running)
        check(record["attempt"] == died + 1, "which run it is, while it runs", died, record)
        c.kill("mobula-node")
        c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200)
    # the gateway may have been asked before it had noticed the last death
    c.until("it ends", lambda: c.value(task["returns"][0]).get("value") == 3000)
    record = c.until("its record is there", lambda: json.loads(c.call("GET", path)[2]) if c.call("GET", path)[0] == 200 else None)
    check(record["attempt"] == 4, "three incarnations died with an attempt each", record)


def test_control_store_is_killed(c):
    c.kill("mobula-gcs")
    answers = []
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        status, headers, body = c.call("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]}, {"Prefer": "wait=5"})
        answers.append(status)
        check(status in (200, 202, 429, 503), "typed", status, body)
        if status == 200:
            break
    check(answers[-1] == 200, "goes on", answers)
    task = c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [3, 4]}, {"Prefer": "wait=10"})
    check(c.json("GET", f"{V1}/tasks/{task['id']}", expect=200)["returns"][0]["value"] == 7, "lineage is read")


def test_gateway_is_killed(c):
    c.deploy("mlp")
    c.json("PUT", f"{V1}/endpoints/mlp", {"class": "mlp.Mlp", "arguments": [1], "max_batch_size": 8}, expect=201)
    infer = {"inputs": [{"name": c.json("GET", "/v2/models/mlp")["inputs"][0]["name"], "shape": [1, 1024], "datatype": "FP32", "data": [0.5] * 1024}]}
    first = c.json("POST", "/v2/models/mlp/infer", infer, expect=200)
    slow = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [700]}, expect=202)
    position = c.json("GET", f"{V1}/events")["position"]
    c.kill("mobula-gateway")
    c.until("the gateway is back", lambda: back(c))
    check(c.value(slow["returns"][0])["value"] == 700, "its futures are found")
    c.until("its models are back", lambda: c.call("GET", "/v2/models/mlp/ready")[0] == 200)
    check(c.json("POST", "/v2/models/mlp/infer", infer, expect=200)["outputs"] == first["outputs"], "same model")
    types = []
    for _ in range(20):
        page = c.json("GET", f"{V1}/events?after={position}&task={slow['id']}&wait=5", expect=200)
        position, types = page["position"], types + [e["type"] for e in page["events"]]
        if "task.finished" in types:
            break
    check(types.count("task.finished") == 1, "events are resumed", types)
    check(c.run("arith.add", 5, 6)["result"] == 11, "tasks run")


def test_no_model_is_denied_before_all_are_known(c):
    """A gateway that cannot read the endpoints yet does not say that there are none: 404 is for ever, 503 is not."""
    infer = {"inputs": [{"name": "x", "shape": [1, 1024], "datatype": "FP32", "data": [0.5] * 1024}]}
    store = c.pid_of("mobula-gcs")
    os.kill(store, signal.SIGSTOP)
    try:
        c.kill("mobula-gateway")
        c.until("the gateway is back", lambda: lives(c))
        asked = (("GET", "/v2/models/mlp"), ("GET", "/v2/models/mlp/ready"), ("POST", "/v2/models/mlp/infer"), ("GET", f"{V1}/endpoints/mlp"),
                 ("GET", f"{V1}/endpoints"), ("DELETE", f"{V1}/endpoints/mlp"), ("GET", "/v2/models/none"), ("GET", "/readyz"))
        for method, path in asked:
            status, headers, body = c.call(method, path, infer if method == "POST" else None)
            check(status == 503 and "retry-after" in headers, f"{method} {path}: not now", status, body)
    finally:
        os.kill(store, signal.SIGCONT)
    c.until("the gateway is ready", lambda: back(c))
    c.until("its models are back", lambda: c.call("GET", "/v2/models/mlp/ready")[0] == 200)
    check(c.call("GET", "/v2/models/none")[0] == 404, "what was never there is denied again")
    c.json("GET", f"{V1}/endpoints/mlp", expect=200)


def test_what_a_dead_gateway_left_of_an_endpoint_ends(c):
    """A replica without an endpoint that a gateway finds when it starts, too young (by its name) to be taken for what nobody wants."""
    made_us = time.time_ns() // 1000 - 53_000_000
    options = {"name": f"endpoint/left/{made_us}", "detached": True, "max_restarts": -1, "resources": {"CPU": 0}}
    left = c.json("POST", V1 + "/actors", {"class": "mlp.Mlp", "arguments": [1], "options": options}, {"Prefer": "wait=30"}, expect=201)
    c.kill("mobula-gateway")
    c.until("the gateway is back", lambda: back(c))
    c.until("its models are back", lambda: c.call("GET", "/v2/models/mlp/ready")[0] == 200)
    c.until("it ends by itself", lambda: c.json("GET", f"{V1}/actors/{left['id']}")["state"] == "dead", 60)
    check(c.json("GET", f"{V1}/endpoints/mlp")["state"] == "ready", "one that has an endpoint lives")


def test_the_control_stores_figures_do_not_need_a_node(c):
    pid = c.pid_of("mobula-node")
    supervisor = int(open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGSTOP)  # so that no other one starts
    try:
        os.kill(pid, signal.SIGKILL)
        seen = c.until("without the node", lambda: "mobula_runtime_ready 0\n" in (text := c.call("GET", "/metrics")[2].decode()) and text)
        check('mobula_gcs_up{shard="0"} 1\n' in seen and "mobula_node_" not in seen, "the control store's alone", seen)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    c.until("with it again", lambda: "mobula_node_tasks{" in c.call("GET", "/metrics")[2].decode())


def test_jobs_outlive_gateway_and_node(c):
    """A job is known by its id, whoever opened it: tasks are submitted to it, and are new ones."""
    add = lambda job, a: {"function": "arith.add", "arguments": [a, 1], "job": job}

    def run(job, a):  # the gateway may be ready, and hear a moment later that the node has died, or join the job only now
        deadline = time.monotonic() + 60
        while True:
            status, _, body = c.call("POST", V1 + "/tasks", add(job, a), {"Prefer": "wait=30"})
            if status != 503 or time.monotonic() > deadline:
                check(status == 200, "a task of the job", status, body)
                return json.loads(body)
            time.sleep(0.05)

    keyed = lambda: c.json("POST", V1 + "/jobs", {"name": "keyed"}, {"Idempotency-Key": "a job"}, expect=201)["id"]
    jobs, tasks = [c.json("POST", V1 + "/jobs", {"name": "plain"}, expect=201)["id"], keyed()], {}
    for life in ("the first gateway", "the second", "the next node"):
        for job in jobs:
            answers = []
            threads = [threading.Thread(target=lambda a=a: answers.append((a, run(job, a)))) for a in range(6)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            check(all(t.get("result") == a + 1 for a, t in answers), f"results under {life}", answers)
            tasks.setdefault(job, set()).update(t["id"] for _, t in answers)
        if life == "the first gateway":
            c.kill("mobula-gateway")
            c.until("the gateway is back", lambda: back(c))
        elif life == "the second":
            check(keyed() == jobs[1], "the key's job")
            c.kill("mobula-node")
            c.until("the next node is there", lambda: back(c))
    for job in jobs:
        rows = c.json("POST", V1 + "/tasks:batch", {"function": "arith.add", "rows": [[1, 1], [2, 2]], "job": job}, expect=202)
        tasks[job].update(item["id"] for item in rows["items"])
        check(len(tasks[job]) == 20, "each task is another one", len(tasks[job]))
        listed = c.json("GET", f"{V1}/tasks?limit=100&filter=job:{job}", expect=200)["items"]
        check({t["id"] for t in listed} == tasks[job], "all are the job's", len(listed))
        check(c.json("GET", f"{V1}/jobs/{job}", expect=200)["state"] == "running", "it runs")
    check(c.call("DELETE", f"{V1}/jobs/{jobs[0]}")[0] == 202, "ended")
    for life in ("this gateway", "another"):
        check(c.json("POST", V1 + "/tasks", add(jobs[0], 1), expect=409)["code"] == "already-finished", f"it has ended, says {life}")
        check(c.json("POST", V1 + "/tasks", add("job_" + "a" * 20, 1), expect=404)["errors"][0]["pointer"] == "/job", f"unknown to {life}")
        if life == "this gateway":
            c.kill("mobula-gateway")
            c.until("the gateway is back", lambda: back(c))


def back(c):
    try:
        c.read_address()
        return c.call("GET", "/readyz", key=None)[0] == 200
    except (OSError, ValueError):
        return False


def lives(c):
    try:
        c.read_address()
        return c.call("GET", "/livez", key=None)[0] == 200
    except (OSError, ValueError):
        return False


def test_acknowledged_is_in_the_control_store(c):
    """Of a gateway whose session has moved to another node, which looks up each id first."""
    c.until("all is up", lambda: back(c))
    c.kill("mobula-node")
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200 and c.run("arith.add", 1, 2).get("result") == 3)
    connection = c.connect()
    made = [json.loads(c.call("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [i, i]}, connection=connection)[2]) for i in range(200)]
    for process in ("mobula-gateway", "mobula-node"):
        c.kill(process)
    c.until("all is back", lambda: back(c))
    c.until("tasks run", lambda: c.run("arith.add", 1, 2).get("result") == 3)
    for i, task in enumerate(made):
        check(c.value(task["returns"][0]).get("value") == 2 * i, "acknowledged", i, task)


def test_cluster_is_restarted(c):
    name = json.loads(c.call("POST", V1 + "/objects", b"kept", {"Content-Type": "application/octet-stream"})[2])["id"]
    task = c.run("arith.add", ref(c.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2]})["returns"][0]), 4)
    c.down()
    c.up()
    check(c.json("GET", f"{V1}/tasks/{task['id']}", expect=200)["state"] == "finished", "finished tasks are there")
    check(c.value(task["returns"][0])["value"] == 7, "and their results")
    check(c.call("GET", f"{V1}/objects/{name}/data?wait=5")[2] == b"kept", "and what was put")
    check(c.run("arith.add", 1, 1)["result"] == 2, "tasks run")


if __name__ == "__main__":
    main(dict(globals()))
