/* What a name means when the module that it meant is deleted: the one that was deployed last of those that
 * are left, whatever versions their rows have, which may be of several shards. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/register_module.h"

#define NAME "m.f"
#define HOUR_NS (3600 * MOB_SEC)

struct world {
    struct nx nx;
    struct nx_driver driver;
};

static int clock_is_right(void **state)
{
    (void)state;
    mob_wall_offset_ns = 0;
    return 0;
}

static void open_world(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 0, &w->driver);
}

static void close_world(struct world *w)
{
    nx_close_with(&w->nx, &w->driver);
}

/* The node's next life, which knows what the rows say. */
static void next_life(struct world *w)
{
    nx_settle(&w->nx);
    nx_end(&w->nx);
    nx_disconnect(&w->driver);
    nx_start(&w->nx, 0);
    nx_connect(&w->nx, &w->driver, NULL);
}

static struct mob_module_hash module(char letter)
{
    return (struct mob_module_hash){{(uint8_t)letter}};
}

static void is_deployed(void *arg, enum mob_status status, const char *message)
{
    (void)message;
    assert_int_equal(status, MOB_OK);
    *(bool *)arg = true;
}

/* Modules, a letter each, with one function of one name. */
static void deploy(struct world *w, const char *letters)
{
    for (; *letters; letters++) {
        bool done = false;
        char *text = strdup("module\tm\nfunction\tf\t0\t-> i64\n");
        node_register_module(w->nx.node, module(*letters), text, is_deployed, &done);
        nx_settle(&w->nx);
        assert_true(done);
    }
}

static void undeploy(struct world *w, char letter)
{
    char hash[64];
    struct mob_module_hash m = module(letter);
    mob_base32_encode(m.b, sizeof m.b, hash);
    struct mob_out_request head = {
        .request = 1, .op = MOB_REQ_UNDEPLOY, .payload_bytes = (uint32_t)strlen(hash)};
    nx_publish(w->driver.store, MOB_OUT_REQUEST, &head, sizeof head, hash, head.payload_bytes);
    nx_settle(&w->nx);
}

/* A row as nodes wrote it that had no numbers for deployments: the NUL behind the signature is its end. */
static void deployed_by_an_old_node(char letter)
{
    struct {
        struct function_record record;
        char signature[7];
    } row = {.record = {.version = FUNCTION_RECORD_VERSION,
                 .kind = MOB_KIND_TASK,
                 .id = mob_function_id(module(letter), "f"),
                 .module = module(letter)},
        .signature = "-> i64"};
    char pinned[80] = NAME "@";
    mob_base32_encode(row.record.module.b, sizeof row.record.module.b, pinned + strlen(pinned));
    const uint32_t bytes = offsetof(__typeof__(row), signature) + 6;
    fake_gcs_set(MOB_GCS_FUNCTIONS, NAME, strlen(NAME), &row, bytes);
    fake_gcs_set(MOB_GCS_FUNCTIONS, pinned, (uint32_t)strlen(pinned), &row, bytes);
}

/* As when those that came later lie on a shard with lower positions. */
static void turn_versions_round(void)
{
    for (uint32_t i = 0; i < FAKE.row_count; i++)
        FAKE.rows[i].version = (1u << 20) - FAKE.rows[i].version;
}

/* 0: nothing. */
static char meaning(struct world *w)
{
    const struct node_function *f = node_function_by_name(w->nx.node, NAME);
    return f ? (char)f->module.b[0] : 0;
}

/* What the name means, and what it means when that is deleted, and so on until nothing is left: by the node's
 * table and, to the next life, by the rows. */
static void assert_order(struct world *w, const char *letters)
{
    for (; *letters; letters++) {
        assert_int_equal(meaning(w), *letters);
        next_life(w);
        assert_int_equal(meaning(w), *letters);
        undeploy(w, *letters);
    }
    assert_int_equal(meaning(w), 0);
    next_life(w);
    assert_int_equal(meaning(w), 0);
}

static void the_one_deployed_before_it_is_meant_whatever_versions_rows_have(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        struct world w;
        open_world(&w);
        deploy(&w, "abcd");
        if (turned)
            turn_versions_round();
        assert_order(&w, "dcba");
        close_world(&w);
    }
}

static void one_deployed_again_is_the_newest_again(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    deploy(&w, "abcab");
    turn_versions_round();
    assert_order(&w, "bac");
    close_world(&w);
}

static void a_clock_that_is_set_back_changes_no_order(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    mob_wall_offset_ns = HOUR_NS;
    deploy(&w, "ab");
    mob_wall_offset_ns = 0;
    deploy(&w, "c");
    next_life(&w); /* which knows it by the rows alone */
    deploy(&w, "d");
    turn_versions_round();
    assert_order(&w, "dcba");
    close_world(&w);
}

/* And what a node without numbers deployed is older than what has one. */
static void rows_without_numbers_are_read(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    deployed_by_an_old_node('a');
    deployed_by_an_old_node('b');
    deployed_by_an_old_node('c');
    next_life(&w);
    assert_int_equal(meaning(&w), 'c');
    deploy(&w, "da");
    assert_order(&w, "adcb");
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_deployed_before_it_is_meant_whatever_versions_rows_have),
        cmocka_unit_test(one_deployed_again_is_the_newest_again),
        cmocka_unit_test_teardown(a_clock_that_is_set_back_changes_no_order, clock_is_right),
        cmocka_unit_test(rows_without_numbers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
