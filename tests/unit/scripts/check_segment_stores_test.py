"""scripts/check_segment_stores.py: the stores it refuses, and those it lets through."""
import contextlib
import importlib.util
import io
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "check_segment_stores.py"
spec = importlib.util.spec_from_file_location("check_segment_stores", SCRIPT)
check_segment_stores = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_segment_stores)

WRAPPER = "runtime/store/segment_access.h"
HEADER = """
struct mob_seg_entry { uint64_t state; uint32_t list[4]; struct mob_seg_link { uint32_t next; } link; };
struct mob_store { struct mob_seg_entry *entries; int count; };
struct mob_seg_entry *mob_store_entry_at(struct mob_store *store, uint32_t index);
"""


def function(body, parameters="struct mob_seg_entry *e, struct mob_store *store"):
    return "static void f(" + parameters + ")\n{\n" + body + "\n}\n"


class CheckSegmentStores(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {"runtime/store/segment.h": HEADER, **files}.items():
                (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(root) / path).write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                status = check_segment_stores.main(["check_segment_stores", root])
            return status, output.getvalue()

    def refused(self, body, path="runtime/store/a.c", **more):
        status, output = self.run_on({path: function(body, **more)})
        self.assertEqual(1, status, f"not refused: {body}\n{output}")
        self.assertIn(f"{path}:", output)
        return output

    def accepted(self, body, path="runtime/store/a.c", **more):
        status, output = self.run_on({path: function(body, **more)})
        self.assertEqual(0, status, f"refused: {body}\n{output}")

    def test_raw_atomic_writes(self):
        for call in [
            "atomic_store(&x, 1);",
            "atomic_store_explicit(&x, 1, memory_order_release);",
            "atomic_fetch_add(&x, 1);",
            "atomic_fetch_or_explicit(&x, 1, memory_order_relaxed);",
            "atomic_compare_exchange_weak_explicit(&x, &y, 1, a, b);",
            "atomic_exchange(&x, 1);",
            "atomic_flag_test_and_set(&x);",
            "__atomic_store_n(&x, 1, __ATOMIC_RELEASE);",
            "__atomic_add_fetch(&x, 1, __ATOMIC_RELAXED);",
            "__sync_fetch_and_add(&x, 1);",
        ]:
            self.refused(call)
            self.refused(call, path="sdk/c/a.c")
            self.refused(call, path="runtime/node/a.c")

    def test_loads_and_fences_are_no_stores(self):
        self.accepted("n = atomic_load_explicit(&e->state, memory_order_acquire); atomic_thread_fence(memory_order_seq_cst);")
        self.accepted("n = __atomic_load_n(&e->state, __ATOMIC_ACQUIRE); __atomic_thread_fence(__ATOMIC_SEQ_CST);")

    def test_other_folders_and_the_wrapper_are_not_looked_at(self):
        self.accepted("atomic_store(&x, 1); e->state = 1;", path="gcs/shard/a.c")
        self.accepted("atomic_store(&x, 1); e->state = 1;", path=WRAPPER)

    def test_a_private_atomic_says_so(self):
        self.accepted("atomic_store(&x, 1); /* private: this process's stop flag */")
        self.accepted("atomic_store(&x,\n    1); /* private: this process's stop flag */")
        self.accepted("/* private: this process's stop flag */\natomic_store(&x, 1);")
        self.accepted("if (atomic_exchange(&x, 1)) /* private: stop flag */\n    return;")

    def test_private_needs_a_reason_and_covers_one_statement(self):
        self.refused("atomic_store(&x, 1); /* private: */")
        self.refused("atomic_store(&x, 1); /* private */")
        self.refused("atomic_store(&x, 1); /* private: stop flag */\natomic_store(&y, 1);")
        self.refused("atomic_store(&y, 1);\natomic_store(&x, 1); /* private: stop flag */")
        self.refused("/* private: stop flag */\natomic_store(&x, 1);\natomic_store(&y, 1);")

    def test_assignments_through_pointers(self):
        for store in [
            "e->state = 1;",
            "e->state |= 1;",
            "e->state <<= 1;",
            "e->state++;",
            "++e->state;",
            "--e->state;",
            "e->link.next = 1;",
            "e->list[2] = 1;",
            "e[3].state = 1;",
            "e[i] = other;",
            "*e = other;",
            "(*e).state = 1;",
            "if (x)\n    e->state\n        = 1;",
            "for (i = 0; i < 4; e->state = i++) {}",
        ]:
            self.refused(store)

    def test_each_way_to_have_a_pointer(self):
        self.refused("struct mob_seg_entry *entry = at(1); entry->state = 1;", parameters="void")
        self.refused("struct mob_seg_entry *const entry = at(1); entry->state = 1;", parameters="void")
        self.refused("struct mob_seg_entry *restrict entry = at(1);\n entry->state = 1;", parameters="void")
        self.refused("((struct mob_seg_entry *)base)->state = 1;", parameters="char *base")
        self.refused("((struct mob_seg_entry *)(base + f(1)))->state = 1;", parameters="char *base")
        self.refused("store->entries[1].state = 1;", parameters="struct mob_store *store")
        self.refused("store->entries->state = 1;", parameters="struct mob_store *store")
        self.refused("mob_store_entry_at(store, g(1))->state = 1;", parameters="struct mob_store *store")
        self.refused("uint64_t *p = &e->state; *p = 1;")
        self.refused("uint8_t *p = (uint8_t *)e; p[4] = 1;")
        self.refused("struct mob_seg_link *l = &e->link; l->next = 1;")

    def test_calls_that_write(self):
        for call in [
            "memcpy(e, from, 8);",
            "memcpy(&e->state, from, 8);",
            "memset(e->list, 0, sizeof e->list);",
            "memmove((char *)e + 8, from, 8);",
            "read(fd, e->list, 16);",
            "memset(store->entries, 0, 8);",
        ]:
            self.refused(call)

    def test_what_is_no_store(self):
        for code in [
            "if (e->state == 1 || e->state != 2 || e->state <= 3 || e->state >= 4) return;",
            "n = e->state; n += e->list[1];",
            "MOB_SEG_STORE(e->state, 1, memory_order_release);",
            "MOB_SEG_COPY(&e->list, from, 16);",
            "memcpy(to, e, sizeof *e);",
            "memcpy(&copy, &e->list, 16);",
            "struct mob_seg_entry copy = *e; copy.state = 1;",
            "e = mob_store_entry_at(store, 1);",
            "const uint32_t *list = e->list; n = list[1];",
            "store->count = 1; store->entries = at;",
            "const struct mob_seg_entry *c = e; x.state = c->state;",
            "/* e->state = 1; */ log(\"e->state = 1;\"); // e->state = 1;",
            "other->state = 1;",
            "e->state = 1; /* private: a copy on this stack */",
        ]:
            self.accepted(code)

    def test_names_belong_to_their_function(self):
        text = function("e = at(1);") + "static void g(struct plain *e)\n{\n    e->state = 1;\n}\n"
        status, output = self.run_on({"runtime/store/a.c": text})
        self.assertEqual(0, status, output)

    def test_the_line_is_named(self):
        self.assertIn("runtime/store/a.c:4:", self.refused("int x;\ne->state = 1;"))


if __name__ == "__main__":
    unittest.main()
