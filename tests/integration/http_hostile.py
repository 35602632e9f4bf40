"""Clients that leave in the middle, never read, or dribble, while another one works.   ctest: timeout=120

The gateway gives back what they held (descriptors, memory, pins in the store), and whoever behaves is served all along.
"""
import contextlib
import json
import os
import random
import resource
import socket
import struct
import threading
import time

from lib_http_cluster import Cluster, check, main

V1 = "/api/v1"
CLOSING = 600
DRIBBLING = 60
HEAD_S = 10  # a request head has so long
NOTICED_S = 6  # 2 s on a machine that is not loaded; without the watch it is ten, or twenty
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


class Dribblers(threading.Thread):
    """Each sends a byte of a head now and then; when the gateway ended the last of them."""

    def __init__(self, c):
        super().__init__()
        self.sockets = [raw(c) for _ in range(DRIBBLING)]
        self.text = head(c, "POST", V1 + "/tasks", 10000)
        self.ended = {}
        self.start()

    def run(self):
        begin = time.monotonic()
        for sent in range(len(self.text)):
            for s in self.sockets:
                if s not in self.ended and self.is_over(s, self.text[sent:sent + 1]):
                    self.ended[s] = time.monotonic() - begin
            if len(self.ended) == DRIBBLING:
                return
            time.sleep(0.25)

    @staticmethod
    def is_over(s, piece):
        try:
            s.send(piece)
            s.setblocking(False)
            return s.recv(4096) is not None  # its 408, or the end
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end(self):
        self.join(90)
        first, last = min(self.ended.values(), default=0), max(self.ended.values(), default=0)
        print(f"dribbling: {len(self.ended)} heads ended after {first:.1f} to {last:.1f} s")
        check(len(self.ended) == DRIBBLING and first > HEAD_S - 1, "who dribbles has the time of a head", len(self.ended), first, last)
        for s in self.sockets:
            s.close()


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


def test_who_leaves_in_the_middle_is_noticed(c):
    """Half a head, a head without its body, half a body, half a chunk; then the client sends no more."""
    prepare(c)
    before = count_of(c, "mobula_http_connections")
    text = head(c, "POST", V1 + "/tasks", 10000)
    chunk = head(c, "POST", V1 + "/tasks", None, "Transfer-Encoding: chunked\r\n") + b"2f\r\n{"
    pieces = [text[:7], text[:60], text[:-1], text, text + b"{", text + b"x" * 9000, chunk]
    quiet = [raw(c) for _ in pieces]
    for s, piece in zip(quiet, pieces):
        # Bytes and end in one packet: the library closes without an answer when it reads the end by itself.
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        s.sendall(piece)
        s.shutdown(socket.SHUT_WR)
    earlier = head(c, "GET", "/livez")  # also when another request came before
    pieces += [earlier + piece for piece in pieces]
    closed = [raw(c) for _ in range(5 * len(pieces))]
    for i, s in enumerate(closed):
        s.sendall(pieces[i % len(pieces)])
        s.close()
    staying = raw(c)
    staying.sendall(text + b" ")
    begin = time.monotonic()
    c.until("who left is noticed", lambda: count_of(c, "mobula_http_connections") <= before + 1, NOTICED_S)
    print(f"who left in the middle was noticed in {time.monotonic() - begin:.1f} s")
    for s, piece in zip(quiet, pieces):
        answer = s.recv(4096)
        check(answer.startswith(b"HTTP/1.1 400 "), "who sends no more", piece[:100], answer)
    body = b'{"function":"quickstart.add","arguments":[4,5]}'
    staying.sendall(body + b" " * (9999 - len(body)))
    answer = staying.recv(65536)
    check(answer.startswith(b"HTTP/1.1 202 "), "who only paused is served", answer)


def test_who_sends_no_more_behind_a_request_sees_the_end(c):
    """The answer, and then the end: who reads up to it does not wait for the connection's idle time."""
    prepare(c)
    for before in (b"", head(c, "GET", "/livez")):
        s = raw(c)
        if before:
            s.sendall(before)
            check(s.recv(4096).startswith(b"HTTP/1.1 200 "), "a request before it")
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # the request and the end in one packet
        s.sendall(head(c, "GET", "/livez"))
        s.shutdown(socket.SHUT_WR)
        s.settimeout(NOTICED_S)
        answer, begin = b"", time.monotonic()
        try:
            while piece := s.recv(4096):
                answer += piece
        except OSError as error:
            check(False, "the end is seen", error)
        check(answer.startswith(b"HTTP/1.1 200 "), "the answer before it", answer)
        print(f"the end was seen after {time.monotonic() - begin:.1f} s")
        s.close()


def ticks_of(pid, name):
    """Its processor time, in hundredths of a second."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
            head_of, _, rest = file.read().rpartition(")")
        if head_of.endswith("(" + name):
            return sum(map(int, rest.split()[11:13]))
    return None


def test_without_descriptors_the_listener_rests(c):
    """It tries again some twenty times a second, and not as fast as it can; who waits is served when there is room."""
    pid = c.pid_of("mobula-gateway")
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))  # those that it has stay open
    waits = raw(c)
    waits.sendall(head(c, "GET", "/livez"))
    before = ticks_of(pid, "edge")
    time.sleep(2)
    took = ticks_of(pid, "edge") - before
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    print(f"without descriptors the listener took {took * 10} ms of 2 s")
    check(took < 50, "the listener rests", took)
    check(waits.recv(4096).startswith(b"HTTP/1.1 200 "), "served then")
    waits.close()


def test_one_of_two_who_wait_for_an_object_gives_up(c):
    prepare(c)
    before = State(c)
    for _ in range(3):
        task = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [100000]}, expect=202)
        path = f"{V1}/objects/{task['returns'][0]}"
        patient = [raw(c) for _ in range(40)]
        for i, s in enumerate(patient):
            s.sendall(head(c, "GET", path + f"?wait={'0.2' if i % 2 else '60'}"))
        wait = {"ids": [task["returns"][0]], "num_returns": 1, "timeout_ms": 200}
        check(c.json("POST", V1 + "/objects:wait", wait, expect=200)["ready"] == [], "a wait gives up")
        for s in patient[1::2]:
            check(b'"state":"pending"' in s.recv(65536), "some give up")
        c.call("POST", f"{V1}/tasks/{task['id']}:cancel", {"force": True})
        for s in patient[0::2]:
            check(b'"state":"failed"' in s.recv(65536), "the others are told")
        for s in patient:
            s.close()
    before.expect_back(c, "giving up")


def closing_ways(c, draw, paused, big):
    body = b'{"function":"quickstart.add","arguments":[1,2]}'
    batch = b'{"function":"quickstart.add","rows":[' + b",".join([b"[1,2]"] * 1000) + b"]}"
    return [
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


def put(c, size):
    return json.loads(c.call("POST", V1 + "/objects", b"x" * size, {"Content-Type": "application/octet-stream"})[2])["id"]


class Narrow(Cluster):
    under = ("prlimit", "--nofile=256:256")


def test_more_than_there_are_descriptors(_):
    """Who is one too many is told so at once, and the gateway keeps some for itself: it finds the next node."""
    c = Narrow()
    try:
        too_many(c)
    finally:
        c.end()


def too_many(c):
    c.deploy("quickstart")
    parked = [raw(c) for _ in range(300)]
    for s in parked:
        with contextlib.suppress(OSError):  # turned away
            s.sendall(head(c, "GET", V1 + "/events?wait=60"))
    late = raw(c)
    late.settimeout(10)
    check(late.recv(12) == b"HTTP/1.1 503", "one too many")
    c.kill("mobula-node")
    for s in parked[:20]:
        s.close()
    c.until("the next node is found", lambda: serves(c), 60)
    for s in parked[20:] + [late]:
        s.close()


def serves(c):
    try:
        return c.run("quickstart.add", 1, 2).get("result") == 3
    except OSError:
        return False


def test_many_that_close_some_that_dribble(c):
    prepare(c)
    draw = random.Random(7)
    paused = c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [100000]}, expect=202)
    ways = closing_ways(c, draw, paused, put(c, 4 << 20))
    before, worker, dribblers = State(c), Worker(c), Dribblers(c)
    open_now = []
    for i in range(CLOSING):
        s = raw(c)
        s.setblocking(False)
        try:
            s.send(ways[i % len(ways)]())
        except BlockingIOError:
            pass
        open_now.append(s)
        if len(open_now) > 100:
            victim = open_now.pop(draw.randrange(len(open_now)))
            abort(victim) if draw.random() < 0.5 else victim.close()
    for s in open_now:
        abort(s)
    c.until("closing: nothing stays parked", lambda: count_of(c, "mobula_http_parked") == 0, 30)
    never_reading(c)
    dribblers.end()
    worker.end("closing, never reading, dribbling", 10)
    before.expect_back(c, "closing")
    c.call("POST", f"{V1}/tasks/{paused['id']}:cancel", {"force": True})


def used_bytes(c):
    return c.json("GET", V1 + "/nodes")["items"][0]["store"]["used_bytes"]


def never_reading(c):
    big = put(c, 48 << 20)
    before = State(c)
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
    for _ in range(10):  # ten thousand tasks' events for the streams
        c.json("POST", V1 + "/tasks:batch", rows, expect=202)
    time.sleep(1)
    if not SANITIZED:
        check(State(c).memory < before.memory + MEMORY_MAX, "who never reads costs memory", before.memory, State(c).memory)
    used = used_bytes(c)
    for s in readers:
        s.close()
    c.until("its readers are gone, so the value can go", lambda: c.call("DELETE", f"{V1}/objects/{big}")[0] < 300, 30)
    c.until("and its memory is free", lambda: used_bytes(c) < used - (40 << 20), 30)


if __name__ == "__main__":
    main(dict(globals()))
