#!/usr/bin/env python3
# ctest: timeout=300 long
"""The main job on a cluster of its own, over HTTP: it learns, its lineage has every step, and kill -9 changes nothing."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import lib_kill  # noqa: F401  pylint: disable=unused-import

BIN = pathlib.Path(os.environ.get("MOBULA_BIN_DIR", "build/release/bin"))
MODULES = pathlib.Path(os.environ.get("MOBULA_MODULE_DIR", "build/release/modules"))
SIMULATORS = 10
SOLVED = 475
ENDED = ("finished", "failed", "cancelled")
WAIT_S = 120  # far above what sanitizers make of a second


class Cluster:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-train-")
        try:
            self.mobula("up", "--detach", "--no-postgres", "--slots", "2", "--segment-bytes", "256MiB")
        except Exception:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self.address = self.read("gateway.addr").strip()
        self.token = self.read("token").split()[0]

    def read(self, name):
        return pathlib.Path(self.directory, name).read_text()

    def mobula(self, *arguments):
        command = [str(BIN / "mobula"), *arguments, "--dir", self.directory]
        subprocess.run(command, check=True, timeout=WAIT_S, stdout=subprocess.DEVNULL)

    def close(self):
        try:
            self.mobula("down")
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def call(self, method, path, body=None, media="application/json"):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": "Bearer " + self.token}
        if data is not None:
            headers["Content-Type"] = media
        request = urllib.request.Request("http://" + self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def get(self, path):
        """Asks again while something restarts."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self.call("GET", path)
            except (OSError, http.client.HTTPException, AssertionError) as error:
                if isinstance(error, AssertionError) and " 503 " not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def process(self, name):
        """What the supervisor says of it: pid, restarts."""
        processes = json.loads(self.read("supervisor.json"))["processes"]
        return next(p for p in processes if p["name"] == name)

    def items(self, path, key):
        """Every page of a list."""
        found, cursor = [], None
        while True:
            separator = "&" if "?" in path else "?"
            page = self.call("GET", path + (separator + "cursor=" + cursor if cursor else ""))
            found += page[key]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def position(self):
        return self.call("GET", "/api/v1/events")["position"]

    def submit(self, *arguments):
        body = {"function": "train_policy.train_policy", "arguments": list(arguments)}
        return self.call("POST", "/api/v1/tasks", body)

    def events(self, task, position, until):
        """The task's events from a position on, until one fulfils `until`."""
        found, deadline = [], time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            page = self.call("GET", f"/api/v1/events?task={task}&after={position}&wait=5")
            position = page["position"]
            found += page["events"]
            if any(until(event) for event in page["events"]):
                return found
        raise AssertionError(f"not seen in {WAIT_S} s, but {found[-3:]}")

    def result(self, task):
        """The summary that train_policy returns."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            answer = self.get(f"/api/v1/objects/{task['returns'][1]}?wait=20")
            if answer["state"] == "failed":
                raise AssertionError(answer)
            if answer["state"] == "ready":
                return answer["value"]
        raise AssertionError(f"no result in {WAIT_S} s: {answer}")


def has_ended(event):
    return event["type"] in ("task.finished", "task.failed", "task.cancelled")


class TrainPolicyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        module = (MODULES / "train_policy.so").read_bytes()
        cls.cluster.call("POST", "/api/v1/functions", module, "application/octet-stream")

    def simulators_of(self, task):
        """The actors that this run has created: actor ids are the ids of the tasks that create them."""
        mine = {t["actor"] for t in self.cluster.items("/api/v1/tasks?limit=1000", "items")
                if t["parent"] == task["id"] and "actor" in t}
        return [a for a in self.cluster.items("/api/v1/actors?limit=100", "items") if a["id"] in mine]

    def check_lineage(self, summary):
        """One update for each iteration, each from the policy before it and one rollout of each simulator; each call
        of a simulator has the state that the call before it left."""
        nodes = self.cluster.items(f"/api/v1/objects/{summary['policy']}/lineage?depth=1000&limit=1000", "nodes")
        by_task = {node["task"]: node for node in nodes}
        self.assertEqual(len(by_task), len(nodes))
        of = {}
        for node in nodes:
            of.setdefault(node["function"], []).append(node)
        iterations = summary["iterations"]
        self.assertEqual({name: len(nodes) for name, nodes in of.items()}, {
            "train_policy.create_policy": 1,
            "train_policy.update_policy": iterations,
            "train_policy.Simulator": SIMULATORS,
            "train_policy.Simulator.rollout": SIMULATORS * iterations,
        })
        for update in of["train_policy.update_policy"]:
            self.assertEqual(len(update["inputs"]), 1 + SIMULATORS)
        calls = {}
        for call in of["train_policy.Simulator.rollout"]:
            calls.setdefault(call["actor"], {})[call["position"]] = call
        self.assertEqual(len(calls), SIMULATORS)
        for positions in calls.values():
            self.assertEqual(sorted(positions), list(range(iterations)))
            for position, call in positions.items():
                before = by_task[call["stateful_parent"]]
                if position == 0:
                    self.assertEqual(before["kind"], "actor_create")
                else:
                    self.assertEqual(before["task"], positions[position - 1]["task"])

    def test_learns_and_reports_each_iteration(self):
        position = self.cluster.position()
        task = self.cluster.submit(1)
        summary = self.cluster.result(task)
        self.assertGreaterEqual(summary["mean_return"], SOLVED)
        events = self.cluster.events(task["id"], position, has_ended)
        numbers = [e["data"]["iteration"] for e in events if e["type"] == "iteration"]
        self.assertEqual(numbers, list(range(1, summary["iterations"] + 1)))
        self.check_lineage(summary)
        again = self.cluster.result(self.cluster.submit(1))
        self.assertEqual(again["fingerprint"], summary["fingerprint"])
        self.assertEqual(again["mean_return"], summary["mean_return"])

    def test_ends_its_simulators(self):
        task = self.cluster.submit(2, 1)
        self.cluster.result(task)
        actors = self.simulators_of(task)
        self.assertEqual(len(actors), SIMULATORS)
        deadline = time.monotonic() + WAIT_S
        while any(actor["state"] != "dead" for actor in actors) and time.monotonic() < deadline:
            time.sleep(0.05)
            actors = self.simulators_of(task)
        self.assertEqual({actor["state"] for actor in actors}, {"dead"})

    def test_kill_9_of_a_simulator_changes_nothing(self):
        iterations = 240  # a second on a fast machine: it has not ended when one is killed
        undisturbed = self.cluster.result(self.cluster.submit(3, iterations))
        position = self.cluster.position()
        task = self.cluster.submit(3, iterations)
        self.cluster.events(task["id"], position,
                            lambda e: e["type"] == "iteration" and e["data"]["iteration"] >= 20)
        victim = self.simulators_of(task)[4]
        self.assertEqual(victim["state"], "alive")
        os.kill(victim["pid"], signal.SIGKILL)
        summary = self.cluster.result(task)
        self.assertEqual(summary["fingerprint"], undisturbed["fingerprint"])
        self.assertEqual(summary["mean_return"], undisturbed["mean_return"])
        restarted = [a for a in self.simulators_of(task) if a["incarnation"] > victim["incarnation"]]
        self.assertEqual([a["id"] for a in restarted], [victim["id"]])
        self.check_lineage(summary)

    def test_kill_9_of_any_other_process_changes_nothing(self):
        iterations = 60
        undisturbed = self.cluster.result(self.cluster.submit(4, iterations))
        for name in ("node", "gcs", "redis", "gateway"):
            with self.subTest(name):
                position = self.cluster.position()
                task = self.cluster.submit(4, iterations)
                self.cluster.events(task["id"], position,
                                    lambda e: e["type"] == "iteration" and e["data"]["iteration"] >= 15)
                self.assertNotIn(self.cluster.get(f"/api/v1/tasks/{task['id']}")["state"], ENDED)
                victim = self.cluster.process(name)
                os.kill(victim["pid"], signal.SIGKILL)
                summary = self.cluster.result(task)
                self.assertGreater(self.cluster.process(name)["restarts"], victim["restarts"])
                self.assertEqual(summary["fingerprint"], undisturbed["fingerprint"])
                self.check_lineage(summary)

    def test_trained_policy_answers_requests(self):
        task = self.cluster.submit(1)
        self.cluster.result(task)
        self.cluster.call("PUT", "/api/v1/endpoints/balancer", {
            "class": "train_policy.CartpolePolicy", "arguments": [{"$ref": task["returns"][0]}]})
        falling = [[0, 0, 0.1, 0.5], [0, 0, -0.1, -0.5]]
        answer = self.cluster.call("POST", "/v2/models/balancer/infer", {"inputs": [
            {"name": "observation", "datatype": "FP32", "shape": [2, 4], "data": falling}]})
        output = answer["outputs"][0]
        self.assertEqual((output["name"], output["shape"]), ("probabilities", [2, 2]))
        left, right, left2, right2 = output["data"]
        self.assertAlmostEqual(left + right, 1, places=5)
        self.assertGreater(right, 0.5)
        self.assertGreater(left2, 0.5)
        self.assertAlmostEqual(left2 + right2, 1, places=5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
