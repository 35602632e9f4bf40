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
    status, _, body = c.call("POST", V1 + "/objects", data, BYTES)
    check(status == 201, "put", status, body)
    return json.loads(body)["id"]


def test_put(c):
    for size in (1 << 20, (1 << 20) + 1, 3 << 20, 40 << 20):
        data = bytes(size - 3) + b"end"
        name = put(c, data)
        # the 201 says that it is committed, and so it is hashed
        large = size + 64 > 1 << 20
        check(logged(c, name) == ([hash_of(data)] if large else []), "logged", size)
        check(c.json("GET", f"{V1}/objects/{name}", expect=200).get("hash") == hash_of(data), "shown", size)
        check(c.call("GET", f"{V1}/objects/{name}/data")[2] == data, "bytes", size)


def test_return(c):
    c.deploy("probe")
    data = b"mobula" * (1 << 19)
    name = put(c, data)
    task = c.json("POST", V1 + "/tasks", {"function": "probe.echo_bytes", "arguments": [ref(name)]}, expect=202)
    made = task["returns"][0]
    value = c.value(made)
    check(value["state"] == "ready" and value.get("hash") == hash_of(data), "shown", {**value, "value": None})
    check(logged(c, made) == [hash_of(data)], "logged")


def test_node_is_killed_after_the_put(c):
    data = bytes(range(256)) * (12 << 12)
    name = put(c, data)
    made = c.json("POST", V1 + "/tasks", {"function": "probe.echo_bytes", "arguments": [ref(name)]}, expect=202)["returns"][0]
    c.kill("mobula-node")
    c.until("ready again", lambda: c.call("GET", "/readyz", key=None)[0] == 200)
    for id in (name, made):
        c.until("it is there", lambda id=id: c.value(id).get("hash") == hash_of(data))
        # the gateway may not have heard yet that its node is gone, and says 503 when it does
        answers = [c.call("GET", f"{V1}/objects/{id}/data")]
        while answers[-1][0] == 503 and len(answers) < 600:
            time.sleep(0.1)
            answers.append(c.call("GET", f"{V1}/objects/{id}/data"))
        status, _, body = answers[-1]
        check(body == data, "bytes", id == made, status, len(body), body[:300])
        check(set(logged(c, id)) == {hash_of(data)}, "logged", logged(c, id))


if __name__ == "__main__":
    main(dict(globals()))
