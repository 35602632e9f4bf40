/* ctest: timeout=300
 * Each safety rule of the chain that no fault of gcs_faults shows to be needed, at a member that is a
 * process: with the rule nothing wrong is seen, and a member that was built without it
 * (mobula-gcs-without-RULE, tests/CMakeLists.txt) is caught by the same run. So a run that cannot fail fails
 * here.
 *
 * Frames come late, not at all, or in another order, as a network may have it: member_stand.h. The lease is
 * shown by a whole chain with its master, and a reader that stays with a tail which is cut off.
 *
 * Without settings: one seed of each. MOBULA_CHAOS_SEEDS=20 seeds from MOBULA_CHAOS_SEED on;
 * MOBULA_CHAOS_RULE=name one rule.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/chain_box.h"
#include "tests/support/member_stand.h"
#include "tests/support/raw_reader.h"

#define PATIENCE_NS (60 * MOB_SEC)
#define STILL_NS \
    MOB_SEC /* a chain that has done nothing for so long, while asked each 2 ms, stands still \
             */
#define ASKS 20 /* of a reader that is refused */

struct rule {
    const char *name;
    /* What was seen that must not be, NULL: nothing. */
    const char *(*run)(const char *program, uint64_t seed);
};

static void until(struct stand *s, bool (*there)(struct stand *s), const char *what)
{
    for (int64_t deadline = mob_now() + PATIENCE_NS; !there(s); stand_step(s))
        if (mob_now() > deadline)
            fail_msg("not in time: %s (%s)", what, s->box.directory);
}

/* A read at the process, as often as it has to be asked while it has no lease. */
static enum mob_status ask(struct stand *s, struct raw_reader *reader, const char *key, char value[64])
{
    enum mob_status status;
    for (int64_t deadline = mob_now() + PATIENCE_NS;
         (status = raw_reader_get(reader, key, value)) == MOB_AGAIN && mob_now() < deadline;)
        stand_step(s);
    return status;
}

static struct raw_reader *reader_at(const char *socket)
{
    struct raw_reader *reader = NULL;
    assert_int_equal(raw_reader_open(socket, &reader), MOB_OK);
    return reader;
}

static bool process_serves(struct stand *s)
{
    return stand_is(s, s->book.config.epoch, MOB_CHAIN_SERVING);
}

static bool all_answered(struct stand *s)
{
    return stand_answered(s, &s->neighbour[0]);
}

/* ---- the sequence check: an entry is lost, or overtaken by the next ---- */

static uint64_t lost_seq;
static bool lost_once;

static bool lose_one(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m)
{
    (void)from;
    if (m->type != MOB_GCS_UPD || m->link.seq != lost_seq || lost_once)
        return true;
    lost_once = true;
    stand_hold(s, m); /* overtaken: it comes behind the next; lost: never */
    return false;
}

/* The next to last of some puts does not come, or behind the last. All are acknowledged; are all there? */
static const char *sequence(const char *program, uint64_t seed)
{
    static struct stand s;
    const char *wrong = NULL;
    char key[16], value[64];
    stand_open(&s, program, 1);
    struct stand_neighbour *head = &s.neighbour[0];
    stand_configure(&s, (uint64_t[]){head->id, s.member}, 2);
    until(&s, process_serves, "it serves");
    stand_put(&s, head, "k0", "v0");
    until(&s, all_answered, "the first put is answered");
    int puts = 2 + (int)(seed % 7);
    lost_seq = mob_chain_applied(head->chain) + (uint64_t)puts - 1;
    lost_once = false;
    s.filter = lose_one;
    for (int i = 1; i <= puts; i++) {
        snprintf(key, sizeof key, "k%d", i);
        snprintf(value, sizeof value, "v%d", i);
        stand_put(&s, head, key, value);
    }
    assert_true(lost_once);
    if (seed % 2 == 0)
        stand_release(&s, head);
    until(&s, all_answered, "the puts are answered");
    struct raw_reader *reader = reader_at(s.box.socket);
    for (int i = 0; i <= puts; i++) {
        char expected[16];
        snprintf(key, sizeof key, "k%d", i);
        snprintf(expected, sizeof expected, "v%d", i);
        enum mob_status status = ask(&s, reader, key, value);
        if (status == MOB_NOT_FOUND)
            wrong = "a write that was acknowledged is not there";
        else if (status != MOB_OK || strcmp(value, expected) != 0)
            fail_msg("%s: status %s, value %s", key, mob_status_code(status), value);
    }
    raw_reader_close(reader);
    stand_close(&s);
    return wrong;
}

/* ---- SYNCEND: a joiner that has not got everything ---- */

static bool lose_all(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m)
{
    (void)s;
    (void)from;
    (void)m;
    return false;
}

/* Everything that the source has is on its way to the joiner, or there. */
static bool joiner_follows(struct stand *s)
{
    uint64_t joiner, lag;
    return mob_chain_join(s->neighbour[0].chain, &joiner, &lag) && joiner == s->member && lag == 0;
}

static bool process_in_epoch(struct stand *s)
{
    return s->report.epoch == s->book.config.epoch;
}

/* The source acknowledges a newer value, alone; the joiner is appended before it has heard of that. */
static const char *syncend(const char *program, uint64_t seed)
{
    static struct stand s;
    const char *wrong = NULL;
    char value[64];
    stand_open(&s, program, 1);
    struct stand_neighbour *head = &s.neighbour[0];
    s.enters = true;
    stand_configure(&s, (uint64_t[]){head->id}, 1);
    until(&s, joiner_follows, "it has the snapshot");
    stand_put(&s, head, "k", "old");
    until(&s, all_answered, "the first value is there");
    until(&s, joiner_follows, "it has the first value");
    s.filter = lose_all;
    for (uint64_t i = 0; i < 1 + seed % 5; i++)
        stand_put(&s, head, "k", "new");
    assert_true(stand_answered(&s, head));
    stand_configure(&s, (uint64_t[]){head->id, s.member}, 2);
    until(&s, process_in_epoch, "it is appended");
    struct raw_reader *reader = reader_at(s.box.socket);
    for (int i = 0; i < ASKS && wrong == NULL; i++) {
        enum mob_status status = ask(&s, reader, "k", value);
        if (status == MOB_OK && strcmp(value, "old") == 0)
            wrong = "a value is read that was overwritten, and that acknowledged, before it was asked for";
        else if (status != MOB_WRONG_EPOCH)
            fail_msg("status %s, value %s", mob_status_code(status), value);
        stand_step(&s);
    }
    if (wrong == NULL) { /* now the rest comes */
        s.filter = NULL;
        until(&s, process_serves, "it serves");
        assert_int_equal(ask(&s, reader, "k", value), MOB_OK);
        assert_string_equal(value, "new");
    }
    raw_reader_close(reader);
    stand_close(&s);
    return wrong;
}

/* ---- epochs: the last word of a predecessor that was left out ---- */

/* Of the middle: that this was all. */
static bool hold_syncend(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m)
{
    if (from != &s->neighbour[1] || m->type != MOB_GCS_SYNCEND)
        return true;
    s->held_count = 0;
    stand_hold(s, m);
    return false;
}

static bool middle_has_said(struct stand *s)
{
    return s->held_count == 1 && s->held[0].message.link.seq == mob_chain_applied(s->neighbour[0].chain);
}

static bool process_syncs(struct stand *s)
{
    return stand_is(s, s->book.config.epoch, MOB_CHAIN_SYNCING);
}

/* It has made up its mind about a message of an older epoch: it tells the sender, or believes it. */
static bool old_word_was_heard(struct stand *s)
{
    return s->neighbour[1].configs > 0 || process_serves(s);
}

static bool head_has_committed(struct stand *s)
{
    const struct mob_chain *head = s->neighbour[0].chain;
    return mob_chain_committed(head) == mob_chain_applied(head);
}

static bool stands_still(struct stand *s)
{
    for (int64_t end = mob_now() + STILL_NS; mob_now() < end; stand_step(s))
        if (head_has_committed(s))
            return false;
    return true;
}

/* The middle of three is left out; its SYNCEND arrives when the tail has taken the next epoch and its new
 * predecessor has not been reached yet. A tail that believes it does not ask the new one any more. */
static const char *epoch(const char *program, uint64_t seed)
{
    static struct stand s;
    const char *wrong = NULL;
    stand_open(&s, program, 2);
    struct stand_neighbour *head = &s.neighbour[0], *middle = &s.neighbour[1];
    s.filter = hold_syncend;
    stand_configure(&s, (uint64_t[]){head->id, middle->id, s.member}, 3);
    for (uint64_t i = 0; i < seed % 4; i++)
        stand_open_client(&s, head);
    until(&s, middle_has_said, "the middle has sent everything");
    until(&s, process_syncs, "it waits for the middle's last word");
    head->deaf = true;
    s.neighbour[1].configs = 0;
    stand_configure(&s, (uint64_t[]){head->id, s.member}, 2);
    stand_open_client(&s, head); /* somebody waits for an answer */
    until(&s, process_syncs, "it takes the next epoch");
    uint64_t asked = head->syncs;
    s.filter = NULL;
    stand_release(&s, middle);
    until(&s, old_word_was_heard, "the late word is heard");
    bool believed = process_serves(&s) && head->syncs == asked;
    head->deaf = false;
    if (believed && stands_still(&s))
        wrong = "it serves without having asked its predecessor, and the chain stands still";
    else
        until(&s, head_has_committed, "the chain commits");
    stand_close(&s);
    return wrong;
}

/* ---- the lease: a reader that hears of nothing ---- */

static void put(struct mob_gcs *gcs, const char *value)
{
    struct mob_gcs_put op = {.table = MOB_GCS_KV,
        .key = "k",
        .key_length = 1,
        .value = value,
        .value_length = (uint32_t)strlen(value),
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &op, mob_now() + PATIENCE_NS, NULL), MOB_OK);
}

/* A machine that others fill may make a master suspect a member that is well: then nothing was shown. */
static const char nothing_shown[] = "the chain lost a member before";

static const char *read_at_old_tail(struct raw_reader *reader)
{
    char value[64];
    for (int i = 0; i < ASKS; i++) {
        enum mob_status status = raw_reader_get(reader, "k", value);
        if (status == MOB_OK && strcmp(value, "old") == 0)
            return "a value is read that was overwritten, and that acknowledged, before it was asked for";
        if (status != MOB_AGAIN)
            return nothing_shown;
        poll(NULL, 0, 2);
    }
    return NULL;
}

/* Members and masters do not reach the tail any more, nor it them; its reader does. */
static const char *cut_the_tail_off(struct chain_box *box, uint64_t seed)
{
    char value[64];
    struct mob_gcs *writer = chain_box_client(box);
    put(writer, "old");
    struct chain_box_config before = chain_box_config(box, 0);
    if (before.members != 2 || before.tail < 0) {
        mob_gcs_destroy(writer);
        return nothing_shown;
    }
    struct raw_reader *reader = reader_at(box->member[before.tail].socket);
    enum mob_status status;
    for (int64_t deadline = mob_now() + PATIENCE_NS;
         (status = raw_reader_get(reader, "k", value)) == MOB_AGAIN && mob_now() < deadline;)
        poll(NULL, 0, 2); /* it waits for its first lease */
    poll(NULL, 0, (int)(seed * 37 % 120)); /* where in a lease it is cut off */
    fault_proxy_mute(box->proxy, box->member[before.tail].gcs);
    fault_proxy_deafen(box->proxy, box->member[before.tail].gcs);
    put(writer, "new");
    bool as_planned =
        status == MOB_OK && strcmp(value, "old") == 0 && chain_box_config(box, 0).epoch == before.epoch + 1;
    const char *wrong = as_planned ? read_at_old_tail(reader) : nothing_shown;
    raw_reader_close(reader);
    mob_gcs_destroy(writer);
    return wrong;
}

static const char *lease(const char *program, uint64_t seed)
{
    static struct chain_box box;
    const char *wrong = nothing_shown;
    for (int i = 0; i < 5 && wrong == nothing_shown; i++) {
        struct fault_proxy *proxy = fault_proxy_create(seed);
        chain_box_init(&box, 2, 2, "everysec");
        box.lease_ms = 450;
        box.suspicion_ms = 500;
        chain_box_proxied(&box, proxy);
        for (uint32_t m = 0; m < box.members; m++)
            box.member[m].program = program;
        chain_box_start(&box);
        assert_true(chain_box_wait_length(&box, 2, mob_now() + PATIENCE_NS));
        wrong = cut_the_tail_off(&box, seed);
        chain_box_fini(&box);
        fault_proxy_destroy(proxy);
    }
    if (wrong == nothing_shown)
        fail_msg("%s, five times", nothing_shown);
    return wrong;
}

/* ---- */

static const struct rule rules[] = {
    {"sequence", sequence}, {"syncend", syncend}, {"epoch", epoch}, {"lease", lease}};
enum { RULES = sizeof rules / sizeof *rules };

static void rule_is_needed(void **state)
{
    const struct rule *rule = *state;
    const char *count = getenv("MOBULA_CHAOS_SEEDS"), *first = getenv("MOBULA_CHAOS_SEED"),
               *directory = getenv("MOBULA_BIN_DIR");
    uint64_t seed = first == NULL ? 1 : strtoull(first, NULL, 10);
    char without[512];
    snprintf(without, sizeof without, "%s/../tests/mobula-gcs-without-%s",
        directory == NULL ? "build/release/bin" : directory, rule->name);
    for (int i = 0; i < (count == NULL ? 1 : atoi(count)); i++, seed++) {
        const char *whole = rule->run(NULL, seed);
        if (whole != NULL)
            fail_msg("%s, seed %llu: %s", rule->name, (unsigned long long)seed, whole);
        const char *caught = rule->run(without, seed);
        if (caught == NULL)
            fail_msg("without %s, seed %llu: nothing is seen", rule->name, (unsigned long long)seed);
        print_message("seed %llu: clean; without %s: %s\n", (unsigned long long)seed, rule->name, caught);
    }
}

int main(void)
{
    static struct CMUnitTest tests[RULES];
    size_t count = 0;
    const char *only = getenv("MOBULA_CHAOS_RULE");
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < RULES; i++)
        if (only == NULL || strcmp(only, rules[i].name) == 0)
            tests[count++] = (struct CMUnitTest){.name = rules[i].name,
                .test_func = rule_is_needed,
                .initial_state = (void *)(uintptr_t)&rules[i]};
    if (count == 0) {
        fprintf(stderr, "no rule is called %s\n", only);
        return 2;
    }
    return _cmocka_run_group_tests("gcs_rules", tests, count, NULL, NULL);
}
