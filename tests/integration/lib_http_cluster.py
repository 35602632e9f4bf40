"""A cluster of its own for HTTP tests: started on a fresh directory, addressed over HTTP, ended with the test.

MOBULA_BIN_DIR and MOBULA_MODULE_DIR say what to run; ctest sets them.
"""
import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import lib_kill  # noqa: F401  pylint: disable=unused-import

BIN = os.environ.get("MOBULA_BIN_DIR", "build/release/bin")
MODULES = os.environ.get("MOBULA_MODULE_DIR", "build/release/modules")
failures = []


def check(condition, what, *values):
    if not condition:
        failures.append(what)
        print("FAILED", what, *[repr(v)[:600] for v in values], file=sys.stderr, flush=True)
    return condition


def at_once(asks):
    """Calls all of them together, from a thread each; what they returned, in their order."""
    answers, barrier = [None] * len(asks), threading.Barrier(len(asks))

    def one(i):
        barrier.wait()
        answers[i] = asks[i]()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(asks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def thread_states(pid):
    """A letter for each of its threads that has not ended, as in proc(5)."""
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
    return states


class Cluster:
    under = ()  # what it is started by

    def __init__(self, *options):
        self.directory = tempfile.mkdtemp(prefix="mobula-http-")
        self.options = options
        self.up()

    def up(self):
        command = [*self.under, BIN + "/mobula", "up", "--detach", "--dir", self.directory, "--segment-bytes", "256MiB",
                   "--restart-pause-max-ms", "100ms", *self.options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                              env={"MOBULA_POSTGRES": "off", **os.environ})  # options turn it on
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
            self.show_logs()
            sys.exit(1)
        self.read_address()

    def read_address(self):
        with open(self.directory + "/gateway.addr", encoding="ascii") as file:
            self.host, port = file.read().strip().rsplit(":", 1)
        self.port = int(port)
        with open(self.directory + "/token", encoding="ascii") as file:
            self.token = file.read().split()[0]

    def down(self):
        subprocess.run([BIN + "/mobula", "down", "--dir", self.directory], capture_output=True, timeout=60)

    def end(self):
        self.down()
        self.check_sanitizers()
        if failures:
            self.show_logs()
        shutil.rmtree(self.directory, ignore_errors=True)

    def check_sanitizers(self):
        """A process that a sanitizer ended is restarted, or was about to end anyway: a test may not notice it otherwise."""
        logs = self.directory + "/logs"
        for name in sorted(os.listdir(logs)) if os.path.isdir(logs) else []:
            with open(f"{logs}/{name}", encoding="utf-8", errors="replace") as file:
                text = file.read()
            for mark in ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", ": runtime error: "):
                at = text.find(mark)
                if not check(at < 0, f"{name}: a sanitizer found something"):
                    print(text[max(at - 40, 0):][:6000], file=sys.stderr)

    def show_logs(self):
        logs = self.directory + "/logs"
        for name in sorted(os.listdir(logs)) if os.path.isdir(logs) else []:
            with open(f"{logs}/{name}", encoding="utf-8", errors="replace") as file:
                print(f"--- {name}", "".join(file.readlines()[-15:]), sep="\n", file=sys.stderr)

    def pid_of(self, program):
        """Of this cluster's process, found by its directory on its command line."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if os.path.basename(words[0]).decode() == program and self.directory.encode() in b" ".join(words):
                return int(pid)
        return None

    def supervised(self, name):
        """The pid of one that the supervisor knows by this name; for those whose command line does not name the directory."""
        with open(self.directory + "/supervisor.json", encoding="ascii") as file:
            return next(process["pid"] for process in json.load(file)["processes"] if process["name"] == name)

    def kill(self, program):
        pid = self.pid_of(program)
        os.kill(pid, signal.SIGKILL)
        return pid

    @contextlib.contextmanager
    def stopped(self, program):
        """It is, and so is the supervisor, which would start another in its place; both go on at the end."""
        with open(self.directory + "/supervisor.pid", encoding="ascii") as file:
            supervisor = int(file.read().split()[0])
        pid = self.pid_of(program) or self.supervised(program)
        os.kill(supervisor, signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGSTOP)
            self.until("it stands still", lambda: all(state == "T" for state in thread_states(pid)), 10)
            yield pid
        finally:
            os.kill(pid, signal.SIGCONT)
            os.kill(supervisor, signal.SIGCONT)

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=70)

    def call(self, method, path, body=None, headers=None, key=True, connection=None):
        """(status, headers, body bytes)"""
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = "Bearer " + (self.token if key is True else key)
        if body is not None and not isinstance(body, (bytes, bytearray)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        c = connection or self.connect()
        c.request(method, path, body, headers)
        response = c.getresponse()
        data = response.read()
        result = response.status, {k.lower(): v for k, v in response.getheaders()}, data
        if not connection:
            c.close()
        return result

    def json(self, method, path, body=None, headers=None, expect=None, **options):
        status, head, data = self.call(method, path, body, headers, **options)
        if expect is not None:
            check(status == expect, f"{method} {path}: status {status}, wanted {expect}", data)
        try:
            return json.loads(data)
        except ValueError:
            check(False, f"{method} {path}: not JSON", status, data)
            return {}

    def deploy(self, name):
        with open(f"{MODULES}/{name}.so", "rb") as file:
            data = file.read()
        status, _, body = self.call("POST", "/api/v1/functions", data, {"Content-Type": "application/octet-stream"})
        check(status in (200, 201), f"deploy {name}", status, body)
        return json.loads(body)

    def run(self, function, *arguments, **options):
        """Submits and waits; the answer."""
        body = {"function": function, "arguments": list(arguments)}
        if options:
            body["options"] = options
        return self.json("POST", "/api/v1/tasks", body, {"Prefer": "wait=30"})

    def value(self, object_id, wait=30):
        return self.json("GET", f"/api/v1/objects/{object_id}?wait={wait}")

    def until(self, what, condition, seconds=90):
        """Polls for what cannot be waited for; the condition's value."""
        deadline = time.monotonic() + seconds
        while True:
            result = condition()
            if result or time.monotonic() > deadline:
                check(result, what)
                return result
            time.sleep(0.02)


def sql(c, text):
    """What the cluster's PostgreSQL answers: a line a row, columns between bars."""
    done = subprocess.run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", c.directory + "/pg", "-p", "1", "-U", "mobula", "-d", "postgres", "-c", text],
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, "psql", text, done.stderr)
    return done.stdout.strip()


def signal_postgres(c, number):
    """The server and all its children."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(c.directory + "/pg"):
                pids.append(int(pid))
        except OSError:
            continue
    check(len(pids) >= 2, "PostgreSQL is found", pids)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a connection of it has ended
            os.kill(pid, number)


def with_slot(name, slot):
    """Another object of the same task."""
    raw = base64.b32decode(name[4:].upper() + "=" * (-len(name[4:]) % 8))
    return "obj_" + base64.b32encode(raw[:16] + struct.pack("<I", slot)).decode().lower().rstrip("=")


def ref(object_id):
    return {"$ref": object_id}


def ids_of(c, name):
    """Of all tasks of that name, over all pages."""
    items, cursor = [], ""
    while True:
        page = c.json("GET", f"/api/v1/tasks?filter=name:{name}&limit=197{cursor}", expect=200)
        items += [task["id"] for task in page.get("items", [])]
        if not page.get("next_cursor"):
            return items
        cursor = "&cursor=" + page["next_cursor"]


def main(tests, *options):
    only = sys.argv[1:]
    cluster = Cluster(*options)
    try:
        for name, test in list(tests.items()):  # a module's names; a warning adds one
            if name.startswith("test_") and (not only or any(word in name for word in only)):
                before = len(failures)
                try:
                    test(cluster)
                except Exception as error:  # a broken answer must not hide the other tests
                    check(False, f"{name}: {type(error).__name__}: {error}")
                print("ok" if len(failures) == before else "not ok", name, flush=True)
    finally:
        cluster.end()
    sys.exit(1 if failures else 0)
