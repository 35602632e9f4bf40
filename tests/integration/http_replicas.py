"""A model whose actor waits to be placed: callers are told so, and what it waits for.   ctest: timeout=240"""
import json
import os
import signal

from lib_http_cluster import at_once, check, main

V1 = "/api/v1"


def infer(c, name="waits"):
    return c.call("POST", f"/v2/models/{name}/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]})


def is_served(c):
    return infer(c)[0] == 200


def takes_the_cpu(c):
    """A task that runs until it is cancelled; its id."""
    task = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [600000]}, expect=202)["id"]
    c.until("the CPU is taken", lambda: c.json("GET", f"{V1}/tasks/{task}")["state"] == "running")
    return task


def gives_the_cpu(c, task):
    c.json("POST", f"{V1}/tasks/{task}:cancel", {"force": True}, expect=202)


def actor_of(c, name):
    return c.json("GET", V1 + "/actors/" + c.json("GET", f"{V1}/endpoints/{name}")["actor"])


def kill_the_replica(c, name="waits"):
    os.kill(actor_of(c, name)["pid"], signal.SIGKILL)
    c.until("its death is known", lambda: actor_of(c, name)["state"] == "restarting")


def check_told(answer, what):
    status, headers, body = answer
    problem = json.loads(body)
    check(status == 503 and problem["code"] == "not-placed" and problem["retryable"], f"{what}: a typed answer", status, body)
    check("CPU: 1 needed, 0 of 1 free" in problem["detail"], f"{what}: what is missing", problem["detail"])
    check(int(headers.get("retry-after", 0)) >= 1, f"{what}: when to come again", headers)


def test_a_replica_that_waits_for_a_cpu(c):
    c.deploy("quickstart")
    c.deploy("batcher")
    c.json("PUT", V1 + "/endpoints/waits", {"class": "batcher.Batcher", "arguments": [0]}, expect=201)
    check(is_served(c), "it is served")
    task = takes_the_cpu(c)
    check(is_served(c), "an actor that lives needs no CPU of its own")
    kill_the_replica(c)
    check_told(infer(c), "sent already")
    check_told(infer(c), "held back")
    shown = c.json("GET", V1 + "/endpoints/waits", expect=200)
    check(shown["state"] == "starting" and "CPU" in shown["error"], "the endpoint says so too", shown)
    status, _, body = c.call("GET", "/v2/models/waits/ready")
    check(status == 503, "it is not ready", status, body)
    gives_the_cpu(c, task)
    c.until("it is served again", lambda: is_served(c))
    shown = c.json("GET", V1 + "/endpoints/waits", expect=200)
    check(shown["state"] == "ready" and shown["error"] == "", "and ready", shown)


def test_a_gateway_that_finds_it_waiting(c):
    task = takes_the_cpu(c)
    kill_the_replica(c)
    c.kill("mobula-gateway")

    def is_known():
        try:
            c.read_address()
            return c.call("GET", "/v2/models/waits")[0] == 200
        except (OSError, ValueError):
            return False

    c.until("the model is known again", is_known)
    check_told(infer(c), "of a gateway that did not make it")
    gives_the_cpu(c, task)
    c.until("it is served", lambda: is_served(c))


def seen_by(answer):
    return json.loads(answer[2])["outputs"][0]["data"]


def test_what_was_sent_does_not_run_for_nobody(c):
    c.json("PUT", V1 + "/endpoints/tally", {"class": "batcher.Tally"}, expect=201)
    check(seen_by(infer(c, "tally"))[0] == 1, "it counts its calls")
    task = takes_the_cpu(c)
    kill_the_replica(c, "tally")
    told = at_once([lambda: infer(c, "tally")] * 3)  # two are sent, one waits behind them
    for answer in told:
        check_told(answer, "of three at once")
    gives_the_cpu(c, task)
    answers = []

    def answered():
        answers.append(infer(c, "tally"))
        return answers[-1][0] == 200

    c.until("it is served again", answered)
    check(seen_by(answers[-1])[0] == 1, "the new process ran what was asked since, and nothing before it", answers[-1])


def test_a_put_that_cannot_place_its_actor(c):
    task = takes_the_cpu(c)
    check_told(c.call("PUT", V1 + "/endpoints/late", {"class": "batcher.Batcher", "arguments": [0]}), "PUT")
    check(c.call("GET", V1 + "/endpoints/late")[0] == 404, "nothing was made")
    gives_the_cpu(c, task)
    c.json("PUT", V1 + "/endpoints/late", {"class": "batcher.Batcher", "arguments": [0]}, expect=201)


if __name__ == "__main__":
    main(dict(globals()), "--slots", "1")
