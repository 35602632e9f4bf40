"""Each operation of the API's description with good input, bad input, no key and a wrong key.   ctest: timeout=240

The operations are read from the description that the gateway serves; CASES has a good and a bad one for each. An
operation without both fails the test, and so does a case without its operation. Good answers and problems are held
against the schemas that the description gives them.
"""
import json
import re

from lib_http_cluster import MODULES, check, main
from lib_schema import wrong

MISSING_TASK = "task_" + "a" * 26
MISSING_ACTOR = "actor_" + "a" * 26
MISSING_OBJECT = "obj_" + "a" * 32
OCTETS = {"Content-Type": "application/octet-stream"}
OPEN_TO_ALL = {"getLiveness", "getReadiness"}
WRONG_KEYS = (None, "mob_sk_aaaaaaaa_" + "a" * 59, "nonsense")


def case(expect, body=None, headers=None, query="", method=None, **path):
    """`expect` is the status; `path` fills the parameters of the path; a bad case may ask with another method."""
    return {"expect": expect, "body": body, "headers": headers or {}, "query": query, "method": method, "path": path}


def unknown_query():
    return case(400, query="?nonsense=1")


def cases(c, made):
    """operationId -> (good, bad)"""
    module, task, actor, put = made["module"], made["task"], made["actor"], made["object"]
    add = {"function": "arith.add", "arguments": [1, 2]}
    infer = {"inputs": [{"name": made["input"], "shape": [1, 1024], "datatype": "FP32", "data": [0.5] * 1024}]}
    model, version = {"model": "mlp"}, {"model": "mlp", "version": "1"}
    no_model, no_version = case(404, model="none"), case(404, model="mlp", version="77")
    return {
        "getLiveness": (case(200), case(405, method="POST")),
        "getReadiness": (case(200), case(405, method="DELETE")),
        "getMetrics": (case(200), case(421, headers={"Host": "elsewhere.example"})),
        "getDescription": (case(200), case(405, method="PUT")),
        "getDescriptionAsJson": (case(200), case(405, method="PUT")),
        "uploadModule": (case(200, module, OCTETS), case(422, b"\x7fELF" + b"\0" * 200, OCTETS)),
        "listFunctions": (case(200, query="?limit=2&sort=name"), case(400, query="?limit=0")),
        "getFunction": (case(200, name="arith.add"), case(404, name="none.such")),
        "deleteModule": (case(204, name=made["unused"]), case(404, name="a" * 52)),
        "submitTask": (case(202, add), case(422, {**add, "arguments": ["x", 2]})),
        "listTasks": (case(200, query="?filter=function:arith.add"), case(400, query="?filter=nonsense")),
        "submitBatch": (case(202, {"function": "arith.add", "rows": [[1, 2]]}), case(422, {"function": "arith.add"})),
        "getTask": (case(200, id=task), case(404, id=MISSING_TASK)),
        "cancelTask": (case(202, {"force": True}, id=made["running"]), case(422, {"force": "yes"}, id=task)),
        "explainTask": (case(200, id=made["waiting"]), case(404, id=MISSING_TASK)),
        "getTaskLogs": (case(200, id=task), case(400, id=task, query="?offset=-1")),
        "listItems": (case(200, id=made["generator"]), case(404, id=task)),
        "putObject": (case(201, b"bytes", OCTETS), case(415, b"bytes", {"Content-Type": "image/png"})),
        "listObjects": (case(200, query="?limit=1"), case(400, query="?cursor=nonsense")),
        "waitObjects": (case(200, {"ids": [put], "timeout_ms": 1000}), case(422, {"ids": []})),
        "getObject": (case(200, id=put), case(404, id=MISSING_OBJECT)),
        "deleteObject": (case(202, id=made["other object"]), case(404, id=MISSING_OBJECT)),
        "getObjectData": (case(206, headers={"Range": "bytes=1-2"}, id=put), case(416, headers={"Range": "bytes=99-"}, id=put)),
        "getLineage": (case(200, id=made["result"]), case(400, id=made["result"], query="?depth=x")),
        "createActor": (case(201, {"class": "quickstart.Counter", "arguments": [1]}), case(422, {"class": 7})),
        "listActors": (case(200), case(400, query="?filter=nonsense:1")),
        "getActor": (case(200, id=actor), case(404, id=MISSING_ACTOR)),
        "deleteActor": (case(202, id=made["other actor"]), case(404, id=MISSING_ACTOR)),
        "callActor": (case(202, {"arguments": [1]}, id=actor, method_="add"), case(404, {}, id=actor, method_="none")),
        "getActorLogs": (case(200, id=actor), case(404, id=MISSING_ACTOR)),
        "openJob": (case(201, {"name": "another"}), case(422, {"weight": 0})),
        "listJobs": (case(200), case(400, query="?sort=nonsense")),
        "getJob": (case(200, id=made["job"]), case(404, id="job_" + "a" * 20)),
        "endJob": (case(202, id=made["job"]), case(404, id="job_" + "a" * 20)),
        "listNodes": (case(200), case(400, query="?limit=x")),
        "getCluster": (case(200), unknown_query()),
        "getEvents": (case(200, query="?wait=0"), case(400, query="?after=nonsense")),
        "getTimeline": (case(200, query="?from=1&to=2"), case(400, query="?from=x")),
        "putEndpoint": (case(200, {"class": "mlp.Mlp", "arguments": [1], "max_batch_size": 8}, name="mlp"), case(422, {"class": "mlp.Mlp", "max_batch_size": 0}, name="mlp")),
        "getEndpoint": (case(200, name="mlp"), case(404, name="none")),
        "deleteEndpoint": (case(202, name="other"), case(404, name="none")),
        "listEndpoints": (case(200), unknown_query()),
        "getServerMetadata": (case(200), case(405, method="POST")),
        "getServerLive": (case(200), case(405, method="POST")),
        "getServerReady": (case(200), case(405, method="POST")),
        "getModelMetadata": (case(200, **model), no_model),
        "getModelReady": (case(200, **model), no_model),
        "getModelConfig": (case(200, **model), no_model),
        "getAllModelStats": (case(200), case(405, method="POST")),
        "getModelStats": (case(200, **model), no_model),
        "infer": (case(200, infer, **model), case(400, {"inputs": []}, **model)),
        "getModelMetadataVersion": (case(200, **version), no_version),
        "getModelReadyVersion": (case(200, **version), no_version),
        "getModelConfigVersion": (case(200, **version), no_version),
        "getModelStatsVersion": (case(200, **version), no_version),
        "inferVersion": (case(200, infer, **version), case(404, infer, model="mlp", version="77")),
    }


def operations(document):
    """operationId -> (method, path, operation), as served."""
    return {operation["operationId"]: (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items() if isinstance(operation, dict) and "operationId" in operation}


def make_things(c):
    """What the good cases speak of."""
    for name in ("arith", "quickstart", "mlp", "http_talk", "probe"):
        deployed = c.deploy(name)
    made = {"unused": c.deploy("holder")["hash"]}
    with open(MODULES + "/arith.so", "rb") as file:
        made["module"] = file.read()
    check(deployed["functions"], "deployed", deployed)
    done = c.run("arith.add", 1, 2)
    made["task"], made["result"] = done["id"], done["returns"][0]
    running = c.json("POST", "/api/v1/tasks", {"function": "quickstart.pause", "arguments": [60000]}, expect=202)
    waiting = c.json("POST", "/api/v1/tasks", {"function": "arith.add", "arguments": [{"$ref": running["returns"][0]}, 1]}, expect=202)
    made["running"], made["waiting"] = running["id"], waiting["id"]
    made["generator"] = c.json("POST", "/api/v1/tasks", {"function": "probe.counts", "arguments": [3]}, expect=202)["id"]
    for name in ("actor", "other actor"):
        made[name] = c.json("POST", "/api/v1/actors", {"class": "quickstart.Counter", "arguments": [1]}, {"Prefer": "wait=20"}, expect=201)["id"]
    for name in ("object", "other object"):
        made[name] = json.loads(c.call("POST", "/api/v1/objects", b"0123", OCTETS)[2])["id"]
    made["job"] = c.json("POST", "/api/v1/jobs", {"name": "one"}, expect=201)["id"]
    for name in ("mlp", "other"):
        c.json("PUT", f"/api/v1/endpoints/{name}", {"class": "mlp.Mlp", "arguments": [1], "max_batch_size": 8}, expect=201)
    made["input"] = c.json("GET", "/v2/models/mlp", expect=200)["inputs"][0]["name"]
    return made


def send(c, method, path, one, key=True):
    for name, value in one["path"].items():
        path = path.replace("{" + name.rstrip("_") + "}", value)
    return c.call(one["method"] or method, path + one["query"], one["body"], dict(one["headers"]), key=key)


def is_problem(document, status, headers, body):
    return status >= 400 and headers.get("content-type") == "application/problem+json" and json.loads(body)["status"] == status and \
        not list(wrong(document["components"]["schemas"]["Problem"], json.loads(body), document))


def differences(document, operation, status, headers, body):
    """Between an answer in JSON and what the description says of it."""
    content = operation["responses"][str(status)].get("content", {}).get("application/json", {})
    if not headers.get("content-type", "").startswith("application/json"):
        return []
    return list(wrong(content.get("schema", {}), json.loads(body), document))


def filled(one, path):
    return {name.rstrip("_") for name in one["path"]} == set(re.findall(r"\{(\w+)\}", path))


def test_each_operation(c):
    document = c.json("GET", "/openapi.json", expect=200)
    described = operations(document)
    table = cases(c, make_things(c))
    check(not set(described) - set(table), "operations without cases", set(described) - set(table))
    check(not set(table) - set(described), "cases without an operation", set(table) - set(described))
    for name in sorted(set(described) & set(table), key=lambda n: n in ("endJob", "deleteEndpoint", "cancelTask")):
        method, path, operation = described[name]
        good, bad = table[name]
        check(filled(good, path), f"{name}: the good case fills {path}", good["path"])
        check(str(good["expect"]) in operation["responses"], f"{name}: {good['expect']} is described", list(operation["responses"]))
        check(str(bad["expect"]) in operation["responses"] or bad["expect"] == 405, f"{name}: {bad['expect']} is described", list(operation["responses"]))
        for key in WRONG_KEYS:
            status, headers, body = send(c, method, path, good, key=key)
            if name in OPEN_TO_ALL:
                check(status == good["expect"], f"{name} without a key", status, body)
            else:
                check(status == 401 and is_problem(document, status, headers, body), f"{name} with the key {key}", status, body)
        status, headers, body = send(c, method, path, bad)
        check(status == bad["expect"] and is_problem(document, status, headers, body), f"{name}: bad input", status, bad["expect"], headers, body)
        status, headers, body = send(c, method, path, good)
        check(status == good["expect"], f"{name}: good input", status, good["expect"], body)
        check(not differences(document, operation, status, headers, body), f"{name}: as described",
              differences(document, operation, status, headers, body), body)


if __name__ == "__main__":
    main(dict(globals()))
