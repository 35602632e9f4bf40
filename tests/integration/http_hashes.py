"""Values over 1 MiB over HTTP: their hash is shown and in the log by itself, and what is told comes after it; also when the node is
killed before it was there.   ctest: timeout=240"""
import ctypes
import ctypes.util
import json
import subprocess
import time

from lib_http_cluster import BIN, check, main, ref

V1 = "/api/v1"
BYTES = {"Content-Type": "application/octet-stream"}


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
xxhash.XXH3_128bits.restype = Hash128
xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def hash_of(data):
    hash = xxhash.XXH3_128bits(data, len(data))
    return f"{hash.high:016x}{hash.low:016x}"


def logged(c, name):
    done = subprocess.run([BIN + "/mobula", "gcs", "dump", name, "--dir", c.directory], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, "dump", done.returncode, done.stdout, done.stderr)
    return [line["hash"] for line in map(json.loads, done.stdout.splitlines()) if line["entry"] == "hash" and line["object"] == name]


def put(c, data):
    """The gateway says 503 while it looks for the next node."""
    answer = c.until("put", lambda: (a := c.call("POST", V1 + "/objects", data, BYTES))[0] != 503 and a)
    check(answer[0] == 201, "put", *answer)
    return json.loads(answer[2])["id"]


def test_put(c):
    for size in (1 << 20, (1 << 20) + 1, 3 << 20, 40 << 20):
        data = bytes(size - 3) + b"end"
        name = put(c, data)
        # the 201 says that it is committed, and so it is hashed
        large = size + 64 > 1 << 20
        check(logged(c, name) == ([hash_of(data)] if large else []), "logged", size)
        check(c.json("GET", f"{V1}/objects/{name}", expect=200).get("hash") == hash_of(data), "shown", size)
        check(c.call("GET", f"{V1}/objects/{name}/data")[2] == data, "bytes", size)


def test_a_value_that_refers_to_others(c):
    """Its hash is that of the log, and not of the same text around another object."""
    others = [put(c, text) for text in (b"one", b"another")]
    for length in (2 << 20, 1000):
        shown = []
        for other in (others[0], others[0], others[1]):
            text = json.dumps({"of": ref(other), "text": "x" * length}).encode()
            answer = c.call("POST", V1 + "/objects", text, {"Content-Type": "application/json"})
            check(answer[0] == 201, "put", *answer)
            name = json.loads(answer[2])["id"]
            shown.append(c.json("GET", f"{V1}/objects/{name}", expect=200).get("hash"))
            if length > 1 << 20:
                check(logged(c, name) == [shown[-1]], "the log's", logged(c, name), shown)
        check(shown[0] and shown[0] == shown[1] != shown[2], "one for each content", length, shown)
        check(shown[0] != hash_of(text), "not of the text alone", length, shown)


def echo(c, name):
    return c.json("POST", V1 + "/tasks", {"function": "probe.echo_bytes", "arguments": [ref(name)]}, expect=202)["returns"][0]


def test_return(c):
    c.deploy("probe")
    data = b"mobula" * (1 << 19)
    name = put(c, data)
    for pause in range(12):  # asked for before, while and after it becomes ready
        made = echo(c, name)
        time.sleep(pause / 1000)
        status, head, body = c.call("GET", f"{V1}/objects/{made}?wait=30")
        value = json.loads(body)
        shown = status == 200 and value["state"] == "ready" and value.get("hash") == hash_of(data)
        check(shown, "shown", pause, status, head, {**value, "value": None})
    check(logged(c, made) == [hash_of(data)], "logged")


def exact_or_later(c, id, data):
    """GET of its bytes until they are there: all of them, or a problem that says to come again."""
    deadline = time.monotonic() + 60
    while True:
        status, head, body = c.call("GET", f"{V1}/objects/{id}/data")
        if status == 200:
            return check(body == data, "bytes", id, head, len(body), hash_of(body), body[:300])
        problem = json.loads(body) if head.get("content-type") == "application/problem+json" else {}
        again = status == 503 and int(head.get("retry-after", 0)) > 0 and problem.get("status") == 503
        if not check(again and time.monotonic() < deadline, "bytes, or later", id, status, head, body[:300]):
            return False
        time.sleep(0.02)


def test_node_is_killed_after_the_put(c):
    for byte in range(3):  # the node is killed before, while and after the result is made
        data = bytes([byte]) + bytes(range(256)) * (12 << 12)
        name = put(c, data)
        made = echo(c, name)
        if byte:
            c.json("GET", f"{V1}/objects/{made}?wait={byte - 1}", expect=200)
        c.kill("mobula-node")
        exact_or_later(c, name, data)
        c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200)
        for id in (name, made):
            c.until("it is there", lambda id=id: c.value(id).get("hash") == hash_of(data))
            exact_or_later(c, id, data)
            check(set(logged(c, id)) == {hash_of(data)}, "logged", logged(c, id))


if __name__ == "__main__":
    main(dict(globals()))
