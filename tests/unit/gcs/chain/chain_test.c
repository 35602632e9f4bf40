/* The chain's state machine with one member: what it answers, what it keeps, and what a restart gives back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gcs/chain/chain.h"
#include "gcs/chain/chain_stream.h"
#include "tests/support/xorshift.h"

#define KV_CLIENT (MOB_GCS_CLIENT_BIT | 1ull << 40 | 1) /* what OPEN gives: epoch 1, seq 1 */
#define SEEN_MAX 100000

static size_t no_drop(
    void *arg, const struct mob_gcs_request *request, uint64_t *seqs_out, size_t max, bool *more_out)
{
    (void)arg;
    (void)request;
    (void)seqs_out;
    (void)max;
    *more_out = false;
    return 0;
}

struct member {
    struct mob_state *state;
    struct mob_chain *chain;
    struct mob_chain_action seen[256];
    size_t seen_count;
    uint64_t stored_to_be; /* newest STORE */
};

static void member_init(struct member *m)
{
    *m = (struct member){.state = mob_state_create()};
    m->chain = mob_chain_create(&(struct mob_chain_options){.state = m->state, .drop = no_drop});
}

static void member_fini(struct member *m)
{
    mob_chain_destroy(m->chain);
    mob_state_destroy(m->state);
}

static void drain(struct member *m)
{
    m->seen_count = 0;
    for (struct mob_chain_action a; mob_chain_next(m->chain, &a);) {
        assert_true(m->seen_count < 256);
        if (a.type == MOB_CHAIN_STORE)
            m->stored_to_be = a.entry->seq;
        m->seen[m->seen_count++] = a;
    }
}

static struct mob_gcs_attached attach(struct member *m, uint64_t client, uint64_t answered, uint64_t kept)
{
    struct mob_gcs_attached attached;
    struct mob_chain_attach event = {.client = client, .answered = answered, .kept = kept};
    assert_int_equal(mob_chain_on_attach(m->chain, &event, &attached), MOB_OK);
    drain(m);
    return attached;
}

static bool said_expired(const struct member *m, struct mob_gcs_reply *reply_out)
{
    for (size_t i = 0; i < m->seen_count; i++)
        if (m->seen[i].type == MOB_CHAIN_EXPIRED) {
            *reply_out = m->seen[i].reply;
            return true;
        }
    return false;
}

/* "Expired" or "sealed" is what the last event led to, and it is said when that is committed, not before. */
static struct mob_gcs_reply expired(struct member *m)
{
    struct mob_gcs_reply reply = {0};
    if (mob_chain_committed(m->chain) < mob_chain_applied(m->chain)) {
        assert_false(said_expired(m, &reply));
        mob_chain_on_stored(m->chain, mob_chain_applied(m->chain));
        drain(m);
    }
    assert_true(said_expired(m, &reply));
    return reply;
}

static struct mob_gcs_reply attach_refused(
    struct member *m, uint64_t client, uint64_t answered, uint64_t kept)
{
    struct mob_gcs_attached attached;
    struct mob_chain_attach event = {.client = client, .answered = answered, .kept = kept};
    assert_int_equal(mob_chain_on_attach(m->chain, &event, &attached), MOB_FINISHED);
    drain(m);
    return expired(m);
}

/* The first thing that happens to a member in these tests. */
static void open_client(struct member *m)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = MOB_GCS_CLIENT_BIT | 0x1234,
        .request = {.op = MOB_GCS_OP_OPEN}};
    assert_int_equal(mob_chain_on_put(m->chain, &put), MOB_OK);
    drain(m);
    mob_chain_on_stored(m->chain, 1);
    drain(m);
    assert_int_equal(m->seen_count, 1);
    assert_int_equal(m->seen[0].type, MOB_CHAIN_REPLY);
    assert_int_equal(m->seen[0].client, MOB_GCS_CLIENT_BIT | 0x1234);
    assert_int_equal(m->seen[0].reply.number, KV_CLIENT);
}

static enum mob_status put_key(struct member *m, uint64_t request, const char *key_value, uint64_t if_version)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = KV_CLIENT,
        .request = {.request = request,
            .op = MOB_GCS_OP_PUT,
            .table = MOB_GCS_KV,
            .key_length = 1,
            .if_version = if_version},
        .body = (const uint8_t *)key_value,
        .body_bytes = (uint32_t)strlen(key_value)};
    enum mob_status status = mob_chain_on_put(m->chain, &put);
    drain(m);
    return status;
}

static uint64_t version_of_key(struct member *m, const char *key)
{
    struct mob_state_key k;
    assert_true(mob_state_get(m->state, MOB_GCS_KV, (const uint8_t *)key, 1, &k));
    return k.version;
}

static void commit_all(struct member *m)
{
    mob_chain_on_stored(m->chain, mob_chain_applied(m->chain));
    drain(m);
}

static void a_reply_comes_with_the_commit_and_a_duplicate_gets_the_same(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    assert_int_equal(put_key(&m, 1, "kone", 0), MOB_OK);
    assert_int_equal(m.seen_count, 1);
    assert_int_equal(m.seen[0].type, MOB_CHAIN_STORE);
    assert_int_equal(put_key(&m, 1, "kone", 0), MOB_FINISHED); /* in flight: no second answer */
    assert_int_equal(m.seen_count, 0);
    commit_all(&m);
    assert_int_equal(m.seen_count, 1);
    assert_int_equal(m.seen[0].type, MOB_CHAIN_REPLY);
    struct mob_gcs_reply first = m.seen[0].reply;
    assert_int_equal(first.status, MOB_OK);
    assert_int_equal(put_key(&m, 1, "kone", 0), MOB_FINISHED);
    assert_int_equal(m.seen_count, 1);
    assert_memory_equal(&m.seen[0].reply, &first, sizeof first);
    assert_int_equal(mob_chain_applied(m.chain), 2);
    member_fini(&m);
}

static enum mob_status open_again(struct member *m)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = MOB_GCS_CLIENT_BIT | 0x1234,
        .request = {.op = MOB_GCS_OP_OPEN}};
    enum mob_status status = mob_chain_on_put(m->chain, &put);
    drain(m);
    return status;
}

static void expect_opened(const struct member *m)
{
    assert_int_equal(m->seen_count, 1);
    assert_int_equal(m->seen[0].type, MOB_CHAIN_REPLY);
    assert_int_equal(m->seen[0].client, MOB_GCS_CLIENT_BIT | 0x1234);
    assert_int_equal(m->seen[0].reply.number, KV_CLIENT);
}

static void a_nonce_opens_one_client(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    assert_int_equal(open_again(&m), MOB_OK);
    assert_int_equal(open_again(&m), MOB_FINISHED); /* in flight: the answer comes with the commit */
    assert_int_equal(m.seen_count, 0);
    commit_all(&m);
    expect_opened(&m);
    assert_int_equal(open_again(&m), MOB_FINISHED); /* it was lost */
    expect_opened(&m);
    assert_int_equal(mob_chain_applied(m.chain), 1);
    assert_int_equal(mob_chain_clients(m.chain), 1);
    struct mob_gcs_reply kept = m.seen[0].reply;
    member_fini(&m);
    member_init(&m); /* restarted, with that on its disk */
    mob_chain_load_position(m.chain, 1, 1);
    assert_int_equal(mob_chain_load_client(m.chain, KV_CLIENT, 0), MOB_OK);
    mob_chain_load_reply(m.chain, KV_CLIENT, &kept);
    mob_chain_collect_begin(m.chain);
    assert_int_equal(open_again(&m), MOB_FINISHED);
    expect_opened(&m);
    assert_int_equal(mob_chain_clients(m.chain), 1);
    member_fini(&m);
}

static void a_condition_is_decided_once(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    put_key(&m, 1, "kone", 0);
    uint64_t first = version_of_key(&m, "k");
    put_key(&m, 2, "ktwo", 0); /* exists by now */
    put_key(&m, 3, "kthree", first);
    commit_all(&m);
    assert_int_equal(m.seen_count, 3);
    assert_int_equal(m.seen[1].reply.status, MOB_CONFLICT);
    assert_int_equal(m.seen[1].reply.version, first);
    assert_int_equal(m.seen[2].reply.status, MOB_OK);
    assert_int_equal(put_key(&m, 2, "ktwo", 0), MOB_FINISHED);
    assert_int_equal(m.seen[0].reply.status, MOB_CONFLICT);
    struct mob_state_key key;
    assert_true(mob_state_get(m.state, MOB_GCS_KV, (const uint8_t *)"k", 1, &key));
    assert_int_equal(key.value_length, 5);
    assert_memory_equal(key.value, "three", 5);
    member_fini(&m);
}

static void a_gap_is_said_and_nothing_behind_it_taken(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    put_key(&m, 1, "ka", 0);
    assert_int_equal(put_key(&m, 3, "kc", UINT64_MAX), MOB_FINISHED);
    assert_int_equal(m.seen[0].type, MOB_CHAIN_GAP);
    assert_int_equal(m.seen[0].reply.request, 1);
    assert_int_equal(mob_chain_applied(m.chain), 2);
    member_fini(&m);
}

static void another_epoch_is_refused(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    struct mob_chain_put put = {
        .epoch = 9, .client = KV_CLIENT, .request = {.request = 1, .op = MOB_GCS_OP_PUT}};
    assert_int_equal(mob_chain_on_put(m.chain, &put), MOB_FINISHED);
    drain(&m);
    assert_int_equal(m.seen[0].type, MOB_CHAIN_NACK);
    assert_int_equal(mob_chain_applied(m.chain), 1);
    member_fini(&m);
}

static void an_expired_client_is_not_taken_for_a_new_one(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    put_key(&m, 1, "ka", 0);
    commit_all(&m);
    assert_int_equal(mob_chain_on_internal(m.chain, MOB_GCS_OP_EXPIRE, KV_CLIENT), MOB_OK);
    drain(&m);
    assert_int_equal(put_key(&m, 2, "kb", 0), MOB_FINISHED);
    assert_int_equal(expired(&m).status, MOB_EXPIRED);
    assert_int_equal(attach_refused(&m, KV_CLIENT, 1, 2).status, MOB_EXPIRED);
    assert_int_equal(attach_refused(&m, KV_CLIENT, 0, 1).status, MOB_EXPIRED);
    member_fini(&m);
}

/* A member whose disk had entries up to 5 when everything died: from epoch 2 on the history is that. */
static void restart_at_five(struct member *m)
{
    member_init(m);
    mob_chain_load_position(m->chain, 1, 5);
    mob_chain_collect_begin(m->chain);
    assert_int_equal(mob_chain_collect_end(m->chain, 0), MOB_OK);
    assert_int_equal(mob_chain_epoch(m->chain), 2);
    assert_int_equal(mob_chain_history(m->chain), 5);
    drain(m);
}

/* The position is given out again; who has read what was there before the start, and compares with it, does
 * not take another write for that. */
static void a_version_that_was_lost_is_no_other_writes(void **state)
{
    (void)state;
    struct member before, m;
    member_init(&before);
    mob_chain_load_position(before.chain, 1, 5);
    assert_int_equal(mob_chain_load_client(before.chain, KV_CLIENT, 0), MOB_OK);
    assert_int_equal(put_key(&before, 1, "klost", UINT64_MAX), MOB_OK);
    uint64_t lost = version_of_key(&before, "k"), at = mob_chain_applied(before.chain);
    member_fini(&before);
    restart_at_five(&m);
    assert_int_equal(mob_chain_load_client(m.chain, KV_CLIENT, 0), MOB_OK);
    assert_int_equal(put_key(&m, 1, "kother", UINT64_MAX), MOB_OK);
    assert_int_equal(mob_chain_applied(m.chain), at);
    uint64_t other = version_of_key(&m, "k");
    assert_int_not_equal(other, lost);
    assert_int_equal(put_key(&m, 2, "kthird", lost), MOB_OK);
    assert_int_equal(version_of_key(&m, "k"), other);
    assert_int_equal(put_key(&m, 3, "kthird", other), MOB_OK);
    assert_int_not_equal(version_of_key(&m, "k"), other);
    member_fini(&m);
}

/* How many LOSSES there are; `text_out` gets the newest. */
static unsigned losses(struct member *m, char text_out[300])
{
    struct mob_state_key k;
    unsigned count = 0;
    text_out[0] = 0;
    for (uint8_t key[8] = {0}; mob_state_next(m->state, MOB_GCS_LOSSES, NULL, 0, key, count == 0 ? 0 : 8, &k);
         count++) {
        memcpy(key, k.bytes + 1, 8);
        snprintf(text_out, 300, "%.*s", (int)k.value_length, (const char *)k.value);
    }
    return count;
}

static void come_late(struct member *m, uint64_t client, uint64_t answered)
{
    static const struct mob_chain_stream_base bases[] = {{2, 5}};
    struct mob_gcs_attached attached;
    struct mob_chain_attach event = {
        .client = client, .answered = answered, .kept = 1, .bases = bases, .base_count = 1};
    assert_int_equal(mob_chain_on_attach(m->chain, &event, &attached), MOB_FINISHED);
    drain(m);
    assert_int_equal(expired(m).status, MOB_EXPIRED);
}

static void who_comes_after_collecting_is_named_once_with_what_it_was_answered(void **state)
{
    (void)state;
    struct member m;
    char text[300], name[64];
    uint64_t late = MOB_GCS_CLIENT_BIT | 1ull << 40 | 7; /* opened at 7 in epoch 1, which nobody has */
    restart_at_five(&m);
    for (int i = 0; i < 3; i++) /* it did not hear it */
        come_late(&m, late, 4);
    assert_int_equal(losses(&m, text), 1);
    snprintf(name, sizeof name, "\"client\":\"%llx\",", (unsigned long long)late);
    assert_non_null(strstr(text, name));
    assert_non_null(strstr(text, "\"first_missing\":1,\"missing\":4,"));
    come_late(&m, 300, 6); /* a log whose registration went, too */
    assert_int_equal(losses(&m, text), 2);
    assert_non_null(strstr(text, "\"incarnation\":300,\"first_missing\":0,\"missing\":6,"));
    member_fini(&m);
}

static void who_can_lack_nothing_is_expired_without_a_loss(void **state)
{
    (void)state;
    struct member m;
    char text[300];
    restart_at_five(&m);
    come_late(&m, MOB_GCS_CLIENT_BIT | 1ull << 40 | 5, 4); /* was in the tables then, and named if absent */
    come_late(&m, MOB_GCS_CLIENT_BIT | 2ull << 40 | 7, 4); /* opened since, and expired: all of it is here */
    come_late(&m, MOB_GCS_CLIENT_BIT | 1ull << 40 | 7, 0); /* was answered nothing */
    assert_int_equal(losses(&m, text), 0);
    member_fini(&m);
}

static uint64_t register_log(struct member *m, uint64_t request)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = KV_CLIENT,
        .request = {.request = request, .op = MOB_GCS_OP_REGISTER},
        .body = (const uint8_t *)"n",
        .body_bytes = 1};
    assert_int_equal(mob_chain_on_put(m->chain, &put), MOB_OK);
    commit_all(m);
    return m->seen[m->seen_count - 1].reply.number;
}

static enum mob_status append_block(
    struct member *m, uint64_t log, uint64_t number, uint64_t old_seq, void *hold)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = log,
        .request = {.request = number + 1, .op = MOB_GCS_OP_APPEND, .old_seq = old_seq, .old_number = number},
        .body = (const uint8_t *)"block",
        .body_bytes = 5,
        .hold = hold};
    enum mob_status status = mob_chain_on_put(m->chain, &put);
    drain(m);
    return status;
}

static void a_sealed_log_takes_nothing_and_tells_its_cut(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    uint64_t log = register_log(&m, 1);
    attach(&m, log, 0, 1);
    assert_int_equal(append_block(&m, log, 0, 0, NULL), MOB_OK);
    assert_int_equal(append_block(&m, log, 1, 0, NULL), MOB_OK);
    assert_int_equal(mob_chain_on_internal(m.chain, MOB_GCS_OP_SEAL, log), MOB_OK);
    drain(&m);
    assert_int_equal(append_block(&m, log, 2, 0, NULL), MOB_FINISHED);
    struct mob_gcs_reply sealed = expired(&m);
    assert_int_equal(sealed.status, MOB_SEALED);
    assert_int_equal(sealed.request, 2);
    assert_int_equal(register_log(&m, 2), log + 1);
    member_fini(&m);
}

static void entries_are_kept_until_durable_and_written_again_when_the_store_lost_them(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    int holds[10];
    open_client(&m);
    uint64_t log = register_log(&m, 1);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(append_block(&m, log, i, 0, &holds[i]), MOB_OK);
    mob_chain_on_stored(m.chain, 7);
    drain(&m);
    mob_chain_on_durable(m.chain, 5);
    drain(&m);
    assert_int_equal(m.seen_count, 3); /* seqs 1 and 2 were the client and the log */
    assert_ptr_equal(m.seen[2].hold, &holds[2]);
    assert_int_equal(mob_chain_on_store_back(m.chain, 4), MOB_CORRUPT); /* durable is not there */
    assert_int_equal(mob_chain_on_store_back(m.chain, 6), MOB_OK);
    drain(&m);
    assert_int_equal(m.seen_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(m.seen[i].entry->seq, 7 + i);
    assert_non_null(mob_chain_kept(m.chain, 12));
    assert_null(mob_chain_kept(m.chain, 5));
    member_fini(&m);
}

static void a_full_member_refuses_without_consuming(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    uint64_t log = register_log(&m, 1);
    struct mob_chain_put put = {.epoch = 1,
        .client = log,
        .request = {.request = 1, .op = MOB_GCS_OP_APPEND},
        .body = (const uint8_t *)"b",
        .body_bytes = 1,
        .full = true};
    assert_int_equal(mob_chain_on_put(m.chain, &put), MOB_GCS_FULL);
    put.full = false;
    assert_int_equal(mob_chain_on_put(m.chain, &put), MOB_OK);
    member_fini(&m);
}

static const struct mob_gcs_mark *mark_of(const struct mob_gcs_mark *marks, size_t count, uint64_t seq)
{
    for (size_t i = 0; i < count; i++)
        if (marks[i].seq == seq)
            return &marks[i];
    return NULL;
}

/* Of each of the newest positions, and of some far behind, both digests as they were there. */
static void digests_of_positions_are_kept(void **state)
{
    (void)state;
    enum { ENTRIES = 3000 };
    static struct mob_gcs_mark marks[MOB_CHAIN_MARKS_MAX], were[ENTRIES + 2];
    struct member m;
    char key_value[8];
    member_init(&m);
    open_client(&m);
    for (uint64_t seq = 2; seq <= ENTRIES; seq++) {
        snprintf(key_value, sizeof key_value, "%c=%llu", 'a' + (int)(seq % 7), (unsigned long long)seq % 100);
        assert_int_equal(put_key(&m, seq - 1, key_value, UINT64_MAX), MOB_OK);
        commit_all(&m);
        mob_chain_on_durable(m.chain, seq);
        drain(&m);
        assert_int_equal(mob_chain_applied(m.chain), seq);
        were[seq] = (struct mob_gcs_mark){seq, mob_chain_digest(m.chain), mob_chain_state_digest(m.chain)};
    }
    size_t count = mob_chain_marks(m.chain, marks);
    assert_int_equal(count, mob_chain_marks(m.chain, NULL));
    assert_int_equal(count, MOB_CHAIN_MARKS_EACH + ENTRIES / MOB_CHAIN_MARKS_STEP);
    for (uint64_t seq = 2; seq <= ENTRIES; seq++) {
        const struct mob_gcs_mark *mark = mark_of(marks, count, seq);
        bool kept = seq > ENTRIES - MOB_CHAIN_MARKS_EACH || seq % MOB_CHAIN_MARKS_STEP == 0;
        if ((mark != NULL) != kept || (kept && memcmp(mark, &were[seq], sizeof *mark) != 0))
            fail_msg("position %llu: %s", (unsigned long long)seq, mark == NULL ? "none" : "another");
    }
    member_fini(&m);
}

static void what_is_gone_for_good_is_named_and_its_log_sealed(void **state)
{
    (void)state;
    struct member m;
    member_init(&m);
    open_client(&m);
    uint64_t log = register_log(&m, 1);
    append_block(&m, log, 0, 0, NULL);
    /* It had answers for five, and keeps none of them. */
    struct mob_gcs_reply a = attach_refused(&m, log, 5, 6);
    assert_int_equal(a.status, MOB_SEALED);
    assert_int_equal(a.request, 1);
    struct mob_state_key key;
    assert_true(mob_state_next(m.state, MOB_GCS_LOSSES, NULL, 0, NULL, 0, &key));
    assert_non_null(memmem(key.value, key.value_length, "\"first_missing\":1,\"missing\":4", 29));
    member_fini(&m);
}

/* ---- after everything died: what comes back, and where ---- */

#define STORED 10u /* what this member's store has */

static void collecting(struct member *m)
{
    member_init(m);
    mob_chain_load_position(m->chain, 1, STORED);
    for (uint64_t log = 1; log <= 2; log++) {
        struct mob_gcs_incarnation row = {.id = log, .state = MOB_GCS_LIVE};
        assert_int_equal(mob_state_register(m->state, &row), MOB_OK);
        assert_int_equal(mob_chain_load_client(m->chain, log, 0), MOB_OK);
    }
    assert_int_equal(mob_chain_load_client(m->chain, KV_CLIENT, 0), MOB_OK);
    mob_chain_collect_begin(m->chain);
}

static uint64_t history_after_collecting(struct member *m)
{
    assert_int_equal(mob_chain_collect_end(m->chain, 0), MOB_OK);
    drain(m);
    uint64_t history = mob_chain_history(m->chain);
    member_fini(m);
    return history;
}

/* Who has seen what was there is told so from the first position on that means something else. */
static void a_position_means_the_same_up_to_the_first_hole(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    assert_int_equal(append_block(&m, 1, 0, STORED + 1, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 1, 1, STORED + 2, NULL), MOB_OK);
    assert_int_equal(history_after_collecting(&m), STORED + 2);
    collecting(&m);
    assert_int_equal(append_block(&m, 1, 0, STORED + 1, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 1, 1, STORED + 3, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 2, 0, STORED + 4, NULL), MOB_OK);
    assert_int_equal(history_after_collecting(&m), STORED + 1);
}

/* A node that did not answer when the chain started before has answers from a history that ended then. What
 * it sends takes places, and what had been there moves. */
static void a_position_means_something_else_where_an_older_history_takes_its_place(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    assert_int_equal(append_block(&m, 1, 0, STORED - 5, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 2, 0, STORED + 1, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 2, 1, STORED + 2, NULL), MOB_OK);
    assert_int_equal(history_after_collecting(&m), STORED);
}

/* Over several links they may come twice, or the later ones first. */
static void requests_are_collected_once_and_without_a_gap(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    assert_int_equal(append_block(&m, 1, 1, STORED + 2, NULL), MOB_FINISHED);
    assert_int_equal(m.seen_count, 1);
    assert_int_equal(m.seen[0].type, MOB_CHAIN_GAP);
    assert_int_equal(m.seen[0].reply.request, 0);
    assert_int_equal(append_block(&m, 1, 0, STORED + 1, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 1, 0, STORED + 1, NULL), MOB_FINISHED);
    assert_int_equal(append_block(&m, 1, 1, STORED + 2, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 1, 1, STORED + 2, NULL), MOB_FINISHED);
    assert_int_equal(mob_chain_waiting(m.chain).collected, 2);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    drain(&m);
    assert_int_equal(mob_state_incarnation(m.state, 1)->blocks, 2);
    assert_int_equal(mob_chain_applied(m.chain), STORED + 2);
    member_fini(&m);
}

static void flush(struct member *m, uint64_t request, uint64_t from, uint64_t upto, uint64_t old_seq)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = KV_CLIENT,
        .request = {.request = request,
            .op = MOB_GCS_OP_FLUSH,
            .target = upto,
            .if_version = from,
            .old_seq = old_seq,
            .old_number = old_seq != 0 ? upto : 0}};
    assert_int_equal(mob_chain_on_put(m->chain, &put), MOB_OK);
    drain(m);
}

/* Of two FLUSH one behind the other the first was not answered, so it comes last: the second does not pass
 * it. */
static void a_flush_that_comes_back_does_not_pass_the_one_before_it(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    assert_int_equal(mob_chain_load_client(m.chain, MOB_GCS_CLIENT_BIT | 77, 0), MOB_OK);
    flush(&m, 1, 4, 8, STORED + 2);
    struct mob_chain_put first = {.epoch = mob_chain_epoch(m.chain),
        .client = MOB_GCS_CLIENT_BIT | 77,
        .request = {.request = 1, .op = MOB_GCS_OP_FLUSH, .target = 4, .if_version = 0}};
    assert_int_equal(mob_chain_on_put(m.chain, &first), MOB_OK);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    drain(&m);
    assert_int_equal(mob_state_flushed(m.state), 4);
    member_fini(&m);
}

/* Both were not answered, and both begin where the members are now: only one of them counts. */
static void of_two_flushes_from_one_place_one_counts(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    flush(&m, 1, 0, 4, 0);
    flush(&m, 2, 0, 8, 0);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    drain(&m);
    assert_int_equal(mob_state_flushed(m.state), 4);
    member_fini(&m);
}

/* The cut that was told is the cut, although the node kept more. */
static void a_log_that_was_sealed_takes_nothing_above_its_cut(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    assert_int_equal(mob_chain_collect_seal(m.chain, 1, 1), MOB_OK);
    assert_int_equal(append_block(&m, 1, 0, STORED + 1, NULL), MOB_OK);
    assert_int_equal(append_block(&m, 1, 1, STORED + 2, NULL), MOB_FINISHED);
    assert_int_equal(expired(&m).status, MOB_SEALED);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    drain(&m);
    assert_int_equal(mob_state_incarnation(m.state, 1)->blocks, 1);
    assert_int_equal(mob_state_incarnation(m.state, 1)->state, MOB_GCS_SEALED);
    member_fini(&m);
}

/* What a start has lost would be lost with the next one, if its power failed now. */
static void a_start_commits_nothing_before_it_is_on_the_disk(void **state)
{
    (void)state;
    struct member m;
    collecting(&m);
    assert_int_equal(append_block(&m, 1, 0, STORED + 1, NULL), MOB_OK);
    assert_int_equal(mob_chain_collect_absent(m.chain, KV_CLIENT, 0), MOB_OK);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    drain(&m);
    uint64_t end = mob_chain_applied(m.chain);
    assert_in_range(end, STORED + 2, STORED + 10); /* the block, a LOSS and an EXPIRE */
    mob_chain_on_stored(m.chain, end);
    mob_chain_on_durable(m.chain, end - 1);
    assert_int_equal(mob_chain_committed(m.chain), STORED);
    assert_true(mob_chain_start_waits(m.chain));
    mob_chain_on_durable(m.chain, end);
    assert_int_equal(mob_chain_committed(m.chain), end);
    assert_false(mob_chain_start_waits(m.chain));
    member_fini(&m);
}

/* Its answer is of a history that a start in between had lost: its place was given to another log since. */
static void a_registration_that_comes_too_late_ends_its_client(void **state)
{
    (void)state;
    struct member m;
    char text[300];
    collecting(&m);
    struct mob_gcs_incarnation newer = {.id = 9, .state = MOB_GCS_SEALED};
    assert_int_equal(mob_state_register(m.state, &newer), MOB_OK);
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m.chain),
        .client = KV_CLIENT,
        .request = {.request = 1, .op = MOB_GCS_OP_REGISTER, .old_seq = STORED + 1, .old_number = 5},
        .body = (const uint8_t *)"node",
        .body_bytes = 4};
    assert_int_equal(mob_chain_on_put(m.chain, &put), MOB_OK);
    assert_int_equal(put_key(&m, 2, "kb", 0), MOB_OK);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    drain(&m);
    assert_null(mob_state_incarnation(m.state, 5));
    assert_int_equal(losses(&m, text), 1);
    assert_non_null(strstr(text, "\"first_missing\":1,"));
    mob_chain_on_stored(m.chain, mob_chain_applied(m.chain));
    mob_chain_on_durable(m.chain, mob_chain_applied(m.chain));
    assert_int_equal(put_key(&m, 3, "kc", 0), MOB_FINISHED);
    assert_int_equal(expired(&m).status, MOB_EXPIRED);
    member_fini(&m);
}

static void register_again(struct member *m, uint64_t log, uint64_t old_seq)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m->chain),
        .client = KV_CLIENT,
        .request = {.request = 1, .op = MOB_GCS_OP_REGISTER, .old_seq = old_seq, .old_number = log},
        .body = (const uint8_t *)"node",
        .body_bytes = 4};
    assert_int_equal(mob_chain_on_put(m->chain, &put), MOB_OK);
    drain(m);
}

/* A log that was registered behind what the store has, in a start in which its registrar answers or does not:
 * its node comes first. */
static void collect_a_log_without_its_registration(struct member *m, bool registrar)
{
    collecting(m);
    assert_int_equal(attach(m, 300, 0, 1).last, 0);
    assert_int_equal(append_block(m, 300, 0, STORED + 2, NULL), MOB_OK);
    assert_int_equal(append_block(m, 300, 1, STORED + 3, NULL), MOB_OK);
    if (registrar)
        register_again(m, 300, STORED + 1);
    assert_int_equal(mob_chain_collect_end(m->chain, 0), MOB_OK);
    drain(m);
}

/* Its node may have blocks that were answered before it hears of it, or the other way round: the log comes
 * back with its registration. */
static void a_log_comes_back_with_its_registration(void **state)
{
    (void)state;
    struct member m;
    char text[300];
    collect_a_log_without_its_registration(&m, true);
    assert_non_null(mob_state_incarnation(m.state, 300));
    assert_int_equal(mob_state_incarnation(m.state, 300)->blocks, 2);
    assert_int_equal(mob_state_incarnation(m.state, 300)->state, MOB_GCS_LIVE);
    assert_int_equal(losses(&m, text), 0);
    assert_int_equal(mob_chain_history(m.chain), STORED + 3);
    commit_all(&m);
    mob_chain_on_durable(m.chain, mob_chain_applied(m.chain));
    drain(&m);
    assert_int_equal(append_block(&m, 300, 2, 0, NULL), MOB_OK);
    member_fini(&m);
}

static void a_log_whose_registration_is_gone_is_named_and_takes_nothing(void **state)
{
    (void)state;
    struct member m;
    char text[300];
    collect_a_log_without_its_registration(&m, false);
    assert_null(mob_state_incarnation(m.state, 300));
    assert_int_equal(losses(&m, text), 1);
    assert_non_null(strstr(text, "\"incarnation\":300,\"first_missing\":0,"));
    mob_chain_on_stored(m.chain, mob_chain_applied(m.chain));
    mob_chain_on_durable(m.chain, mob_chain_applied(m.chain));
    drain(&m);
    assert_int_equal(append_block(&m, 300, 2, 0, NULL), MOB_FINISHED);
    assert_int_equal(expired(&m).status, MOB_EXPIRED);
    member_fini(&m);
}

/* Four blocks may go now, of which the last came back after the drop had been answered. */
static size_t drop_oldest(
    void *arg, const struct mob_gcs_request *request, uint64_t *seqs_out, size_t max, bool *more_out)
{
    (void)arg;
    (void)request;
    size_t n = 0;
    for (; n < 4 && n < max; n++)
        seqs_out[n] = 6 + n;
    *more_out = n < 4;
    return n;
}

static void a_drop_that_was_answered_takes_what_it_took_then(void **state)
{
    (void)state;
    struct member m;
    struct mob_chain_action a;
    collecting(&m);
    mob_chain_destroy(m.chain);
    m.chain = mob_chain_create(&(struct mob_chain_options){.state = m.state, .drop = drop_oldest});
    mob_chain_load_position(m.chain, 1, STORED);
    assert_int_equal(mob_chain_load_client(m.chain, KV_CLIENT, 0), MOB_OK);
    mob_chain_collect_begin(m.chain);
    struct mob_chain_put put = {.epoch = mob_chain_epoch(m.chain),
        .client = KV_CLIENT,
        .request = {.request = 1, .op = MOB_GCS_OP_JOB_DROP, .old_seq = STORED + 1, .old_number = 3}};
    assert_int_equal(mob_chain_on_put(m.chain, &put), MOB_OK);
    assert_int_equal(mob_chain_collect_end(m.chain, 0), MOB_OK);
    assert_true(mob_chain_next(m.chain, &a));
    assert_int_equal(a.type, MOB_CHAIN_STORE);
    assert_int_equal(a.entry->number, 3);
    assert_int_equal(a.entry->drop_count, 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(a.entry->drops[i], 6 + i);
    drain(&m);
    member_fini(&m);
}

/* ---- random schedules over restarts: clients keep what is not durable; each request is in the history once
 * ---- */

static uint64_t rng = XORSHIFT_SEED;
static uint64_t random_below(uint64_t n)
{
    return xorshift(&rng) % n;
}

struct item { /* what a client submitted: block `number` of a log */
    uint64_t seq; /* 0 = not answered */
};
struct model {
    struct member m;
    uint64_t logs[3], sent[3], answered[3], first_kept[3];
    struct item items[3][2000];
    /* the "store": what would survive */
    struct {
        uint64_t client, request, seq;
    } store[SEEN_MAX];
    size_t stored, durable_count;
};

static void model_take(struct model *x, bool store)
{
    struct mob_chain_action a;
    while (mob_chain_next(x->m.chain, &a)) {
        if (a.type == MOB_CHAIN_STORE && store) {
            assert_true(x->stored < SEEN_MAX);
            x->store[x->stored].client = a.entry->client;
            x->store[x->stored].request = a.entry->request;
            x->store[x->stored++].seq = a.entry->seq;
        } else if (a.type == MOB_CHAIN_REPLY && a.client < MOB_GCS_CLIENT_BIT) {
            unsigned l = a.client == x->logs[0] ? 0 : a.client == x->logs[1] ? 1 : 2;
            struct item *item = &x->items[l][a.reply.request - 1];
            item->seq = a.reply.seq;
            if (a.reply.request > x->answered[l])
                x->answered[l] = a.reply.request;
        }
    }
}

static void model_send(struct model *x, unsigned l, uint64_t request)
{
    struct mob_chain_put put = {.epoch = mob_chain_epoch(x->m.chain),
        .client = x->logs[l],
        .request = {.request = request,
            .op = MOB_GCS_OP_APPEND,
            .old_seq = x->items[l][request - 1].seq,
            .old_number = request - 1},
        .body = (const uint8_t *)"block",
        .body_bytes = 5};
    (void)!mob_chain_on_put(x->m.chain, &put);
    model_take(x, true);
}

/* Everything above a random point of what was stored (not below durable) is lost; a new process collects. */
static void model_restart(struct model *x)
{
    size_t keep = x->durable_count + random_below(x->stored - x->durable_count + 1);
    x->stored = keep;
    uint64_t seq = keep == 0 ? 0 : x->store[keep - 1].seq, epoch = mob_chain_epoch(x->m.chain);
    member_fini(&x->m);
    member_init(&x->m);
    mob_chain_load_position(x->m.chain, epoch, seq);
    for (unsigned l = 0; l < 3; l++) {
        uint64_t last = 0;
        for (size_t i = 0; i < keep; i++)
            if (x->store[i].client == x->logs[l])
                last = x->store[i].request;
        struct mob_gcs_incarnation row = {.id = x->logs[l], .blocks = last, .state = MOB_GCS_LIVE};
        assert_int_equal(mob_state_register(x->m.state, &row), MOB_OK);
        assert_int_equal(mob_chain_load_client(x->m.chain, row.id, last), MOB_OK);
        for (size_t i = 0; i < keep; i++)
            if (x->store[i].client == x->logs[l])
                mob_chain_load_reply(x->m.chain, row.id,
                    &(struct mob_gcs_reply){.request = x->store[i].request,
                        .count = 1,
                        .seq = x->store[i].seq,
                        .number = x->store[i].request - 1});
    }
    mob_chain_collect_begin(x->m.chain);
    uint64_t next[3];
    for (unsigned l = 0; l < 3; l++) {
        struct mob_chain_attach event = {
            .client = x->logs[l], .answered = x->answered[l], .kept = x->first_kept[l] + 1};
        struct mob_gcs_attached attached;
        assert_int_equal(mob_chain_on_attach(x->m.chain, &event, &attached), MOB_OK);
        assert_int_equal(attached.status, MOB_OK);
        next[l] = attached.last + 1;
    }
    for (bool more = true; more;) { /* the clients' frames interleave */
        more = false;
        for (unsigned l = 0; l < 3; l++) {
            if (next[l] <= x->sent[l] && random_below(3) != 0)
                model_send(x, l, next[l]++);
            more = more || next[l] <= x->sent[l];
        }
    }
    assert_int_equal(mob_chain_collect_end(x->m.chain, 0), MOB_OK);
    model_take(x, true);
}

static void model_step(struct model *x)
{
    unsigned l = (unsigned)random_below(3);
    uint64_t applied = mob_chain_applied(x->m.chain), committed = mob_chain_committed(x->m.chain);
    switch (random_below(8)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (x->sent[l] < x->answered[l] + 30 && x->sent[l] < 1990)
            model_send(x, l, ++x->sent[l]);
        break;
    case 4: /* a duplicate of something unanswered */
        if (x->sent[l] > x->answered[l])
            model_send(x, l, x->answered[l] + 1 + random_below(x->sent[l] - x->answered[l]));
        break;
    case 5:
        mob_chain_on_stored(x->m.chain, committed + random_below(applied - committed + 1));
        model_take(x, false);
        break;
    case 6: {
        uint64_t durable = mob_chain_durable(x->m.chain);
        durable += random_below(mob_chain_committed(x->m.chain) - durable + 1);
        mob_chain_on_durable(x->m.chain, durable);
        model_take(x, false);
        while (x->durable_count < x->stored && x->store[x->durable_count].seq <= durable)
            x->durable_count++;
        for (unsigned k = 0; k < 3; k++)
            while (x->first_kept[k] < x->answered[k] && x->items[k][x->first_kept[k]].seq != 0 &&
                x->items[k][x->first_kept[k]].seq <= durable)
                x->first_kept[k]++;
        break;
    }
    default:
        if (random_below(60) == 0)
            model_restart(x);
    }
}

static void each_request_is_in_the_history_once_over_restarts(void **state)
{
    (void)state;
    static struct model x;
    for (int run = 0; run < 60; run++) {
        memset(&x, 0, sizeof x);
        member_init(&x.m);
        mob_chain_load_position(x.m.chain, 1, 0);
        for (unsigned l = 0; l < 3; l++) {
            x.logs[l] = l + 1;
            struct mob_gcs_incarnation row = {.id = l + 1, .state = MOB_GCS_LIVE};
            assert_int_equal(mob_state_register(x.m.state, &row), MOB_OK);
            assert_int_equal(mob_chain_load_client(x.m.chain, l + 1, 0), MOB_OK);
        }
        for (int i = 0; i < 4000; i++)
            model_step(&x);
        mob_chain_on_stored(x.m.chain, mob_chain_applied(x.m.chain));
        model_take(&x, false);
        uint64_t expected[3] = {1, 1, 1}, seq = 0;
        for (size_t i = 0; i < x.stored; i++) {
            assert_true(x.store[i].seq > seq);
            seq = x.store[i].seq;
            if (x.store[i].client == 0)
                continue;
            unsigned l = (unsigned)x.store[i].client - 1;
            assert_int_equal(x.store[i].request, expected[l]);
            /* Answered with a position: that is where it still is, unless a hole moved it up. */
            expected[l]++;
        }
        for (unsigned l = 0; l < 3; l++)
            assert_int_equal(expected[l], x.sent[l] + 1);
        member_fini(&x.m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_comes_with_the_commit_and_a_duplicate_gets_the_same),
        cmocka_unit_test(a_nonce_opens_one_client),
        cmocka_unit_test(a_condition_is_decided_once),
        cmocka_unit_test(a_gap_is_said_and_nothing_behind_it_taken),
        cmocka_unit_test(another_epoch_is_refused),
        cmocka_unit_test(an_expired_client_is_not_taken_for_a_new_one),
        cmocka_unit_test(a_version_that_was_lost_is_no_other_writes),
        cmocka_unit_test(who_comes_after_collecting_is_named_once_with_what_it_was_answered),
        cmocka_unit_test(who_can_lack_nothing_is_expired_without_a_loss),
        cmocka_unit_test(a_sealed_log_takes_nothing_and_tells_its_cut),
        cmocka_unit_test(entries_are_kept_until_durable_and_written_again_when_the_store_lost_them),
        cmocka_unit_test(a_full_member_refuses_without_consuming),
        cmocka_unit_test(digests_of_positions_are_kept),
        cmocka_unit_test(what_is_gone_for_good_is_named_and_its_log_sealed),
        cmocka_unit_test(requests_are_collected_once_and_without_a_gap),
        cmocka_unit_test(a_position_means_the_same_up_to_the_first_hole),
        cmocka_unit_test(a_position_means_something_else_where_an_older_history_takes_its_place),
        cmocka_unit_test(a_flush_that_comes_back_does_not_pass_the_one_before_it),
        cmocka_unit_test(of_two_flushes_from_one_place_one_counts),
        cmocka_unit_test(a_log_that_was_sealed_takes_nothing_above_its_cut),
        cmocka_unit_test(a_start_commits_nothing_before_it_is_on_the_disk),
        cmocka_unit_test(a_registration_that_comes_too_late_ends_its_client),
        cmocka_unit_test(a_log_comes_back_with_its_registration),
        cmocka_unit_test(a_log_whose_registration_is_gone_is_named_and_takes_nothing),
        cmocka_unit_test(a_drop_that_was_answered_takes_what_it_took_then),
        cmocka_unit_test(each_request_is_in_the_history_once_over_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
