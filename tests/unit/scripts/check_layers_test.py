"""scripts/check_layers.py: what it refuses, what it lets through, and that its own table is a hierarchy."""
import contextlib
import importlib.util
import io
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "check_layers.py"
spec = importlib.util.spec_from_file_location("check_layers", SCRIPT)
check_layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_layers)

TREE = {
    "common/base/status.h": "#include <stdint.h>\n",
    "common/wire/spec.h": '#include "common/base/status.h"\n',
    "runtime/store/store.h": '#include "common/wire/spec.h"\n',
    "runtime/sched/sched.h": '#include "common/base/status.h"\n',
    "gcs/client/gcs_client.h": '#include "common/wire/spec.h"\n',
    "sdk/c/client.h": '#include <mobula/mobula.h>\n#include "sdk/c/embed.h"\n',
    "sdk/c/embed.h": '#include <mobula/mobula.h>\n#include "common/wire/spec.h"\n',
    "sdk/c/call.h": '#include "sdk/c/client.h"\n',
    "server/http/http.h": "",
}


class CheckLayers(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**TREE, **files}.items():
                (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(root) / path).write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                status = check_layers.main(["check_layers", root])
            return status, output.getvalue()

    def assert_refused(self, path, text, *words):
        status, output = self.run_on({path: text})
        self.assertEqual(1, status, output)
        for word in (path, *words):
            self.assertIn(word, output)

    def assert_accepted(self, path, text):
        status, output = self.run_on({path: text})
        self.assertEqual(0, status, output)

    def test_a_clean_tree_passes(self):
        status, output = self.run_on({})
        self.assertEqual(0, status, output)

    def test_arrows_do_not_point_up(self):
        self.assert_refused("common/base/log.c", '#include "common/wire/spec.h"\n', "common/base may not include common/wire")
        self.assert_refused("runtime/store/ring.c", '#include "runtime/sched/sched.h"\n', ":1:")
        self.assert_refused("gcs/client/route.c", '#include "sdk/c/client.h"\n')

    def test_server_never_sees_the_runtime(self):
        self.assert_refused("server/api/tasks.c", '#include "runtime/store/store.h"\n', "server/api may not include runtime/store")
        self.assert_refused("server/gateway_main.c", '#include "runtime/store/store.h"\n', "server may not include")

    def test_the_inside_of_the_c_api_is_its_own(self):
        for path in ["server/api/engine.c", "server/gateway_main.c", "cli/up.c"]:
            self.assert_accepted(path, '#include "sdk/c/embed.h"\n')
            self.assert_refused(path, '#include "sdk/c/client.h"\n', "sdk/c/client.h is private to sdk/c")
            self.assert_refused(path, '#include "sdk/c/call.h"\n', "not offered to server" if "server" in path else "not offered to cli")
        self.assert_accepted("runtime/worker/run.h", '#include "sdk/c/call.h"\n')
        self.assert_refused("runtime/worker/run.h", '#include "sdk/c/client.h"\n', "private")
        self.assert_refused("runtime/node/node.c", '#include "sdk/c/embed.h"\n', "not offered to runtime/node")
        self.assert_accepted("sdk/c/put.c", '#include "sdk/c/client.h"\n')

    def test_an_offered_header_does_not_open_the_inside(self):
        self.assert_refused("sdk/c/embed.h", '#include "sdk/c/client.h"\n', "includes nothing of sdk/c")

    def test_each_library_has_its_owners(self):
        for header, path in [
            ("hiredis/hiredis.h", "runtime/node/node.c"),
            ("hiredis/async.h", "gcs/client/route.c"),
            ("microhttpd.h", "server/api/router.c"),
            ("libpq-fe.h", "gcs/shard/flush.c"),
            ("uv.h", "runtime/store/loop.c"),
            ("jansson.h", "sdk/c/json.c"),
        ]:
            self.assert_refused(path, f"#include <{header}>\n", header)
        self.assert_accepted("gcs/shard/redis.c", "#include <hiredis/hiredis.h>\n")
        self.assert_accepted("server/h1/h1.c", "#include <microhttpd.h>\n")
        self.assert_accepted("tests/unit/x_test.c", "#include <hiredis/hiredis.h>\n")

    def test_examples_and_rl_and_modules_see_only_the_public_header(self):
        for folder in ["examples/pi", "rl/nn", "modules"]:
            self.assert_accepted(f"{folder}/a.c", "#include <math.h>\n#include <mobula/mobula.h>\n")
            self.assert_refused(f"{folder}/a.c", '#include "common/base/status.h"\n', "only <mobula/mobula.h>")
            self.assert_refused(f"{folder}/a.c", '#include "sdk/c/client.h"\n')

    def test_the_public_header_is_not_for_lower_layers(self):
        self.assert_refused("runtime/store/a.c", "#include <mobula/mobula.h>\n", "below")

    def test_cli_is_a_client(self):
        self.assert_accepted("cli/up.c", '#include "gcs/client/gcs_client.h"\n#include "sdk/c/embed.h"\n#include <uv.h>\n')
        self.assert_refused("cli/up.c", '#include "runtime/store/store.h"\n')

    def test_tests_and_benches_see_everything(self):
        self.assert_accepted("tests/unit/a_test.c", '#include "runtime/store/store.h"\n#include "server/http/http.h"\n')
        self.assert_accepted("bench/a_bench.c", '#include "runtime/store/store.h"\n')

    def test_includes_are_written_from_the_root(self):
        for target in ["spec.h", "../wire/spec.h", "common/wire/../wire/spec.h", "common/wire/missing.h"]:
            self.assert_refused("common/wire/codec.c", f'#include "{target}"\n', "from the root")
        self.assert_refused("sdk/c/a.c", '#include "mobula/mobula.h"\n', "<mobula/mobula.h>")

    def test_pure_cores_have_no_clock_socket_or_thread(self):
        for header in ["time.h", "pthread.h", "sys/socket.h", "unistd.h"]:
            self.assert_refused("runtime/sched/local.c", f"#include <{header}>\n", "pure")
            self.assert_accepted("runtime/store/segment.c", f"#include <{header}>\n")

    def test_spelling_does_not_hide_an_include(self):
        self.assert_refused("common/base/a.c", '  #  include   "common/wire/spec.h" /* why */\n')
        self.assert_refused("common/base/a.c", "\n\n#include MOB_HEADER\n", ":3:", "cannot be checked")
        self.assert_accepted("common/base/a.c", '/* #include "common/wire/spec.h" */\n// #include "common/wire/spec.h"\n')

    def test_a_folder_without_a_row_is_refused(self):
        self.assert_refused("common/extra/a.c", "\n", "row")

    def test_the_table_has_no_cycles(self):
        edges = {layer: set(allowed or []) for layer, allowed in check_layers.MAY_INCLUDE.items()}
        done = set()

        def visit(layer, way):
            self.assertNotIn(layer, way, f"cycle {way}")
            if layer not in done:
                for below in edges[layer]:
                    visit(below, way + [layer])
                done.add(layer)

        for layer in edges:
            visit(layer, [])


if __name__ == "__main__":
    unittest.main()
