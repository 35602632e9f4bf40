/* An event's data stands inside the JSON of others, and in a stream of lines: whatever a module wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/events/events.h"

static void what_is_json_stays_and_other_text_is_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *given, *written;
    } rows[] = {
        {"{\"n\":1}", "{\"n\":1}"},
        {"[1, null]", "[1, null]"},
        {"{\n\"n\":\r\n1}", "{ \"n\":  1}"}, /* one line: a stream's frame ends with it */
        {"{bad", "{\"text\":\"{bad\"}"},
        {"", "{\"text\":\"\"}"},
        {"{}}", "{\"text\":\"{}}\"}"},
        {"1}],\"events\":[", "{\"text\":\"1}],\\\"events\\\":[\"}"},
        {"a\nid: 7\n\n", "{\"text\":\"a\\nid: 7\\n\\n\"}"},
        {"\"\xff\"", "{\"text\":\"\\\"\xef\xbf\xbd\\\"\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mob_text t = {0};
        size_t length;
        mob_event_data_write(&t, rows[i].given);
        char *text = mob_text_take(&t, &length);
        assert_string_equal(text, rows[i].written);
        json_t *read = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_non_null(read);
        json_decref(read);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_json_stays_and_other_text_is_quoted),
    };
    return cmocka_run_group_tests_name("server/events/event_data", tests, NULL, NULL);
}
