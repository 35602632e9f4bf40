"""What holds for every route: descriptions, codings, digests, types, methods, conditions; and puts in parts."""
import base64
import gzip
import hashlib
import http.client
import json
import zlib

from lib_http_cluster import check, main

V1 = "/api/v1"


def digest(data, name="sha-256"):
    return f"{name}=:{base64.b64encode(hashlib.new(name.replace('-', ''), data).digest()).decode()}:"


def problem(answer, status, code, what):
    got, headers, body = answer
    check(got == status and headers.get("content-type") == "application/problem+json", what, got, headers, body)
    check(json.loads(body).get("code") == code, what, code, body)
    return headers


def test_the_description_in_both_forms(c):
    status, headers, body = c.call("GET", "/openapi.json")
    check(status == 200 and headers["content-type"] == "application/json", "openapi.json", status, headers)
    document = json.loads(body)
    check(document["openapi"] == "3.1.1" and len(document["paths"]) > 40, "its content", list(document)[:5])
    text = c.call("GET", "/openapi.yaml")[2].decode()
    paths = [line.strip().rstrip(":") for line in text.splitlines() if line.startswith("  /")]
    check(list(document["paths"]) == paths, "the same paths", paths[:3])
    operations = [o for path in document["paths"].values() for o in path.values()]
    names = [o["operationId"] for o in operations]
    check(len(set(names)) == len(names), "operations have names of their own")
    for path in ("/openapi.json", "/openapi.yaml"):
        tag = c.call("GET", path)[1]["etag"]
        for known in (tag, f'"x", {tag}', "*"):
            status, headers, body = c.call("GET", path, headers={"If-None-Match": known})
            check(status == 304 and body == b"" and headers["etag"] == tag, "not changed", known, status)
        check(c.call("GET", path, headers={"If-None-Match": '"other"'})[0] == 200, "changed")


def test_answers_in_gzip(c):
    plain = c.call("GET", "/openapi.yaml")
    check("content-encoding" not in plain[1] and plain[1]["vary"] == "Accept-Encoding", "plain to who asks for nothing", plain[1])
    for accept in ("gzip", "deflate, gzip;q=0.5", "*", "br, GZIP"):
        status, headers, body = c.call("GET", "/openapi.yaml", headers={"Accept-Encoding": accept})
        check(status == 200 and headers.get("content-encoding") == "gzip", f"gzip for {accept}", status, headers)
        check(gzip.decompress(body) == plain[2] and len(body) < len(plain[2]) / 2, "the same text, smaller", len(body))
    for accept in ("identity", "gzip;q=0", "br", "*, gzip;q=0.000"):
        headers = c.call("GET", "/openapi.yaml", headers={"Accept-Encoding": accept})[1]
        check("content-encoding" not in headers, f"plain for {accept}", headers)
    small = c.call("GET", V1 + "/cluster", headers={"Accept-Encoding": "gzip"})
    check("content-encoding" not in small[1] and len(small[2]) < 1024, "a small answer is left alone", small)
    status, headers, body = c.call("HEAD", "/openapi.yaml", headers={"Accept-Encoding": "gzip"})
    check(status == 200 and headers.get("content-encoding") == "gzip" and not body, "HEAD says so too", headers)
    data = b'{"x":"' + b"y" * 5000 + b'"}'
    name = c.json("POST", V1 + "/objects", data, {"Content-Type": "application/json"}, expect=201)["id"]
    status, headers, body = c.call("GET", f"{V1}/objects/{name}/data", headers={"Accept-Encoding": "gzip"})
    check(body == data and "content-encoding" not in headers and not headers["etag"].startswith("W/"), "bytes with a strong tag stay", headers)
    connection = http.client.HTTPConnection(c.host, c.port, timeout=20)
    stream = {"Authorization": "Bearer " + c.token, "Accept": "text/event-stream", "Accept-Encoding": "gzip"}
    connection.request("GET", V1 + "/events", headers=stream)
    response = connection.getresponse()
    check(response.getheader("Content-Encoding") is None and response.status == 200, "a stream is never coded")
    connection.close()


def test_digests(c):
    body = b"some bytes" * 1000
    plain = {"Content-Type": "application/octet-stream"}
    put = lambda name, value: c.call("POST", V1 + "/objects", body, {**plain, name: value})
    for name in ("Content-Digest", "Repr-Digest"):
        for right in (digest(body), digest(body, "sha-512"), "md5=:AAAA:, " + digest(body), "unixsum=:AAAA:"):
            check(put(name, right)[0] == 201, f"{name}: {right}")
        problem(put(name, digest(body + b"x")), 400, "digest-mismatch", f"{name} of another body")
        problem(put(name, digest(body) + "," + digest(b"", "sha-512")), 400, "digest-mismatch", f"{name}: one is wrong")
        problem(put(name, "sha-256=xyz"), 400, "bad-request", f"{name} malformed")
    task = b'{"function":"no.such"}'
    answer = c.call("POST", V1 + "/tasks", task, {"Content-Type": "application/json", "Content-Digest": digest(b"")})
    problem(answer, 400, "digest-mismatch", "any route with a body")
    stored = json.loads(put("Content-Digest", digest(body))[2])["id"]
    want = {"Want-Content-Digest": "sha-256=5", "Want-Repr-Digest": "sha-512=1, sha-256=3"}
    _, headers, got = c.call("GET", f"{V1}/objects/{stored}/data", headers=want)
    check(headers.get("content-digest") == digest(got) == headers.get("repr-digest"), "digests that are wanted", headers)
    _, headers, got = c.call("GET", f"{V1}/objects/{stored}/data", headers={**want, "Range": "bytes=3-9"})
    check(headers.get("content-digest") == digest(body[3:10]) and "repr-digest" not in headers, "of a range", headers)
    _, headers, got = c.call("GET", "/openapi.yaml", headers={**want, "Accept-Encoding": "gzip"})
    check(headers.get("content-encoding") == "gzip" and headers.get("content-digest") == digest(got), "of what is sent", headers)
    _, headers, _ = c.call("GET", V1 + "/cluster", headers={"Want-Content-Digest": "sha-256=0"})
    check("content-digest" not in headers, "not wanted", headers)


def test_types_of_answers(c):
    for accept in ("application/json", "*/*", "application/*", "text/html, */*;q=0.1", "application/json;q=0.2, text/*", ""):
        check(c.call("GET", V1 + "/cluster", headers={"Accept": accept})[0] == 200, f"Accept: {accept}")
    for accept in ("text/html", "application/xml, text/*", "application/json;q=0, */*", "image/*;q=1"):
        problem(c.call("GET", V1 + "/cluster", headers={"Accept": accept}), 406, "not-acceptable", f"Accept: {accept}")
    problem(c.call("GET", V1 + "/events", headers={"Accept": "text/html"}), 406, "not-acceptable", "events are JSON or a stream")
    for accept, streams in (("text/event-stream", True), ("Text/Event-Stream;q=0.5", True), ("text/*", True), ("*/*, application/json;q=0", True), ("application/json, text/event-stream", True),
                            ("application/json, text/event-stream;q=0", False), ("*/*", False), ("application/*", False), ("application/json", False)):
        connection = c.connect()
        connection.request("GET", V1 + "/events", headers={"Authorization": "Bearer " + c.token, "Accept": accept})
        response = connection.getresponse()
        check(response.getheader("Content-Type") == ("text/event-stream" if streams else "application/json"), f"events in {accept}", response.status, response.getheaders())
        connection.close()
    check(c.call("GET", "/metrics", headers={"Accept": "text/plain"})[0] == 200, "metrics are text")
    headers = problem(c.call("POST", V1 + "/tasks", b"{}", {"Content-Type": "text/xml"}), 415, "unsupported-media-type", "a type that is not taken")
    check(headers.get("accept") == "application/json", "and which is", headers)
    coded = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    headers = problem(c.call("POST", V1 + "/tasks", gzip.compress(b"{}"), coded), 415, "unsupported-media-type", "a coding that is not taken")
    check(headers.get("accept-encoding") == "identity", "and which is", headers)


def test_without_a_limit_no_rate_is_told(c):
    headers = c.call("GET", "/api/v1/jobs")[1]
    check(not any(name.startswith("ratelimit") for name in headers), "nothing is limited, and nothing is said", headers)


def test_methods(c):
    for path, allow in (
        ("/tasks", {"GET", "HEAD", "POST"}), ("/objects/x", {"GET", "HEAD", "DELETE"}), ("/endpoints/x", {"GET", "HEAD", "PUT", "DELETE"}),
        ("/tasks:batch", {"POST"}), ("/actors/x/methods/y", {"POST"}), ("/cluster", {"GET", "HEAD"}),
    ):
        allow = allow | {"OPTIONS"}
        status, headers, body = c.call("OPTIONS", V1 + path)
        check(status == 204 and set(headers["allow"].split(", ")) == allow and not body, f"OPTIONS {path}", status, headers)
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "TRACE"} - allow:
            headers = problem(c.call(method, V1 + path), 405, "method-not-allowed", f"{method} {path}")
            check(set(headers["allow"].split(", ")) == allow, f"Allow of {path}", headers)
        check(c.call("OPTIONS", V1 + path, key=None)[0] == 401, "not without a key")
    status, headers, _ = c.call("OPTIONS", "*")
    check(status == 204 and {"GET", "PUT", "DELETE"} < set(headers["allow"].split(", ")), "OPTIONS *", status, headers)
    problem(c.call("OPTIONS", V1 + "/nowhere"), 404, "not-found", "OPTIONS of nothing")
    for path in ("/cluster", "/tasks", "/nodes", "/events?wait=0"):
        get, head = c.call("GET", V1 + path), c.call("HEAD", V1 + path)
        check(head[0] == 200 and not head[2] and head[1]["content-type"] == get[1]["content-type"], f"HEAD {path}", head)
    check(c.call("HEAD", V1 + "/tasks/task_" + "a" * 26)[0] == 404, "HEAD of nothing")


def test_conditions(c):
    data = b"0123456789"
    name = c.json("POST", V1 + "/objects", data, {"Content-Type": "application/octet-stream"}, expect=201)["id"]
    path = f"{V1}/objects/{name}/data"
    get = lambda **headers: c.call("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    tag = get()[1]["etag"]
    for known in (tag, "*", f'"x", {tag}'):
        status, headers, body = get(If_None_Match=known)
        check(status == 304 and not body and headers["etag"] == tag, "the client has it", known, status)
        check(get(If_Match=known)[2] == data, "it is the one", known)
    check(get(If_None_Match='"x"')[2] == data, "the client has another")
    problem(get(If_Match='"x"'), 412, "precondition-failed", "it is not the one")
    status, headers, body = get(Range="bytes=2-4", If_Range=tag)
    check((status, headers.get("content-range"), body) == (206, "bytes 2-4/10", b"234"), "a range of the same", status, headers)
    check(get(Range="bytes=2-4", If_Range='"x"')[::2] == (200, data), "all of another")
    status, headers, _ = c.call("HEAD", path, headers={"Range": "bytes=2-4"})
    check(status == 200 and headers["content-length"] == "10" and headers["etag"] == tag, "HEAD knows no range", status, headers)


def test_conditions_of_changes(c):
    """A request whose condition does not hold changes nothing."""
    c.deploy("batcher")
    put = lambda: c.json("POST", V1 + "/objects", b"x", {"Content-Type": "application/octet-stream"}, expect=201)["id"]
    make = lambda **headers: c.call("PUT", V1 + "/endpoints/conditional", json.dumps({"class": "batcher.Batcher", "arguments": [0]}).encode(),
                                    {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}})
    problem(make(If_Match="*"), 412, "precondition-failed", "replace what is not there")
    problem(make(If_Match='"x"'), 412, "precondition-failed", "a version of an endpoint")
    check(c.call("GET", V1 + "/endpoints/conditional")[0] == 404, "nothing was made")
    check(make(If_None_Match="*")[0] == 201, "make what is not there")
    problem(make(If_None_Match="*"), 412, "precondition-failed", "make what is there")
    actor = c.json("GET", V1 + "/endpoints/conditional", expect=200)["actor"]
    check(make(If_Match="*", If_None_Match='"x"')[0] == 200, "replace what is there")
    check(c.json("GET", V1 + "/endpoints/conditional", expect=200)["actor"] != actor, "which was replaced once")
    things = ["/endpoints/conditional", "/objects/" + put(), "/jobs/" + c.json("POST", V1 + "/jobs", {}, expect=201)["id"],
              "/functions/" + c.json("GET", V1 + "/functions?filter=name:batcher.*", expect=200)["items"][0]["module_hash"],
              "/actors/" + c.json("POST", V1 + "/actors", {"class": "batcher.Batcher", "arguments": [0]}, expect=201)["id"]]
    tag = c.call("GET", f"{V1}{things[1]}/data")[1]["etag"]
    other = c.call("GET", f"{V1}/objects/{put()}/data")[1]["etag"]
    state = lambda path: json.loads(c.call("GET", V1 + path)[2]).get("state")
    before = [state(path) for path in things]
    for path in things:
        for condition in ({"If-Match": '"x"'}, {"If-Match": other}, {"If-Match": "W/" + tag}, {"If-Match": '"a,*"'}, {"If-None-Match": "*"}):
            problem(c.call("DELETE", V1 + path, headers=condition), 412, "precondition-failed", f"{path} {condition}")
    problem(c.call("DELETE", V1 + things[1], headers={"If-None-Match": f'"x", {tag}'}), 412, "precondition-failed", "not this one")
    check([state(path) for path in things] == before, "all is as it was", before)
    check(c.call("DELETE", V1 + things[1], headers={"If-Match": f'"x", {tag}', "If-None-Match": other})[0] == 202, "the one that is meant")
    c.until("it is gone", lambda: state(things[1]) == "lost")
    for path in (things[0], things[4], things[2]):
        check(c.call("DELETE", V1 + path, headers={"If-Match": "*"})[0] == 202, "whatever is there", path)
    c.until("the endpoint goes", lambda: c.call("GET", V1 + things[0])[0] == 404)


def test_numbers_are_decimal(c):
    """strtol and strtod would take more, and stop at what they do not know."""
    name = c.json("POST", V1 + "/objects", b"x", {"Content-Type": "application/octet-stream"}, expect=201)["id"]
    task = c.json("POST", V1 + "/tasks", {"function": "no.such"})
    check(task["status"] == 404 or task["status"] == 422, "an unknown function", task)
    bad = ("0x10", "%2B5", "+5", "%205", "5%20", "%095", "1e1", "1.", ".5", "5s", "-1", "-0", "inf", "nan", "", "1_0", "9" * 31, "%EF%BC%95")
    for path, names in ((f"/objects/{name}", ["wait"]), (f"/objects/{name}/data", ["wait"]), (f"/objects/{name}/lineage", ["depth", "limit"]),
                        ("/tasks", ["limit"]), ("/events", ["wait", "limit"]), ("/timeline", ["from", "to", "limit"])):
        for parameter in names:
            for value in bad + (() if parameter == "wait" else ("1.5", "9223372036854775808")):
                if parameter == "wait" and value == "9" * 31:
                    continue  # long, and cut to 60
                answer = c.call("GET", f"{V1}{path}?{parameter}={value}")
                problem(answer, 400, "bad-request", f"{path}?{parameter}={value}")
                check(json.loads(answer[2])["detail"].startswith(parameter + " "), "it says of what", answer[2])
    for value in ("0", "007", "0.25", "1000000000000", "9" * 31):
        check(c.call("GET", f"{V1}/objects/{name}?wait={value}")[0] == 200, "seconds", value)
        check(c.call("GET", f"{V1}/objects/{name}", headers={"Prefer": "wait=" + value})[0] == 200, "and there", value)
    for value in ("0x10", "+5", "1e1", "1.", ".5", "-1", '"5', '"5" 6', "inf", ""):
        problem(c.call("POST", V1 + "/tasks", {"function": "no.such"}, {"Prefer": "wait=" + value}), 400, "bad-request", f"Prefer: wait={value}")
    for term in ("size:>0x1", "size:>1e0", "size:>=5x", "size:><5", "size:>%2B5", "size:1e0"):
        answer = c.call("GET", f"{V1}/objects?filter={term}")
        problem(answer, 400, "bad-request", term)
        check("size" in json.loads(answer[2])["detail"], "it says of what", answer[2])
    check(len(c.json("GET", f"{V1}/objects?filter=size:<=1.5%20AND%20id:{name}", expect=200)["items"]) == 1, "a bound with a fraction")


def form(parts, boundary="b0und"):
    lines = b""
    for name, media, data in parts:
        lines += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.bin"\r\n'.encode()
        lines += (f"Content-Type: {media}\r\n" if media else "").encode() + b"\r\n" + data + b"\r\n"
    return lines + f"--{boundary}--\r\n".encode(), {"Content-Type": f'multipart/form-data; boundary="{boundary}"'}


def test_puts_in_parts(c):
    tricky = b"\r\n--b0un\r\n\0\xff" * 300
    parts = [("a", "application/octet-stream", tricky), ("j", "application/json", b'{"k":[1]}'), ("t", None, "häh".encode()), ("e", "application/octet-stream", b"")]
    body, headers = form(parts)
    status, _, answer = c.call("POST", V1 + "/objects", body, {**headers, "Idempotency-Key": "parts-1", "Content-Digest": digest(body)})
    items = json.loads(answer).get("items", [])
    check(status == 201 and [(i["name"], i["size"]) for i in items] == [(n, len(d)) for n, _, d in parts], "an object a part", status, answer)
    for item, (_, media, data) in zip(items, parts):
        _, head, got = c.call("GET", f"{V1}/objects/{item['id']}/data?wait=10")
        check(got == data and head["content-type"].split(";")[0] == (media or "text/plain"), "its bytes and type", got, head)
    _, head, again = c.call("POST", V1 + "/objects", body, {**headers, "Idempotency-Key": "parts-1"})
    check(again == answer and head.get("idempotent-replayed") == "true", "not put twice", again)
    many, headers = form([(str(i), "text/plain", b"x%d" % i) for i in range(64)])
    check(len(c.json("POST", V1 + "/objects", many, headers, expect=201)["items"]) == 64, "64 parts")
    many, headers = form([(str(i), "text/plain", b"x") for i in range(65)])
    problem(c.call("POST", V1 + "/objects", many, headers), 400, "bad-request", "65 parts")
    problem(c.call("POST", V1 + "/objects", *form([])), 400, "bad-request", "no part")
    problem(c.call("POST", V1 + "/objects", *form([("x", "image/png", b"")])), 415, "unsupported-media-type", "a part of another type")
    problem(c.call("POST", V1 + "/objects", *form([("x", "text/plain", b"y"), ("j", "application/json", b"{")])), 400, "bad-request", "a part that is not JSON")
    cut, headers = form(parts)
    for length in (len(cut) - 5, len(cut) // 2, 20, 0):
        problem(c.call("POST", V1 + "/objects", cut[:length], headers), 400, "bad-request", f"cut after {length}")
    problem(c.call("POST", V1 + "/objects", cut, {"Content-Type": "multipart/form-data"}), 400, "bad-request", "no boundary")


def test_inference_bodies_in_gzip(c):
    c.deploy("batcher")
    c.json("PUT", V1 + "/endpoints/coded", {"class": "batcher.Batcher", "arguments": [0]}, expect=201)
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]}).encode()
    path = "/v2/models/coded/infer"
    plain = c.call("POST", path, body)
    check(plain[0] == 200, "plain", plain)
    for coding, data in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body)), ("GZip", gzip.compress(body, 1)),
                         ("gzip", gzip.compress(body[:30]) + gzip.compress(b"") + gzip.compress(body[30:]))):
        status, _, answer = c.call("POST", path, data, {"Content-Encoding": coding, "Content-Digest": digest(data)})
        check(status == 200 and json.loads(answer)["outputs"] == json.loads(plain[2])["outputs"], coding, status, answer)
    problem(c.call("POST", path, body, {"Content-Encoding": "gzip"}), 400, "bad-request", "not gzip")
    problem(c.call("POST", path, gzip.compress(body)[:-9], {"Content-Encoding": "gzip"}), 400, "bad-request", "cut")
    problem(c.call("POST", path, gzip.compress(body) + b"x", {"Content-Encoding": "gzip"}), 400, "bad-request", "more behind it")
    problem(c.call("POST", path, gzip.compress(body) + gzip.compress(body)[:-9], {"Content-Encoding": "gzip"}), 400, "bad-request", "a member that is cut")
    problem(c.call("POST", path, zlib.compress(body) + zlib.compress(b" "), {"Content-Encoding": "deflate"}), 400, "bad-request", "deflate is one stream")
    for bomb in (gzip.compress(b" " * (17 << 20)), gzip.compress(b" " * (9 << 20)) * 2):
        problem(c.call("POST", path, bomb, {"Content-Encoding": "gzip"}), 413, "too-large", "a bomb")
    headers = problem(c.call("POST", path, body, {"Content-Encoding": "br"}), 415, "unsupported-media-type", "another coding")
    check(headers.get("accept-encoding") == "gzip, deflate", "which are taken", headers)


if __name__ == "__main__":
    main(dict(globals()))
