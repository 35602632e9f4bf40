/* Digests against known values (FIPS 180-4 examples). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/http/digest.h"

#define ABC_256 "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0"
#define ABC_512 "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw"

static void fields_are_compared(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        enum mob_digest_result result;
    } cases[] = {
        {"sha-256=:" ABC_256 "=:", MOB_DIGEST_RIGHT},
        {"sha-256=:" ABC_256 ":", MOB_DIGEST_RIGHT},
        {" sha-512=:" ABC_512 "==: , sha-256=:" ABC_256 "=:", MOB_DIGEST_RIGHT},
        {"md5=:x:", MOB_DIGEST_NONE},
        {"", MOB_DIGEST_NONE},
        {"SHA-256=:x:", MOB_DIGEST_NONE}, /* keys of a dictionary are lower case */
        {"sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa1=:", MOB_DIGEST_WRONG},
        {"sha-256=::", MOB_DIGEST_WRONG},
        {"sha-512=:" ABC_256 "=:", MOB_DIGEST_WRONG},
        {"sha-256=:" ABC_256 "=:, sha-512=:AAAA:", MOB_DIGEST_WRONG},
        {"sha-256", MOB_DIGEST_MALFORMED},
        {"sha-256=", MOB_DIGEST_MALFORMED},
        {"sha-256=:", MOB_DIGEST_MALFORMED},
        {"sha-256=" ABC_256 "=", MOB_DIGEST_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (mob_digest_check(cases[i].field, "abc", 3) != cases[i].result)
            fail_msg("%s: %d", cases[i].field, mob_digest_check(cases[i].field, "abc", 3));
}

static void what_is_written_is_right(void **state)
{
    (void)state;
    char text[MOB_DIGEST_TEXT_MAX];
    mob_digest_write("abc", 3, text);
    assert_string_equal(text, "sha-256=:" ABC_256 "=:");
    assert_int_equal(mob_digest_check(text, "abc", 3), MOB_DIGEST_RIGHT);
    assert_int_equal(mob_digest_check(text, "abd", 3), MOB_DIGEST_WRONG);
}

static void weights_are_read(void **state)
{
    (void)state;
    assert_true(mob_digest_wanted("sha-256=5"));
    assert_true(mob_digest_wanted("sha-512=3, sha-256=10"));
    assert_false(mob_digest_wanted("sha-256=0"));
    assert_false(mob_digest_wanted("sha-512=3"));
    assert_false(mob_digest_wanted(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_compared),
        cmocka_unit_test(what_is_written_is_right),
        cmocka_unit_test(weights_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
