"""Programs whose tasks make more tasks than they finish, in the standing job, where all work over HTTP lies."""
from lib_http_cluster import at_once, check, main

V1 = "/api/v1"


def queue(c):
    return c.json("GET", V1 + "/cluster")["queue"]


def runaway(c, depth=100):
    """The root of a tree that nobody lives to see the end of; it has ended itself, and its tree goes on."""
    c.deploy("probe")
    root = c.json("POST", V1 + "/tasks", {"function": "probe.tree", "arguments": [depth]}, expect=202)
    c.until("the root became another task", lambda: c.json("GET", f"{V1}/tasks/{root['id']}").get("state") == "finished")
    c.until("the tree grows", lambda: queue(c)["tasks"] > 150)
    return root


def ended(c, root):
    check(c.value(root["returns"][0])["error"]["code"] == "cancelled", "the root's future", root)
    c.until("nothing of the tree is left", lambda: queue(c)["tasks"] == 0)


def test_a_runaway_tree_is_cancelled_by_its_root(c):
    root = runaway(c)
    why = c.json("GET", f"{V1}/tasks/{root['id']}/why", expect=200)
    check(why["reason"] == "continued" and len(why["inputs"]) == 1, "why", why)
    check(c.json("GET", f"{V1}/objects/{root['returns'][0]}", expect=200)["state"] == "pending", "pending")
    check(c.call("POST", f"{V1}/tasks/{root['id']}:cancel")[0] == 202, "cancel")
    ended(c, root)
    again = c.json("POST", f"{V1}/tasks/{root['id']}:cancel", expect=409)
    check(again["code"] == "already-finished", "cancelled before", again)
    check(c.run("probe.tree", 6)["result"] == 64, "a tree that ends")


def test_what_an_ended_task_left_running_is_cancelled(c):
    """Its tree has grown past its own end, and other trees beside it."""
    c.deploy("probe")
    other = c.json("POST", V1 + "/tasks", {"function": "probe.sleeps", "arguments": [600000]}, expect=202)
    root = c.run("probe.sprawl", 100)
    check(root["result"] == 100, "the root has ended", root)
    c.until("the tree grows", lambda: queue(c)["tasks"] > 150)
    check(c.call("POST", f"{V1}/tasks/{root['id']}:cancel")[0] == 202, "cancel")
    c.until("nothing of the tree is left", lambda: queue(c)["tasks"] == 1)
    again = c.json("POST", f"{V1}/tasks/{root['id']}:cancel", expect=409)
    check(again["code"] == "already-finished" and "nothing lives below it" in again["detail"], "cancelled before", again)
    check(c.json("GET", f"{V1}/tasks/{root['id']}")["state"] == "finished", "it stays as it is")
    check(c.json("GET", f"{V1}/tasks/{other['id']}")["state"] == "running", "what is beside it")
    c.call("POST", f"{V1}/tasks/{other['id']}:cancel", {"force": True})
    c.until("the end", lambda: queue(c)["tasks"] == 0)


def tasks_left(c):
    """None while there is no node."""
    return c.json("GET", V1 + "/cluster").get("queue", {}).get("tasks")


def test_what_an_ended_task_left_running_is_cancelled_after_a_restart(c):
    c.deploy("probe")
    root = c.run("probe.leaves", 2, 600000)
    check(root["result"] == 2, "the root has ended", root)
    c.until("its children have, too", lambda: queue(c)["tasks"] == 4)
    other = c.json("POST", V1 + "/tasks", {"function": "probe.sleeps", "arguments": [600000]}, expect=202)
    c.kill("mobula-node")
    c.until("what was left goes on", lambda: tasks_left(c) == 5)
    check(c.call("POST", f"{V1}/tasks/{root['id']}:cancel", {"force": True})[0] == 202, "cancel")
    c.until("nothing of the tree is left", lambda: queue(c)["tasks"] == 1)
    c.until("what is beside it runs", lambda: c.json("GET", f"{V1}/tasks/{other['id']}")["state"] == "running")
    check(c.json("POST", f"{V1}/tasks/{root['id']}:cancel", expect=409)["code"] == "already-finished", "cancelled before")
    c.call("POST", f"{V1}/tasks/{other['id']}:cancel", {"force": True})
    c.until("the end", lambda: queue(c)["tasks"] == 0)


def test_what_many_ask_for_at_once_after_a_restart_is_there(c):
    """A result that the node has to look up, step by step along what became what: nobody is told that it is pending."""
    c.deploy("probe")
    roots = [c.run("probe.tree", 3)["returns"][0] for _ in range(40)]
    c.kill("mobula-node")
    c.until("the next node runs tasks", lambda: c.run("probe.echo_i64", 1).get("result") == 1)
    for root in roots:
        seen = at_once([lambda: c.json("GET", f"{V1}/objects/{root}", expect=200)] * 8)
        check(all(o["state"] == "ready" and o["value"] == 8 for o in seen), "a result", seen)


def test_others_are_served_beside_a_runaway_tree(c):
    root = runaway(c)
    done = [c.run("probe.echo_i64", i) for i in range(20)]
    check([answer.get("result") for answer in done] == list(range(20)), "tasks beside the tree", done)
    nested = c.run("probe.nested_sum", 10)
    check(nested.get("result") == 55, "a program of several tasks beside the tree", nested)
    check(queue(c)["tasks"] > 150, "the tree still runs")
    c.call("POST", f"{V1}/tasks/{root['id']}:cancel")
    ended(c, root)


def test_ending_the_job_ends_its_trees(c):
    c.deploy("probe")
    job = c.json("POST", V1 + "/jobs", {"name": "trees"}, expect=201)["id"]
    c.json("POST", V1 + "/tasks", {"function": "probe.tree", "arguments": [100], "job": job}, expect=202)
    c.until("the tree grows", lambda: queue(c)["tasks"] > 150)
    check(c.call("DELETE", f"{V1}/jobs/{job}")[0] in (200, 202, 204), "end of the job")
    c.until("nothing of the tree is left", lambda: queue(c)["tasks"] == 0)


def open_job(c, **body):
    return c.json("POST", V1 + "/jobs", body, expect=201)["id"]


def job(c, name):
    return c.json("GET", f"{V1}/jobs/{name}")


def test_jobs_share_by_their_weights(c):
    c.deploy("probe")
    for wrong in (0, 1001, -1, 1.5, "heavy"):
        answer = c.json("POST", V1 + "/jobs", {"weight": wrong}, expect=422)
        check(answer["errors"][0]["pointer"] == "/weight", "weight", wrong, answer)
    heavy, light, plain = open_job(c, name="heavy", weight=300), open_job(c, name="light", weight=100), open_job(c)
    check([job(c, name)["weight"] for name in (heavy, light, plain)] == [300, 100, 100], "weights")
    for name in (heavy, light):
        rows = {"function": "probe.sleeps", "rows": [[10]] * 1000, "job": name}
        check(len(c.json("POST", V1 + "/tasks:batch", rows, expect=202)["items"]) == 1000, "batch")
    begun = job(c, light)["finished"]  # the one that came first had both workers until now
    before = job(c, heavy)["finished"]
    c.until("some of the light ones are done", lambda: job(c, light)["finished"] >= begun + 50)
    done = job(c, heavy)["finished"] - before, job(c, light)["finished"] - begun
    check(2.2 < done[0] / done[1] < 3.8, "three to one", before, begun, done)
    c.kill("mobula-node")
    c.until("the node is back", lambda: c.call("GET", "/readyz")[0] == 200)
    c.until("the job is back", lambda: job(c, heavy).get("weight") == 300)
    for name in (heavy, light):
        c.call("DELETE", f"{V1}/jobs/{name}")
    c.until("they end", lambda: queue(c)["tasks"] == 0)


main(dict(globals()), "--slots", "2")
