/* Modules that were built for each version of the ABI: tests/golden/module holds the files as a compiler made
 * them, and they stay loadable for ever; one for an ABI that this worker does not know is refused.
 *
 * What is in them: MOB_MODULE("golden", function "seven", class "Thing" with the methods "add" and "look");
 * each main returns 7 or 0 and calls nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/worker/module_cache.h"
#include "tests/support/golden_file.h"

enum { REASON_BYTES = 256 };

static struct golden_text file;

/* The file's bytes, as they are now, under a name of their own: the loader knows files by name. */
static enum mob_status open_bytes(const struct mob_module **module_out, char reason[REASON_BYTES])
{
    char path[] = "/tmp/mob-module-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file.bytes, file.used), file.used);
    close(fd);
    *module_out = NULL;
    enum mob_status status = mob_module_open(path, NULL, module_out, reason);
    unlink(path);
    return status;
}

/* `struct mob_module` in the file: the ABI, its size, and pointers that the loader fills in. */
static uint8_t *module_in_file(void)
{
    static const uint32_t head[2] = {1, sizeof(struct mob_module)};
    uint8_t *found = memmem(file.bytes, file.used, head, sizeof head);
    assert_non_null(found);
    return found;
}

static void a_module_of_abi_1_says_what_it_said(void **state)
{
    (void)state;
    char reason[REASON_BYTES] = "";
    const struct mob_module *module;
    golden_read("module/module_v1_x86_64.so", &file);
    enum mob_status status = open_bytes(&module, reason);
#if !defined(__x86_64__)
    assert_int_equal(status, MOB_ABI_MISMATCH);
    assert_non_null(strstr(reason, "ELF machine 62"));
    return;
#else
    if (status != MOB_OK)
        fail_msg("%s: %s", mob_status_code(status), reason);
    assert_int_equal(module->abi, 1);
    assert_string_equal(module->name, "golden");
    const struct mob_function_entry *seven = &module->functions[0], *thing = &module->functions[1];
    assert_string_equal(seven->name, "seven");
    assert_string_equal(seven->signature, "i64 a, utf8? b -> i64");
    assert_int_equal(seven->main(NULL), 7);
    assert_null(seven->methods);
    assert_string_equal(thing->name, "Thing");
    assert_int_equal(thing->flags, MOB_FUNCTION_DETERMINISTIC);
    assert_int_equal(thing->checkpoint(NULL), MOB_OK);
    assert_int_equal(thing->restore(NULL), 7);
    assert_non_null(thing->destroy);
    assert_string_equal(thing->methods[0].name, "add");
    assert_string_equal(thing->methods[1].name, "look");
    assert_int_equal(thing->methods[1].flags, MOB_METHOD_READ_ONLY);
    assert_null(thing->methods[2].name);
    assert_null(module->functions[2].name);
#endif
}

static void a_module_of_an_unknown_abi_is_refused(void **state)
{
    (void)state;
#if defined(__x86_64__)
    char reason[REASON_BYTES] = "", words[64];
    const struct mob_module *module;
    uint32_t newer = MOB_ABI + 1;
    golden_read("module/module_v1_x86_64.so", &file);
    memcpy(module_in_file(), &newer, sizeof newer);
    assert_int_equal(open_bytes(&module, reason), MOB_ABI_MISMATCH);
    assert_null(module);
    snprintf(words, sizeof words, "built for ABI %d, this worker has ABI %d", MOB_ABI + 1, MOB_ABI);
    assert_non_null(strstr(reason, words));
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_of_abi_1_says_what_it_said),
        cmocka_unit_test(a_module_of_an_unknown_abi_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
