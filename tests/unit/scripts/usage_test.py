"""What ./dev and the settings table offer is described, and what they do not know is refused before anything is done."""
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def dev(*arguments):
    return subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, timeout=60)


class Usage(unittest.TestCase):
    def commands(self):
        found = re.findall(r"^\./dev ([a-z]+)", dev("help").stdout, re.MULTILINE)
        self.assertGreater(len(found), 9)
        return [command for command in found if command != "help"]

    def test_each_command_has_a_help_of_its_own(self):
        for command in self.commands():
            run = dev(command, "--help")
            self.assertEqual((run.returncode, run.stdout.split("\n")[0].split(" ")[:2]), (0, ["./dev", command]), command)
            self.assertEqual(dev("help", command).stdout, run.stdout, command)

    def test_arguments_that_a_command_does_not_take_are_refused(self):
        for command in ("down", "check", "fmt", "address", "token", "install"):
            run = dev(command, "--nope")
            self.assertEqual((run.returncode, run.stdout), (2, ""), command)
            self.assertIn("--nope", run.stderr)
        self.assertEqual(dev("build", "release", "dev").returncode, 2)
        self.assertEqual(dev("nope").returncode, 2)
        for command, *wrong in (("build", "nope"), ("bench", "nope"), ("bench", "--only="), ("bench", "core", "--nope"), ("help", "nope")):
            run = dev(command, *wrong)  # before anything is built
            self.assertEqual((run.returncode, run.stdout), (2, ""), (command, wrong, run.stderr))
            self.assertIn(f"./dev {command}: ", run.stderr)

    def test_each_setting_stands_in_the_documentation(self):
        table = (ROOT / "common/settings/settings_table.h").read_text()
        described = (ROOT / "docs/cli.md").read_text()
        names = re.findall(r'^    X\(\w+, "([a-z-]+)"', table, re.MULTILINE)
        self.assertGreater(len(names), 20)
        self.assertEqual([name for name in names if f"`{name}`" not in described], [])

    def test_each_row_that_is_described_can_be_asked_for(self):
        page = (ROOT / "docs/performance.md").read_text().split("## What each row measures")[1].split("\n## ")[0]
        described = {row for line in re.findall(r"^\| ([a-z0-9_, ]+) \|", page, re.MULTILINE) for row in line.split(", ")} - {"row"}
        source = (ROOT / "bench/bench_main.c").read_text()
        listed = {row for rows in re.findall(r"_rows\[\] = \{([^}]*)\}", source) for row in re.findall(r'"(\w+)"', rows)}
        self.assertGreater(len(listed), 40)
        self.assertEqual(described ^ listed, set())


if __name__ == "__main__":
    unittest.main()
