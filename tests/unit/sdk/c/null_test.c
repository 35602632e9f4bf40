/* NULL for each pointer that a public call takes: MOB_INVALID and its name, or nothing, never a crash. The
 * header is read beside it: a function, or a pointer of one, that is not tried here fails the test. */
#include <mobula/mobula.h>

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sdk/c/call.h"
#include "tests/support/fake_node.h"

static struct fake_node node;
static struct mob_client *client;
static struct mob_call *call;
static struct mob_future *future, *out_future;
static struct mob_actor *actor, *out_actor;
static struct mob_value *value;
static const struct mob_function *function;

/* Pointers that were tried as NULL, or may be NULL, by function. */
static struct tried {
    const char *name;
    int pointers;
} tried[256];
static size_t tried_count;

static void note(const char *name)
{
    size_t i = 0;
    while (i < tried_count && strcmp(tried[i].name, name) != 0)
        i++;
    assert_true(i < sizeof tried / sizeof tried[0]);
    tried[i].name = name;
    tried[i].pointers++;
    tried_count += i == tried_count;
}

static void refused(
    enum mob_status status, const struct mob_client *whose, const char *call_text, const char *what)
{
    char sentence[128];
    snprintf(sentence, sizeof sentence, "%s is NULL", what);
    if (status != MOB_INVALID || strcmp(mob_client_error(whose), sentence) != 0)
        print_error("%s: %s: %s\n", call_text, mob_status_code(status), mob_client_error(whose));
    assert_int_equal(status, MOB_INVALID);
    assert_string_equal(mob_client_error(whose), sentence);
}

/* `whose`: where the sentence stands; NULL when the call could not know a client. */
#define REFUSES(name, what, whose, ...) \
    do { \
        note(#name); \
        refused(name(__VA_ARGS__), (whose), #name, what); \
    } while (0)
/* NULL has a meaning, or is harmless; `expression` calls the function and says what must be. */
#define ALLOWS(name, expression) \
    do { \
        note(#name); \
        assert_true(expression); \
    } while (0)

static void on_ready(struct mob_future *f, void *arg)
{
    (void)f, (void)arg;
}

static void on_answer(void *arg, enum mob_status status, const char *json, size_t size)
{
    (void)arg, (void)status, (void)json, (void)size;
}

static void on_line(void *arg, enum mob_log_level level, const char *line, size_t bytes)
{
    (void)arg, (void)level, (void)line, (void)bytes;
}

static int set_up(void **state)
{
    (void)state;
    static const struct mob_method_entry methods[] = {{.name = "m", .signature = "-> i64"}, {.name = NULL}};
    fake_node_open(&node, MOB_CLIENT_DRIVER, 1u << 20);
    client = fake_node_driver(&node);
    function = fake_function(client, "t.f", "i64 a -> i64");
    actor = fake_actor(client, methods);
    if (mob_promise(client, &future) != MOB_OK)
        return -1;
    value = mob_value_new(client);
    *value = (struct mob_value){
        .client = client, .next = value->next, .previous = value->previous, .type = MOB_TYPE_NULL};
    call = calloc(1, sizeof *call);
    call->client = client;
    call->returns = call->few_returns;
    call->args = call->few_args;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(call);
    mob_value_release(value);
    mob_release(future);
    fake_node_close(&node);
    return 0;
}

/* ---- by the sections of the header ---- */

static void connecting(void **state)
{
    (void)state;
    char text[MOB_TEXT_ID_MAX] = "x";
    struct mob_client *none;
    struct mob_connect_options nowhere = {
        .struct_size = sizeof nowhere, .directory = "/nowhere/at/all", .timeout_ns = 1};
    REFUSES(mob_connect, "client_out", NULL, &nowhere, NULL);
    assert_string_equal(mob_connect_error(), "client_out is NULL");
    setenv("MOBULA_DIR", nowhere.directory, 1);
    nowhere.directory =
        NULL; /* what stands for NULL options is tried with them, but for the time that it takes */
    ALLOWS(mob_connect, mob_connect(&nowhere, &none) == MOB_UNAVAILABLE);
    ALLOWS(mob_disconnect, (mob_disconnect(NULL), true));
    ALLOWS(mob_client_error, mob_client_error(NULL) != NULL);
    ALLOWS(mob_client_job, (mob_client_job(NULL, text), text[0] == 0));
    ALLOWS(mob_client_job, (mob_client_job(client, NULL), true));
    ALLOWS(mob_client_fd, mob_client_fd(NULL) == -1);
    ALLOWS(mob_client_step, mob_client_step(NULL) == 0);
    REFUSES(mob_flush, "client", NULL, NULL, 0);
}

static enum mob_status submit_one(struct mob_arg arg)
{
    return mob_submit_function(client, function, MOB_ARGS(arg), NULL, &out_future);
}

static void arguments(void **state)
{
    (void)state;
    struct mob_args none = {NULL, 1};
    const struct mob_tensor tensor = {.dtype = MOB_F32, .dims = 1, .shape = {3}, .data = NULL};
    ALLOWS(mob_utf8, submit_one(mob_utf8(NULL)) == MOB_INVALID);
    ALLOWS(mob_utf8_of, submit_one(mob_utf8_of(NULL, 4)) == MOB_INVALID);
    ALLOWS(mob_json, submit_one(mob_json(NULL)) == MOB_INVALID);
    ALLOWS(mob_bytes, submit_one(mob_bytes(NULL, 4)) == MOB_INVALID);
    ALLOWS(mob_tensor_f32, submit_one(mob_tensor_f32(NULL, 2, 2)) == MOB_INVALID);
    assert_int_equal(submit_one(mob_tensor(tensor)), MOB_INVALID);
    ALLOWS(mob_ref, submit_one(mob_ref(NULL)) == MOB_INVALID);
    ALLOWS(mob_actor_handle, submit_one(mob_actor_handle(NULL)) == MOB_INVALID);
    refused(mob_submit_function(client, function, none, NULL, &out_future), client, "items", "args.items");
    refused(mob_actor_call(actor, "m", none, NULL, &out_future), client, "items", "args.items");
}

static void tasks(void **state)
{
    (void)state;
    struct mob_args one = MOB_ARGS(mob_i64(1));
    const struct mob_function *found;
    REFUSES(mob_submit, "client", NULL, NULL, "t.f", one, NULL, &out_future);
    REFUSES(mob_submit, "the function's name", client, client, NULL, one, NULL, &out_future);
    REFUSES(mob_submit_function, "client", NULL, NULL, function, one, NULL, &out_future);
    REFUSES(mob_submit_function, "function", client, client, NULL, one, NULL, &out_future);
    REFUSES(mob_submit_function, "futures_out", client, client, function, one, NULL, NULL);
    ALLOWS(mob_submit_function, mob_submit_function(client, function, one, NULL, &out_future) == MOB_OK);
    mob_release(out_future);
    note("mob_submit"); /* options and futures_out are mob_submit_function's */
    note("mob_submit");
    struct mob_submit_options options = {.struct_size = sizeof options, .resource_count = 1};
    refused(
        mob_submit_function(client, function, one, &options, &out_future), client, "resources", "resources");
    options = (struct mob_submit_options){.struct_size = sizeof options, .label_count = 1};
    refused(mob_submit_function(client, function, one, &options, &out_future), client, "labels", "labels");
    REFUSES(mob_function_find, "client", NULL, NULL, "t.f", &found);
    REFUSES(mob_function_find, "the function's name", client, client, NULL, &found);
    REFUSES(mob_function_find, "function_out", client, client, "t.f", NULL);
    ALLOWS(mob_function_signature, mob_function_signature(NULL)[0] == 0);
    REFUSES(mob_cancel, "future", NULL, NULL, false);
}

static void futures(void **state)
{
    (void)state;
    char text[MOB_TEXT_ID_MAX] = "x";
    struct mob_value *got;
    struct mob_waitset *set;
    int64_t i;
    double d;
    bool ready[2];
    size_t count;
    struct mob_future *two[2] = {future, NULL};
    REFUSES(mob_get, "future", NULL, NULL, 0, &got);
    REFUSES(mob_get, "value_out", client, future, 0, NULL);
    REFUSES(mob_get_i64, "future", NULL, NULL, 0, &i);
    REFUSES(mob_get_i64, "value_out", client, future, 0, NULL);
    REFUSES(mob_get_f64, "future", NULL, NULL, 0, &d);
    REFUSES(mob_get_f64, "value_out", client, future, 0, NULL);
    ALLOWS(mob_future_error, strcmp(mob_future_error(NULL), "{}") == 0);
    ALLOWS(mob_ready, !mob_ready(NULL));
    REFUSES(mob_wait, "futures", NULL, NULL, 1, 1, 0, ready, &count);
    REFUSES(mob_wait, "ready_out", client, two, 1, 1, 0, NULL, &count);
    REFUSES(mob_wait, "count_out", client, two, 1, 1, 0, ready, NULL);
    refused(mob_wait(two, 2, 1, 0, ready, &count), client, "mob_wait", "one of the futures");
    refused(mob_wait(two + 1, 1, 1, 0, ready, &count), NULL, "mob_wait", "one of the futures");
    REFUSES(mob_waitset_create, "client", NULL, NULL, &set);
    REFUSES(mob_waitset_create, "set_out", client, client, NULL);
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    REFUSES(mob_waitset_add, "set", NULL, NULL, future);
    REFUSES(mob_waitset_add, "future", client, set, NULL);
    REFUSES(mob_waitset_next, "set", NULL, NULL, 0, &out_future);
    REFUSES(mob_waitset_next, "ready_out", client, set, 0, NULL);
    mob_waitset_destroy(set);
    ALLOWS(mob_waitset_destroy, (mob_waitset_destroy(NULL), true));
    REFUSES(mob_on_ready, "future", NULL, NULL, on_ready, NULL);
    REFUSES(mob_on_ready, "callback", client, future, NULL, NULL);
    note("mob_on_ready"); /* arg is the callback's */
    ALLOWS(mob_release, (mob_release(NULL), true));
    ALLOWS(mob_future_id, (mob_future_id(NULL, text), text[0] == 0));
    ALLOWS(mob_future_id, (mob_future_id(future, NULL), true));
    text[0] = 'x';
    ALLOWS(mob_future_task_id, (mob_future_task_id(NULL, text), text[0] == 0));
    ALLOWS(mob_future_task_id, (mob_future_task_id(future, NULL), true));
    REFUSES(mob_future_from_id, "client", NULL, NULL, "obj_x", &out_future);
    REFUSES(mob_future_from_id, "object_id", client, client, NULL, &out_future);
    REFUSES(mob_future_from_id, "future_out", client, client, "obj_x", NULL);
    REFUSES(mob_stream_next, "stream", NULL, NULL, 0, &out_future);
    REFUSES(mob_stream_next, "item_out", client, future, 0, NULL);
}

static void puts_and_values(void **state)
{
    (void)state;
    struct mob_put_buffer *buffer;
    struct mob_tensor tensor;
    const void *data;
    void *bytes;
    int64_t i;
    double d;
    bool b;
    size_t size;
    REFUSES(mob_put, "client", NULL, NULL, mob_i64(1), &out_future);
    REFUSES(mob_put, "future_out", client, client, mob_i64(1), NULL);
    REFUSES(mob_promise, "client", NULL, NULL, &out_future);
    REFUSES(mob_promise, "future_out", client, client, NULL);
    REFUSES(mob_fulfil, "future", NULL, NULL, mob_i64(1));
    REFUSES(mob_put_begin, "client", NULL, NULL, 10, &bytes, &buffer);
    REFUSES(mob_put_begin, "data_out", client, client, 10, NULL, &buffer);
    REFUSES(mob_put_begin, "buffer_out", client, client, 10, &bytes, NULL);
    assert_int_equal(mob_put_begin(client, 10, &bytes, &buffer), MOB_OK);
    REFUSES(mob_put_finish, "buffer", NULL, NULL, &out_future);
    REFUSES(mob_put_finish, "future_out", client, buffer, NULL);
    mob_put_abort(buffer);
    ALLOWS(mob_put_abort, (mob_put_abort(NULL), true));
    ALLOWS(mob_value_type, strcmp(mob_value_type(NULL), "none") == 0);
    REFUSES(mob_value_i64, "value", NULL, NULL, &i);
    REFUSES(mob_value_i64, "out", client, value, NULL);
    REFUSES(mob_value_f64, "value", NULL, NULL, &d);
    REFUSES(mob_value_f64, "out", client, value, NULL);
    REFUSES(mob_value_bool, "value", NULL, NULL, &b);
    REFUSES(mob_value_bool, "out", client, value, NULL);
    REFUSES(mob_value_data, "value", NULL, NULL, &data, &size);
    REFUSES(mob_value_data, "data_out", client, value, NULL, &size);
    REFUSES(mob_value_data, "size_out", client, value, &data, NULL);
    REFUSES(mob_value_tensor, "value", NULL, NULL, &tensor);
    REFUSES(mob_value_tensor, "out", client, value, NULL);
    REFUSES(mob_value_actor, "client", NULL, NULL, value, &out_actor);
    REFUSES(mob_value_actor, "value", client, client, NULL, &out_actor);
    REFUSES(mob_value_actor, "actor_out", client, client, value, NULL);
    ALLOWS(mob_value_release, (mob_value_release(NULL), true));
}

static void actors(void **state)
{
    (void)state;
    char text[MOB_TEXT_ID_MAX] = "x";
    REFUSES(mob_actor_create, "client", NULL, NULL, "t.Class", MOB_NO_ARGS, NULL, &out_actor);
    REFUSES(mob_actor_create, "the function's name", client, client, NULL, MOB_NO_ARGS, NULL, &out_actor);
    REFUSES(mob_actor_create, "actor_out", client, client, "t.Class", MOB_NO_ARGS, NULL, NULL);
    ALLOWS(mob_actor_create, mob_actor_create(client, "t.Class", MOB_NO_ARGS, NULL, &out_actor) == MOB_OK);
    mob_actor_release(out_actor);
    REFUSES(mob_actor_call, "actor", NULL, NULL, "m", MOB_NO_ARGS, NULL, &out_future);
    REFUSES(mob_actor_call, "method", client, actor, NULL, MOB_NO_ARGS, NULL, &out_future);
    REFUSES(mob_actor_call, "futures_out", client, actor, "m", MOB_NO_ARGS, NULL, NULL);
    ALLOWS(mob_actor_call, mob_actor_call(actor, "m", MOB_NO_ARGS, NULL, &out_future) == MOB_OK);
    mob_release(out_future);
    REFUSES(mob_actor_find, "client", NULL, NULL, "n", &out_actor);
    REFUSES(mob_actor_find, "name", client, client, NULL, &out_actor);
    REFUSES(mob_actor_find, "actor_out", client, client, "n", NULL);
    REFUSES(mob_actor_from_id, "client", NULL, NULL, "actor_x", &out_actor);
    REFUSES(mob_actor_from_id, "actor_id", client, client, NULL, &out_actor);
    REFUSES(mob_actor_from_id, "actor_out", client, client, "actor_x", NULL);
    REFUSES(mob_actor_kill, "actor", NULL, NULL, false);
    ALLOWS(mob_actor_id, (mob_actor_id(NULL, text), text[0] == 0));
    ALLOWS(mob_actor_id, (mob_actor_id(actor, NULL), true));
    REFUSES(mob_actor_created, "actor", NULL, NULL, &out_future);
    REFUSES(mob_actor_created, "future_out", client, actor, NULL);
    ALLOWS(mob_actor_release, (mob_actor_release(NULL), true));
}

static void arguments_of_a_call(void **state)
{
    (void)state;
    size_t size = 9;
    ALLOWS(mob_call_client, mob_call_client(NULL) == NULL);
    ALLOWS(mob_arg_count, mob_arg_count(NULL) == 0);
    ALLOWS(mob_arg_i64, mob_arg_i64(NULL, 0) == 0);
    ALLOWS(mob_arg_f64, mob_arg_f64(NULL, 0) == 0);
    ALLOWS(mob_arg_bool, !mob_arg_bool(NULL, 0));
    ALLOWS(mob_arg_is_null, mob_arg_is_null(NULL, 0));
    ALLOWS(mob_arg_type, mob_arg_type(NULL, 0)[0] == 0);
    ALLOWS(mob_arg_utf8, mob_arg_utf8(NULL, 0, &size) == NULL && size == 0);
    ALLOWS(mob_arg_utf8, mob_arg_utf8(call, 0, NULL) == NULL);
    ALLOWS(mob_arg_bytes, mob_arg_bytes(NULL, 0, &size) == NULL && size == 0);
    ALLOWS(mob_arg_bytes, mob_arg_bytes(call, 0, NULL) == NULL);
    ALLOWS(mob_arg_tensor, mob_arg_tensor(NULL, 0).data == NULL);
    ALLOWS(mob_arg_actor, mob_arg_actor(NULL, 0) == NULL);
}

static void returns_of_a_call(void **state)
{
    (void)state;
    const char *no_format = NULL;
    REFUSES(mob_return_i64, "call", NULL, NULL, 1);
    REFUSES(mob_return_f64, "call", NULL, NULL, 1);
    REFUSES(mob_return, "call", NULL, NULL, mob_null());
    REFUSES(mob_return_at, "call", NULL, NULL, 0, mob_null());
    ALLOWS(mob_return_buffer, mob_return_buffer(NULL, 0, 8) == NULL);
    REFUSES(mob_return_future, "call", NULL, NULL, future);
    call->failure = MOB_OK;
    ALLOWS(mob_return_future, mob_return_future(call, NULL) == MOB_INVALID && call->failure == MOB_INVALID);
    REFUSES(mob_yield, "call", NULL, NULL, mob_null());
    REFUSES(mob_fail, "call", NULL, NULL, "words");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    REFUSES(mob_fail, "format", client, call, no_format);
    ALLOWS(mob_log, (mob_log(call, MOB_LOG_LEVEL_ERROR, no_format), true));
    note("mob_log"); /* call NULL is a driver's line */
#pragma GCC diagnostic pop
    mob_set_log_handler(on_line, NULL);
    ALLOWS(mob_set_log_handler, (mob_set_log_handler(NULL, NULL), true));
    note("mob_set_log_handler"); /* arg is the handler's */
}

static void about_a_call(void **state)
{
    (void)state;
    char text[MOB_TEXT_ID_MAX] = "x";
    ALLOWS(mob_call_task_id, (mob_call_task_id(NULL, text), text[0] == 0));
    ALLOWS(mob_call_task_id, (mob_call_task_id(call, NULL), true));
    ALLOWS(mob_call_attempt, mob_call_attempt(NULL) == 0);
    ALLOWS(mob_call_deadline_ns, mob_call_deadline_ns(NULL) == 0);
    ALLOWS(mob_call_cancelled, !mob_call_cancelled(NULL));
    ALLOWS(mob_call_self, mob_call_self(NULL) == NULL);
    ALLOWS(mob_call_set_self, (mob_call_set_self(NULL, text), true));
    note("mob_call_set_self"); /* an instance may be NULL */
    ALLOWS(mob_clock_ns, mob_clock_ns(NULL) > 0);
    ALLOWS(mob_random, mob_random(NULL) == 0);
    REFUSES(mob_event, "call", NULL, NULL, "t", "{}");
    REFUSES(mob_event, "type", client, call, NULL, "{}");
    ALLOWS(mob_event, mob_event(call, "t", NULL) == MOB_OK);
    REFUSES(mob_progress, "call", NULL, NULL, 0.5, "m");
    ALLOWS(mob_progress, mob_progress(call, 0.5, NULL) == MOB_OK);
    ALLOWS(mob_span_begin, mob_span_begin(NULL) > 0);
    REFUSES(mob_span_end, "call", NULL, NULL, 1, "s");
    REFUSES(mob_span_end, "name", client, call, 1, NULL);
}

static void modules_and_questions(void **state)
{
    (void)state;
    char *json, hash[65];
    REFUSES(mob_deploy, "client", NULL, NULL, "x.so", hash);
    REFUSES(mob_deploy, "path", client, client, NULL, hash);
    ALLOWS(mob_deploy, mob_deploy(client, "/nowhere.so", NULL) == MOB_NOT_FOUND);
    REFUSES(mob_deploy_bytes, "client", NULL, NULL, "x", 1, hash);
    REFUSES(mob_deploy_bytes, "bytes", client, client, NULL, 1, hash);
    ALLOWS(mob_deploy_bytes, mob_deploy_bytes(client, "x", 0, NULL) == MOB_INVALID);
    REFUSES(mob_query, "client", NULL, NULL, "stats", NULL, 0, &json);
    REFUSES(mob_query, "what", client, client, NULL, NULL, 0, &json);
    REFUSES(mob_query, "json_out", client, client, "stats", NULL, 0, NULL);
    ALLOWS(mob_query, mob_query(client, "nonsense", NULL, 0, &json) == MOB_NOT_FOUND);
    REFUSES(mob_query_async, "client", NULL, NULL, "stats", NULL, on_answer, NULL);
    REFUSES(mob_query_async, "what", client, client, NULL, NULL, on_answer, NULL);
    REFUSES(mob_query_async, "callback", client, client, "stats", NULL, NULL, NULL);
    ALLOWS(mob_query_async, mob_query_async(client, "nonsense", NULL, on_answer, NULL) == MOB_NOT_FOUND);
    note("mob_query_async"); /* arg is the callback's */
}

/* ---- the header beside it ---- */

static char *header_without_comments(void)
{
    char path[512];
    const char *root = getenv("MOBULA_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/sdk/c/include/mobula/mobula.h", root == NULL ? "." : root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static char text[1 << 17];
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = 0;
    for (char *at = strstr(text, "/*"); at != NULL; at = strstr(at, "/*")) {
        const char *end = strstr(at, "*/");
        assert_non_null(end);
        memset(at, ' ', (size_t)(end + 2 - at));
    }
    return text;
}

/* Parameters between these brackets that are pointers or arrays. */
static int pointers_of(const char *open)
{
    int depth = 0, pointers = 0;
    bool pointer = false;
    for (const char *c = open; *c != 0; c++) {
        depth += (*c == '(') - (*c == ')');
        pointer |= *c == '*' || *c == '[';
        if ((*c == ',' && depth == 1) || depth == 0) {
            pointers += pointer;
            pointer = false;
        }
        if (depth == 0)
            break;
    }
    return pointers;
}

static void every_pointer_of_the_header_was_tried(void **state)
{
    (void)state;
    int functions = 0;
    for (char *at = strstr(header_without_comments(), "\nMOB_API "); at != NULL;
         at = strstr(at + 1, "\nMOB_API ")) {
        char *open = strchr(at, '('), name[64] = "";
        assert_non_null(open);
        char *begin = open;
        while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')
            begin--;
        assert_in_range(open - begin, 1, sizeof name - 1);
        memcpy(name, begin, (size_t)(open - begin));
        int pointers = pointers_of(open), found = 0;
        for (size_t i = 0; i < tried_count; i++)
            if (strcmp(tried[i].name, name) == 0)
                found = tried[i].pointers;
        if (found != pointers)
            print_error("%s has %d pointers, of which %d were tried\n", name, pointers, found);
        assert_int_equal(found, pointers);
        functions++;
    }
    assert_true(functions > 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connecting),
        cmocka_unit_test(arguments),
        cmocka_unit_test(tasks),
        cmocka_unit_test(futures),
        cmocka_unit_test(puts_and_values),
        cmocka_unit_test(actors),
        cmocka_unit_test(arguments_of_a_call),
        cmocka_unit_test(returns_of_a_call),
        cmocka_unit_test(about_a_call),
        cmocka_unit_test(modules_and_questions),
        cmocka_unit_test(every_pointer_of_the_header_was_tried),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
