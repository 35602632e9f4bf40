/* ctest: timeout=120
 * The source of a join as a process with its Redis, and its joiner in the hands of the test (member_stand.h),
 * which asks for one batch of the snapshot after the other: so what changes between two questions, or between
 * a question and its answer, is not left to chance.
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
#include "gcs/chain/chain_rows.h"
#include "gcs/shard/snapshot_rows.h"
#include "tests/support/member_stand.h"

#define DEADLINE (mob_now() + 60 * MOB_SEC)
#define ATTEMPTS 20 /* a source gives up who is silent for half a second, as this test may be */
#define BLOCKS 300u /* of one task each, and more than a batch has */
#define BLOCKS_MAX 16384u
#define ENTRIES_MAX 256u /* of the log, that the joiner gets */
/* Of so few rows the chain's own tables are one batch each: incarnations, clients, keys. Then come those for
 * which Redis is asked. */
#define TABLES 3u
/* Blocks that Redis lacks at each side of a batch's end: few, so that they are one pass of writes, and more
 * than batches differ by. */
#define AROUND 8u
#define ECHO 1u /* the token of no attempt */

struct answer {
    uint8_t *bytes; /* u16 length of the cursor, cursor, rows */
    uint32_t length;
};
/* One attempt to join. */
struct joiner {
    uint64_t token, batch;
    uint8_t cursor[MOB_CHAIN_CURSOR_MAX];
    uint32_t cursor_bytes;
    struct answer answer; /* to the question for `batch`; NULL: none yet */
    bool left, echoed; /* it was told to begin anew; the source has read all that was sent */
    uint64_t last; /* where the snapshot began, then of the log that has come */
    uint64_t entries[ENTRIES_MAX];
    uint32_t entry_count;
};
static struct source {
    struct stand stand;
    struct joiner joiner;
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked;
} source;

/* ---- what the joiner hears and says ---- */

static void on_log(struct joiner *j, const struct mob_gcs_link_msg *m)
{
    if (m->link.prev != j->last)
        return;
    assert_true(j->entry_count < ENTRIES_MAX);
    j->last = j->entries[j->entry_count++] = m->link.seq;
}

static void on_heard(struct stand *s, struct stand_neighbour *at, const struct mob_gcs_link_msg *m)
{
    (void)s;
    (void)at;
    struct joiner *j = &source.joiner;
    if (m->type == MOB_GCS_LEAVE && m->link.token == ECHO)
        j->echoed = true;
    if (m->link.token != j->token)
        return;
    if (m->type == MOB_GCS_LEAVE)
        j->left = true;
    if (m->type == MOB_GCS_LOG)
        on_log(j, m);
    if (m->type != MOB_GCS_SNAPSHOT || m->link.prev != j->batch || j->answer.bytes != NULL)
        return;
    j->last = m->link.seq;
    j->answer = (struct answer){.bytes = malloc(m->body_bytes), .length = m->body_bytes};
    assert_non_null(j->answer.bytes);
    memcpy(j->answer.bytes, m->body, m->body_bytes);
}

static void say(const struct mob_gcs_link_msg *m)
{
    struct mob_gcs_link_msg message = *m;
    struct stand_neighbour *n = &source.stand.neighbour[0];
    message.epoch = source.stand.book.config.epoch;
    message.from = n->id;
    message.link.to = source.stand.member;
    stand_send(&source.stand, n, &message);
}

static void step(void)
{
    stand_step(&source.stand);
    mob_gcs_step(source.gcs, mob_now());
}

static void forget_answer(void)
{
    free(source.joiner.answer.bytes);
    source.joiner.answer = (struct answer){NULL, 0};
}

static void begin_joining(void)
{
    forget_answer();
    uint64_t token = source.joiner.token == 0 ? ECHO + 1 : source.joiner.token + 1;
    source.joiner = (struct joiner){.token = token, .batch = 1};
}

static void ask(void)
{
    const struct joiner *j = &source.joiner;
    forget_answer();
    say(&(struct mob_gcs_link_msg){.type = MOB_GCS_JOIN,
        .link = {.prev = j->batch, .token = j->token},
        .body = j->cursor,
        .body_bytes = j->cursor_bytes});
}

/* The question was asked; false: the attempt is over. It is asked again, as joiners do: else the source takes
 * this one for gone. The first, soon: before it is heard the source has no link on which to answer. */
static bool wait_answered(void)
{
    const struct joiner *j = &source.joiner;
    int64_t pause = (j->batch == 1 ? 20 : 100) * MOB_MS, again = mob_now() + pause;
    for (int64_t deadline = DEADLINE; j->answer.bytes == NULL && !j->left; step()) {
        assert_true(mob_now() < deadline);
        if (mob_now() < again)
            continue;
        ask();
        again = mob_now() + pause;
    }
    return !j->left;
}

/* All that the joiner has said has been heard by the source: it answers a stranger's message behind it. */
static void wait_heard(void)
{
    source.joiner.echoed = false;
    say(&(struct mob_gcs_link_msg){.type = MOB_GCS_JOINED, .link = {.token = ECHO}});
    for (int64_t deadline = DEADLINE; !source.joiner.echoed; step())
        assert_true(mob_now() < deadline);
}

static struct mob_reader rows_of(const struct answer *answer)
{
    struct mob_reader r = mob_reader_of(answer->bytes, answer->length);
    uint16_t cursor_bytes;
    mob_read_into(&r, &cursor_bytes, sizeof cursor_bytes);
    (void)mob_read_bytes(&r, cursor_bytes);
    assert_true(mob_reader_ok(&r));
    return r;
}

/* The next question is for what follows the answer. False: nothing does. */
static bool go_on(void)
{
    struct joiner *j = &source.joiner;
    uint16_t cursor_bytes;
    memcpy(&cursor_bytes, j->answer.bytes, sizeof cursor_bytes);
    assert_in_range(cursor_bytes, 0, sizeof j->cursor);
    memcpy(j->cursor, j->answer.bytes + sizeof cursor_bytes, cursor_bytes);
    j->cursor_bytes = cursor_bytes;
    j->batch++;
    return cursor_bytes > 0;
}

/* ---- the source ---- */

static void on_acked(void *arg, uint64_t count)
{
    (void)arg;
    source.acked = count;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    fail_msg("sealed at %llu: %s", (unsigned long long)cut, mob_status_code(why));
}

/* Alone in its chain; a node that has registered. */
static void open_source(void)
{
    struct stand *s = &source.stand;
    struct mob_gcs_log_events events = {on_acked, gcs_block_released, on_sealed, NULL};
    stand_open(s, NULL, 1);
    s->hears = on_heard;
    stand_configure(s, &s->member, 1);
    for (int64_t deadline = DEADLINE; !stand_is(s, s->book.config.epoch, MOB_CHAIN_SERVING); stand_step(s))
        assert_true(mob_now() < deadline);
    source.gcs = gcs_box_client(&s->box);
    source.appended = source.acked = 0;
    source.joiner = (struct joiner){0};
    assert_int_equal(mob_gcs_node_register_wait(source.gcs, "node", DEADLINE, &source.incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(source.gcs, source.incarnation, 0, &events, &source.log), MOB_OK);
}

static void close_source(void)
{
    forget_answer();
    mob_gcs_destroy(source.gcs);
    stand_close(&source.stand);
}

static void append(void)
{
    struct gcs_block_spec spec = gcs_block_nth(source.incarnation, source.appended++, 1);
    assert_int_equal(mob_gcs_log_append(source.log, gcs_block_new(&spec)), MOB_OK);
}

static void wait_acked(void)
{
    for (int64_t deadline = DEADLINE; source.acked < source.appended; step())
        assert_true(mob_now() < deadline);
}

/* The source has all up to there in its tables, whatever its Redis does. */
static void wait_applied(uint64_t seq)
{
    for (int64_t deadline = DEADLINE; source.stand.report.applied < seq; step())
        assert_true(mob_now() < deadline);
}

/* Where blocks are, oldest first. */
struct places {
    uint64_t seqs[BLOCKS_MAX];
    uint32_t count;
};
static void add_place(struct places *p, uint64_t seq)
{
    assert_true(p->count < BLOCKS_MAX);
    p->seqs[p->count++] = seq;
}

static void blocks_of_source(struct places *out)
{
    static struct mob_gcs_block_row rows[MOB_GCS_ROWS_MAX];
    struct mob_member_link *link;
    uint32_t count = 0;
    uint64_t next = 0;
    out->count = 0;
    assert_int_equal(gcs_box_member(source.stand.box.socket, 0, &link), MOB_OK);
    do {
        assert_int_equal(mob_member_scan(link, next, 0, rows, &count, &next), MOB_OK);
        for (uint32_t i = 0; i < count; i++)
            add_place(out, rows[i].seq);
    } while (next != 0);
    mob_member_close(link);
}

static void stop_redis(void)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", source.stand.box.redis);
    kill(source.stand.box.redis, SIGSTOP);
    for (int64_t deadline = DEADLINE; state != 'T'; poll(NULL, 0, 1)) {
        assert_true(mob_now() < deadline);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
}

static bool source_says(const char *text)
{
    char path[128], line[1024];
    snprintf(path, sizeof path, "%s/gcs.log", source.stand.box.directory);
    FILE *file = fopen(path, "re");
    bool found = false;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        found = found || strstr(line, text) != NULL;
    fclose(file);
    return found;
}

/* ---- blocks that Redis does not have yet ---- */

static void add_blocks_in(const struct answer *answer, struct places *given)
{
    struct mob_reader r = rows_of(answer);
    struct mob_chain_row row;
    while (mob_chain_row_next(&r, &row)) {
        uint64_t seq;
        if (row.kind != ROW_BLOCK)
            continue;
        assert_true(row.bytes > sizeof seq);
        memcpy(&seq, row.content, sizeof seq);
        add_place(given, seq);
    }
}

/* The batches up to this one, and to the question for the next. False: the attempt is over. */
static bool join_to_batch(uint64_t batch, struct places *given)
{
    while (source.joiner.batch <= batch) {
        ask();
        if (!wait_answered())
            return false;
        add_blocks_in(&source.joiner.answer, given);
        assert_true(go_on());
    }
    return true;
}

/* To the end of the snapshot, and of the log up to there. False: the attempt is over. */
static bool join_upto(uint64_t seq, struct places *given)
{
    struct joiner *j = &source.joiner;
    while (go_on()) {
        ask();
        if (!wait_answered())
            return false;
        add_blocks_in(&j->answer, given);
    }
    int64_t again = 0;
    for (int64_t deadline = DEADLINE; j->last < seq && !j->left; step()) {
        assert_true(mob_now() < deadline);
        if (mob_now() < again)
            continue;
        again = mob_now() + 20 * MOB_MS;
        say(&(struct mob_gcs_link_msg){.type = MOB_GCS_JOINED, .link = {.seq = j->last, .token = j->token}});
    }
    return !j->left;
}

static bool is_among(uint64_t seq, const uint64_t *seqs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (seqs[i] == seq)
            return true;
    return false;
}

/* A joiner takes for dropped what it lacks of the snapshot in front of what it has. */
static void check_joiner_has(const struct places *all, const struct places *given)
{
    const struct joiner *j = &source.joiner;
    uint64_t newest = given->seqs[given->count - 1];
    uint32_t lacks = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        bool logged = all->seqs[i] > newest && is_among(all->seqs[i], j->entries, j->entry_count);
        lacks += !logged && !is_among(all->seqs[i], given->seqs, given->count);
    }
    if (lacks > 0)
        fail_msg("%u blocks came neither with the snapshot, which has blocks up to %llu, nor in the log "
                 "behind it",
            lacks, (unsigned long long)newest);
}

/* How many blocks are in the first batch of them. */
static uint32_t blocks_of_batch(void)
{
    static struct places given;
    for (uint32_t i = 0; given.count = 0, begin_joining(), !join_to_batch(TABLES + 1, &given); i++)
        assert_true(i < ATTEMPTS);
    assert_in_range(given.count, 1, BLOCKS - 1);
    return given.count;
}

/* The joiner asks for blocks while the answer to one pass of writes is awaited, and more blocks are applied
 * before that comes: what Redis had when it was asked is what is picked. Else those are missing on both sides
 * of a batch's end, and what comes with the next batch is behind them. */
static bool pick_while_redis_is_behind(uint32_t per_batch)
{
    static struct places all, given;
    MOB_ASSERT(per_batch > AROUND);
    while (source.appended % per_batch != per_batch - AROUND)
        append();
    wait_acked();
    blocks_of_source(&all);
    uint64_t last = all.seqs[all.count - 1]; /* nobody else writes: the next block is at last + 1 */
    given.count = 0;
    begin_joining();
    if (!join_to_batch(TABLES + source.appended / per_batch, &given))
        return false;
    stop_redis();
    append(); /* on its way to Redis */
    wait_applied(++last);
    ask();
    wait_heard();
    for (uint32_t i = 0; i < 2 * AROUND; i++, last++)
        append(); /* waits for the answer to the first */
    wait_applied(last);
    assert_null(source.joiner.answer.bytes); /* or Redis was not asked, and the test shows nothing */
    kill(source.stand.box.redis, SIGCONT);
    if (!wait_answered())
        return false;
    add_blocks_in(&source.joiner.answer, &given);
    wait_acked();
    if (!join_upto(last, &given))
        return false;
    blocks_of_source(&all);
    assert_int_equal(all.count, source.appended);
    assert_int_equal(all.seqs[all.count - 1], last);
    check_joiner_has(&all, &given);
    return true;
}

static void append_many(void)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        append();
    wait_acked();
}

static void what_redis_does_not_have_yet_is_not_picked(void **state)
{
    (void)state;
    open_source();
    append_many();
    uint32_t per_batch = blocks_of_batch();
    bool done = false;
    for (uint32_t i = 0; !done; i++) {
        assert_true(i < ATTEMPTS);
        done = pick_while_redis_is_behind(per_batch);
        kill(source.stand.box.redis, SIGCONT);
        wait_acked();
    }
    assert_false(source_says("snapshot_row_lost"));
    close_source();
}

/* ---- what flushed blocks leave unfinished ---- */

#define FIRST_GROUPS 9000u /* more than are in one batch */
#define MORE_GROUPS 500u

/* What a joiner is told. */
struct cold {
    uint64_t groups, upto;
    bool ends; /* upto is told */
};
static void add_cold(struct cold *cold, const struct answer *answer)
{
    struct mob_reader r = rows_of(answer);
    struct mob_chain_row row;
    while (mob_chain_row_next(&r, &row)) {
        if (row.kind == ROW_COLD)
            cold->groups += row.bytes / sizeof(struct mob_gcs_flush_group);
        if (row.kind != ROW_COLD_UPTO)
            continue;
        assert_int_equal(row.bytes, sizeof cold->upto);
        memcpy(&cold->upto, row.content, sizeof cold->upto);
        cold->ends = true;
    }
}

/* Groups of their own, from the number that the last one ended with. */
static void flush(struct cold *all, uint64_t upto, uint32_t count)
{
    struct mob_gcs_flush_group *groups = calloc(count, sizeof *groups);
    struct mob_gcs_sync sync = {0};
    assert_non_null(groups);
    for (uint32_t i = 0; i < count; i++)
        groups[i] = (struct mob_gcs_flush_group){
            .stream = gcs_block_stream(1, 1), .group = (uint32_t)all->groups + i, .net = 1};
    struct mob_gcs_flush flush = {.from = all->upto, .upto = upto, .groups = groups, .group_count = count};
    assert_int_equal(mob_gcs_flush(source.gcs, &flush, mob_gcs_sync_done, &sync), MOB_OK);
    free(groups);
    for (int64_t deadline = DEADLINE; !sync.done; step())
        assert_true(mob_now() < deadline);
    assert_int_equal(mob_gcs_result_answer(sync.result)->number, upto);
    mob_gcs_result_destroy(sync.result);
    all->groups += count;
    all->upto = upto;
}

/* Asked once more, the batch is the same. False: the attempt is over. */
static bool same_again(void)
{
    struct joiner *j = &source.joiner;
    struct answer before = j->answer;
    j->answer = (struct answer){NULL, 0};
    ask();
    bool answered = wait_answered();
    if (answered) {
        assert_int_equal(j->answer.length, before.length);
        assert_memory_equal(j->answer.bytes, before.bytes, before.length);
    }
    free(before.bytes);
    return answered;
}

/* To the first batch with such groups. */
static bool join_to_cold(struct cold *told)
{
    *told = (struct cold){0};
    begin_joining();
    do {
        ask();
        if (!wait_answered())
            return false;
        add_cold(told, &source.joiner.answer);
    } while (told->groups == 0 && go_on());
    assert_true(told->groups > 0 && !told->ends); /* there is a second batch, or the test shows nothing */
    return true;
}

/* Each batch twice: its answer may have been lost, that of the last one, too. */
static bool join_rest_of_cold(struct cold *told)
{
    while (go_on()) {
        ask();
        if (!wait_answered() || !same_again())
            return false;
        add_cold(told, &source.joiner.answer);
    }
    return true;
}

/* There is a FLUSH between the answer to the first question and the next one, which asks the same. */
static bool join_over_a_flush(struct cold *all, uint64_t upto)
{
    struct cold told, before = *all;
    if (!join_to_cold(&told))
        return false;
    flush(all, upto, MORE_GROUPS);
    if (!same_again() || !join_rest_of_cold(&told))
        return false;
    assert_true(told.ends);
    assert_int_equal(told.upto, before.upto);
    assert_int_equal(told.groups, before.groups);
    return true;
}

static void the_groups_of_flushed_blocks_are_one_moments(void **state)
{
    (void)state;
    static struct places blocks;
    struct cold all = {0}, told;
    open_source();
    append_many();
    blocks_of_source(&blocks);
    assert_int_equal(blocks.count, BLOCKS);
    flush(&all, blocks.seqs[0], FIRST_GROUPS);
    for (uint32_t i = 1; !join_over_a_flush(&all, blocks.seqs[i]); i++)
        assert_true(i < ATTEMPTS);
    /* The next attempt is told of that FLUSH. */
    for (uint32_t i = 0; !join_to_cold(&told) || !join_rest_of_cold(&told); i++)
        assert_true(i < ATTEMPTS);
    assert_int_equal(told.upto, all.upto);
    assert_int_equal(told.groups, all.groups);
    close_source();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_redis_does_not_have_yet_is_not_picked),
        cmocka_unit_test(the_groups_of_flushed_blocks_are_one_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
