#!/usr/bin/env python3
"""Writes a YAML description of an API as JSON: openapi_json.py IN.yaml OUT.json. The file stays as it is when nothing changed."""
import json
import pathlib
import sys

import yaml


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    text = json.dumps(yaml.safe_load(source.read_text(encoding="utf-8")), ensure_ascii=False, separators=(",", ":")) + "\n"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
