"""Ten thousand parked long-polls: what they cost, and that each is woken by its own event.   ctest: timeout=240 serial

Without sanitizers 10,000 must cost under 64 MB; with them the memory is not judged.
"""
import os
import re
import resource
import selectors
import socket
import sys
import time

from lib_http_cluster import check, main

COUNT = 10000
BATCH = 128  # events that a connection thread of the gateway takes at once
MEMORY_MAX = 64_000_000
V1 = "/api/v1"


def memory_of(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
    return 0


class Connection:
    def __init__(self, c):
        self.socket = socket.create_connection((c.host, c.port))
        self.rest = f"Host: {c.host}\r\nAuthorization: Bearer {c.token}\r\n\r\n"
        self.answer = b""

    def get(self, path):
        self.answer = b""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{self.rest}".encode())

    def is_whole(self):
        head, _, body = self.answer.partition(b"\r\n\r\n")
        length = re.search(rb"\r\nContent-Length: (\d+)", head, re.IGNORECASE)
        return length is not None and len(body) >= int(length[1])


def poll(c, path):
    connection = Connection(c)
    connection.get(path)
    return connection


def read_all(connections, seconds):
    """Reads the answers of all; how many came."""
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    left, deadline = len(connections), time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        for key, _ in selector.select(1):
            connection = key.data
            connection.answer += connection.socket.recv(65536)
            if connection.is_whole() or not connection.answer:
                selector.unregister(connection.socket)
                left -= 1
    return len(connections) - left


def parked(c):
    for line in c.call("GET", "/metrics")[2].decode().splitlines():
        if line.startswith("mobula_http_parked "):
            return int(line.split()[1])
    return 0


def threads_of(pid):
    """Those that connections are spread over."""
    names = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
            names.append(file.read().strip())
    return names.count("MHD-single")


def test_all_that_ask_at_once_are_answered(c):
    """The library asked for more events, and did not look at those that it had, when they just filled its array."""
    threads = threads_of(c.pid_of("mobula-gateway"))
    check(threads >= 1, "its threads are found by their name")
    for count in (BATCH - 1, BATCH, BATCH + 1, 2 * BATCH):
        connections = [Connection(c) for _ in range(count * threads)]
        for connection in connections:
            connection.get("/livez")
        check(read_all(connections, 30) == len(connections), "each is known to its thread", count)
        with c.stopped("mobula-gateway"):
            for connection in connections:
                connection.get("/livez")
        check(read_all(connections, 10) == len(connections), "each is answered", count)
        for connection in connections:
            connection.socket.close()


def test_parked_polls(c):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(COUNT, hard - 100)
    check(count == COUNT, "enough descriptors for the whole test", hard)
    c.deploy("quickstart")
    pid = c.pid_of("mobula-gateway")
    c.run("quickstart.add", 1, 2)
    start = c.json("GET", V1 + "/events")["position"]
    tasks = [c.json("POST", V1 + "/tasks", {"function": "quickstart.pause", "arguments": [300000]}) for _ in range(2)]
    for task in tasks:  # an event of their submission that came later would answer polls that are to wait
        first = c.json("GET", f"{V1}/events?after={start}&task={task['id']}&wait=20")
        check([e["type"] for e in first["events"]] == ["task.submitted"], "submission is an event", first)
    position = c.json("GET", V1 + "/events")["position"]
    before = memory_of(pid)
    objects = [poll(c, f"{V1}/objects/{tasks[i % 2]['returns'][0]}?wait=60") for i in range(count // 2)]
    events = [poll(c, f"{V1}/events?after={position}&task={tasks[i % 2]['id']}&wait=60") for i in range(count - count // 2)]
    c.until("all parked", lambda: parked(c) >= count, 60)
    cost = memory_of(pid) - before
    print(f"{count} parked long-polls: {cost / 1e6:.1f} MB, {cost // count} bytes each")
    if not os.environ.get("MOBULA_SANITIZE"):
        check(cost < MEMORY_MAX, "memory", cost)
    begin = time.monotonic()
    c.call("POST", f"{V1}/tasks/{tasks[0]['id']}:cancel", {"force": True})
    check(read_all(objects[0::2] + events[0::2], 60) == count // 2, "half is woken by its event")
    print(f"woken in {time.monotonic() - begin:.2f} s")
    check(all(b"cancelled" in p.answer for p in objects[0::2]), "with the right answer")
    check(all(tasks[0]["id"].encode() in p.answer for p in events[0::2]), "with the right events")
    c.until("the others wait on", lambda: count // 2 <= parked(c) <= count // 2 + 1, 10)
    for connection in objects[1::2]:
        connection.socket.close()
    c.until("who leaves is not kept", lambda: parked(c) <= count // 4 + 1, 30)
    c.call("POST", f"{V1}/tasks/{tasks[1]['id']}:cancel", {"force": True})
    check(read_all(events[1::2], 60) == count // 4, "the last quarter")


if __name__ == "__main__":
    main(dict(globals()))
