"""Rates of requests: what a key may ask is told, held, and its own.   ctest: timeout=120"""
import base64
import json
import os
import re
import struct
import time

from lib_http_cluster import MODULES, check, main

RATE, BURST = 2, 5
POLICY = f'"key";q={BURST};w=3'


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def base32(data):
    return base64.b32encode(data).decode().lower().rstrip("=")


def another_key(c):
    """In the key file, which a gateway reads when it starts."""
    token = f"mob_sk_{base32(os.urandom(5))}_{base32(os.urandom(32))}"
    token += base32(struct.pack("<I", crc32c(token.encode())))
    with open(c.directory + "/token", "a", encoding="ascii") as file:
        file.write(token + " read second\n")
    c.kill("mobula-gateway")
    c.until("the gateway is back", lambda: reads_address(c) and is_ready(c))
    return token


def reads_address(c):
    try:
        c.read_address()
        return True
    except (OSError, ValueError):
        return False


def is_ready(c):
    try:
        return c.call("GET", "/readyz", key=False)[0] == 200
    except OSError:
        return False


def left(headers):
    """(r, t) of RateLimit"""
    match = re.fullmatch(r'"key";r=(\d+);t=(\d+)', headers.get("ratelimit", ""))
    return tuple(int(n) for n in match.groups()) if match else None


def ask_until_refused(c, method, path, body=None, connection=None):
    """(how many answers were none, the first that was)"""
    for taken in range(1000):
        answer = c.call(method, path, body, connection=connection)
        if answer[0] == 429:
            return taken, answer
    return 1000, answer


def test_a_key_has_its_rate(c):
    second = another_key(c)
    status, headers, _ = c.call("GET", "/api/v1/jobs")
    check(status == 200 and headers.get("ratelimit-policy") == POLICY, "the policy is told", status, headers)
    check(left(headers) == (BURST - 1, 1), "what is left is told", headers.get("ratelimit"))
    status, headers, _ = c.call("GET", "/no/such/path")
    check(status == 404 and left(headers) and left(headers)[0] < BURST, "of errors too", status, headers)
    connection = c.connect()
    _, (status, headers, body) = ask_until_refused(c, "GET", "/api/v1/jobs", connection=connection)
    problem = json.loads(body)
    check(status == 429 and problem["code"] == "rate-limited" and problem["retryable"] and problem["status"] == 429, "above: a problem", body)
    check(headers.get("content-type") == "application/problem+json", "of its type", headers)
    check(headers.get("retry-after") == "1" and left(headers) and left(headers)[0] == 0, "with when to come again", headers)
    for path in ("/livez", "/readyz"):
        status, headers, _ = c.call("GET", path, key=False)
        check(status == 200 and "ratelimit" not in headers, f"{path} has no key and no rate", status, headers)
    status, headers, _ = c.call("GET", "/api/v1/jobs", key=second)
    check(status == 200 and left(headers) == (BURST - 1, 1), "another key has its own", status, headers)
    status, headers, _ = c.call("GET", "/api/v1/jobs", key="nonsense")
    check(status == 401 and "ratelimit" not in headers, "what is no key has none", status, headers)


def until_taken(c, *request):
    """The first answer that is no refusal."""
    return c.until("taken in the end", lambda: next((a for a in [c.call(*request)] if a[0] != 429), None))


def test_what_was_refused_did_not_run(c):
    with open(MODULES + "/arith.so", "rb") as file:
        deployed = until_taken(c, "POST", "/api/v1/functions", file.read(), {"Content-Type": "application/octet-stream"})
    check(deployed[0] == 201, "deployed", deployed)
    taken = refused = 0
    while taken < 3 or refused < 3:
        status = c.call("POST", "/api/v1/tasks", {"function": "arith.add", "arguments": [1, 2]})[0]
        if not check(status in (202, 429), "taken or refused", status):
            return
        taken, refused = taken + (status == 202), refused + (status == 429)
    status, _, body = until_taken(c, "GET", "/api/v1/tasks?filter=function:arith.add")
    check(status == 200 and len(json.loads(body)["items"]) == taken, "as many tasks as were taken", taken, refused, body)


def test_who_comes_when_told_is_taken(c):
    _, (_, headers, _) = ask_until_refused(c, "GET", "/api/v1/jobs")
    time.sleep(int(headers["retry-after"]))  # what is told, not what is guessed
    status, _, body = c.call("GET", "/api/v1/jobs")
    check(status == 200, "taken", status, body)


if __name__ == "__main__":
    main(dict(globals()), "--rate-limit", str(RATE), "--rate-burst", str(BURST))
