"""`mobula up` with everything real: a session on the command line, kill -9 of each process under work, restart of the whole.

ctest: timeout=300
"""
import json
import os
import re
import signal
import time
import unittest
import urllib.error
import urllib.request

from lib_cli_cluster import ClusterCase

PROCESSES = ["redis", "gcs", "node", "gateway"]
STOP_SECONDS = 10  # against hanging only, on machines of others; 2 is what a stop is meant to take


class Cluster(ClusterCase):
    def wait(self, what, condition, seconds=90):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.05)
        self.fail(f"{what} did not come: {self.status()}{self.logs()}")

    def wait_ready(self, name, restarts):
        self.wait(f"restart of {name}", lambda: self.process(name)["restarts"] >= restarts and self.status()["state"] == "ready")

    def test_a_session(self):
        self.up()
        self.deploy()
        self.assertEqual("42", self.out("submit", "quickstart.add", "40", "2", "--wait"))
        answer = json.loads(self.out("submit", "quickstart.add", "1", "2", "-o", "json"))
        task, first = answer["id"], answer["returns"][0]
        self.assertEqual("3", self.out("get", first))
        self.assertEqual("3", self.out("get", task))
        self.assertEqual("13", self.out("submit", "quickstart.add", first, "10", "--wait"))
        self.assertIn(task, self.out("list", "tasks", "-o", "name").split())
        self.assertIn("quickstart.add", self.out("list", "functions"))
        self.assertNotEqual("", self.out("list", "nodes"))
        self.assertIn(f"quickstart.add  {task}", self.out("lineage", first))
        trace = self.dir / "trace.json"
        self.mobula("timeline", "-o", str(trace), code=0)
        self.assertGreater(len(json.loads(trace.read_text())["traceEvents"]), 0)
        self.assertEqual(2, self.mobula("submit", "quickstart.add", "one", "2").returncode)
        self.assertEqual(3, self.mobula("submit", "quickstart.no_such_function", "1").returncode)

    def test_names_of_the_gateway(self):
        self.environment["MOBULA_HOSTS"] = "a.example,B.example"
        self.up()
        port = (self.dir / "gateway.addr").read_text().strip().rsplit(":", 1)[1]

        def status_under(host):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/cluster", headers={"Host": host})  # without a key
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        known, unknown = ("a.example", f"b.EXAMPLE:{port}", "localhost"), ("c.example", "xa.example")
        self.assertEqual({host: status_under(host) for host in known + unknown}, {**dict.fromkeys(known, 401), **dict.fromkeys(unknown, 421)})

    def test_why_a_task_waits(self):
        self.up()
        self.deploy()
        pause = json.loads(self.out("submit", "quickstart.pause", "60000", "-o", "json"))
        waiting = json.loads(self.out("submit", "quickstart.add", pause["returns"][0], "1", "-o", "json"))
        self.assertIn(pause["returns"][0], self.out("why", waiting["id"], "-o", "json"))
        self.assertEqual(7, self.mobula("get", waiting["id"], "--timeout", "0.2").returncode)
        self.assertEqual("", self.out("cancel", pause["id"]))
        self.assertIn("because cancelled", self.mobula("get", waiting["id"]).stderr)
        self.assertEqual(5, self.mobula("cancel", waiting["id"]).returncode)

    def test_every_process_may_be_killed_under_work(self):
        self.up()
        self.deploy()
        for restarts, name in enumerate(PROCESSES * 2):
            before = [json.loads(self.out("submit", "quickstart.add", str(i), "1", "-o", "json"))["id"] for i in range(5)]
            os.kill(self.process(name)["pid"], signal.SIGKILL)
            after = [json.loads(self.out("submit", "quickstart.add", str(i), "2", "-o", "json"))["id"] for i in range(5)]
            self.assertEqual([str(i + 1) for i in range(5)], [self.out("get", task, "--timeout", "60") for task in before], name)
            self.assertEqual([str(i + 2) for i in range(5)], [self.out("get", task, "--timeout", "60") for task in after], name)
            self.wait_ready(name, restarts // len(PROCESSES) + 1)

    def test_a_restart_of_everything_keeps_results_and_runs_the_rest(self):
        self.up()
        self.deploy()
        done = json.loads(self.out("submit", "quickstart.add", "20", "1", "-o", "json"))["returns"][0]
        self.assertEqual("21", self.out("get", done))
        unfinished = json.loads(self.out("submit", "quickstart.pause", "300", "-o", "json"))["id"]
        began = time.monotonic()
        self.mobula("down", code=0)
        self.assertLess(time.monotonic() - began, 10)  # it did not wait for what is unfinished
        self.up()
        self.assertEqual("21", self.out("get", done, "--timeout", "60"))
        self.assertEqual("300", self.out("get", unfinished, "--timeout", "60"))
        self.assertEqual("5", self.out("submit", "quickstart.add", "2", "3", "--timeout", "60"))

    def call(self, method, path, body=None):
        """Over HTTP; what it returns is acknowledged."""
        address = (self.dir / "gateway.addr").read_text().strip()
        token = (self.dir / "token").read_text().split()[0]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{address}/api/v1/{path}", method=method, headers=headers,
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def test_a_stop_under_work_loses_nothing_acknowledged(self):
        self.up("--slots", "2")
        self.deploy()
        counter = self.call("POST", "actors", {"class": "quickstart.Counter", "arguments": [100], "options": {"name": "kept"}})["id"]
        add = {"arguments": [1]}
        self.assertEqual("101", self.out("get", self.call("POST", f"actors/{counter}/methods/add", add)["id"]))
        pauses = [self.call("POST", "tasks", {"function": "quickstart.pause", "arguments": [ms]})["id"] for ms in (20000, 20001)]
        self.wait("running tasks", lambda: any(self.call("GET", f"tasks/{task}")["state"] == "running" for task in pauses))
        calls = [self.call("POST", f"actors/{counter}/methods/add", add)["id"] for _ in range(20)]
        queued = [self.call("POST", "tasks", {"function": "quickstart.add", "arguments": [i, 1000]})["id"] for i in range(20)]
        running = [task for task in pauses if self.call("GET", f"tasks/{task}")["state"] == "running"]
        self.assertNotEqual([], running, "the stop comes under work")
        said = self.mobula("down", code=0).stderr
        milliseconds = re.search(r"stopped in (\d+) ms", said)
        self.assertIsNotNone(milliseconds, said)
        print(f"stopped under work in {milliseconds[1]} ms")
        self.assertLess(int(milliseconds[1]), STOP_SECONDS * 1000)
        self.assertIn(" log=acknowledged", (self.dir / "logs/node.log").read_text())
        self.up("--slots", "2")
        for task in pauses:
            self.call("POST", f"tasks/{task}:cancel", {"force": True})
        self.assertEqual([str(102 + i) for i in range(20)], [self.out("get", task, "--timeout", "60") for task in calls])
        self.assertEqual([str(1000 + i) for i in range(20)], [self.out("get", task, "--timeout", "60") for task in queued])
        self.assertEqual("122", self.out("get", self.call("POST", f"actors/{counter}/methods/add", add)["id"], "--timeout", "60"))

    def test_what_a_graceful_stop_has_sealed_stays_sealed(self):
        for _ in range(3):
            self.up()
            self.mobula("down", code=0)
        log = (self.dir / "logs/supervisor.log").read_text()
        sealed = [line.split("incarnation=")[1].split()[0] for line in log.splitlines() if " sealing " in line]
        self.assertEqual(sorted(set(sealed)), sealed, "an incarnation was live again after it had been sealed")
        self.assertEqual(3, len(sealed))

    def test_a_stop_waits_for_the_log_and_not_for_the_memory(self):
        self.up("--segment-bytes", "2GiB")
        self.deploy()
        self.mobula("submit", "quickstart.add", "1", "2", "--wait", code=0)
        self.mobula("down", code=0)
        node, supervisor = ((self.dir / f"logs/{name}.log").read_text() for name in ("node", "supervisor"))
        self.assertIn(" node stopped incarnation=1 log=acknowledged", node)
        self.assertNotIn(" killed process=node", supervisor)

    def test_killing_everything_at_once_is_survived(self):
        self.up()
        self.deploy()
        done = json.loads(self.out("submit", "quickstart.add", "20", "2", "-o", "json"))["returns"][0]
        self.assertEqual("22", self.out("get", done))
        supervisor = int((self.dir / "supervisor.pid").read_text().split()[0])
        os.kill(supervisor, signal.SIGKILL)
        self.wait("its end", lambda: self.status()["state"] == "down")
        self.up()
        self.assertEqual("22", self.out("get", done, "--timeout", "60"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
