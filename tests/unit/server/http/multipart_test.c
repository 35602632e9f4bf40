/* Parts of a body, and bodies that are not whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/multipart.h"

#define TYPE "multipart/form-data; charset=x; boundary=\"b\""

static void parts_come_in_order_with_their_bytes(void **state)
{
    (void)state;
    static const char body[] = "a preamble\r\n--b\r\nContent-Disposition: form-data; name=\"one\"\r\n"
                               "content-type:application/json\r\n\r\n{}\r\n--b \r\n\r\n\r\n--c\r\n\r\n--b\r\n"
                               "X: y\r\n\r\n\r\n--b\r\n\r\n\r\n--b--\r\nan epilogue";
    static const struct {
        const char *name, *media, *bytes;
    } wanted[] = {{"one", "application/json", "{}"}, {"", "text/plain", "\r\n--c\r\n"},
        {"", "text/plain", ""}, {"", "text/plain", ""}};
    struct mob_multipart parts;
    struct mob_part part;
    assert_int_equal(mob_multipart_open(&parts, TYPE, body, sizeof body - 1), MOB_OK);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal(mob_multipart_next(&parts, &part), MOB_OK);
        assert_string_equal(part.name, wanted[i].name);
        assert_string_equal(part.media_type, wanted[i].media);
        assert_int_equal(part.length, strlen(wanted[i].bytes));
        assert_memory_equal(part.bytes, wanted[i].bytes, part.length);
    }
    assert_int_equal(mob_multipart_next(&parts, &part), MOB_NOT_FOUND);
    assert_int_equal(mob_multipart_next(&parts, &part), MOB_NOT_FOUND);
}

static void what_is_not_whole_is_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "--b", "--b\r\n", "--b\r\nX: y\r\n", "--b\r\n\r\nbytes",
        "--b\r\n\r\nbytes\r\n--", "--bx\r\n\r\nbytes\r\n--b--", "--b\r\n\r\nbytes\r\n--b",
        "-b\r\n\r\n\r\n-b--"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct mob_multipart parts;
        struct mob_part part;
        enum mob_status status = mob_multipart_open(&parts, TYPE, bodies[i], strlen(bodies[i]));
        for (int n = 0; status == MOB_OK && n < 10; n++)
            status = mob_multipart_next(&parts, &part);
        if (status != MOB_INVALID)
            fail_msg("%s: %d", bodies[i], status);
    }
}

static void a_boundary_is_needed(void **state)
{
    (void)state;
    static const char *const types[] = {"multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"x",
        "multipart/form-data; xboundary=b",
        "multipart/form-data; "
        "boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct mob_multipart parts;
        if (mob_multipart_open(&parts, types[i], "--b\r\n\r\n\r\n--b--", 15) != MOB_INVALID)
            fail_msg("%s", types[i]);
    }
    struct mob_multipart parts;
    assert_int_equal(
        mob_multipart_open(&parts, "multipart/mixed;BOUNDARY=b ;x=y", "--b\r\n\r\n\r\n--b--", 15), MOB_OK);
}

static void names_are_read_as_clients_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *disposition, *name;
    } cases[] = {
        {"form-data; name=\"a\\\"b\"", "a\"b"},
        {"form-data; name=\"a\\\\\"", "a\\"},
        {"form-data; name=\"a\\\\\\\"\"; filename=x", "a\\\""},
        {"form-data; name=\"C:\\dir\\f\"", "C:\\dir\\f"},
        {"form-data; filename=\"a\\\"; name=b\"; name=\"c\"", "c"},
        {"form-data; filename=\"x; name=b\"; name=c", "c"},
        {"form-data; filename=x; NAME=c", "c"},
        {"form-data; name=\"a;b=c d\"", "a;b=c d"},
        {"form-data; xname=b;name=c;", "c"},
        {"form-data;name = b;name=c", "c"},
        {"form-data; name=b; name=c", "b"},
        {"form-data; name=\"\"", ""},
        {"form-data; name=\"b", ""},
        {"form-data; name=\"b\\\"", ""},
        {"form-data; name=", ""},
        {"form-data; name", ""},
        {"form-data; =b", ""},
        {"name=b", ""},
        {";", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        struct mob_multipart parts;
        struct mob_part part;
        snprintf(body, sizeof body, "--b\r\nContent-Disposition:%s\r\n\r\nx\r\n--b--", cases[i].disposition);
        assert_int_equal(mob_multipart_open(&parts, TYPE, body, strlen(body)), MOB_OK);
        assert_int_equal(mob_multipart_next(&parts, &part), MOB_OK);
        if (strcmp(part.name, cases[i].name) != 0)
            fail_msg("%s: \"%s\"", cases[i].disposition, part.name);
    }
}

static void a_name_has_room_for_127_bytes(void **state)
{
    (void)state;
    for (int length = MOB_MULTIPART_TEXT_MAX - 1; length <= MOB_MULTIPART_TEXT_MAX + 1; length++) {
        char body[512];
        struct mob_multipart parts;
        struct mob_part part;
        snprintf(body, sizeof body, "--b\r\nContent-Disposition: form-data; name=\"%0*d\"\r\n\r\nx\r\n--b--",
            length, 0);
        assert_int_equal(mob_multipart_open(&parts, TYPE, body, strlen(body)), MOB_OK);
        assert_int_equal(mob_multipart_next(&parts, &part), MOB_OK);
        assert_int_equal(strlen(part.name), length < MOB_MULTIPART_TEXT_MAX ? length : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_in_order_with_their_bytes),
        cmocka_unit_test(what_is_not_whole_is_refused),
        cmocka_unit_test(a_boundary_is_needed),
        cmocka_unit_test(names_are_read_as_clients_write_them),
        cmocka_unit_test(a_name_has_room_for_127_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
