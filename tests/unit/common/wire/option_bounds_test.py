"""The API's description gives the bounds that common/wire has."""
import re
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[4]
KNOWN = {"INT16_MIN": -32768, "INT16_MAX": 32767}


def bounds():
    text = "".join((ROOT / "common/wire" / name).read_text(encoding="ascii") for name in ("option_bounds.h", "spec.h"))
    found = re.findall(r"^#define MOB_(\w+) \(?(\w+)", text, re.MULTILINE)
    return {name: KNOWN.get(value) or int(value.rstrip("ul")) for name, value in found if value in KNOWN or value.rstrip("ul").isdigit()}


class Bounds(unittest.TestCase):
    def setUp(self):
        schemas = yaml.safe_load((ROOT / "api/openapi.yaml").read_text(encoding="utf-8"))["components"]["schemas"]
        self.of = {name: schemas[name]["properties"] for name in ("TaskOptions", "ActorOptions", "CallOptions")}
        self.resources = schemas["Resources"]
        self.bounds = bounds()

    def test_the_table_is_read(self):
        for name in ("TASK_NAME_BYTES_MAX", "ACTOR_NAME_BYTES_MAX", "AMOUNT_MAX", "TASK_RESOURCES_MAX", "RETURNS_MAX", "RETRIES_MAX",
                     "CHECKPOINT_EVERY_MAX", "PRIORITY_MIN", "PRIORITY_MAX"):
            self.assertIn(name, self.bounds)

    def test_names(self):
        self.assertEqual(self.of["TaskOptions"]["name"]["maxLength"], self.bounds["TASK_NAME_BYTES_MAX"])
        self.assertEqual(self.of["CallOptions"]["name"]["maxLength"], self.bounds["TASK_NAME_BYTES_MAX"])
        self.assertEqual(self.of["ActorOptions"]["name"]["maxLength"], self.bounds["ACTOR_NAME_BYTES_MAX"])

    def test_numbers(self):
        for kind, field in (("TaskOptions", "max_retries"), ("CallOptions", "max_retries"), ("ActorOptions", "max_restarts")):
            self.assertEqual((self.of[kind][field]["minimum"], self.of[kind][field]["maximum"]), (-1, self.bounds["RETRIES_MAX"]), kind)
        for kind in ("TaskOptions", "CallOptions"):
            self.assertEqual(self.of[kind]["num_returns"]["maximum"], self.bounds["RETURNS_MAX"])
            self.assertEqual((self.of[kind]["priority"]["minimum"], self.of[kind]["priority"]["maximum"]),
                             (self.bounds["PRIORITY_MIN"], self.bounds["PRIORITY_MAX"]))
        self.assertEqual(self.of["ActorOptions"]["checkpoint_every"]["maximum"], self.bounds["CHECKPOINT_EVERY_MAX"])

    def test_resources(self):
        self.assertEqual(self.resources["maxProperties"], self.bounds["TASK_RESOURCES_MAX"])
        self.assertEqual(self.resources["additionalProperties"]["maximum"], self.bounds["AMOUNT_MAX"])


if __name__ == "__main__":
    unittest.main()
