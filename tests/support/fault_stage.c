#include "tests/support/fault_stage.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/chain_compare.h"

/* What has ended starts again; a failpoint is of one life. */
static void tend(void *arg)
{
    struct stage *s = arg;
    if (s->hold)
        return;
    chain_box_tend(&s->box);
    for (uint32_t i = 0; i < s->box.members; i++) {
        pid_t pid = s->box.member[i].gcs;
        if (s->seen[i] != 0 && pid != 0 && pid != s->seen[i]) {
            s->deaths++;
            s->box.member[i].failpoints = NULL;
        }
        s->seen[i] = pid != 0 ? pid : s->seen[i];
    }
}

void stage_failed(struct stage *s, const char *what)
{
    fail_msg("%s, seed %llu: %s (%s, %s)", s->fault->name, (unsigned long long)s->seed, what,
        s->box.directory, s->box.member[0].directory);
}

void stage_good(struct stage *s)
{
    if (s->load.wrong[0] != 0)
        stage_failed(s, s->load.wrong);
}

uint32_t stage_lines_with(const char *path, const char *text)
{
    char line[1024];
    uint32_t count = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

/* The first chain has its members in the order in which the active master heard of them. */
static void start_in_order(struct stage *s, const char *head, const char *tail)
{
    char log[128];
    int64_t deadline = mob_now() + PATIENCE_NS;
    snprintf(log, sizeof log, "%s/master.0.log", s->box.directory);
    for (uint32_t i = 0; i < s->box.masters; i++)
        chain_box_start_master(&s->box, i);
    while (stage_lines_with(log, " active ") == 0 && mob_now() < deadline)
        poll(NULL, 0, 5);
    for (uint32_t i = 0; i < s->box.members; i++) {
        s->box.member[i].failpoints = i == 0 ? head : i + 1 == s->box.members ? tail : NULL;
        chain_box_start_member(&s->box, i);
        s->box.member[i].failpoints = NULL;
        s->seen[i] = s->box.member[i].gcs;
        while (stage_lines_with(log, "member_heard") <= i && mob_now() < deadline)
            poll(NULL, 0, 5);
    }
    if (!chain_box_wait_length(&s->box, s->box.members, deadline))
        stage_failed(s, "the chain does not come up");
    bool in_order = s->deaths > 0 || chain_box_place(&s->box, false) == 0;
    if (!in_order)
        stage_failed(s, "the first member is not the head");
}

static const char *point_text(struct stage *s, const char *point, char out[64])
{
    uint32_t passage = 1 + (uint32_t)(s->seed * 7919 % s->fault->passages);
    snprintf(out, 64, "%s=kill@%u", point, passage);
    return out;
}

/* Of members that start from now on. */
static void set_caps(bool large)
{
    static const char *const names[] = {"MOBULA_GCS_SOFT_BYTES", "MOBULA_GCS_HARD_BYTES"};
    for (int i = 0; i < 2; i++)
        if (large)
            setenv(names[i], "8000000000", 1);
        else
            unsetenv(names[i]);
}

void stage_open(struct stage *s, const struct fault *fault, uint64_t seed)
{
    char head[64], tail[64];
    *s = (struct stage){.fault = fault, .seed = seed};
    set_caps(fault->large);
    chain_box_init(&s->box, fault->members, fault->members, "everysec");
    const char *suspicion = getenv("MOBULA_CHAOS_SUSPICION_MS");
    if (suspicion != NULL) {
        s->box.suspicion_ms = atoi(suspicion);
        s->box.lease_ms = s->box.suspicion_ms - 2;
    }
    s->postgres = fault->postgres || (seed % 2 == 0 && pg_box_available());
    if (s->postgres) {
        pg_box_init(&s->pg);
        pg_box_start(&s->pg);
        s->box.postgres = s->pg.data;
    }
    s->over_tcp = fault->some_over_tcp && seed % 3 == 1;
    if (s->over_tcp)
        chain_box_over_tcp(&s->box);
    if (fault->proxied) {
        s->proxy = fault_proxy_create(seed);
        chain_box_proxied(&s->box, s->proxy);
    }
    start_in_order(s, fault->head_point == NULL ? NULL : point_text(s, fault->head_point, head),
        fault->tail_point == NULL ? NULL : point_text(s, fault->tail_point, tail));
    struct gcs_load_options load = {.sockets = s->box.clients,
        .seed = seed,
        .window = fault->window == 0 ? 16 : fault->window,
        .flushed = fault->flushed,
        .tend = tend,
        .arg = s};
    gcs_load_init(&s->load, &load);
    gcs_load_steps(&s->load, STEPS, PATIENCE_NS);
    stage_good(s);
}

void stage_steps(struct stage *s)
{
    gcs_load_steps(&s->load, STEPS, PATIENCE_NS);
    stage_good(s);
}

void stage_pause_up_to(struct stage *s, int64_t ns)
{
    gcs_load_for(&s->load, (int64_t)(gcs_load_random(&s->load) % (uint64_t)ns));
    stage_good(s);
}

/* Under load, until a condition holds. */
void stage_until(struct stage *s, bool (*holds)(struct stage *s), const char *what)
{
    for (int64_t deadline = mob_now() + PATIENCE_NS; !holds(s);) {
        if (mob_now() > deadline)
            stage_failed(s, what);
        gcs_load_for(&s->load, 10 * MOB_MS);
        stage_good(s);
    }
}

bool stage_is_whole(struct stage *s)
{
    return chain_box_wait_length(&s->box, s->box.members, mob_now() - 1);
}

bool stage_has_died(struct stage *s)
{
    return s->deaths > 0;
}

void stage_whole_again(struct stage *s)
{
    stage_until(s, stage_is_whole, "the chain is not whole again");
    stage_steps(s);
}

void stage_start_flusher(struct stage *s)
{
    struct flush_box flush = {.gcs = &s->box.member[0],
        .pg = &s->pg,
        .sockets = s->box.clients,
        .cluster = CHAIN_BOX_CLUSTER,
        .batch_bytes = "64KiB",
        .delay_ms = "20",
        .hot_percent = "0",
        .maintain_ms = "1h"}; /* which is a client that comes and goes: positions would never stand still */
    s->flusher = flush_box_spawn(&flush, NULL);
}

bool stage_stats(struct stage *s, int slot, struct mob_gcs_stats *out)
{
    struct mob_member_link *link = NULL;
    bool good = gcs_box_member(s->box.member[slot].socket, s->box.shard, &link) == MOB_OK &&
        mob_member_stats(link, out) == MOB_OK;
    mob_member_close(link);
    return good;
}

void stage_compare_members(struct stage *s)
{
    struct chain_compared c = chain_compare(&s->box, mob_now() + PATIENCE_NS);
    s->load.progress_ns = mob_now(); /* no pause: nobody asked meanwhile */
    if (c.wrong[0] != 0)
        stage_failed(s, c.wrong);
    print_message("equal at %llu: flushed up to %llu, %llu blocks left\n", (unsigned long long)c.applied,
        (unsigned long long)c.flushed, (unsigned long long)c.blocks);
}

static bool all_flushed(struct stage *s, struct mob_database *db)
{
    return pg_box_number(db, "SELECT coalesce(sum(blocks), 0)::bigint FROM mobula.batch") ==
        (int64_t)s->load.appended;
}

/* After the load: each block is in the database, once. */
static void check_flushed(struct stage *s)
{
    struct mob_database *db = pg_box_open(&s->pg);
    for (int64_t deadline = mob_now() + PATIENCE_NS; !all_flushed(s, db); poll(NULL, 0, 50)) {
        chain_box_tend(&s->box);
        if (mob_now() > deadline)
            stage_failed(s, "not everything comes to the database");
    }
    if (pg_box_number(db, "SELECT sum(specs)::bigint FROM mobula.bucket") !=
        (int64_t)(s->load.appended * GCS_LOAD_TASKS))
        stage_failed(s, "tasks are missing in the database, or twice there");
    if (pg_box_number(db, "SELECT count(*) FROM mobula.gap") != 0)
        stage_failed(s, "the database has a gap");
    mob_database_close(db);
    stage_compare_members(s);
}

void stage_close(struct stage *s)
{
    if (s->proxy != NULL)
        fault_proxy_set(s->proxy, &(struct fault_rates){0});
    stage_whole_again(s);
    gcs_load_finish(&s->load, PATIENCE_NS);
    stage_good(s);
    if (s->flusher != 0)
        check_flushed(s);
    const struct gcs_history_verdict *v = &s->load.verdict;
    print_message("%s seed %llu, masters' table in %s: %zu operations, %zu unknown, %zu keys, %llu blocks, "
                  "longest pause %lld ms, deaths %u\n",
        s->fault->name, (unsigned long long)s->seed, s->postgres ? "PostgreSQL" : "a file", v->done,
        v->unknown, v->keys, (unsigned long long)s->load.acked, (long long)(s->load.longest_ns / MOB_MS),
        s->deaths);
    assert_true(v->done >= 3 * STEPS && s->load.acked >= 2 * STEPS); /* else it shows nothing */
    gcs_load_fini(&s->load);
    gcs_box_end(&s->flusher, SIGKILL);
    chain_box_fini(&s->box);
    fault_proxy_destroy(s->proxy);
    if (s->postgres)
        pg_box_fini(&s->pg);
}

int stage_slot_at(struct stage *s, bool tail)
{
    int slot = chain_box_place(&s->box, tail);
    if (slot < 0)
        stage_failed(s, "nobody knows who is where");
    return slot;
}

void stage_end_member(struct stage *s, int slot)
{
    gcs_box_end(&s->box.member[slot].gcs, SIGKILL);
}

void stage_end_redis(struct stage *s, int slot)
{
    struct gcs_box *m = &s->box.member[slot];
    char path[128];
    gcs_box_end(&m->redis, SIGKILL);
    snprintf(path, sizeof path, "%s/redis.sock", m->directory);
    unlink(path);
}

int64_t stage_seconds(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    return (text == NULL ? otherwise : atoi(text)) * MOB_SEC;
}

#define ASK_NS (200 * MOB_MS)
#define TOLD_NS MOB_SEC /* what a client knows by itself; with others' work beside */

static void expect_told(
    struct stage *s, const char *who, enum mob_status got, enum mob_status expected, int64_t took_ns)
{
    char text[128];
    if (got == expected && took_ns <= TOLD_NS)
        return;
    snprintf(text, sizeof text, "%s was told %s after %lld ms, not %s within %lld", who, mob_status_code(got),
        (long long)(took_ns / MOB_MS), mob_status_code(expected), (long long)(TOLD_NS / MOB_MS));
    stage_failed(s, text);
}

/* The client sends a write again until it is answered, so it ends with none of its own but at the close. */
void stage_asks_in_vain(struct stage *s)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    struct mob_gcs *gcs = chain_box_client(&s->box);
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "nobody",
        .key_length = 6,
        .value = "v",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    int64_t before = mob_now();
    if (mob_gcs_put(gcs, &put, mob_gcs_sync_done, &sync) != MOB_OK)
        stage_failed(s, "a request was refused before anybody was asked");
    enum mob_status status = mob_gcs_sync_wait(gcs, &sync, before + ASK_NS, &result);
    expect_told(s, "who waits for a put", status, MOB_TIMEOUT, mob_now() - before - ASK_NS);
    before = mob_now();
    mob_gcs_close(gcs);
    status = mob_gcs_sync_wait(gcs, &sync, before + 10 * TOLD_NS, &result);
    expect_told(s, "whose client is closed", status, MOB_CLOSED, mob_now() - before);
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
}

static bool all_told(const struct gcs_load *l)
{
    for (uint32_t i = 0; i < l->client_count; i++)
        if (l->clients[i].link == MOB_OK)
            return false;
    return true;
}

void stage_nobody_is_there(struct stage *s)
{
    int64_t before = mob_now();
    while (!all_told(&s->load) && mob_now() - before < 10 * TOLD_NS)
        gcs_load_for(&s->load, MOB_MS);
    stage_good(s);
    int64_t took_ns = mob_now() - before;
    for (uint32_t i = 0; i < s->load.client_count; i++)
        expect_told(s, "a client that was linked", s->load.clients[i].link, MOB_UNAVAILABLE, took_ns);
    for (uint32_t i = 0; i < s->box.members; i++) {
        struct mob_member_link *link = NULL;
        before = mob_now();
        enum mob_status status = gcs_box_member(s->box.member[i].socket, s->box.shard, &link);
        mob_member_close(link);
        expect_told(s, "who asks a member", status, MOB_UNAVAILABLE, mob_now() - before);
    }
    stage_asks_in_vain(s);
}
