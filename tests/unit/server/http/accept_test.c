/* Which entry of Accept and Accept-Encoding decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/http/accept.h"

static void the_nearest_entry_decides(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        bool json;
    } cases[] = {
        {NULL, true},
        {"", true},
        {" , ", true},
        {"*/*", true},
        {"*", true},
        {"application/json", true},
        {"APPLICATION/JSON; charset=utf-8", true},
        {"application/*;q=0.1", true},
        {"text/html, application/json;q=0.001", true},
        {"text/html", false},
        {"application/jsonx", false},
        {"application/jso", false},
        {"applicatio/*", false},
        {"application/json;q=0", false},
        {"application/json;q=0.000, */*", false},
        {"*/*;q=0, application/json", true},
        {"application/*;q=0, */*", false},
        {"text/*;q=1, image/*", false},
        {"application/json;q=0.5;q=0", true}, /* the first weight counts */
        {"application/json;version=0", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (mob_http_accepts(cases[i].accept, "application/json") != cases[i].json)
            fail_msg("%s", cases[i].accept);
}

static void gzip_must_be_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool gzip;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"identity", false},
        {"gzip", true},
        {"br, gzip;q=0.5", true},
        {"x-gzip", true},
        {"*", true},
        {"gzip;q=0", false},
        {"*, gzip;q=0.0", false},
        {"gzip;q=0.0, *", false},
        {"*;q=0", false},
        {"gzipped", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (mob_http_accepts_gzip(cases[i].list) != cases[i].gzip)
            fail_msg("%s", cases[i].list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_entry_decides),
        cmocka_unit_test(gzip_must_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
