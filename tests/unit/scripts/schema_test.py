"""tests/integration/lib_schema.py: what it lets through, and what it does not."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration"))
from lib_schema import wrong  # noqa: E402

DOCUMENT = {"components": {"schemas": {"Id": {"type": "string", "pattern": "^id_[0-9]+$"}}}}
ITEM = {"type": "object", "additionalProperties": False, "required": ["id"],
        "properties": {"id": {"$ref": "#/components/schemas/Id"}, "n": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                       "state": {"enum": ["a", "b"]}, "many": {"type": "array", "minItems": 1, "items": {"type": "number"}}}}


class Schema(unittest.TestCase):
    def places(self, value, schema=ITEM):
        return [text.split(":")[0] for text in wrong(schema, value, DOCUMENT)]

    def test_what_fits(self):
        for value in ({"id": "id_1"}, {"id": "id_1", "n": None, "state": "b", "many": [1, 2.5]}, {"id": "id_22", "n": 9}):
            self.assertEqual(self.places(value), [])

    def test_what_does_not(self):
        for value, at in (([], ""), ({}, ""), ({"id": "1"}, "/id"), ({"id": 1}, "/id"), ({"id": "id_1", "n": -1}, "/n"), ({"id": "id_1", "n": 10}, "/n"),
                          ({"id": "id_1", "n": True}, "/n"), ({"id": "id_1", "n": 1.5}, "/n"), ({"id": "id_1", "state": "c"}, "/state"),
                          ({"id": "id_1", "many": []}, "/many"), ({"id": "id_1", "many": [1, "2"]}, "/many/1"), ({"id": "id_1", "more": 1}, "")):
            self.assertEqual(self.places(value), [at], value)

    def test_others_have_a_schema_too(self):
        schema = {"type": "object", "additionalProperties": {"const": 7}}
        self.assertEqual(self.places({"a": 7, "b": 8}, schema), ["/b"])

    def test_exactly_one(self):
        schema = {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}
        self.assertEqual([self.places(value, schema) for value in (1, 5.5, 7, 2.5, "x")], [[], [], [""], [""], [""]])

    def test_keywords_that_nobody_checks_are_refused(self):
        with self.assertRaises(ValueError):
            self.places({}, {"type": "object", "patternProperties": {}})


if __name__ == "__main__":
    unittest.main()
