"""Two gateways of one cluster, asked for the same thing at once: keys and names have one outcome.   ctest: timeout=240"""
import http.client
import json
import os
import signal
import subprocess
import threading

from lib_http_cluster import BIN, Cluster, at_once, check, main

V1 = "/api/v1"
ROUNDS = 8


class Gateway(Cluster):
    """One more gateway of a cluster that runs."""

    def __init__(self, cluster):
        self.directory, first = cluster.directory, (cluster.host, cluster.port)
        self.process = subprocess.Popen([BIN + "/mobula-gateway", "--dir", self.directory, "--listen", "127.0.0.1:0"])
        self.token = cluster.token

        def is_there():
            self.read_address()  # both write it, the later one stands
            return (self.host, self.port) != first and self.call("GET", "/readyz", key=None)[0] == 200

        cluster.until("the second gateway serves", is_there)
        with open(self.directory + "/gateway.addr", "w", encoding="ascii") as file:   # for the command line, and the next test
            file.write(f"{first[0]}:{first[1]}\n")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(60) == 0, "the second gateway ends well", self.process.returncode)


def post_at_once(requests):
    """(gateway, path, body, headers) all together; their (status, headers, answer)."""
    connections = [gateway.connect() for gateway, *_ in requests]

    def ask(i):
        gateway, path, body, headers = requests[i]
        status, head, data = gateway.call("POST", V1 + path, body, headers, connection=connections[i])
        return status, head, json.loads(data)

    for connection in connections:
        connection.connect()
    answers = at_once([lambda i=i: ask(i) for i in range(len(requests))])
    for connection in connections:
        connection.close()
    return answers


def insist(gateway, path, body, headers):
    """Until the first request with this key does not run any more."""
    def ask():
        status, head, data = gateway.call("POST", V1 + path, body, headers)
        return (status, head, json.loads(data)) if status != 409 or json.loads(data)["code"] != "again" else None

    return gateway.until("an outcome", ask)


def is_running(answer):
    return answer[0] == 409 and answer[2]["code"] == "again" and "retry-after" in answer[1]


def add(a, b, **options):
    return {"function": "arith.add", "arguments": [a, b], "options": options}


def test_one_gateway_and_one_name(c):
    c.deploy("arith")
    c.deploy("quickstart")
    for n in range(ROUNDS):
        answers = post_at_once([(c, "/actors", actor(f"alone-{n}", "return"), {"Prefer": "wait=60"})] * 4)
        check(sorted((a[0], a[2]["state"]) for a in answers) == [(200, "finished")] * 3 + [(201, "finished")], "all hear of the creation", n, answers)
        check(len({a[2]["id"] for a in answers}) == 1, "of the same one", answers)


def test_one_key_and_one_body(c):
    second = Gateway(c)
    try:
        for gateways in ([c], [c, second]):
            for n in range(ROUNDS):
                name = f"same-{len(gateways)}-{n}"
                request = "/tasks", add(n, 1, timeout_ms=60000, name=name), {"Idempotency-Key": name}
                answers = post_at_once([(gateways[i % len(gateways)], *request) for i in range(6)])
                taken = [a for a in answers if a[0] == 202]
                check(taken and all(a[0] == 202 or is_running(a) for a in answers), "taken, or it runs still", name, answers)
                check(len({a[2]["id"] for a in taken}) == 1, "one task", name, answers)
                for gateway in gateways:
                    status, head, answer = insist(gateway, *request)
                    check(status == 202 and answer["id"] == taken[0][2]["id"] and head.get("idempotent-replayed") == "true",
                          "and the same ever after", name, status, head, answer)
                check(c.value(taken[0][2]["returns"][0]).get("value") == n + 1, "its value", name)
                listed = c.json("GET", f"{V1}/tasks?filter=name:{name}", expect=200)["items"]
                check([one["id"] for one in listed] == [taken[0][2]["id"]], "and in the list, once", name, listed)
    finally:
        second.end()


def test_one_key_and_two_bodies(c):
    second = Gateway(c)
    try:
        for gateways in ([c], [c, second]):
            for n in range(ROUNDS):
                name = f"other-{len(gateways)}-{n}"
                headers = {"Idempotency-Key": name}
                answers = post_at_once([(gateways[i // 2 % len(gateways)], "/tasks", add(n, i % 2, name=name), headers) for i in range(8)])
                taken = [i for i, a in enumerate(answers) if a[0] == 202]
                check(taken and all(a[0] in (202, 422) or is_running(a) for a in answers), "taken, refused, or it runs still", name, answers)
                check(len({i % 2 for i in taken}) == 1, "one of both bodies", name, answers)
                check(all(answers[i][0] == 422 or is_running(answers[i]) for i in range(8) if i % 2 != taken[0] % 2), "the other is not taken", name, answers)
                check(all(answers[i][0] != 422 for i in range(8) if i % 2 == taken[0] % 2), "and nobody is told so of the one that is", name, answers)
                for gateway in gateways:
                    check(insist(gateway, "/tasks", add(n, 1 - taken[0] % 2, name=name), headers)[0] == 422, "ever after", name)
                listed = c.json("GET", f"{V1}/tasks?filter=name:{name}", expect=200)["items"]
                check(len(listed) == 1, "one task", name, listed)
    finally:
        second.end()


def actor(name, exists):
    return {"class": "quickstart.Counter", "arguments": [1], "options": {"name": name, "if_exists": exists}}


def living(c, name):
    return [a["id"] for a in c.json("GET", f"{V1}/actors?filter=name:{name}", expect=200)["items"] if a["state"] != "dead"]


def test_one_name_has_one_actor(c):
    second = Gateway(c)
    try:
        for n in range(ROUNDS):
            for headers in ({}, {"Prefer": "wait=20"}):
                name = f"failing-{n}-{len(headers)}"
                answers = post_at_once([((c, second)[i % 2], "/actors", actor(name, "fail"), headers) for i in range(4)])
                made = [a for a in answers if a[0] == 201]
                check(len(made) == 1, "one creation", name, answers)
                check(all(a[0] == 201 or a[0] == 409 and a[2]["code"] == "already-exists" for a in answers), "the others exist", name, answers)
                check(living(c, name) == [made[0][2]["id"]], "it lives", name, living(c, name))
                name = f"returning-{n}-{len(headers)}"
                answers = post_at_once([((c, second)[i % 2], "/actors", actor(name, "return"), headers) for i in range(4)])
                check(sorted(a[0] for a in answers) == [200, 200, 200, 201], "one creation", name, answers)
                check({a[2]["id"] for a in answers} == set(living(c, name)), "all have the one that lives", name, answers, living(c, name))
    finally:
        second.end()


def test_a_gateway_that_is_owed_answers_ends_well(c):
    """What it asked the control store is given up, and freed: with sanitizers a leak is an exit status of its own."""
    task = c.json("POST", V1 + "/tasks", add(1, 2), {"Prefer": "wait=20"}, expect=200)
    second, store = Gateway(c), c.pid_of("mobula-gcs")
    paths = ["/tasks", "/tasks?filter=state:failed", "/tasks?sort=name", "/objects", f"/objects/{task['returns'][0]}/lineage", "/timeline", "/tasks/task_" + "a" * 26]

    def ask(path):
        try:
            return second.call("GET", path)[0]
        except (OSError, http.client.HTTPException):
            return None  # the connection ended with the gateway

    os.kill(store, signal.SIGSTOP)
    try:
        threads = [threading.Thread(target=ask, args=(path,)) for path in [V1 + p for p in paths] + ["/metrics"]]
        for thread in threads:
            thread.start()
        for _ in range(5):
            check(second.call("GET", V1 + "/cluster")[0] == 200, "the node answers meanwhile")
        second.end()
    finally:
        os.kill(store, signal.SIGCONT)
    for thread in threads:
        thread.join(60)


def test_a_job_that_another_gateway_has_ended_takes_no_more(c):
    c.deploy("arith")
    second = Gateway(c)
    try:
        for path, headers in (("/tasks", {}), ("/tasks", {"Prefer": "wait=60"}), ("/tasks", {"Idempotency-Key": "too late"}), ("/tasks:batch", {})):
            job = c.json("POST", V1 + "/jobs", {"name": "shared"}, expect=201)["id"]
            body = {"function": "arith.add", "job": job, **({"rows": [[1, 2], [3, 4]]} if "batch" in path else {"arguments": [1, 2]})}
            used = second.json("POST", V1 + "/tasks", {"function": "arith.add", "arguments": [1, 2], "job": job}, {"Prefer": "wait=60"})
            check(used.get("result") == 3, "the second one uses it", path, used)
            check(c.call("DELETE", f"{V1}/jobs/{job}")[0] == 202, "the first one ends it")
            for _ in range(2):
                answer = second.json("POST", V1 + path, body, headers, expect=409)
                check(answer["code"] == "already-finished" and answer["errors"][0]["pointer"] == "/job", "it has ended", path, headers, answer)
            check(len(c.json("GET", f"{V1}/tasks?filter=job:{job}", expect=200)["items"]) == 1, "nothing of it was taken", path, headers)
    finally:
        second.end()


def test_a_gateway_ends_though_its_node_hangs(c):
    """Each session waited ten seconds for the node; and what is open is answered."""
    second = Gateway(c)
    for i in range(8):
        second.json("POST", V1 + "/jobs", {"name": f"of the second {i}"}, expect=201)
    node, open_ones = c.pid_of("mobula-node"), []
    os.kill(node, signal.SIGSTOP)
    try:
        for path in ("/nodes", "/jobs", "/actors", "/events?wait=30"):
            connection = second.connect()
            connection.request("GET", V1 + path, headers={"Authorization": "Bearer " + c.token})
            open_ones.append(connection)
        for _ in range(5):  # come behind them
            check(second.call("GET", "/livez", key=None)[0] == 200, "the gateway is well")
        second.end()
    finally:
        os.kill(node, signal.SIGCONT)
    answers = []
    for connection in open_ones:
        try:
            answers.append(json.loads(connection.getresponse().read()))
        except (OSError, http.client.HTTPException):
            pass  # it was not read before the connection ended
    said = {(p["type"], p["status"], p["code"], p["retryable"]) for p in answers}
    check(said == {("urn:mobula:error:unavailable", 503, "unavailable", True)} and all(p["request_id"] for p in answers), "a problem like others", answers)
    check(c.json("GET", V1 + "/nodes", expect=200)["items"][0]["name"] == "node", "the node goes on")


if __name__ == "__main__":
    main(dict(globals()))
