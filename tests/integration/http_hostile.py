"""Clients that close in the middle, never read, or dribble, while another one works.   ctest: timeout=280

The gateway gives back what they held (descriptors, memory, pins in the store), and whoever behaves is served all along.
"""
import json
import os
import random
import resource
import socket
import struct
import threading
import time

from lib_http_cluster import check, main

V1 = "/api/v1"
CLOSING = 2000
MEMORY_MAX = 48_000_000  # what may stay of all of them; sanitizers keep freed memory, so there it is not judged
SANITIZED = bool(os.environ.get("MOBULA_SANITIZE"))


class Worker(threading.Thread):
    """A client that submits tasks and reads results all the time; its slowest answer."""

    def __init__(self, c):
        super().__init__()
        self.c, self.going, self.times, self.wrong = c, True, [], []
        self.start()

    def run(self):
        connection, n = self.c.connect(), 0
        while self.going:
            n += 1
            begin = time.monotonic()
            try:
                body = {"function": "quickstart.add", "arguments": [n, 1]}
                status, _, data = self.c.call("POST", V1 + "/tasks", body, {"Prefer": "wait=20"}, connection=connection)
                if status != 200 or f'"result":{n + 1}'.encode() not in data:
                    self.wrong.append((status, data))
            except OSError as error:
                self.wrong.append(error)
                connection = self.c.connect()
            self.times.append(time.monotonic() - begin)

    def end(self, what, slowest):
        self.going = False
        self.join(60)
        times = sorted(self.times)
        print(f"{what}: {len(times)} tasks meanwhile, p99 {times[len(times) * 99 // 100] * 1000:.0f} ms, slowest {times[-1] * 1000:.0f} ms")
        check(not self.wrong, what + ": somebody else's answers", self.wrong[:3])
        check(len(times) > 3 and times[-1] < slowest, what + ": somebody else waits", len(times), times[-1])


class State:
    """What the gateway holds now."""

    def __init__(self, c):
        self.pid = c.pid_of("mobula-gateway")
        self.descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as file:
            self.memory = next(int(line.split()[1]) for line in file if line.startswith("Pss_Anon:")) * 1024

    def expect_back(self, c, what):
        c.until(what + ": descriptors come back", lambda: State(c).descriptors <= self.descriptors + 4, 30)
        now = State(c)
        check(now.pid == self.pid, what + ": the same process")
        if not SANITIZED:
            check(now.memory < self.memory + MEMORY_MAX, what + ": memory", self.memory, now.memory)
        check(c.call("GET", "/readyz", key=None)[0] == 200, what + ": ready")


def raw(c, receive_buffer=None):
    s = socket.socket()
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(60)
    s.connect((c.host, c.port))
    return s


def head(c, method, path, length=None, extra=""):
    text = f"{method} {path} HTTP/1.1\r\nHost: {c.host}\r\nAuthorization: Bearer {c.token}\r\nContent-Type: application/json\r\n{extra}"
    return (text + (f"Content-Length: {length}\r\n" if length is not None else "") + "\r\n").encode()


def abort(s):
    """Closes with a reset, as a process that is killed does when bytes are unread."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def count_of(c, gauge):
    return next(int(line.split()[1]) for line in c.call("GET", "/metrics")[2].decode().splitlines() if line.startswith(gauge + " "))


def prepare(c):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    c.deploy("quickstart")
    check(c.run("quickstart.add", 1, 2).get("result") == 3, "tasks run")


def test_two_thousand_that_close_in_the_middle(c):
    prepare(c)
    draw = random.Random(7)
    paused = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [100000]}, expect=202)
    big = c.call("POST", V1 + "/objects", b"x" * (4 << 20), {"Content-Type": "application/octet-stream"})
    big = json.loads(big[2])["id"]
    body = b'{"function":"quickstart.add","arguments":[1,2]}'
    batch = b'{"function":"quickstart.add","rows":[' + b",".join([b"[1,2]"] * 1000) + b"]}"
    ways = [
        lambda: head(c, "POST", V1 + "/tasks", len(body))[:draw.randrange(1, 90)],
        lambda: head(c, "POST", V1 + "/tasks", len(body)) + body[:draw.randrange(0, 46)],
        lambda: head(c, "POST", V1 + "/tasks", len(body)) + body,
        lambda: head(c, "POST", V1 + "/tasks", len(body), "Prefer: wait=30\r\n") + body,
        lambda: head(c, "POST", V1 + "/tasks:batch", len(batch)) + batch[:draw.randrange(0, len(batch))],
        lambda: head(c, "POST", V1 + "/objects", 8 << 20) + b"y" * draw.randrange(0, 1 << 20),
        lambda: head(c, "GET", f"{V1}/objects/{paused['returns'][0]}?wait=60"),
        lambda: head(c, "GET", V1 + "/events?wait=60&task=" + paused["id"]),
        lambda: head(c, "GET", V1 + "/events", None, "Accept: text/event-stream\r\n"),
        lambda: head(c, "GET", f"{V1}/objects/{big}/data"),
        lambda: head(c, "POST", V1 + "/tasks", None, "Transfer-Encoding: chunked\r\n") + b"2f\r\n" + body[:20],
        lambda: head(c, "GET", "/livez") * draw.randrange(1, 40),
    ]
    before, worker = State(c), Worker(c)
    open_now = []
    for i in range(CLOSING):
        s = raw(c)
        s.setblocking(False)
        try:
            s.send(ways[i % len(ways)]())
        except BlockingIOError:
            pass
        open_now.append(s)
        if len(open_now) > 200:
            victim = open_now.pop(draw.randrange(len(open_now)))
            abort(victim) if draw.random() < 0.5 else victim.close()
    for s in open_now:
        abort(s)
    worker.end("closing", 10)
    c.until("closing: nothing stays parked", lambda: count_of(c, "mobula_http_parked") == 0, 30)
    before.expect_back(c, "closing")
    c.call("POST", f"{V1}/tasks/{paused['id']}:cancel", {"force": True})


def used_bytes(c):
    return c.json("GET", V1 + "/nodes")["items"][0]["store"]["used_bytes"]


def test_some_that_never_read(c):
    prepare(c)
    answer = c.call("POST", V1 + "/objects", b"z" * (48 << 20), {"Content-Type": "application/octet-stream"})
    big = json.loads(answer[2])["id"]
    before, worker = State(c), Worker(c)
    readers = [raw(c, 4096) for _ in range(60)]
    for s in readers[:20]:
        s.sendall(head(c, "GET", f"{V1}/objects/{big}/data"))
    for s in readers[20:40]:  # pipelined: the next is not begun before the first has left
        s.setblocking(False)
        for _ in range(200):
            try:
                s.send(head(c, "GET", "/openapi.yaml"))
            except BlockingIOError:
                break
    for s in readers[40:]:
        s.sendall(head(c, "GET", V1 + "/events?topics=task", None, "Accept: text/event-stream\r\n"))
    rows = {"function": "quickstart.add", "rows": [[i, i] for i in range(1000)]}
    for _ in range(20):  # twenty thousand tasks' events for the streams
        c.json("POST", V1 + "/tasks:batch", rows, expect=202)
    time.sleep(3)
    if not SANITIZED:
        check(State(c).memory < before.memory + MEMORY_MAX, "who never reads costs memory", before.memory, State(c).memory)
    worker.end("never reading", 10)
    used = used_bytes(c)
    for s in readers:
        s.close()
    before.expect_back(c, "never reading")
    c.until("its readers are gone, so the value can go", lambda: c.call("DELETE", f"{V1}/objects/{big}")[0] < 300, 30)
    c.until("and its memory is free", lambda: used_bytes(c) < used - (40 << 20), 30)


def test_some_that_dribble(c):
    prepare(c)
    before, worker = State(c), Worker(c)
    begin = time.monotonic()
    heads, bodies = [raw(c) for _ in range(150)], [raw(c) for _ in range(150)]
    text = head(c, "POST", V1 + "/tasks", 10000)
    for s in bodies:
        s.sendall(text + b"{")
    ended, sent = {}, 0
    while time.monotonic() - begin < 60 and len(ended) < 300:
        sent += 1  # a byte of a head each 0.2 s: some fifty in its time
        for kind, sockets, piece in (("head", heads, text[sent - 1:sent]), ("body", bodies, b" ")):
            for s in sockets:
                if s in ended:
                    continue
                try:
                    s.send(piece)
                    s.setblocking(False)
                    try:
                        gone = s.recv(4096) == b"" or kind == "head"
                    except BlockingIOError:
                        gone = False
                    s.setblocking(True)
                except OSError:
                    gone = True
                if gone:
                    ended[s] = kind, time.monotonic() - begin
        time.sleep(0.2)
    late = {kind: max([t for k, t in ended.values() if k == kind], default=0) for kind in ("head", "body")}
    print(f"dribbling: heads ended after {late['head']:.1f} s, bodies after {late['body']:.1f} s")
    check(len(ended) == 300, "all were ended", len(ended))
    check(9 < late["head"] < 25, "a head has ten seconds", late)
    check(19 < late["body"] < 45, "a body of 10 KB has twenty", late)
    worker.end("dribbling", 10)
    for s in heads + bodies:
        s.close()
    before.expect_back(c, "dribbling")


if __name__ == "__main__":
    main(dict(globals()))
