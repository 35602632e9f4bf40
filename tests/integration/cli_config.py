"""`mobula config` of a running cluster and of the next start, and settings that cannot be, refused before anything starts.
ctest: timeout=240
"""
import json
import os
import pathlib
import re
import unittest

from lib_cli_supervised import Supervised

SOURCE = pathlib.Path(os.environ["MOBULA_SOURCE_DIR"])


class Config(Supervised):
    def config(self, *arguments):
        return {s["name"]: s for s in json.loads(self.mobula("config", *arguments, "-o", "json", code=0).stdout)}

    def write(self, text):
        self.dir.mkdir(mode=0o700, exist_ok=True)
        (self.dir / "mobula.conf").write_text(text)

    # ---- what runs, and what would

    def test_what_runs_and_what_the_next_start_changes(self):
        self.write("slots = 3\nblocked-max = 77\n")
        before = self.config()
        self.assertEqual((False, 3, "file", 1), tuple(before["slots"][k] for k in ("running", "value", "source", "line")))
        self.mobula("up", "--detach", "--blocked-max", "78", code=0)
        self.write("# another line\nslots = 5\nlog-files = 9\n")
        now = self.config()
        self.assertEqual((True, 3, "file", 1), tuple(now["slots"][k] for k in ("running", "value", "source", "line")))
        self.assertEqual({"value": 5, "source": "file"}, now["slots"]["next"])
        self.assertEqual((78, "flag"), (now["blocked-max"]["value"], now["blocked-max"]["source"]))
        self.assertEqual({"value": 2048, "source": "default"}, now["blocked-max"]["next"])
        self.assertEqual((3, {"value": 9, "source": "file"}), (now["log-files"]["value"], now["log-files"]["next"]))
        self.assertEqual({"slots", "blocked-max", "log-files"}, {name for name, s in now.items() if "next" in s})
        coming = self.config("--next")
        self.assertEqual((False, 5, 9, 2048), (coming["slots"]["running"], *(coming[n]["value"] for n in ("slots", "log-files", "blocked-max"))))
        self.assertFalse(any("next" in s for s in coming.values()))
        table = self.mobula("config", code=0)
        self.assertRegex(table.stdout, r"NAME +VALUE +FROM +NEXT\n")
        self.assertRegex(table.stdout, rf"\nslots +3 +file {self.dir}/mobula.conf:1 +5 \(file {self.dir}/mobula.conf:2\)\n")
        self.assertRegex(table.stdout, r"\nblocked-max +78 +flag +2048 \(default\)\n")
        self.assertRegex(table.stdout, r"\ngcs-shards +1 +default\n")
        self.assertIn("would change", table.stderr)
        self.mobula("down", code=0)
        after = self.mobula("config", "slots", code=0)
        self.assertIn("nothing runs", after.stderr)
        self.assertRegex(after.stdout, r"\nslots +5 ")
        self.assertNotIn("NEXT", after.stdout)

    def test_columns_stand_below_each_other(self):
        self.write("hosts = " + ",".join(f"name{n}.example" for n in range(5)) + "\n")
        header, *rows = self.mobula("config", code=0).stdout.splitlines()
        for at in (header.index("VALUE"), header.index("FROM")):
            for row in rows:
                self.assertEqual("  ", row[at - 2:at], row)
                self.assertNotEqual(" ", row[at], row)

    def test_a_killed_supervisor_leaves_no_settings_behind(self):
        self.mobula("up", "--detach", "--slots", "7", code=0)
        os.kill(self.supervisor(), 9)
        self.wait("it is gone", lambda: not self.config("slots")["slots"]["running"])
        self.mobula("up", "--detach", "--slots", "8", code=0)
        self.assertEqual(8, self.config("slots")["slots"]["value"])

    def test_some_of_them(self):
        self.assertEqual(["slots"], list(self.config("slots")))
        self.assertEqual(["rate-limit", "rate-burst", "slots"], sorted(self.config("rate-*", "slots"), key="rate-limit rate-burst slots".index))
        self.assertIn("did you mean segment-bytes", self.mobula("config", "segment-byte", code=2).stderr)
        self.assertEqual("slots\n", self.mobula("config", "slots", "-o", "name", code=0).stdout)
        lines = self.mobula("config", "rate-*", "-o", "jsonl", code=0).stdout.splitlines()
        self.assertEqual(["rate-limit", "rate-burst"], [json.loads(line)["name"] for line in lines])

    # ---- what cannot be

    def refused(self, command, *arguments, says):
        """By both commands, with nothing started."""
        result = self.mobula(command, *arguments, code=2)
        for text in says:
            self.assertIn(text, result.stderr)
        self.assertEqual(1, result.stderr.count("mobula: ") - result.stderr.count("nothing runs"), result.stderr)
        self.assertFalse((self.dir / "supervisor.json").exists(), "nothing was started")
        self.assertFalse((self.dir / "logs" / "supervisor.log").exists(), "nothing was started")

    def test_values_that_cannot_be(self):
        for command in ("up", "config"):
            for flag, value, says in (
                    ("--resources", "GPU", ("resources: ", "NAME=AMOUNT", "this is GPU")), ("--resources", "GPU=x", ("resources: ",)),
                    ("--resources", "=1", ("resources: ",)), ("--resources", "GPU=1,", ("resources: ",)), ("--resources", "GPU=nan", ("resources: ",)),
                    ("--resources", "GPU=0x1", ("resources: ",)), ("--resources", "GPU=1,GPU=1", ("resources: ", "twice")),
                    ("--resources", ",".join(f"r{i}=1" for i in range(61)), ("resources: ", "at most 60")),
                    ("--listen", "localhost:80", ("listen: ", "127.0.0.1:8080")), ("--listen", "127.0.0.1", ("listen: ",)),
                    ("--listen", "127.0.0.1:65536", ("listen: ",)), ("--listen", "::1:0", ("listen: ", "[::1]:0")),
                    ("--hosts", "a,,b", ("hosts: ",)), ("--hosts", "a b", ("hosts: ",)), ("--hosts", "a,b,c,d,e,f,g,h,i", ("hosts: ", "at most 8")),
                    ("--segment-bytes", "32T", ("segment-bytes is ", "memory")), ("--slots", "0", ("slots is 0",))):
                self.refused(command, flag, value, says=says)
        self.write("\nresources = GPU\n")
        self.refused("up", says=("mobula.conf:2: resources: ",))
        self.write("")
        self.environment["MOBULA_LISTEN"] = "everywhere"
        self.refused("up", says=("MOBULA_LISTEN: listen: ",))

    def test_directories_that_cannot_be(self):
        self.root.joinpath("a-file").write_text("")
        inside = str(self.root / "a-file" / "x")
        long = str(self.root / ("x" * 100))
        for command in ("up", "config"):
            self.refused(command, "--spill-dir", inside, says=(f"spill-dir is {inside}, and {self.root}/a-file is not a directory",))
            self.refused(command, "--dir", inside, says=(f"dir is {inside}, ", "not a directory"))
            self.refused(command, "--dir", long, says=("dir is ", "too long for the sockets"))
        self.mobula("config", "--spill-dir", inside, "--spill-quota-bytes", "0", code=0)  # nothing is spilled, nothing is needed
        if os.geteuid() != 0:
            closed = self.root / "closed"
            closed.mkdir(mode=0o500)
            self.refused("up", "--spill-dir", f"{closed}/x", says=("spill-dir is ", "Permission denied"))

    def test_a_spill_directory_far_down_is_made(self):
        there = self.root / "far" / "down" / "spill"
        self.mobula("up", "--detach", "--spill-dir", str(there), code=0)
        self.assertTrue(there.is_dir())
        self.assertEqual(0o700, there.stat().st_mode & 0o777)

    # ---- the page

    def test_the_page_of_the_command_line_has_every_setting_once(self):
        page = (SOURCE / "docs" / "cli.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|([^|]*)\|", page.split("## Settings")[1].split("\n## ")[0], re.MULTILINE)
        listed = [(name, cell.strip()) for names, cell in rows for name in re.findall(r"`([a-z-]+)`", names)]
        table = self.config("--next")
        self.assertEqual([name for name, _ in listed], list(table), "in the table's order")
        for names, cell in rows:
            for name, shown in zip(re.findall(r"`([a-z-]+)`", names), cell.split(", ")):
                default = table[name]["default"]
                if not default.startswith("<"):
                    self.assertEqual(default, shown.strip(" `").replace(" ", ""), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
