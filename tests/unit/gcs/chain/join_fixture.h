/* A tail that serves alone and a joiner, of which one is a machine and the other is played by the test. */
#ifndef MOB_TESTS_UNIT_GCS_CHAIN_JOIN_FIXTURE_H
#define MOB_TESTS_UNIT_GCS_CHAIN_JOIN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "gcs/chain/chain.h"

#define TAIL ((1ull << 40) | 1)
#define JOINER ((2ull << 40) | 1)

struct fixture {
    struct mob_state *tables;
    struct mob_chain *chain;
    int64_t now_ns;
    struct mob_gcs_link_msg asked; /* the last JOIN */
    int wipes, asks; /* JOINs */
    int given, logged; /* SNAPSHOTs and LOGs */
    int rows; /* ROWS */
    int forwarded, sent_away; /* UPDs and LEAVEs */
};

static inline void drain(struct fixture *f)
{
    struct mob_chain_action a;
    while (mob_chain_next(f->chain, &a)) {
        f->wipes += a.type == MOB_CHAIN_WIPE;
        if (a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_JOIN) {
            f->asked = *a.message;
            f->asks++;
        }
        f->given += a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_SNAPSHOT;
        f->rows += a.type == MOB_CHAIN_ROWS;
        f->forwarded += a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_UPD;
        f->sent_away += a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_LEAVE;
        f->logged += a.type == MOB_CHAIN_SEND && a.message->type == MOB_GCS_LOG;
    }
}

static inline void tick(struct fixture *f)
{
    f->now_ns += MOB_CHAIN_RESEND_NS;
    mob_chain_on_tick(f->chain, f->now_ns);
    drain(f);
}

static inline void fixture_init(struct fixture *f, int64_t stall_ns)
{
    *f = (struct fixture){.tables = mob_state_create(), .now_ns = 1000};
    f->chain = mob_chain_create(
        &(struct mob_chain_options){.self = JOINER, .state = f->tables, .stall_ns = stall_ns});
}

static inline void fixture_fini(struct fixture *f)
{
    mob_chain_destroy(f->chain);
    mob_state_destroy(f->tables);
}

/* The tail serves alone. */
static inline void fixture_config(struct fixture *f)
{
    mob_chain_on_config(
        f->chain, &(struct mob_gcs_config){.epoch = 1, .term = 1, .count = 1, .members = {TAIL}});
}

#define WRITER (MOB_GCS_CLIENT_BIT | 1)

static inline void write_entries(struct fixture *f, uint64_t count)
{
    uint64_t last = mob_chain_applied(f->chain);
    for (uint64_t i = 0; i < count; i++) {
        struct mob_chain_put put = {.epoch = 1,
            .client = WRITER,
            .request = {.request = last + i + 1,
                .op = MOB_GCS_OP_DELETE,
                .table = MOB_GCS_KV,
                .key_length = 1},
            .body = (const uint8_t *)"k",
            .body_bytes = 1};
        assert_int_equal(mob_chain_on_put(f->chain, &put), MOB_OK);
        drain(f);
        mob_chain_on_stored(f->chain, mob_chain_applied(f->chain));
        drain(f);
    }
}

static inline void joiner_sends(struct fixture *f, struct mob_gcs_link_msg m)
{
    m.epoch = 1;
    m.from = JOINER;
    m.link.to = TAIL;
    m.link.token = 1;
    assert_int_equal(mob_chain_on_message(f->chain, &m, NULL), MOB_FINISHED);
    drain(f);
}

static inline void joiner_says(struct fixture *f, uint8_t type, const struct mob_gcs_link *link)
{
    joiner_sends(f, (struct mob_gcs_link_msg){.type = type, .link = *link});
}

/* For the tables' rows: one batch, as often as it is asked for under another number. */
static inline void asks_for_batch(struct fixture *f, uint64_t batch)
{
    uint8_t keys_begin[] = {3};
    joiner_sends(f,
        (struct mob_gcs_link_msg){.type = MOB_GCS_JOIN,
            .link = {.prev = batch},
            .body = keys_begin,
            .body_bytes = sizeof keys_begin});
}

static inline void fixture_source(struct fixture *f, uint64_t kept_bytes_max)
{
    *f = (struct fixture){.tables = mob_state_create(), .now_ns = 1000};
    f->chain = mob_chain_create(&(struct mob_chain_options){.self = TAIL,
        .state = f->tables,
        .join_rest_ns = MOB_CHAIN_JOIN_REST_NS,
        .kept_bytes_max = kept_bytes_max});
    fixture_config(f);
    assert_int_equal(mob_chain_load_client(f->chain, WRITER, 0), MOB_OK);
    tick(f);
    joiner_says(f, MOB_GCS_JOIN, &(struct mob_gcs_link){.prev = 1});
    assert_int_equal(f->given, 1);
}

static inline void pass_time(struct fixture *f, int64_t ns)
{
    f->now_ns += ns;
    mob_chain_on_tick(f->chain, f->now_ns);
    drain(f);
}

/* Goes on asking for a batch that it was given meanwhile, so that it is not taken for gone. */
static inline void pass_time_joining(struct fixture *f, int64_t ns, uint64_t batch)
{
    const int64_t step = 250 * 1000000ll;
    int given = f->given;
    for (int64_t end = f->now_ns + ns; f->now_ns < end;) {
        pass_time(f, step);
        asks_for_batch(f, batch);
    }
    f->given = given;
}

static inline bool is_joined_by(struct fixture *f)
{
    uint64_t joiner, lag;
    return mob_chain_join(f->chain, &joiner, &lag) && joiner == JOINER;
}

#endif
