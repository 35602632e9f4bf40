"""The examples of the API's description are true.   ctest: timeout=240

Every request is sent as its example says, with the ids of things that are there for those of the example; the answer
must have the example's shape and fit its schema. Each operation has an example of a request body where it takes text, and of an
answer where it gives JSON or text. Errors that an operation can give are named by their status.
"""
import json
import re

from http_operations import OCTETS, make_things, operations
from lib_http_cluster import check, main
from lib_schema import wrong

# Described by themselves, or without an end.
WITHOUT_AN_ANSWER = {"getDescription", "getDescriptionAsJson"}
LAST = ("endJob", "deleteActor", "deleteObject", "deleteEndpoint", "deleteModule", "cancelTask")  # end what others speak of


def resolved(document, one):
    while isinstance(one, dict) and "$ref" in one:
        target = document
        for part in one["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        one = target
    return one


def examples_of(document, media):
    """The values of a media type's examples."""
    if "example" in media:
        return [media["example"]]
    return [resolved(document, one)["value"] for one in media.get("examples", {}).values()]


def unlike(example, value, at=""):
    """Where `value` has another shape than `example`, as texts. Null stands for anything: the schema says where it may."""
    if example is None or value is None:
        return
    if isinstance(example, dict) and isinstance(value, dict):
        for name in example.keys() ^ value.keys():
            yield f"{at}/{name}: {'not in the example' if name in value else 'only in the example'}"
        for name in example.keys() & value.keys():
            yield from unlike(example[name], value[name], f"{at}/{name}")
    elif isinstance(example, list) and isinstance(value, list):
        for i, one in enumerate(example):
            if not any(not list(unlike(one, other)) for other in value):
                yield f"{at}/{i}: none is like {one!r}: {list(unlike(one, value[0])) if value else 'empty'}"
    elif isinstance(example, bool) != isinstance(value, bool) or isinstance(example, str) != isinstance(value, str) or \
            isinstance(example, (int, float)) != isinstance(value, (int, float)):
        yield f"{at}: {value!r} is not like {example!r}"


def unlike_text(example, text):
    """Lines of the example that the text has none like, up to digits."""
    lines = {re.sub(r"\d+", "0", line) for line in text.splitlines()}
    return [line for line in example.splitlines() if re.sub(r"\d+", "0", line) not in lines]


def places(made):
    """operationId -> what stands for the ids in its path."""
    return {
        "deleteModule": {"name": made["unused"]},
        "getTask": {"id": made["task"]}, "cancelTask": {"id": made["running"]}, "explainTask": {"id": made["waiting"]},
        "getTaskLogs": {"id": made["talking"]}, "listItems": {"id": made["generator"]},
        "getObject": {"id": made["result"]}, "getObjectData": {"id": made["object"]}, "getLineage": {"id": made["result"]},
        "deleteObject": {"id": made["other object"]},
        "getActor": {"id": made["actor"]}, "deleteActor": {"id": made["other actor"]}, "callActor": {"id": made["actor"]},
        "getActorLogs": {"id": made["talking actor"]},
        "getJob": {"id": made["job"]}, "endJob": {"id": made["job"]},
    }


def with_ids(value, real):
    """A body in which an object that is there stands for those of examples."""
    if isinstance(value, dict):
        return {name: with_ids(one, real) for name, one in value.items()}
    if isinstance(value, list):
        return [with_ids(one, real) for one in value]
    return real if isinstance(value, str) and value.startswith("obj_") else value


def bodies(document, name, operation, made):
    """(Content-Type, body) of each request that its examples describe."""
    content = operation.get("requestBody", {}).get("content", {})
    if name == "uploadModule":
        return [("application/octet-stream", made["module"])]
    found = []
    for media, one in content.items():
        for example in examples_of(document, one):
            text = example if isinstance(example, str) and media != "application/json" else json.dumps(with_ids(example, made["policy" if name == "putEndpoint" else "object"]))
            found.append((media, text.encode()))
    return found or [(None, None)]


def requests(document, name, path, operation, made):
    """(path, headers, body): with the bare minimum, then with everything that has an example."""
    parameters = [resolved(document, one) for one in operation.get("parameters", [])]
    given = {one["name"]: one["example"] for one in parameters if one["in"] == "path"}
    given.update(places(made).get(name, {}))
    for parameter, value in given.items():
        path = path.replace("{" + parameter + "}", value)
    more = {one["name"]: str(one["example"]) for one in parameters if one["in"] == "header" and "example" in one}
    query = "&".join(f"{one['name']}={one['example']}" for one in parameters if one["in"] == "query" and "example" in one)
    for media, body in bodies(document, name, operation, made):
        headers = {"Content-Type": media} if media else {}
        yield path, headers, body
        if more or query:
            yield path + ("?" + query if query else ""), {**headers, **more}, body


def in_order(described):
    return sorted(described, key=lambda name: LAST.index(name) if name in LAST else -1)


def check_answer(document, name, operation, status, headers, body):
    described = resolved(document, operation["responses"].get(str(status), {}))
    if not check(described and status < 300, f"{name}: the example's request gets an answer that is described", status, body):
        return
    media = headers.get("content-type", "").split(";")[0]
    content = described.get("content", {}).get(media, {})
    examples = examples_of(document, content)
    if media == "application/json" and name not in WITHOUT_AN_ANSWER:
        value = json.loads(body)
        differences = list(wrong(content.get("schema", {}), value, document))
        check(not differences, f"{name}: {status} fits its schema", differences)
        differences = [list(unlike(one, value)) for one in examples]
        check(any(not one for one in differences), f"{name}: {status} has the shape of its example", differences, body)
    elif media == "text/plain":
        differences = [unlike_text(one, body.decode()) for one in examples]
        check(any(not one for one in differences), f"{name}: {status} has the lines of its example", differences, body[-3000:])


def make_more(c):
    made = make_things(c)
    c.deploy("train_policy")
    made["policy"] = c.run("train_policy.create_policy", 7)["returns"][0]
    c.json("PUT", "/api/v1/endpoints/cartpole", {"class": "train_policy.CartpolePolicy", "arguments": [{"$ref": made["policy"]}]}, expect=201)
    made["talking"] = c.run("http_talk.count", 2, 1)["id"]
    made["talking actor"] = c.json("POST", "/api/v1/actors", {"class": "http_talk.Talker"}, {"Prefer": "wait=20"}, expect=201)["id"]
    c.json("POST", f"/api/v1/actors/{made['talking actor']}/methods/say", {"arguments": ["hello"]}, {"Prefer": "wait=20"}, expect=200)
    return made


def test_each_example_is_replayed(c):
    document = c.json("GET", "/openapi.json", expect=200)
    described = operations(document)
    made = make_more(c)
    for name in in_order(described):
        method, path, operation = described[name]
        for target, headers, body in requests(document, name, path, operation, made):
            check_answer(document, name, operation, *c.call(method, target, body, headers))


def problems_of(document):
    for name, response in document["components"]["responses"].items():
        for example in examples_of(document, response["content"]["application/problem+json"]):
            yield name, example


def test_examples_of_problems_fit(c):
    document = c.json("GET", "/openapi.json", expect=200)
    schema = document["components"]["schemas"]["Problem"]
    status_of = {one["$ref"].split("/")[-1]: int(status) for _, _, operation in operations(document).values()
                 for status, one in operation["responses"].items() if "$ref" in one and status != "default"}
    for name, example in problems_of(document):
        check(not list(wrong(schema, example, document)), f"{name}: its example fits", list(wrong(schema, example, document)))
        check(status_of.get(name) == example["status"], f"{name}: stands for its status, somewhere", status_of.get(name), example["status"])


def expected_errors(operation, path):
    """Statuses that follow from what an operation takes."""
    found = {401, 403, 421, 429} if operation.get("security") != [] else set()
    if "{" in path:
        found |= {400, 404}
    if "requestBody" in operation:
        found |= {400, 413, 415}
    if any("IdempotencyKey" in one.get("$ref", "") for one in operation.get("parameters", [])):
        found |= {409, 422}
    return found


def test_errors_are_named(c):
    document = c.json("GET", "/openapi.json", expect=200)
    for name, (_, path, operation) in operations(document).items():
        named = {int(status) for status in operation["responses"] if status != "default"}
        missing = expected_errors(operation, path) - named
        check(not missing, f"{name}: errors by status", missing)


def test_requests_of_examples_fit(c):
    document = c.json("GET", "/openapi.json", expect=200)
    for name, (_, _, operation) in operations(document).items():
        for media, one in operation.get("requestBody", {}).get("content", {}).items():
            check(media != "application/json" or examples_of(document, one), f"{name}: a request in JSON has an example")
            for example in examples_of(document, one):
                differences = list(wrong(one.get("schema", {}), example, document))
                check(not differences, f"{name}: its example of {media} fits its schema", differences)


if __name__ == "__main__":
    main(dict(globals()))
