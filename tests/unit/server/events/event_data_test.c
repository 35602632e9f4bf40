/* An event's data stands inside the JSON of others, and in a stream of lines: whatever a module wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/events/event_hub.h"

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

static json_t *kept_json(const struct mob_event *event)
{
    struct kept *kept = mob_event_keep(event);
    assert_non_null(kept);
    struct mob_text whole = {0};
    size_t length;
    mob_text_puts(&whole, "{\"position\":\"");
    mob_text_puts(&whole, kept->json);
    free(kept);
    char *text = mob_text_take(&whole, &length);
    json_t *json = json_loads(text, 0, NULL);
    if (!json)
        fail_msg("no JSON: %s", text);
    free(text);
    return json;
}

static void what_a_function_sent_says_beside_its_data_which_attempt_did(void **state)
{
    (void)state;
    static const struct {
        struct mob_event event;
        const char *attempt, *incarnation, *position; /* NULL: it is not said */
    } rows[] = {
        {{.attempt = 1}, "1", NULL, NULL}, {{.attempt = 4294967295u}, "4294967295", NULL, NULL},
        {{.attempt = 2, .incarnation = 3, .actor_position = 0}, "2", "3", "0"},
        {{.attempt = 2, .incarnation = 3, .actor_position = 1ull << 40}, "2", "3", "1099511627776"},
        {{.attempt = 0}, NULL, NULL, NULL}, /* an older version logged it, or it is of no task */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mob_event event = rows[i].event;
        event.type = "progress";
        event.data = "{\"attempt\":99,\"n\":1}"; /* the function's own */
        json_t *json = kept_json(&event);
        const char *keys[] = {"attempt", "incarnation", "actor_position"};
        const char *want[] = {rows[i].attempt, rows[i].incarnation, rows[i].position};
        for (size_t k = 0; k < 3; k++) {
            char *said = json_dumps(json_object_get(json, keys[k]), JSON_ENCODE_ANY);
            assert_string_equal(said ? said : "none", want[k] ? want[k] : "none");
            free(said);
        }
        assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "data"), "attempt")), 99);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_json_stays_and_other_text_is_quoted),
        cmocka_unit_test(what_a_function_sent_says_beside_its_data_which_attempt_did),
    };
    return cmocka_run_group_tests_name("server/events/event_data", tests, NULL, NULL);
}
