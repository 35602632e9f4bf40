"""docs/c-api.md names every function that the public header declares, and none that it does not."""
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def without_comments(header):
    return re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)


def functions(header):
    """Names of what MOB_API declares as functions: the first name before an opening bracket."""
    declared = re.findall(r"^MOB_API\b([^;]*);", without_comments(header), flags=re.MULTILINE)
    return {match.group(1) for match in (re.search(r"\b(mob_\w+)\s*\(", text) for text in declared) if match}


def words(text):
    return set(re.findall(r"\bmob_[a-z0-9_]*[a-z0-9]\b(?![_*])", text))


def missing(header, page):
    return sorted(functions(header) - words(page))


def unknown(header, page):
    return sorted(words(page) - set(re.findall(r"\bmob_\w+", header)))


class CApiPage(unittest.TestCase):
    def test_reading_of_headers(self):
        header = """MOB_API int mob_one(int a);
        /* mob_no(void) */
MOB_API MOB_MUST_USE enum mob_status mob_two(
    struct mob_client *client, void (*callback)(void *arg), void *arg);
extern MOB_API const struct mob_module mob_module_v1;
static int mob_inner(void);
"""
        self.assertEqual(functions(header), {"mob_one", "mob_two"})
        self.assertEqual(missing(header, "`mob_two`, `mob_ones`, `mob_one_*`"), ["mob_one"])
        self.assertEqual(unknown(header, "`mob_two`, `mob_three`, `mob_four_*`, mob_client"), ["mob_three"])

    def test_the_page_has_every_function_and_no_other(self):
        header = read("sdk", "c", "include", "mobula", "mobula.h")
        page = read("docs", "c-api.md")
        self.assertGreater(len(functions(header)), 90)
        self.assertEqual(missing(header, page), [])
        self.assertEqual(unknown(header, page), [])


if __name__ == "__main__":
    unittest.main()
