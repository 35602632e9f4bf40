/* A worker in the test's thread, its node played by hand. For the tests in this folder: each has one worker
 * at a time. */
#ifndef MOB_TESTS_UNIT_RUNTIME_WORKER_FIXTURE_H
#define MOB_TESTS_UNIT_RUNTIME_WORKER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/wire/completion.h"
#include "runtime/worker/worker.h"
#include "tests/support/fake_node.h"

/* The module finds the API in this program; nothing else here calls these parts of it. */
__attribute__((used)) static void *const api_parts[] = {(void *)mob_waitset_create, (void *)mob_event,
    (void *)mob_actor_call, (void *)mob_put, (void *)mob_submit, (void *)mob_get_i64, (void *)mob_query};

static struct fake_node node;
static struct mob_worker worker;
static char directory[64];
static struct mob_module_hash hash;
static uint32_t next_index;

static inline void read_module(uint8_t **bytes_out, size_t *size_out)
{
    char path[512];
    const char *modules = getenv("MOBULA_MODULE_DIR");
    snprintf(path, sizeof path, "%s/probe.so", modules == NULL ? "build/release/modules" : modules);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *bytes_out = malloc(8 << 20);
    *size_out = fread(*bytes_out, 1, 8 << 20, file);
    fclose(file);
}

static inline void install_module(void)
{
    uint8_t *bytes;
    size_t size;
    char name[64], path[256];
    read_module(&bytes, &size);
    hash = mob_module_hash(bytes, size);
    mob_base32_encode(hash.b, sizeof hash.b, name);
    snprintf(path, sizeof path, "%s/modules", directory);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/modules/%s.so", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    free(bytes);
}

static inline int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/mob-worker-XXXXXX");
    assert_non_null(mkdtemp(directory));
    install_module();
    fake_node_open(&node, MOB_CLIENT_WORKER, 1u << 18);
    struct mob_session_welcome welcome = {.slot = node.slot, .worker = 4};
    assert_int_equal(mob_worker_init(&worker, directory, &welcome, mob_store_memfd(node.store),
                         mob_store_eventfd(node.store)),
        MOB_OK);
    next_index = 0;
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    char command[128];
    mob_worker_fini(&worker);
    fake_node_close(&node);
    snprintf(command, sizeof command, "rm -rf -- %s", directory);
    return system(command) == 0 ? 0 : -1;
}

static inline struct mob_function_id announce(const char *name)
{
    const char *dot = strrchr(name, '.');
    struct mob_in_function f = {mob_function_id(hash, dot + 1), hash};
    fake_node_give(&node, MOB_IN_FUNCTION, &f, sizeof f, name, strlen(name), NULL, 0);
    return f.function;
}

static inline struct mob_spec_head head_of(const char *name, uint16_t returns)
{
    return (struct mob_spec_head){.version = MOB_SPEC_VERSION,
        .kind = MOB_KIND_TASK,
        .runtime = MOB_RUNTIME_C,
        .num_returns = returns,
        .task = {.stream = {{5}}, .index = next_index++},
        .function = announce(name),
        .attempt = 1};
}

static inline uint32_t tail_of_i64(uint8_t *tail, int64_t v)
{
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, 256);
    mob_tail_add_value(&b, MOB_TYPE_I64, &v, sizeof v);
    return mob_tail_end(&b);
}

static inline void give_spec(const struct mob_in_spec *in, const struct mob_spec_head *head, int64_t argument)
{
    _Alignas(8) uint8_t tail[256];
    uint32_t bytes = tail_of_i64(tail, argument);
    fake_node_give(&node, MOB_IN_SPEC, in, sizeof *in, head, sizeof *head, tail, bytes);
}

static inline void step_all(void)
{
    while (mob_worker_step(&worker)) {
    }
}

static struct mob_completion completion;

/* Of the record in hand, whichever form it has. */
static inline void open_completion(void)
{
    static struct mob_return_word place;
    struct mob_completion_word word = {0};
    assert_int_equal(node.record.type, MOB_OUT_COMPLETION);
    if (node.record.aux != MOB_COMPLETION_SHORT) {
        assert_int_equal(mob_completion_open(node.body, node.bytes, &completion), MOB_OK);
        assert_int_equal(completion.head.worker, 4);
        return;
    }
    assert_int_equal(mob_completion_word_open(node.body, node.bytes, &word), MOB_OK);
    completion = mob_completion_of_word(&word, &place);
}

static inline void take_completion(void)
{
    do
        assert_true(fake_node_take(&node));
    while (node.record.type != MOB_OUT_COMPLETION);
    open_completion();
}

static inline int64_t returned_i64(void)
{
    struct mob_return_view r;
    uint32_t at = 0;
    int64_t v;
    assert_true(mob_completion_next(&completion, &at, &r));
    assert_int_equal(r.type, MOB_TYPE_I64);
    memcpy(&v, r.payload, sizeof v);
    return v;
}

static inline void assert_failed(enum mob_status status, const char *part_of_message)
{
    struct mob_return_view r;
    struct mob_error_link link;
    char message[600];
    uint32_t at = 0;
    take_completion();
    assert_int_equal(completion.head.status, status);
    assert_true(mob_completion_next(&completion, &at, &r));
    assert_int_equal(r.type, MOB_TYPE_ERROR);
    assert_true(mob_error_decode(r.payload, r.size, &link, 1) > 0);
    snprintf(message, sizeof message, "%.*s", (int)link.message_bytes, link.message);
    assert_int_equal(link.status, status);
    if (strstr(message, part_of_message) == NULL)
        assert_string_equal(message, part_of_message);
}

#endif
