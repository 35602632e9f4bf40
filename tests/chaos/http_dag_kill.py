"""Random programs over HTTP under kill -9 of gateway, node, workers, control store and Redis equal a sequential run.   ctest: timeout=300

Each request has an Idempotency-Key and is sent again until it is answered, as a client does; so a task that ran twice, a
call that an actor took twice or in another order, or a result that was lost gives another value. The seed is printed;
MOBULA_CHAOS_SEEDS=N runs N programs, MOBULA_CHAOS_SEED=S begins with S.
"""
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from lib_http_cluster import BIN, Cluster, check, failures, ref  # pylint: disable=wrong-import-position

V1 = "/api/v1"
KILLS, PACE_S, ACTORS, PATIENCE_S = 12, 0.01, 3, 120  # a program goes on until so many processes were killed beside it
VICTIMS = ("gateway", "gateway", "node", "gcs", "redis", "worker", "worker")
MASK = (1 << 64) - 1


def mix(a, b):
    """chaos_mix of tests/modules/chaos_model.h."""
    z = (a * 0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return (z ^ (z >> 31)) >> 1


def nest(seed, width, depth):
    result = mix(seed, depth)
    for i in range(width):
        result = mix(result, nest(mix(seed, i), width, depth - 1) if depth > 0 else mix(mix(seed, i), 1))
    return result


class Killer(threading.Thread):
    """Ends a random process now and then, and counts whom it met."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.draw, self.over, self.met = cluster, random.Random(seed), threading.Event(), {}

    def count(self):
        return sum(self.met.values())

    def pid_of(self, name):
        if name == "worker":
            return self.cluster.pid_of("mobula-worker")
        done = subprocess.run([BIN + "/mobula", "status", "--dir", self.cluster.directory, "-o", "json"], capture_output=True, text=True, timeout=60, check=False)
        try:
            return next((p["pid"] for p in json.loads(done.stdout)["processes"] if p["name"] == name), None)
        except ValueError:
            return None

    def run(self):
        while self.count() < KILLS and not self.over.wait(self.draw.uniform(0.05, 0.5)):
            name = self.draw.choice(VICTIMS)
            pid = self.pid_of(name)
            try:
                if pid and pid > 1:
                    os.kill(pid, signal.SIGKILL)
                    self.met[name] = self.met.get(name, 0) + 1
            except ProcessLookupError:
                pass

    def stop(self):
        self.over.set()
        self.join()


class Client:
    """A client that does not give up."""

    def __init__(self, cluster):
        self.cluster, self.deadline = cluster, time.monotonic() + PATIENCE_S

    def insist(self, method, path, body, headers, good):
        answer = None
        while time.monotonic() < self.deadline:
            try:
                self.cluster.read_address()
                answer = self.cluster.call(method, path, body, headers)
                if answer[0] in good:
                    return json.loads(answer[2])
                if answer[0] not in (409, 429, 500, 502, 503, 504) and not (method == "GET" and answer[0] == 404):
                    break
            except (OSError, ValueError, http.client.HTTPException) as error:
                answer = error
            time.sleep(0.05)
        raise AssertionError(f"{method} {path} {body}: {answer}")

    def make(self, path, body, key):
        return self.insist("POST", V1 + path, body, {"Idempotency-Key": key}, (200, 201, 202))

    def value(self, name):
        while True:
            answer = self.insist("GET", f"{V1}/objects/{name}?wait=10", None, {}, (200, 202))
            if "value" in answer or answer.get("state") in ("failed", "lost"):
                return answer


def run_program(c, seed, killer):
    """Submits the program step by step beside the killer; [(object, value that a sequential run gives)]"""
    draw, client, expected = random.Random(seed), Client(c), []
    begin = [draw.getrandbits(40) for _ in range(ACTORS)]
    actors = [client.make("/actors", {"class": "chaos.Chain", "arguments": [b], "options": {"max_restarts": -1}}, f"{seed}-actor-{i}")["id"] for i, b in enumerate(begin)]
    states = [mix(b, 0) for b in begin]
    step = 0
    while killer.is_alive() or step <= KILLS:  # fewer steps than kills show little
        step += 1
        time.sleep(PACE_S)  # kills meet requests, and not only the end
        kind, key = draw.choice(("mix", "mix", "slow", "nest", "call", "call")), f"{seed}-{step}"
        inputs = draw.sample(expected, min(len(expected), draw.randrange(4)))
        number = draw.getrandbits(40)
        if kind == "call":
            actor = draw.randrange(ACTORS)
            argument, value = (ref(inputs[0][0]), inputs[0][1]) if inputs else (number, number)
            states[actor] = result = mix(states[actor], value)
            answer = client.make(f"/actors/{actors[actor]}/methods/step", {"arguments": [argument], "options": {"max_retries": -1}}, key)
        else:
            arguments, result = {
                "mix": lambda: ([number] + [ref(name) for name, _ in inputs], None),
                "slow": lambda: ([number, draw.randrange(80)], mix(number, 1)),
                "nest": lambda: ([number, 2, 1], nest(number, 2, 1)),
            }[kind]()
            if result is None:
                result = number
                for _, value in inputs:
                    result = mix(result, value)
                result = mix(result, 1)
            answer = client.make("/tasks", {"function": "chaos." + kind, "arguments": arguments, "options": {"max_retries": -1}}, key)
        expected.append((answer["returns"][0], result))
    return client, expected


def one(c, seed):
    killer = Killer(c, seed)
    killer.start()
    begin = time.monotonic()
    try:
        client, expected = run_program(c, seed, killer)
    finally:
        killer.stop()
    check(len({name for name, _ in expected}) == len(expected) > KILLS, "each step has a task of its own", seed)
    for step, (name, value) in enumerate(expected):
        answer = client.value(name)
        check(answer.get("value") == value, f"seed {seed}, step {step}", answer, value)
    print(f"seed {seed}: {len(expected)} steps in {time.monotonic() - begin:.1f} s, killed {killer.met}", flush=True)


def main(*options, programs=2):
    first = int(os.environ.get("MOBULA_CHAOS_SEED", random.SystemRandom().randrange(1 << 30)))
    cluster = Cluster(*options)
    try:
        cluster.deploy("chaos")
        for seed in range(first, first + int(os.environ.get("MOBULA_CHAOS_SEEDS", programs))):
            one(cluster, seed)
    except Exception as error:  # pylint: disable=broad-except
        check(False, f"{type(error).__name__}: {error}")
    finally:
        cluster.end()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
