#!/usr/bin/env python3
"""Prints for each folder how many of its lines were executed, from what a build with MOB_COVERAGE counted.

    coverage_by_folder.py BUILD [--files]    --files: also the files, those with most unexecuted lines first

A line that several objects compile (a header's) counts as executed when one of them executed it. Processes that end by a
signal write no counts (gcov writes at exit), so what only runs in killed workers and stores shows as not executed.
"""
import argparse
import collections
import concurrent.futures
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = ("tests", "bench", "build")


def counts_of(data_file):
    """{file: {line: executions}} of one object."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["gcov", "--json-format", data_file], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return {}
        result = {}
        for name in os.listdir(folder):
            with gzip.open(f"{folder}/{name}", "rt") as file:
                report = json.load(file)
            for source in report["files"]:
                path = Path(os.path.normpath(os.path.join(report["current_working_directory"], source["file"])))
                lines = result.setdefault(path, {})
                for line in source["lines"]:
                    lines[line["line_number"]] = lines.get(line["line_number"], 0) + line["count"]
        return result


def collect(build):
    # Without counts: objects that nothing executed still say which lines they have.
    objects = {note.with_suffix(".gcda") if note.with_suffix(".gcda").exists() else note for note in Path(build).rglob("*.gcno")}
    objects = [str(o.resolve()) for o in objects if "/obj/" in str(o)]  # the layers; tests and benches are elsewhere
    lines = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for counts in pool.map(counts_of, objects):
            for path, executed in counts.items():
                if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] in SKIPPED:
                    continue
                into = lines[path.relative_to(ROOT)]
                for number, count in executed.items():
                    into[number] = into.get(number, 0) + count
    return lines


def table(rows):
    print(f"{'executed':>9} {'of lines':>9}")
    for name, executed, all_lines in rows:
        share = 100 * executed / all_lines if all_lines else 0
        print(f"{executed:9} {all_lines:9} {share:6.1f} %  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--files", action="store_true")
    arguments = parser.parse_args()
    files = {path: (sum(c > 0 for c in lines.values()), len(lines)) for path, lines in collect(arguments.build).items()}
    if not files:
        sys.exit(f"no counts in {arguments.build}: is it a build with MOB_COVERAGE?")
    folders = collections.defaultdict(lambda: [0, 0])
    for path, (executed, all_lines) in files.items():
        for name in (str(path.parent), "all"):
            folders[name][0] += executed
            folders[name][1] += all_lines
    every = folders.pop("all")
    if arguments.files:
        table([(str(p), *c) for p, c in sorted(files.items(), key=lambda f: f[1][0] - f[1][1])])
    table([(name, *c) for name, c in sorted(folders.items())] + [("all", *every)])


if __name__ == "__main__":
    main()
