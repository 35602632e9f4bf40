"""JSON Schema as api/openapi.yaml uses it: enough to hold an answer against its description.

A keyword that is not known here raises, so that a description cannot say what nobody checks.
"""
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
NOTES = {"description", "title", "default", "format", "contentEncoding", "example"}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def of_object(schema, value, document, at):
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{at}: {len(value)} properties"
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at}: {name} is missing"
    for name, one in value.items():
        if name in properties:
            yield from wrong(properties[name], one, document, f"{at}/{name}")
        elif others is False:
            yield f"{at}: {name} is not described"
        elif isinstance(others, dict):
            yield from wrong(others, one, document, f"{at}/{name}")


def wrong(schema, value, document, at=""):
    """What of `value` does not fit `schema`, as texts."""
    unknown = set(schema) - NOTES - {"$ref", "type", "enum", "const", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems",
                                     "maxItems", "maxProperties", "items", "required", "properties", "additionalProperties", "oneOf"}
    if unknown:
        raise ValueError(f"{at}: keywords that are not checked: {unknown}")
    if "$ref" in schema:
        target = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from wrong(target, value, document, at)
        return
    if "oneOf" in schema:
        fitting = sum(not list(wrong(one, value, document, at)) for one in schema["oneOf"])
        if fitting != 1:
            yield f"{at}: {value!r} fits {fitting} of {len(schema['oneOf'])} schemas"
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, one) for one in types):
        yield f"{at}: {value!r} is not {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is none of {schema.get('enum', [schema.get('const')])}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value!r} does not match {schema['pattern']}"
    if is_type(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value} is not in its bounds"
    if isinstance(value, (str, list)):
        low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        if not schema.get(low, 0) <= len(value) <= schema.get(high, len(value)):
            yield f"{at}: length {len(value)} is not in its bounds"
    if isinstance(value, list) and "items" in schema:
        for i, one in enumerate(value):
            yield from wrong(schema["items"], one, document, f"{at}/{i}")
    if isinstance(value, dict):
        yield from of_object(schema, value, document, at)
