"""The commands that talk to a gateway, against a stand-in that answers what the test says: requests, output, exit codes."""
import ctypes
import errno
import http.server
import json
import os
import pathlib
import platform
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

MOBULA = pathlib.Path(os.environ["MOBULA_BIN_DIR"]) / "mobula"
TASK = "task_" + "a" * 26
OBJECT = "obj_" + "a" * 32


class Gateway(http.server.ThreadingHTTPServer):
    """answers: {(method, path without query): [answer, ...]}; an answer is (status, body, headers); the last one repeats."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests, self.arrived = {}, [], None

    def on(self, method, path, *answers):
        self.answers[method, path] = list(answers)


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        if self.server.arrived:
            self.server.arrived.set()
        self.server.requests.append((self.command, path, query, dict(self.headers), body))
        answers = self.server.answers.get((self.command, path), [(404, {"code": "not-found", "detail": "no such path"}, {})])
        status, content, headers = answers.pop(0) if len(answers) > 1 else answers[0]
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        # "Break": the connection ends before the body does.
        self.send_header("Content-Length", str(len(data) + (100 if "Break" in headers else 0)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    do_GET = do_POST = answer

    def log_message(self, *arguments):
        pass


def without_random():
    """From here on this process gets no random numbers from the kernel: a filter of system calls, by <linux/filter.h>."""
    getrandom = {"x86_64": 318, "aarch64": 278}[platform.machine()]
    load, equal, give, allow, refuse = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000 | errno.ENOSYS
    steps = b"".join(struct.pack("HBBI", *step) for step in
                     ((load, 0, 0, 0), (equal, 0, 1, getrandom), (give, 0, 0, refuse), (give, 0, 0, allow)))
    code = ctypes.create_string_buffer(steps)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter, by_program = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(set_filter, by_program, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Commands(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mobula_cli_"))
        self.gateway = Gateway()
        threading.Thread(target=self.gateway.serve_forever, daemon=True).start()
        (self.dir / "gateway.addr").write_text(f"127.0.0.1:{self.gateway.server_port}\n")
        (self.dir / "token").write_text("mob_sk_test admin first\n")

    def tearDown(self):
        self.gateway.shutdown()
        self.gateway.server_close()
        shutil.rmtree(self.dir)

    def run_cli(self, *arguments, code=0, before=None):
        result = subprocess.run([MOBULA, *arguments], env={**os.environ, "MOBULA_DIR": str(self.dir)}, capture_output=True,
                                text=True, timeout=60, stdin=subprocess.DEVNULL, preexec_fn=before)
        self.assertEqual(code, result.returncode, f"{arguments}: {result.stdout}{result.stderr}")
        return result

    def last(self):
        return self.gateway.requests[-1]

    def supervise(self):
        """As if this process were the supervisor: the commands then expect that what is away comes back."""
        started = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        (self.dir / "supervisor.pid").write_text(f"{os.getpid()} {started}\n")

    # ---- while something restarts

    def test_submit_is_repeated_under_its_key_while_something_restarts(self):
        self.supervise()
        self.gateway.on("POST", "/api/v1/tasks", (503, {"code": "unavailable"}, {"Retry-After": "1"}),
                        (409, {"code": "again"}, {"Retry-After": "1"}), (429, {"code": "gcs-full"}, {"Retry-After": "1"}),
                        (202, {"id": TASK, "returns": [OBJECT], "state": "submitted"}, {}))
        self.assertEqual(f"{TASK}\n", self.run_cli("submit", "m.f", "-o", "name").stdout)
        self.assertEqual(4, len(self.gateway.requests))
        self.assertEqual(1, len({headers["Idempotency-Key"] for _, _, _, headers, _ in self.gateway.requests}))

    def test_a_conflict_is_not_repeated(self):
        self.supervise()
        self.gateway.on("POST", "/api/v1/tasks", (409, {"code": "conflict"}, {}))
        self.run_cli("submit", "m.f", code=5)
        self.assertEqual(1, len(self.gateway.requests))

    def test_a_connection_that_breaks_in_the_middle_is_repeated(self):
        self.supervise()
        self.gateway.on("POST", "/api/v1/tasks", (202, b"half", {"Break": "yes"}),
                        (202, {"id": TASK, "returns": [OBJECT], "state": "submitted"}, {}))
        self.assertEqual(f"{TASK}\n", self.run_cli("submit", "m.f", "-o", "name").stdout)

    def test_output_that_has_begun_is_not_written_twice(self):
        self.supervise()
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}/logs", (200, b"half of it", {"Break": "yes"}))
        self.assertEqual("half of it", self.run_cli("logs", TASK, code=6).stdout)
        self.assertEqual(1, len(self.gateway.requests))

    def test_trying_on_ends_with_the_deadline(self):
        self.supervise()
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (503, {"code": "unavailable"}, {"Retry-After": "1"}))
        began = time.monotonic()
        self.run_cli("get", OBJECT, "--timeout", "0.3", code=6)
        self.assertGreater(len(self.gateway.requests), 1)
        self.assertLess(time.monotonic() - began, 20)  # and not API_RETRY_NS

    # ---- submit and get

    def test_submit_needs_a_key_that_nobody_else_has(self):
        self.gateway.on("POST", "/api/v1/tasks", (202, {"id": TASK, "returns": [OBJECT], "state": "submitted"}, {}))
        result = self.run_cli("submit", "m.f", code=1, before=without_random)
        self.assertIn("no random numbers", result.stderr)
        self.assertEqual([], self.gateway.requests)

    def test_submit_sends_arguments_by_their_kind(self):
        self.gateway.on("POST", "/api/v1/tasks", (202, {"id": TASK, "returns": [OBJECT], "state": "submitted"}, {}))
        result = self.run_cli("submit", "m.f", "1", "-2.5", "text", '{"a": [true]}', OBJECT, "--name", "n", "--retries", "0",
                              "--resources", "CPU=0.5,GPU=1")
        self.assertEqual(f"task     {TASK}\nreturn   {OBJECT}\n", result.stdout)
        _, _, _, headers, body = self.last()
        self.assertEqual("Bearer mob_sk_test", headers["Authorization"])
        self.assertTrue(headers["Idempotency-Key"].startswith("cli-"))
        self.assertNotIn("Prefer", headers)
        self.assertEqual({"function": "m.f", "arguments": [1, -2.5, "text", {"a": [True]}, {"$ref": OBJECT}],
                          "options": {"name": "n", "max_retries": 0, "resources": {"CPU": 0.5, "GPU": 1.0}}}, json.loads(body))
        self.assertEqual(f"{TASK}\n", self.run_cli("submit", "m.f", "-o", "name").stdout)

    def test_integers_of_more_than_64_bits_are_numbers(self):
        self.gateway.on("POST", "/api/v1/tasks", (202, {"id": TASK, "returns": [OBJECT], "state": "submitted"}, {}))
        self.run_cli("submit", "m.f", "9223372036854775808", "-99999999999999999999", "9223372036854775807", "1e999")
        self.assertEqual([2.0**63, -1e20, 2**63 - 1, "1e999"], json.loads(self.last()[4])["arguments"])

    def test_submit_wait_prints_the_result(self):
        self.gateway.on("POST", "/api/v1/tasks", (200, {"id": TASK, "returns": [OBJECT], "state": "finished", "result": 3}, {}))
        self.assertEqual("3\n", self.run_cli("submit", "m.f", "1", "2", "--wait").stdout)
        self.assertEqual("wait=2", self.last()[3]["Prefer"])
        self.assertEqual("finished", json.loads(self.run_cli("submit", "m.f", "-w", "-o", "json").stdout)["state"])

    def test_numbers_have_no_more_digits_than_they_need(self):
        self.gateway.on("POST", "/api/v1/tasks",
                        (200, {"id": TASK, "returns": [OBJECT], "state": "finished", "result": [0.1, 0.1 + 0.2, 2**63 - 1]}, {}))
        self.assertEqual("[0.1,0.30000000000000004,9223372036854775807]\n", self.run_cli("submit", "m.f", "--wait").stdout)

    def test_submit_wait_goes_on_when_it_takes_longer(self):
        self.gateway.on("POST", "/api/v1/tasks", (202, {"id": TASK, "returns": [OBJECT], "state": "submitted"}, {}))
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "pending"}, {}),
                        (200, {"id": OBJECT, "state": "ready", "value": "done"}, {}))
        self.assertEqual("done\n", self.run_cli("submit", "m.f", "--wait").stdout)
        self.assertEqual("wait=30.000", self.last()[2])

    def test_submit_wait_prints_items_as_they_come(self):
        stream = {"items": 0, "ended": False}
        self.gateway.on("POST", "/api/v1/tasks", (202, {"id": TASK, "returns": [], "state": "submitted", "stream": stream}, {}))
        pages = [{"items": [{"index": 0, "id": OBJECT, "value": 7}], "next_cursor": "1.5", "ended": False},
                 {"items": [], "next_cursor": "1.5", "ended": False},
                 {"items": [{"index": 1, "id": OBJECT}], "next_cursor": None, "ended": True}]
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}/items", *((200, page, {}) for page in pages))
        self.assertEqual(f"7\n{OBJECT}\n", self.run_cli("submit", "m.f", "--wait").stdout)
        self.assertIn("cursor=1.5", self.last()[2])
        pages[2]["error"] = {"code": "task-failed", "message": "no luck"}
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}/items", (200, pages[2], {}))
        self.assertIn("no luck", self.run_cli("submit", "m.f", "--wait", code=1).stderr)

    def test_a_failed_task_is_exit_1_with_its_causes(self):
        error = {"code": "dependency-failed", "message": "an input failed", "retryable": False, "task": TASK, "signal": 0, "log": "",
                 "cause": {"code": "task-failed", "message": "no luck", "retryable": False, "task": TASK, "signal": 0, "log": "its log"}}
        self.gateway.on("POST", "/api/v1/tasks", (200, {"id": TASK, "returns": [OBJECT], "state": "failed", "error": error}, {}))
        result = self.run_cli("submit", "m.f", "--wait", code=1)
        self.assertEqual("", result.stdout)
        self.assertIn("dependency-failed: an input failed", result.stderr)
        self.assertIn(f"because task-failed: no luck in {TASK}", result.stderr)
        self.assertIn("its last lines: its log", result.stderr)

    def test_a_problem_is_said_once(self):
        problem = {"code": "task-failed", "detail": "no luck", "cause": {"code": "task-failed", "message": "no luck", "task": TASK, "log": "its log"}}
        self.gateway.on("POST", "/api/v1/tasks", (409, problem, {}))
        said = self.run_cli("submit", "m.f", "--wait", code=1).stderr
        self.assertEqual(1, said.count("no luck"), said)
        self.assertIn(f"task-failed: no luck in {TASK}", said)
        self.assertIn("its log", said)
        problem = {"code": "invalid-argument", "detail": "argument 1 is none", "errors": [{"pointer": "/arguments/0", "message": "argument 1 is none"}]}
        self.gateway.on("POST", "/api/v1/tasks", (422, problem, {}))
        self.assertEqual(1, self.run_cli("submit", "m.f", code=2).stderr.count("argument 1 is none"))

    def test_get_of_a_task_prints_each_return(self):
        second = OBJECT[:-5] + "qaaaa"
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}", (200, {"id": TASK, "state": "finished", "num_returns": 2}, {}))
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "ready", "value": 3}, {}))
        self.gateway.on("GET", f"/api/v1/objects/{second}", (200, {"id": second, "state": "ready", "value": 2}, {}))
        self.assertEqual("3\n2\n", self.run_cli("get", TASK).stdout)
        answer = {"id": TASK, "returns": [OBJECT, second], "state": "finished", "result": 3, "results": [3, 2]}
        self.gateway.on("POST", "/api/v1/tasks", (200, answer, {}))
        self.assertEqual("3\n2\n", self.run_cli("submit", "m.f", "--wait").stdout)

    def test_get_of_a_task_with_one_return(self):
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}", (200, {"id": TASK, "state": "finished", "num_returns": 1}, {}))
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "ready", "value": {"x": 1}}, {}))
        self.assertEqual('{"x":1}\n', self.run_cli("get", TASK).stdout)
        self.assertEqual("ready", json.loads(self.run_cli("get", OBJECT, "-o", "json").stdout)["state"])

    def test_get_of_bytes_writes_them_as_they_are(self):
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "ready", "type": "bytes"}, {}))
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}/data", (200, b"raw" * 100000, {}))
        self.assertEqual("raw" * 100000, self.run_cli("get", OBJECT).stdout)

    def test_get_ends_with_its_deadline(self):
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "pending"}, {}))
        result = self.run_cli("get", OBJECT, "--timeout", "0.05", code=7)
        self.assertIn(f"mobula get {OBJECT}", result.stderr)

    def test_ctrl_c_leaves_the_work_and_says_how_to_come_back(self):
        arrived = threading.Event()
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "pending"}, {}))
        self.gateway.arrived = arrived
        get = subprocess.Popen([MOBULA, "get", OBJECT], env={**os.environ, "MOBULA_DIR": str(self.dir)}, stderr=subprocess.PIPE,
                               text=True)
        arrived.wait(20)
        get.send_signal(signal.SIGINT)
        self.assertIn(f"mobula get {OBJECT}", get.communicate(timeout=20)[1])
        self.assertEqual(130, get.returncode)

    def test_ids_that_are_none_are_usage(self):
        self.run_cli("get", "nonsense", code=2)
        for bad in ("CPU", "CPU=0x1", "CPU= 1", "CPU=+1", "CPU=1,CPU=1", "CPU=inf", "=1"):
            self.assertIn("--resources", self.run_cli("submit", "m.f", "--resources", bad, code=2).stderr)
        self.run_cli("list", "things", code=2)

    def test_numbers_are_decimal(self):
        for bad in ("0x10", " 5", "+5", "5 ", "1e1", "5s", "inf", "nan", "", "-1", "-", ".5"):
            self.assertIn("--timeout", self.run_cli("get", OBJECT, "--timeout=" + bad, code=2).stderr)
        for bad in ("0x10", " 5", "+5", "5 ", "1e1", "", "-2", "--1", "- 1", "-", "99999999999999999999", "-99999999999999999999"):
            self.assertIn("--retries", self.run_cli("submit", "m.f", "--retries=" + bad, code=2).stderr)

    # ---- lists

    def test_list_follows_pages_and_encodes_the_filter(self):
        self.gateway.on("GET", "/api/v1/tasks",
                        (200, {"items": [{"id": "task_1", "state": "FAILED", "attempt": 1, "zeta": 1}], "next_cursor": "a/b", "truncated": False}, {}),
                        (200, {"items": [{"id": "task_22", "state": "OK"}], "next_cursor": None, "truncated": False}, {}))
        result = self.run_cli("list", "tasks", "--filter", "state:FAILED AND name:x*")
        self.assertEqual("ID       STATE   ATTEMPT\ntask_1   FAILED  1\ntask_22  OK      -\n", result.stdout)
        self.assertIn("filter=state%3AFAILED%20AND%20name%3Ax%2A", self.gateway.requests[0][2])
        self.assertIn("cursor=a%2Fb", self.last()[2])

    def test_list_formats(self):
        page = {"items": [{"id": "a", "n": 1}, {"id": "b", "n": 2}], "next_cursor": "c", "truncated": False}
        self.gateway.on("GET", "/api/v1/actors", (200, page, {}))
        self.assertEqual("a\nb\n", self.run_cli("list", "actors", "-n", "2", "-o", "name").stdout)
        lines = self.run_cli("list", "actor", "-n", "2", "-o", "jsonl").stdout.splitlines()
        self.assertEqual([1, 2], [json.loads(line)["n"] for line in lines])
        result = self.run_cli("list", "actors", "-n", "2", "-o", "json")
        self.assertEqual(2, len(json.loads(result.stdout)))
        self.assertIn("there are more", result.stderr)

    def test_an_empty_list_says_so_beside_the_data(self):
        for form, stdout, said in (("table", "", "none"), ("json", "[]", ""), ("jsonl", "", ""), ("name", "", "")):
            self.gateway.on("GET", "/api/v1/actors", (200, {"items": [], "next_cursor": None, "truncated": False}, {}))
            result = self.run_cli("list", "actors", "-o", form)
            self.assertEqual(stdout, result.stdout.strip())
            self.assertIn(said, result.stderr)
            self.assertEqual(bool(said), bool(result.stderr.strip()), result.stderr)

    # ---- cancel

    def test_cancel_asks_for_each(self):
        other = "task_" + "a" * 25 + "q"
        for task, answer in ((TASK, (409, {"code": "already-finished", "detail": "ended"}, {})), (other, (202, {"accepted": True}, {}))):
            self.gateway.on("POST", f"/api/v1/tasks/{task}:cancel", answer)
        result = self.run_cli("cancel", TASK, other, "--force", code=5)
        self.assertEqual("", result.stdout)
        self.assertIn(f"already-finished: ended\nmobula:   it was {TASK}\n", result.stderr)
        self.assertEqual([{"force": True}] * 2, [json.loads(r[4]) for r in self.gateway.requests])
        self.gateway.requests.clear()
        self.run_cli("cancel", other)
        self.assertEqual({"force": False}, json.loads(self.last()[4]))
        self.gateway.requests.clear()
        self.assertIn("obj_a is no task id", self.run_cli("cancel", other, "obj_a", code=2).stderr)
        self.assertEqual([], self.gateway.requests)

    # ---- logs, why, lineage, timeline

    def test_what_is_no_id_is_said_without_asking(self):
        for command, words in (("why", "foo is no task id"), ("logs", "foo is neither a task nor an actor id"), ("lineage", "foo is neither")):
            self.assertIn(words, self.run_cli(command, "foo", code=2).stderr)
        self.assertEqual([], self.gateway.requests)

    def test_help_of_help_and_far_words(self):
        self.assertEqual(self.run_cli("help").stdout, self.run_cli("help", "--help").stdout)
        self.assertNotIn("did you mean", self.run_cli("bogus", code=2).stderr)
        self.assertIn("did you mean status?", self.run_cli("statsu", code=2).stderr)

    def test_logs_read_on_until_the_end(self):
        path = f"/api/v1/tasks/{TASK}/logs"
        self.gateway.on("GET", path, (200, b"one\n", {"Mobula-Log-Next": "4", "Mobula-Log-Ended": "false"}),
                        (200, b"two\n", {"Mobula-Log-Next": "8", "Mobula-Log-Ended": "true"}),
                        (200, b"", {"Mobula-Log-Next": "8", "Mobula-Log-Ended": "true"}))
        self.assertEqual("one\ntwo\n", self.run_cli("logs", TASK, "-f").stdout)
        self.assertEqual(["offset=0&wait=20", "offset=4&wait=20", "offset=8&wait=20"], [r[2] for r in self.gateway.requests])

    def test_logs_as_json_are_a_line_each(self):
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}/logs", (200, b'one\n"two" \xff\nthr', {"Mobula-Log-Next": "15", "Mobula-Log-Ended": "true"}),
                        (200, b"ee", {"Mobula-Log-Next": "17", "Mobula-Log-Ended": "true"}), (200, b"", {"Mobula-Log-Next": "17"}))
        for form in ("json", "jsonl"):
            self.gateway.requests.clear()
            lines = [json.loads(line)["line"] for line in self.run_cli("logs", TASK, "-o", form).stdout.splitlines()]
            self.assertEqual(["one", '"two" ?', "three"], lines)
            self.gateway.on("GET", f"/api/v1/tasks/{TASK}/logs", (200, b'one\n"two" \xff\nthree', {"Mobula-Log-Next": "17"}), (200, b"", {"Mobula-Log-Next": "17"}))

    def test_why_and_lineage_are_readable(self):
        self.gateway.on("GET", f"/api/v1/tasks/{TASK}/why", (200, {"state": "waiting", "inputs": [{"id": OBJECT}]}, {}))
        waits = self.run_cli("why", TASK).stdout
        self.assertIn("waiting", waits)
        self.assertNotIn("does not wait", waits)
        for state, words in (("finished", "has finished"), ("failed", "has failed"), ("cancelled", "has been cancelled")):
            self.gateway.on("GET", f"/api/v1/tasks/{TASK}/why", (200, {"id": TASK, "state": state}, {}))
            lines = self.run_cli("why", TASK).stdout.splitlines()
            self.assertEqual(f"It does not wait: it {words}. Its record:", lines[0])
            self.assertTrue(any(TASK in line for line in lines[1:]), lines)
            self.gateway.on("GET", f"/api/v1/tasks/{TASK}/why", (200, {"id": TASK, "state": state}, {}))
            self.assertEqual({"id": TASK, "state": state}, json.loads(self.run_cli("why", TASK, "-o", "json").stdout))
        leaf = "task_" + "a" * 25 + "q"
        nodes = [{"task": TASK, "depth": 0, "function": "m.f", "kind": "task", "state": "finished", "inputs": ["obj_" + leaf[5:] + "a" * 6]},
                 {"task": leaf, "depth": 1, "function": "", "kind": "put", "inputs": []}]
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}/lineage", (200, {"object": OBJECT, "nodes": nodes, "next_cursor": None}, {}))
        self.assertEqual(f"m.f  {TASK}\n└─ put  {leaf}\n", self.run_cli("lineage", OBJECT).stdout)

    def test_timeline_goes_to_a_file(self):
        self.gateway.on("GET", "/api/v1/timeline", (200, {"traceEvents": []}, {}))
        self.run_cli("timeline", "-o", str(self.dir / "trace.json"))
        self.assertEqual({"traceEvents": []}, json.loads((self.dir / "trace.json").read_text()))

    # ---- what can go wrong

    def test_exit_codes_of_refusals(self):
        for status, code, problem in [(401, 4, "unauthenticated"), (403, 4, "denied"), (404, 3, "not-found"), (409, 5, "conflict"),
                                      (410, 3, "object-lost"), (422, 2, "type-mismatch"), (408, 7, "timeout"), (500, 1, "internal"),
                                      (409, 1, "task-failed")]:
            self.gateway.on("GET", f"/api/v1/tasks/{TASK}/why", (status, {"code": problem, "detail": "words"}, {}))
            self.assertIn(f"{problem}: words", self.run_cli("why", TASK, code=code).stderr)

    def test_a_problem_names_the_field(self):
        problem = {"code": "type-mismatch", "detail": "wrong", "errors": [{"pointer": "/arguments/0", "message": "must be i64"}]}
        self.gateway.on("POST", "/api/v1/tasks", (422, problem, {}))
        self.assertIn("/arguments/0 must be i64", self.run_cli("submit", "m.f", "x", code=2).stderr)

    def test_nobody_there_is_exit_6(self):
        self.gateway.shutdown()
        self.gateway.server_close()
        self.assertIn("no answer", self.run_cli("why", TASK, code=6).stderr)
        (self.dir / "gateway.addr").unlink()
        self.assertIn("mobula up", self.run_cli("why", TASK, code=6).stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        self.gateway.on("GET", f"/api/v1/objects/{OBJECT}", (200, {"id": OBJECT, "state": "ready", "value": 1}, {}))
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([MOBULA, "get", OBJECT], env={**os.environ, "MOBULA_DIR": str(self.dir)}, stdout=full,
                                    stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(1, result.returncode)

    @unittest.skipIf(os.environ.get("MOBULA_SANITIZE"), "sanitizers start slowly")
    def test_it_starts_in_under_20_ms(self):
        def used():  # not the time that passes: the machine may be busy with other things
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        times = []
        for _ in range(10):
            before = used()
            subprocess.run([MOBULA, "version"], stdout=subprocess.DEVNULL, check=True)
            times.append(used() - before)
        self.assertLess(min(times), 0.02)


class Bench(unittest.TestCase):
    def test_rows_that_are_none_are_named(self):
        for arguments, row in ((["--only=put_small,nope"], "nope"), (["--only=put_small,"], ""), (["core", "--only=fan_in,put_small"], "put_small")):
            done = subprocess.run([MOBULA.with_name("mobula-bench"), *arguments], capture_output=True, text=True, timeout=30)
            self.assertEqual((2, True), (done.returncode, f"have no row {row};" in done.stderr), (arguments, done.stderr))


if __name__ == "__main__":
    unittest.main(verbosity=2)
