"""Requests against a running gateway on the fake engine; run by http_layer_test.c. Exit status = failed checks.

Raw sockets, because most of it is about bytes that no HTTP library would send.
"""
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time

HOST, PORT = os.environ["MOBULA_TEST_ADDRESS"].rsplit(":", 1)
PORT = int(PORT)
with open(os.environ["MOBULA_TEST_DIR"] + "/token", encoding="ascii") as file:
    KEYS = {line.split()[1]: line.split()[0] for line in file}
ADMIN = KEYS["admin"]
HEAD_S = int(os.environ["MOBULA_TEST_HEAD_MS"]) / 1000  # what the head of a request may take
failures = []


def check(condition, what, *values):
    if not condition:
        failures.append(what)
        print("FAILED", what, *[repr(v)[:400] for v in values], file=sys.stderr)
    return condition


class Connection:
    def __init__(self):
        self.socket = socket.create_connection((HOST, PORT), timeout=30)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def fill(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def response(self, head=False):
        """(status, headers, body), or None at the end of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                return None
        block, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = block.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            headers.setdefault(name.lower(), value.strip())
        length = 0 if head or status in (204, 304) else int(headers.get("content-length", 0))
        while len(self.buffer) < length:
            if not self.fill():
                return None
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return status, headers, body

    def rest(self):
        """Everything until the end."""
        while self.fill():
            pass
        return self.buffer

    def close(self):
        self.socket.close()


def head(method, path, headers=None, key=ADMIN, host=None):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or HOST}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines) + "\r\n\r\n"


def call(method, path, body=None, headers=None, key=ADMIN, host=None, connection=None):
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    if body is not None:
        headers["Content-Length"] = str(len(body))
    c = connection or Connection()
    c.send(head(method, path, headers, key, host).encode("latin-1") + (body or b""))
    result = c.response(method == "HEAD")
    if not connection:
        c.close()
    check(result is not None, f"{method} {path}: no answer")
    return result or (0, {}, b"")


def problem(result, status, code, what):
    got, headers, body = result
    check(got == status, f"{what}: status", got, status, body)
    check(headers.get("content-type") == "application/problem+json", f"{what}: media type", headers)
    try:
        document = json.loads(body)
    except ValueError:
        check(False, f"{what}: body is not JSON", body)
        return {}
    check(document.get("code") == code, f"{what}: code", document, code)
    check(document.get("status") == status, f"{what}: status in the body", document)
    return document


# ------------------------------------------------------------------------------------------- refusals

NEXT = head("GET", "/livez", key=None).encode()
REFUSED = {
    "length and encoding": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "two hosts": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "bad length": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x5\r\n\r\n",
    "negative length": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "huge length": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "xchunked": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "two encodings": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "NUL in a value": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "bare line feed": b"GET /livez HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    "bare line feed at the end": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n",
    "folded line": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "blank before colon": b"GET /livez HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "control byte": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\x01b\r\n\r\n",
    "no colon": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
}
FIRST_ONLY = {
    "absolute target": b"GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "fragment": b"GET /livez#x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "version": b"GET /livez HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /livez\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "leading blank line": b"\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def one_refusal(data, what):
    """Exactly one answer, 4xx or 505, then the end: what was pipelined behind it is not answered."""
    text = data.decode("latin-1")
    statuses = re.findall(r"HTTP/1\.1 (\d+)", text)
    check(len(statuses) == 1 and (statuses[0][0] == "4" or statuses[0] == "505"), what, statuses, text)
    check(text.lower().count("content-length:") <= 1, what + ": head doubled", text)


def check_problem_bytes(data, what):
    head_bytes, _, body = data.partition(b"\r\n\r\n")
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    named = re.search(rb"\r\nRequest-Id: (\S+)", head_bytes)
    check(named and document.get("request_id") == named[1].decode(), what + ": under a name", data)
    check(document.get("type") == f"urn:mobula:error:{document.get('code')}" and document.get("title") and "retryable" in document, what + ": as others", document)
    check(b"application/problem+json" in head_bytes and document.get("status", 0) >= 400 and str(document["status"]).encode() in head_bytes.split(b"\r\n")[0], what, data)


def test_refusals_of_first_requests():
    for what, request in {**REFUSED, **FIRST_ONLY}.items():
        c = Connection()
        c.send(request + NEXT)
        data = c.rest()
        one_refusal(data, f"refused: {what}")
        check_problem_bytes(data, f"refused: {what}")
        c.close()


CHUNKED = head("POST", "/api/v1/jobs", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}).encode()
SPLIT = {  # not even lines with what they must have
    "no version": b"GET /livez\r\n\r\n",
    "version of another protocol": b"GET /livez FTP/1.1\r\nHost: localhost\r\n\r\n",
    "version that is none": b"GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "first line begins with a colon": b": x\r\nHost: localhost\r\n\r\n",
    "head over 8 KiB": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
    "many lines": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 2000 + b"\r\n",
}
SILENT = {  # the library ends these without a word
    "no blank in the first line": b"GET\r\nHost: localhost\r\n\r\n",
    "noise": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
}
LATER = {
    "no length": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\n",
    "signed length": b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n",
    "length of a GET": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    "blank in the target": b"GET /li vez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "long target": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    **SPLIT,
    "chunk without a size": CHUNKED + b"zz\r\n",
    "chunk longer than it says": CHUNKED + b"5\r\nhelloXX\r\n0\r\n\r\n",
    "chunk of 2^76 bytes": CHUNKED + b"fffffffffffffffffff\r\n",
}


def test_refusals_of_later_requests():
    for what, request in {**REFUSED, **LATER}.items():
        c = Connection()
        c.send(NEXT)
        first = c.response()
        check(first and first[0] == 200, f"later {what}: first answer", first)
        c.send(request + NEXT)
        data = c.rest()
        statuses = re.findall(r"HTTP/1\.1 (\d+)", data.decode("latin-1"))
        check("200" not in statuses, f"later {what}: nothing behind a refusal is answered", data)
        one_refusal(data, f"refused later: {what}")
        check_problem_bytes(data, f"later {what}: a problem")
        c.close()
        # and the same in one write, behind a good request
        c = Connection()
        c.send(NEXT + request + NEXT)
        first = c.response()
        check(first and first[0] == 200, f"pipelined {what}: first answer", first)
        data = c.rest()
        one_refusal(data, f"pipelined {what}: nothing behind a refusal is answered")
        check_problem_bytes(data, f"pipelined {what}: a problem")
        c.close()


def test_what_is_no_request_at_all_ends_the_connection():
    for what, request in SILENT.items():
        c = Connection()
        c.send(NEXT)
        check(c.response()[0] == 200, "first answer")
        c.send(request + NEXT)
        check(c.rest() == b"", f"{what}: the end")
        c.close()


def test_who_is_refused_is_the_one_who_sent_it():
    """Others in the middle of their heads, on the same threads, are left alone."""
    others = []
    for begun in [b"GET /livez HTTP/1.1\r\nHost: loc", b"GET /liv", b"", b"GET /livez HTTP/1.1\r\n"] * 4:
        c = Connection()
        c.send(NEXT)
        check(c.response()[0] == 200, "first answer")
        c.send(begun)
        others.append((c, begun))
    for what in ("no colon", "bad length", "no version"):
        for _ in range(4):
            c = Connection()
            c.send(NEXT)
            check(c.response()[0] == 200, "first answer")
            c.send({**REFUSED, **SPLIT}[what])
            data = c.rest()
            one_refusal(data, f"beside others: {what}")
            check_problem_bytes(data, f"beside others: {what}")
            c.close()
    for c, begun in others:
        c.send(NEXT if not begun else b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"[len(begun):])
        result = c.response()
        check(result and result[0] == 200, "the others go on", begun, result)
        c.close()


def test_good_heads_of_every_form_are_taken():
    for request in (
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX:y\r\nY:   z\r\nEmpty:\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + b"".join(b"X%d: %d\r\n" % (i, i) for i in range(40)) + b"\r\n",
        b"GET /livez?a=b&c HTTP/1.1\r\nHost: localhost:80\r\nCookie: a=b; c=d\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 3000 + b"\r\nY: z\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: trailing \t\r\n\r\n",
    ):
        c = Connection()
        for _ in range(3):
            c.send(request)
            result = c.response()
            check(result and result[0] == 200, "good head", request, result)
        c.send(request * 3)
        for _ in range(3):
            result = c.response()
            check(result and result[0] == 200, "good heads pipelined", request, result)
        for i in range(len(request)):
            c.send(request[i:i + 1])
        result = c.response()
        check(result and result[0] == 200, "good head byte by byte", request, result)
        c.close()


def test_slow_heads_time_out():
    c = Connection()
    c.send(b"GET /livez HTTP/1.1\r\nHost: lo")
    data = c.rest()
    check(data.startswith(b"HTTP/1.1 408"), "a head that never ends", data)
    c = Connection()
    c.send(NEXT)
    check(c.response()[0] == 200, "first answer")
    c.send(b"GET /livez HTTP/1.1\r\nHost: lo")
    data = c.rest()
    one_refusal(data, "a later head that never ends")
    check(data.startswith(b"HTTP/1.1 408"), "a later head that never ends", data)
    check_problem_bytes(data, "a later head that never ends")


def test_what_came_in_time_is_answered_however_late_it_is_read():
    """The only thread of the front is busy for longer than a head may take."""
    def begun():
        c = Connection()
        c.send(NEXT)
        check(c.response()[0] == 200, "first answer")
        c.send(NEXT[:30])
        return c
    others, silent = [begun() for _ in range(4)], begun()
    busy = Connection()
    body = b'{"function": "test.holds"}'
    busy.send(head("POST", "/api/v1/tasks", {"Content-Type": "application/json", "Content-Length": str(len(body))}).encode() + body)
    time.sleep(0.2)  # until it holds the thread; if not yet, nothing is tested and nothing fails
    for c in others:
        c.send(NEXT[30:])
    for c in others:
        result = c.response()
        check(result and result[0] == 200, "a head that was whole in time", result)
    check(busy.response()[0] == 202, "who kept the thread")
    check(silent.rest().startswith(b"HTTP/1.1 408"), "one that was not")


def parts_sent_in_time():
    """Connections, new ones and kept ones, with the beginning of a request on each; None when that took so long that the
    first of them may be late by now."""
    begun = time.monotonic()
    kept, fresh = [Connection() for _ in range(20)], [Connection() for _ in range(300)]
    for c in kept:
        c.send(NEXT)
    answered = [(c.response() or (0,))[0] == 200 for c in kept]
    if all(answered):
        for c in fresh + kept:
            c.send(NEXT[:30])
    if all(answered) and time.monotonic() - begun < 0.6 * HEAD_S:
        return fresh + kept
    for c in fresh + kept:
        c.close()
    return None


def test_heads_that_came_while_nothing_ran_are_read():
    """More of them than the edge takes from the kernel in one turn, and later requests of connections."""
    gateway = int(os.environ["MOBULA_TEST_GATEWAY_PID"])
    for _ in range(100):
        connections = parts_sent_in_time()
        if not connections:
            continue
        os.kill(gateway, signal.SIGSTOP)
        try:
            for c in connections:
                c.send(NEXT[30:])
            time.sleep(HEAD_S + 1.3)
        finally:
            os.kill(gateway, signal.SIGCONT)
        for c in connections:
            result = c.response()
            check(result and result[0] == 200, "answered after a pause of the whole process", result)
            c.close()
        return
    check(False, "this machine is too slow for it")


def test_large_heads_are_refused():
    c = Connection()
    try:
        c.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 9000 + b"\r\n\r\n")
    except (BrokenPipeError, ConnectionResetError):
        pass
    data = c.rest()
    check(data.startswith(b"HTTP/1.1 431"), "a large head", data)
    c = Connection()
    c.send(b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    check(c.rest().startswith(b"HTTP/1.1 414"), "a long target")


def test_heads_of_every_size_are_answered():
    """None is too large for the answer to fit beside it: then it is 431."""
    body = b'{"function":"test.echo","arguments":[1]}'
    forms = {
        "one field": lambda n: head("GET", "/livez", {"X": "a" * (n - 60), "Connection": "close"}, key=None),
        "many fields": lambda n: head("GET", "/livez", {"Connection": "close", **{f"X{i}": "a" * ((n - 4000) // 40) for i in range(40)}}, key=None),
        "cookies": lambda n: head("GET", "/livez", {"Cookie": "; ".join(f"c{i}=d" for i in range(40)) + "; e=" + "f" * ((n - 4000) // 2), "Connection": "close"}),
        "parameters": lambda n: head("GET", "/livez?" + "&".join(f"p{i}=q" for i in range(30)), {"X": "a" * (n - 2000), "Connection": "close"}),
        "a list with a link": lambda n: head("GET", "/api/v1/tasks?limit=1&filter=name:" + "%61" * 400, {"X": "a" * (n - 2500), "Connection": "close"}),
        "a task": lambda n: head("POST", "/api/v1/tasks", {"X": "a" * (n - 300), "Content-Type": "application/json", "Content-Length": str(len(body)), "Prefer": "wait=5", "Connection": "close"}) + body.decode(),
        "bad": lambda n: head("GET", "/li vez", {"X": "a" * (n - 60)}, key=None),
    }
    for what, form in forms.items():
        for n in range(5500, 8600, 50):
            for before in ("", NEXT.decode()):
                c = Connection()
                try:
                    c.send((before + form(n)).encode())
                except (BrokenPipeError, ConnectionResetError):
                    pass
                first = c.response() if before else (200,)
                result = c.response()
                c.close()
                if not check(first and first[0] == 200 and result and result[0] in (200, 400, 414, 431), f"answered: {what}", n, before[:3], first, result):
                    break


def test_many_query_parameters_are_refused():
    """First on a connection, and later, where the library has taken the head apart already."""
    good, plenty = (b"GET /livez?" + b"&".join(b"a=%d" % i for i in range(n)) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" for n in (32, 300))
    for before in (b"", good):
        for behind in (b"", good):
            c = Connection()
            c.send(before + plenty + behind)
            if before:
                check(c.response()[0] == 200, "32 of them")
            answer = c.rest()
            check(answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1 and b"too many query parameters" in answer, "too many", before, answer)


# ------------------------------------------------------------------------------------------- keys

def routes():
    """(method, path) of the description, parameters filled in."""
    text = call("GET", "/openapi.yaml")[2].decode()
    path, found = None, []
    for line in text.split("components:")[0].splitlines():
        if match := re.match(r"  (/\S*):$", line):
            path = match.group(1)
        elif match := re.match(r"    (get|put|post|delete):$", line):
            found.append((match.group(1).upper(), path))
    values = {"id": "task_" + "a" * 26, "name": "x", "model": "m", "method": "f", "version": "1"}
    filled = []
    for method, pattern in found:
        at = dict(values)
        if "/objects/" in pattern:
            at["id"] = "obj_" + "a" * 32
        if "/actors/" in pattern:
            at["id"] = "actor_" + "a" * 26
        if "/jobs/" in pattern:
            at["id"] = "job_" + "a" * 20
        filled.append((method, re.sub(r"\{(\w+)\}", lambda m: at[m.group(1)], pattern)))
    check(len(filled) > 45, "routes in the description", len(filled))
    return filled


def test_every_route_needs_a_key():
    c = Connection()
    wrong = ADMIN[:16] + ("b" if ADMIN[16] == "a" else "a") + ADMIN[17:]
    stranger = "mob_sk_aaaaaaaa_" + "a" * 52 + "aaaaaaa"
    for method, path in routes() + [("GET", "/nowhere"), ("DELETE", "/api/v1/tasks"), ("OPTIONS", "/api/v1/tasks")]:
        if path in ("/livez", "/readyz"):
            check(call(method, path, key=None)[0] == 200, f"{path} without a key")
            continue
        for key in (None, wrong, stranger, "nonsense"):
            result = call(method, path, key=key, connection=c)
            problem(result, 401, "unauthenticated", f"{method} {path} with key {key}")
            check("bearer" in result[1].get("www-authenticate", "").lower(), "WWW-Authenticate", result[1])
            says = b"no key was sent" if key is None else b"not one of this cluster's"
            check(method == "HEAD" or says in result[2], f"{method} {path} with key {key}: what it says", result[2])
    c.close()


def test_roles():
    problem(call("POST", "/api/v1/tasks", {"function": "test.echo"}, key=KEYS["read"]), 403, "denied", "read may not submit")
    problem(call("PUT", "/api/v1/endpoints/x", {"class": "a.B"}, key=KEYS["submit"]), 403, "denied", "submit may not deploy")
    check(call("POST", "/api/v1/tasks", {"function": "test.echo"}, key=KEYS["submit"])[0] == 202, "submit may submit")
    check(call("GET", "/api/v1/nodes", key=KEYS["read"])[0] == 200, "read may read")
    result = call("GET", "/api/v1/nodes", headers={"X-Mobula-Authorization": f"Bearer {ADMIN}"}, key=None)
    check(result[0] == 200, "X-Mobula-Authorization", result)


def test_fields_that_stand_there_twice():
    """On the first request of a connection, which the edge looks at, and on a later one."""
    for field in ("Authorization", "X-Mobula-Authorization", "Content-Type", "Range", "Last-Event-ID", "Origin"):
        c = Connection()
        check(call("GET", "/livez", connection=c)[0] == 200, "a request before")
        for connection in (None, c):
            problem(call("GET", "/api/v1/cluster", headers={field: f"Bearer {ADMIN}", field.lower(): f"Bearer {ADMIN}"}, key=None, connection=connection), 400, "bad-request", field)
        c.close()
    c = Connection()
    for connection in (None, c, c):
        check(call("GET", "/api/v1/cluster", headers={"Accept": "text/html", "X": "y", "accept": "application/json"}, connection=connection)[0] == 200, "lines of Accept are one list")
        answer = call("POST", "/api/v1/tasks", {"function": "test.echo"}, {"Content-Digest": "md5=:x:", "content-digest": "sha-256=:eHg=:"}, connection=connection)
        problem(answer, 400, "digest-mismatch", "all digests are compared")
        answer = call("POST", "/api/v1/tasks", {"function": "test.echo"}, {"Prefer": "return=minimal", "prefer": "wait=10"}, connection=connection)
        check(answer[0] == 200 and answer[1].get("preference-applied") == "wait=10", "preferences, too", answer)
    c.close()


def test_hosts_and_origins():
    problem(call("GET", "/api/v1/nodes", host="evil.example"), 421, "misdirected-request", "foreign Host")
    problem(call("GET", "/api/v1/nodes", host="127.0.0.1.evil.example"), 421, "misdirected-request", "foreign Host")
    check(call("GET", "/api/v1/nodes", host="localhost:8080")[0] == 200, "localhost")
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        problem(call("POST", "/api/v1/tasks", {"function": "test.echo"}, headers), 403, "denied", f"browser {headers}")
    headers = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
    check(call("POST", "/api/v1/tasks", {"function": "test.echo"}, headers)[0] == 202, "own page")


# ------------------------------------------------------------------------------------------- routes

def test_paths_and_methods():
    problem(call("GET", "/api/v1/nowhere"), 404, "not-found", "unknown path")
    result = call("DELETE", "/api/v1/tasks")
    problem(result, 405, "method-not-allowed", "wrong method")
    check(set(result[1]["allow"].split(", ")) == {"GET", "HEAD", "POST", "OPTIONS"}, "Allow", result[1])
    problem(call("GET", "/api/v1/tasks/..%2f..%2fetc%2fpasswd"), 400, "bad-request", "encoded slashes")
    problem(call("GET", "/api/v1/tasks/%00"), 400, "bad-request", "NUL in the path")
    problem(call("GET", "/api/v1/tasks/%zz"), 400, "bad-request", "bad escape")
    problem(call("GET", "/api/v1/tasks/task_short"), 404, "not-found", "malformed id")
    problem(call("GET", "/api/v1/tasks?bogus=1"), 400, "bad-request", "unknown query parameter")
    result = call("GET", "/api/v1/nodes", headers={"Request-Id": "mine-1"})
    check(result[1].get("request-id") == "mine-1", "Request-Id", result[1])
    result = call("HEAD", "/openapi.yaml")
    check(result[0] == 200 and int(result[1]["content-length"]) > 1000 and not result[2], "HEAD", result)


def test_bodies():
    tasks = "/api/v1/tasks"
    document = problem(call("POST", tasks, {"function": "test.echo", "bogus": 1}), 422, "invalid-argument", "unknown field")
    check(document["errors"][0]["pointer"] == "/bogus", "pointer", document)
    document = problem(call("POST", tasks, {"function": "test.echo", "options": {"a/b": 1}}), 422, "invalid-argument", "nested unknown field")
    check(document["errors"][0]["pointer"] == "/options/a~1b", "pointer", document)
    problem(call("POST", tasks, {"arguments": []}), 422, "invalid-argument", "missing field")
    problem(call("POST", tasks, {"function": "test.echo", "options": {"priority": "high"}}), 422, "invalid-argument", "wrong type")
    problem(call("POST", tasks, b"[1]", {"Content-Type": "application/json"}), 422, "invalid-argument", "not an object")
    problem(call("POST", tasks, b"{", {"Content-Type": "application/json"}), 400, "bad-request", "not JSON")
    problem(call("POST", tasks, b'{"function":"a","function":"b"}', {"Content-Type": "application/json"}), 400, "bad-request", "duplicate field")
    deep = b'{"function":"test.echo","arguments":' + b"[" * 70 + b"]" * 70 + b"}"
    problem(call("POST", tasks, deep, {"Content-Type": "application/json"}), 400, "bad-request", "too deep")
    for number in (b"1e999", b"9" * 400):
        body = b'{"function":"test.echo","arguments":[' + number + b"]}"
        document = problem(call("POST", tasks, body, {"Content-Type": "application/json"}), 400, "bad-request", f"number {number}")
        check("64 bits" in document["detail"], "says what is wrong with the number", document)
    for retries, taken in ((b"1.0", True), (b"2e0", True), (b"1.5", False), (b"99999999999999999999", False), (b"1e300", False)):
        body = b'{"function":"test.echo","options":{"max_retries":' + retries + b"}}"
        answer = call("POST", tasks, body, {"Content-Type": "application/json"})
        if taken:
            check(answer[0] == 202, f"retries {retries}", answer)
            continue
        document = problem(answer, 422, "invalid-argument", f"retries {retries}")
        check(document["errors"][0]["pointer"] == "/options/max_retries" and "integer from -1" in document["detail"], "says which and why", document)
    problem(call("POST", tasks, b"{}", {"Content-Type": "text/plain"}), 415, "unsupported-media-type", "media type")
    problem(call("POST", tasks, b"{}", {"Content-Type": "application/json", "Content-Encoding": "gzip"}), 415, "unsupported-media-type", "encoding")
    document = problem(call("POST", tasks, {"function": "nowhere.f"}), 404, "not-found", "unknown function")
    check(document["errors"][0]["pointer"] == "/function", "pointer", document)
    c = Connection()
    c.send(head("POST", tasks, {"Content-Type": "application/json", "Content-Length": str(100 << 20)}).encode())
    problem(c.response(), 413, "too-large", "declared too large")
    c.close()
    c = Connection()  # chunked: only what arrives can tell
    c.send(head("POST", "/api/v1/jobs", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}).encode())
    chunk = b"%x\r\n" % 16384 + b" " * 16384 + b"\r\n"
    c.send(chunk * 5 + b"0\r\n\r\n")
    result = c.response()
    check(result and result[0] == 413, "chunked too large", result)
    c.close()
    c = Connection()
    c.send(head("POST", tasks, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}).encode())
    c.send(b"15\r\n{\"function\":\"test.ech\r\n4\r\no\"}\n\r\n0\r\n\r\n")
    result = c.response()
    check(result and result[0] == 202, "chunked", result)
    c.close()


def test_tasks():
    status, headers, body = call("POST", "/api/v1/tasks", {"function": "test.echo", "arguments": [{"a": 1}]})
    document = json.loads(body)
    check(status == 202 and headers["location"] == "/api/v1/tasks/" + document["id"], "submit", headers, document)
    check(re.fullmatch("obj_[a-z2-7]{32}", document["returns"][0]), "returns", document)
    status, headers, body = call("POST", "/api/v1/tasks", {"function": "test.echo", "arguments": [41]}, {"Prefer": "respond-async, wait=5"})
    document = json.loads(body)
    check(status == 200 and document["result"] == 41 and document["state"] == "finished", "submit and wait", document)
    check(headers.get("preference-applied") == "wait=5", "Preference-Applied", headers)
    status, _, body = call("POST", "/api/v1/tasks", {"function": "test.fail"}, {"Prefer": "wait=5"})
    document = json.loads(body)
    check(status == 200 and document["state"] == "failed" and document["error"]["code"] == "task-failed", "failed", document)
    begin = time.monotonic()
    status, _, body = call("POST", "/api/v1/tasks", {"function": "test.never"}, {"Prefer": "wait=0.2"})
    check(status == 202 and 0.15 < time.monotonic() - begin < 30, "wait in vain", status, body)
    problem(call("POST", "/api/v1/tasks/task_" + "a" * 26 + ":cancel", {"bogus": 1}), 422, "invalid-argument", "cancel")
    check(call("POST", "/api/v1/tasks/task_" + "a" * 26 + ":cancel")[0] == 202, "cancel")
    for path in ("", "/why", "/logs"):
        check(call("GET", "/api/v1/tasks/task_" + "a" * 26 + path)[0] == 200, f"task {path}")


def test_batches():
    status, _, body = call("POST", "/api/v1/tasks:batch", {"function": "test.echo", "rows": [[i] for i in range(1000)]})
    document = json.loads(body)
    check(status == 202 and document["count"] == 1000 and len({x["id"] for x in document["items"]}) == 1000, "batch", status)
    items = [{"function": "test.echo", "arguments": [1]}, {"function": "nowhere.f"}]
    status, _, body = call("POST", "/api/v1/tasks:batch", {"items": items})
    document = json.loads(body)
    check(status == 202 and document["failed"] == 1 and document["items"][1]["error"]["code"] == "not-found", "items", document)
    for bad in ({"rows": [[1]]}, {"function": "f", "rows": [1]}, {"function": "f", "rows": [[1]], "items": []}, {},
                {"function": "test.echo", "rows": [[1]] * 1001}):
        problem(call("POST", "/api/v1/tasks:batch", bad), 422, "invalid-argument", f"batch {str(bad)[:60]}")


def test_objects():
    data = bytes(range(256)) * 100
    status, headers, body = call("POST", "/api/v1/objects", data, {"Content-Type": "application/octet-stream"})
    name = json.loads(body)["id"]
    check(status == 201 and headers["location"].endswith(name), "put", status, body)
    path = f"/api/v1/objects/{name}/data"
    status, headers, body = call("GET", path)
    tag = headers["etag"]
    check(status == 200 and body == data and "immutable" in headers["cache-control"], "data", status)
    status, headers, body = call("GET", path, headers={"Range": "bytes=10-19"})
    check(status == 206 and body == data[10:20] and headers["content-range"] == f"bytes 10-19/{len(data)}", "range", headers)
    check(call("GET", path, headers={"Range": "bytes=-5"})[2] == data[-5:], "suffix range")
    check(call("GET", path, headers={"Range": "bytes=0-1", "If-Range": tag})[0] == 206, "If-Range")
    check(call("GET", path, headers={"Range": "bytes=0-1", "If-Range": '"other"'})[0] == 200, "If-Range, other")
    check(call("GET", path, headers={"Range": "bytes=0-1,5-6"})[0] == 200, "several ranges are ignored")
    check(call("GET", path, headers={"If-None-Match": f'"x", {tag}'})[0] == 304, "If-None-Match")
    long = ", ".join(f'"{n:032}"' for n in range(40))  # conditions of any length are conditions
    check(call("GET", path, headers={"If-Match": long})[0] == 412, "a long If-Match")
    check(call("GET", path, headers={"If-Match": f"{long}, {tag}"})[0] == 200, "and one that holds")
    check(call("GET", path, headers={"If-Match": "W/" + tag})[0] == 412, "If-Match is strong")
    check(call("GET", path, headers={"If-None-Match": f"{long}, {tag}"})[0] == 304, "a long If-None-Match")
    check(call("GET", path, headers={"If-Range": long, "Range": "bytes=0-0"})[0] == 200, "a long If-Range")
    result = call("GET", path, headers={"Range": f"bytes={len(data)}-"})
    problem(result, 416, "range-not-satisfiable", "outside")
    check(result[1]["content-range"] == f"bytes */{len(data)}", "Content-Range of 416", result[1])
    status, headers, body = call("HEAD", path)
    check(status == 200 and headers["content-length"] == str(len(data)) and not body, "HEAD", headers)
    status, _, body = call("GET", f"/api/v1/objects/{name}")
    check(status == 200 and json.loads(body)["state"] == "ready", "state", body)
    problem(call("POST", "/api/v1/objects", b"{", {"Content-Type": "application/json"}), 400, "bad-request", "bad JSON value")
    problem(call("POST", "/api/v1/objects", b"x", {"Content-Type": "image/png"}), 415, "unsupported-media-type", "media")
    problem(call("GET", "/api/v1/objects/obj_" + "a" * 32), 404, "not-found", "unknown object")
    never = json.loads(call("POST", "/api/v1/tasks", {"function": "test.never"})[2])["returns"][0]
    failed = json.loads(call("POST", "/api/v1/tasks", {"function": "test.fail"})[2])["returns"][0]
    check(json.loads(call("GET", f"/api/v1/objects/{never}?wait=0.1")[2])["state"] == "pending", "pending")
    check(json.loads(call("GET", f"/api/v1/objects/{failed}")[2])["state"] == "failed", "failed")
    result = call("GET", f"/api/v1/objects/{never}/data")
    problem(result, 409, "object-not-ready", "not ready")
    check("retry-after" in result[1], "Retry-After", result[1])
    problem(call("GET", f"/api/v1/objects/{failed}/data"), 409, "task-failed", "failed data")
    document = json.loads(call("POST", "/api/v1/objects:wait", {"ids": [never, name], "num_returns": 1})[2])
    check(document == {"ready": [name], "pending": [never]}, "wait", document)
    problem(call("POST", "/api/v1/objects:wait", {"ids": []}), 422, "invalid-argument", "no ids")
    problem(call("POST", "/api/v1/objects:wait", {"ids": ["x"]}), 422, "invalid-argument", "bad ids")


def test_idempotency():
    body = {"function": "test.echo", "arguments": [1]}
    first = call("POST", "/api/v1/tasks", body, {"Idempotency-Key": "k1"})
    again = call("POST", "/api/v1/tasks", body, {"Idempotency-Key": "k1"})
    check(first[0] == again[0] == 202 and first[2] == again[2], "replayed", first, again)
    check(again[1].get("idempotent-replayed") == "true" and again[1]["location"] == first[1]["location"], "replay head", again[1])
    problem(call("POST", "/api/v1/tasks", {"function": "test.echo"}, {"Idempotency-Key": "k1"}), 422, "invalid-argument", "other body")
    problem(call("POST", "/api/v1/tasks", body, {"Idempotency-Key": "k1", "idempotency-key": "k2"}), 400, "bad-request", "two keys")
    other = call("POST", "/api/v1/tasks", body, {"Idempotency-Key": "k1"}, key=KEYS["submit"])
    check(other[2] != first[2], "another principal", other)
    text = json.dumps({"function": "test.never"}).encode()
    for key in (f"slow-{n}" for n in range(50)):
        slow = Connection()
        headers = {"Idempotency-Key": key, "Prefer": "wait=3", "Content-Type": "application/json", "Content-Length": len(text)}
        slow.send(head("POST", "/api/v1/tasks", headers).encode() + text)
        result = call("POST", "/api/v1/tasks", text, {"Idempotency-Key": key, "Content-Type": "application/json"})
        first = slow.response()[0]
        check({first, result[0]} <= {202, 409} and 202 in (first, result[0]), "one of them runs", first, result)
        if result[0] == 409:
            break  # else the second overtook the first, or was late: once more
    check(result[0] == 409 and "retry-after" in result[1], "still running", result)


def while_it_runs(name, body, other, status):
    """What `other` is told while a request with the same key and `body` runs; if that is to be 422, when it is not 409 any more."""
    text = json.dumps(body).encode()
    for key in (f"{name}-{n}" for n in range(50)):
        first = Connection()
        headers = {"Idempotency-Key": key, "Prefer": "wait=3", "Content-Type": "application/json", "Content-Length": len(text)}
        first.send(head("POST", "/api/v1/tasks", headers).encode() + text)
        told = call("POST", "/api/v1/tasks", other, {"Idempotency-Key": key})
        while told[0] == 409 and status != 409:
            told = call("POST", "/api/v1/tasks", other, {"Idempotency-Key": key})
        if first.response()[0] == 202 and told[0] != 202:
            return told
        # else the second overtook the first, or was late: once more
    return told


def test_whose_a_key_is_the_control_store_decides():
    told = while_it_runs("contested", {"function": "test.contested"}, {"function": "test.echo"}, 409)
    problem(told, 409, "again", "not decided yet, and may become theirs")
    check("retry-after" in told[1], "Retry-After", told[1])
    problem(while_it_runs("decided", {"function": "test.never"}, {"function": "test.echo"}, 422), 422, "invalid-argument", "decided for the other")


def test_a_key_is_not_used_up_by_what_is_refused_at_once():
    key = {"Idempotency-Key": "mended"}
    problem(call("POST", "/api/v1/tasks", {"function": "test.echo", "nonsense": 1}, key), 422, "invalid-argument", "refused")
    check(call("POST", "/api/v1/tasks", {"function": "test.echo"}, key)[0] == 202, "and mended: nothing was made under the key")
    problem(call("POST", "/api/v1/tasks", {"function": "test.echo", "nonsense": 1}, key), 422, "invalid-argument", "another body now")


def test_prefer():
    def prefer(text):
        status, headers, body = call("POST", "/api/v1/tasks", {"function": "test.echo"}, {"Prefer": text})
        return status, headers.get("preference-applied"), body

    for text in ("wait=5", "WAIT=5", "wait = 5", 'wait="5"', "respond-async, wait=5", "wait=5;x=y", 'foo="a, wait=9", wait=5', "wait=5, wait=6"):
        check(prefer(text)[:2] == (200, "wait=5"), f"Prefer: {text}", prefer(text))
    check(prefer("wait=100")[:2] == (200, "wait=60"), "at most a minute", prefer("wait=100"))
    for text in ("", ",", "respond-async", "waiting=5", "return=minimal", 'foo="wait=5"'):
        check(prefer(text)[:2] == (202, None), f"Prefer: {text}", prefer(text))
    for text in ("wait", "wait=", "wait=abc", "wait=-1", "wait=5s", "wait=1e3", "wait=0x5", "wait=inf", 'wait="5', "wait;x=y", "return=minimal, wait=x"):
        check(prefer(text)[0] == 400 and b"Prefer: wait" in prefer(text)[2], f"Prefer: {text}", prefer(text))


def test_a_body_that_is_no_object():
    told = problem(call("POST", "/api/v1/tasks", []), 422, "invalid-argument", "an array")
    check(told["detail"] == "the body must be an object" and told["errors"][0]["pointer"] == "", "what it must be", told)


def test_verbs():
    task = "/api/v1/tasks/task_" + "a" * 26
    for path, verbs in ((task + ":explode", ":cancel"), (task + ":cancel:", ":cancel"), (task + ":CANCEL", ":cancel"),
                        ("/api/v1/tasks:explode", ":batch"), ("/api/v1/objects:", ":wait")):
        told = problem(call("POST", path, {}), 404, "not-found", path)
        check(told["detail"] == f"no such path; the verbs here are {verbs}", "which verbs there are", path, told)
    for path in ("/api/v1/jobs/x:explode", "/api/v1/nothing:explode", "/x:y"):
        check(problem(call("POST", path, {}), 404, "not-found", path)["detail"] == "no such path", "no verbs", path)
    for method, path, allowed in (("GET", task + ":cancel", "POST, OPTIONS"), ("DELETE", "/api/v1/objects:wait", "POST, OPTIONS")):
        result = call(method, path)
        problem(result, 405, "method-not-allowed", path)
        check(result[1].get("allow") == allowed, "Allow", path, result[1])


def test_lists():
    seen, path = [], "/api/v1/tasks?limit=100&filter=state:FAILED"
    while path:
        status, headers, body = call("GET", path)
        check(status == 200, "list", status, body)
        seen += [item["n"] for item in json.loads(body)["items"]]
        match = re.fullmatch(r'<(.*)>; rel="next"', headers.get("link", ""))
        path = match and match.group(1)
        check(not path or "filter=state:FAILED" in path, "next keeps the filter", path)
    check(seen == list(range(250)), "pages", len(seen))
    for bad in ("limit=0", "limit=x", "limit=1001", "wait=5"):
        problem(call("GET", f"/api/v1/tasks?{bad}"), 400, "bad-request", bad)
    status, headers, body = call("GET", "/api/v1/tasks/task_" + "a" * 26 + "/logs", headers={"Range": "bytes=4-"})
    check(status == 206 and body == b"456789" and headers["mobula-log-ended"] == "true", "log range", status, headers)


def test_events():
    c = Connection()
    page = json.loads(call("GET", "/api/v1/events", connection=c)[2])
    check(page["events"] == [] and page["position"], "from now on", page)
    task = json.loads(call("POST", "/api/v1/tasks", {"function": "test.echo"})[2])["id"]
    page = json.loads(call("GET", f"/api/v1/events?after={page['position']}&task={task}&wait=5", connection=c)[2])
    check([e["subject"] for e in page["events"]] == [task], "event of a task", page)
    empty = json.loads(call("GET", f"/api/v1/events?after={page['position']}&task={task}&wait=0.3", connection=c)[2])
    check(empty["events"] == [] and empty["position"] >= page["position"], "nothing new", empty)
    waiter = Connection()
    waiter.send(head("GET", f"/api/v1/events?after={page['position']}&function=test.echo&wait=10").encode())
    task = json.loads(call("POST", "/api/v1/tasks", {"function": "test.echo"})[2])["id"]
    result = waiter.response()
    check(result and json.loads(result[2])["events"][0]["subject"] == task, "woken by its event", result)
    unfiltered = json.loads(call("GET", f"/api/v1/events?after={page['position']}&wait=0.1")[2])
    check(unfiltered["events"] == [], "tasks only to who asked", unfiltered)
    for bad in ("after=nonsense", "task=a&job=b", "limit=0", "wait=x"):
        problem(call("GET", f"/api/v1/events?{bad}"), 400, "bad-request", bad)
    stream = Connection()
    stream.send(head("GET", f"/api/v1/events?after={page['position']}&function=test.echo", {"Accept": "text/event-stream"}).encode())
    while task.encode() not in stream.buffer:
        if not stream.fill():
            break
    check(b"text/event-stream" in stream.buffer and b"\nevent: task.submitted\n" in stream.buffer, "stream", stream.buffer)
    task = json.loads(call("POST", "/api/v1/tasks", {"function": "test.echo"})[2])["id"]
    while task.encode() not in stream.buffer and stream.fill():
        pass
    check(task.encode() in stream.buffer, "stream goes on", stream.buffer)
    last = re.findall(rb"id: (\w+)\nevent: task", stream.buffer)[0].decode()
    stream.close()
    for begun in ("", f"after={page['position']}&"):  # which stays in the address of a browser's stream
        back = Connection()
        back.send(head("GET", f"/api/v1/events?{begun}function=test.echo", {"Accept": "text/event-stream", "Last-Event-ID": last}).encode())
        while task.encode() not in back.buffer and back.fill():
            pass
        check(back.buffer.count(b"event: task") == 1, "resumed without duplicate", begun, back.buffer)
        back.close()
    page = json.loads(call("GET", "/api/v1/events", headers={"Last-Event-ID": ""})[2])
    check(page["events"] == [] and page["position"], "an empty id is none", page)
    problem(call("GET", "/api/v1/events", headers={"Last-Event-ID": "nonsense"}), 400, "bad-request", "another one is none of ours")


def test_the_head_of_a_stream_is_all_of_it():
    c = Connection()
    c.send(head("HEAD", "/api/v1/events", {"Accept": "text/event-stream"}).encode())
    status, headers, _ = c.response(head=True)
    check(status == 200 and headers["content-type"] == "text/event-stream" and "content-length" not in headers, "HEAD of events", headers)
    check(c.rest() == b"", "and nothing behind it", c.buffer)


def test_many_parked_polls_are_woken():
    page = json.loads(call("GET", "/api/v1/events")[2])
    waiters = [Connection() for _ in range(200)]
    for w in waiters:
        w.send(head("GET", f"/api/v1/events?after={page['position']}&function=test.echo&wait=30").encode())
    for w in waiters[:50]:  # some leave
        w.close()
    call("POST", "/api/v1/tasks", {"function": "test.echo"})
    for w in waiters[50:]:
        result = w.response()
        check(result and result[0] == 200 and json.loads(result[2])["events"], "woken", result)


def test_models():
    check(call("PUT", "/api/v1/endpoints/m", {"class": "a.B", "max_batch_size": 8})[0] == 201, "endpoint")
    problem(call("PUT", "/api/v1/endpoints/m", {"class": "a.B", "max_batch_size": 0}), 422, "invalid-argument", "bad batch size")
    problem(call("PUT", "/api/v1/endpoints/a%20b", {"class": "a.B"}), 422, "invalid-argument", "bad name")
    document = json.loads(call("GET", "/v2/models/m")[2])
    check(document["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}], "metadata", document)
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/config", "/v2/models/m/versions/1", "/v2/models/m/stats"):
        check(call("GET", path)[0] == 200, path)
    check("error" in problem(call("GET", "/v2/models/none"), 404, "not-found", "no model"), "error field")
    for path in ("", "/ready", "/config", "/stats"):
        told = problem(call("GET", "/v2/models/m/versions/2" + path), 404, "not-found", "no such version")
        check(told["error"] == "model m has no version 2; it has 1", "and which there is", told)
    infer = "/v2/models/m/infer"
    body = {"id": "7", "inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3, 4.5]]}]}
    status, _, answer = call("POST", infer, body)
    document = json.loads(answer)
    check(status == 200 and document["id"] == "7" and document["outputs"][0]["data"] == [2, 4, 6, 9], "infer", document)
    text = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}],
                       "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    status, headers, answer = call("POST", infer, text + struct.pack("<2f", 1.5, -2), headers)
    n = int(headers["inference-header-content-length"])
    check(status == 200 and struct.unpack("<2f", answer[n:]) == (3, -4), "binary infer", answer)
    check(json.loads(answer[:n])["outputs"][0]["parameters"]["binary_data_size"] == 8, "binary answer", answer)
    good = body["inputs"][0]
    for bad in ({**good, "name": "y"}, {**good, "datatype": "INT32"}, {**good, "shape": [2, 3]}, {**good, "shape": [2]},
                {**good, "data": [1]}, {**good, "data": ["a"] * 4}, {k: v for k, v in good.items() if k != "data"},
                {**good, "parameters": {"binary_data_size": 16}}, {**good, "shape": [0, 2], "data": []}):
        result = call("POST", infer, {"inputs": [bad]})
        check(result[0] == 400 and "error" in json.loads(result[2]), "bad infer", bad, result)
    for more in ({"outputs": 5}, {"outputs": {"name": "y"}}, {"outputs": [5]}, {"parameters": 5}):
        check(call("POST", infer, {"inputs": [good], **more})[0] == 400, "outputs and parameters have a form", more)
    for size, blob in ((8, b"1234"), (4, b"12345678"), (-1, b""), (1 << 62, b"")):
        text = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": size}}]}).encode()
        result = call("POST", infer, text + blob, {"Inference-Header-Content-Length": str(len(text))})
        check(result[0] == 400, "bad binary", size, result)
    check(call("POST", infer, b"{}", {"Inference-Header-Content-Length": "99"})[0] == 400, "bad header length")
    whole = json.dumps({"inputs": [good]}).encode()
    for length in ("18446744073709551615", "99999999999999999999", "-1", "+1", ""):
        check(call("POST", infer, whole, {"Inference-Header-Content-Length": length})[0] == 400, "a header length that is none", length)
    status, _, answer = call("POST", infer, {"inputs": [good], "outputs": []})
    check(status == 200 and json.loads(answer)["outputs"][0]["name"] == "y", "no output asked for is all of them", answer)
    check(b"nv_inference_count" in call("GET", "/metrics")[2], "metrics")
    check(call("DELETE", "/api/v1/endpoints/m")[0] == 202, "delete")
    check(call("DELETE", "/api/v1/endpoints/m")[0] == 404, "delete again")


def test_a_connection_serves_many_requests():
    c = Connection()
    for i in range(2000):
        status, _, body = call("POST", "/api/v1/tasks", {"function": "test.echo", "arguments": [i]}, {"Prefer": "wait=5"}, connection=c)
        if status != 200 or json.loads(body)["result"] != i:
            check(False, "echo", i, status, body)
            break
    c.close()


def test_clients_that_leave_do_no_harm():
    def leave():
        for _ in range(20):
            c = Connection()
            c.send(head("POST", "/api/v1/tasks", {"Prefer": "wait=1", "Content-Type": "application/json", "Content-Length": "25"}).encode())
            c.send(b'{"function":"test.never"}')
            c.close()
    threads = [threading.Thread(target=leave) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(call("GET", "/livez", key=None)[0] == 200, "alive")


def main():
    only = sys.argv[1:]
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not only or any(word in name for word in only)):
            before = len(failures)
            try:
                test()
            except Exception as error:  # a broken answer must not hide the other tests
                check(False, f"{name}: {type(error).__name__}: {error}")
            print("ok" if len(failures) == before else "not ok", name, flush=True)
    return min(len(failures), 100)


if __name__ == "__main__":
    sys.exit(main())
