#include "runtime/node/recovery.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/wire/recover_row.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/task.h"

enum {
    CLAIMS_AT_ONCE = 64,
    SHOWN_MAX = 16,
    TASKS_FIRST = 64,
    SAY_SECONDS_MAX = 30,
    LOOKS_MAX = 16384 /* of tasks, a step: some 2 ms */
};

enum stage {
    STAGE_TAKEN, /* the row says RUNS */
    STAGE_ENDING, /* it is to say ENDED, or is being told to */
    STAGE_ENDED,
    STAGE_COMMITTING, /* its tasks have ended: the blocks that say so are on their way */
    STAGE_REMOVING, /* the row goes */
    STAGE_SAYING, /* RECOVERED */
    STAGE_OVER,
    STAGE_LOST /* the row is a later incarnation's: this one is sealed, and will hear of that */
};

/* A sealed log. */
struct recovered_log {
    struct recovered_log *next; /* newer ones behind it */
    struct node *node;
    struct mob_recover_row row;
    uint64_t version; /* of the row */
    enum stage stage;
    bool sent; /* the operation of this stage is under way */
    uint32_t lacking; /* tasks for which there was no place */
    struct mob_task_id *tasks; /* that it left, and that have not ended as far as anybody looked */
    uint32_t waiting, capacity, at; /* the next to be looked at */
    struct mob_gcs_sync claim;
};
struct recovery {
    struct recovered_log *logs, **end;
    struct recovered_log *last; /* that was looked for */
    uint32_t open; /* that are neither OVER nor LOST */
    bool begun, waits;
};

struct recovery *recovery_create(void)
{
    struct recovery *recovery = calloc(1, sizeof *recovery);
    MOB_ASSERT(recovery);
    recovery->end = &recovery->logs;
    return recovery;
}

void recovery_destroy(struct recovery *recovery)
{
    while (recovery && recovery->logs) {
        struct recovered_log *next = recovery->logs->next;
        mob_gcs_result_destroy(recovery->logs->claim.result); /* nobody waited for it any more */
        free(recovery->logs->tasks);
        free(recovery->logs);
        recovery->logs = next;
    }
    free(recovery);
}

void recovery_add(struct node *node, uint64_t incarnation)
{
    struct recovered_log *log = calloc(1, sizeof *log);
    MOB_ASSERT(log);
    log->node = node;
    log->row.incarnation = incarnation;
    *node->recovery->end = log;
    node->recovery->end = &log->next;
    node->recovery->open++;
}

bool recovery_open(const struct node *node)
{
    return node->recovery->open > 0;
}

bool recovery_has(const struct node *node, uint64_t incarnation)
{
    for (const struct recovered_log *log = node->recovery->logs; log; log = log->next)
        if (log->row.incarnation == incarnation)
            return true;
    return false;
}

/* ---- taking the records ---- */

static struct mob_gcs_put put_of(const struct recovered_log *log, uint8_t key[MOB_RECOVER_KEY_BYTES])
{
    mob_recover_key(log->row.incarnation, key);
    return (struct mob_gcs_put){.table = MOB_GCS_NODES,
        .key = key,
        .key_length = MOB_RECOVER_KEY_BYTES,
        .value = &log->row,
        .value_length = sizeof log->row,
        .if_version = log->version};
}

/* Somebody's record is there: is it to be taken over? MOB_OK: `log` says it so now. */
static enum mob_status look_at_holder(struct recovered_log *log, const struct mob_gcs_kv *kv)
{
    struct mob_recover_row held;
    enum mob_status status = mob_recover_row_open(kv->value, kv->value_length, &held);
    if (status == MOB_VERSION) {
        MOB_LOG_ERROR("recover", "record_version", "incarnation=%lu", log->row.incarnation);
        return status;
    }
    log->version = kv->version;
    if (status != MOB_OK) /* what does not open names nobody */
        return MOB_OK;
    status = mob_recover_row_take_over(&log->row, &held);
    if (status != MOB_OK)
        MOB_LOG_ERROR("recover", "superseded", "incarnation=%lu by=%lu", log->row.incarnation, held.by);
    return status;
}

/* It was not absent, or not any more as it was found. */
static enum mob_status take_over(struct recovered_log *log, int64_t deadline)
{
    struct node *node = log->node;
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    enum mob_status status = MOB_CONFLICT;
    while (status == MOB_CONFLICT) { /* each time somebody else wrote, who is dead: not for ever */
        struct mob_gcs_result *result = NULL;
        struct mob_gcs_put put = put_of(log, key);
        status = mob_gcs_get_wait(node->gcs, put.table, key, put.key_length, deadline, &result);
        if (status == MOB_NOT_FOUND) {
            log->version = 0;
            status = MOB_OK;
        } else if (status == MOB_OK) {
            status = look_at_holder(log, &mob_gcs_result_answer(result)->kvs[0]);
        }
        mob_gcs_result_destroy(result);
        if (status != MOB_OK)
            return status;
        put = put_of(log, key);
        status = mob_gcs_put_wait(node->gcs, &put, deadline, &log->version);
    }
    return status;
}

static enum mob_status claimed(struct recovered_log *log, int64_t deadline)
{
    struct mob_gcs_result *result = NULL;
    enum mob_status status = mob_gcs_sync_wait(log->node->gcs, &log->claim, deadline, &result);
    if (status == MOB_OK)
        log->version = mob_gcs_result_answer(result)->version;
    mob_gcs_result_destroy(result);
    if (status == MOB_CONFLICT)
        status = take_over(log, deadline);
    if (status == MOB_OK && log->row.taken_from != 0)
        MOB_LOG_INFO("recover", "taken_over", "incarnation=%lu by=%lu from=%lu takeovers=%u",
            log->row.incarnation, log->row.by, log->row.taken_from, log->row.takeovers);
    return status;
}

/* All at once: one round trip, when nobody has had them before. */
enum mob_status recovery_claim(struct node *node, int64_t deadline)
{
    enum mob_status status = MOB_FAILPOINT("node.recover_claim")
    ? MOB_IO : MOB_OK;
    for (struct recovered_log *from = node->recovery->logs, *log; from && status == MOB_OK; from = log) {
        uint32_t sent = 0;
        for (log = from; log && sent < CLAIMS_AT_ONCE && status == MOB_OK; log = log->next, sent++) {
            uint8_t key[MOB_RECOVER_KEY_BYTES];
            log->row = (struct mob_recover_row){.version = MOB_RECOVER_ROW_VERSION,
                .state = MOB_RECOVER_RUNS,
                .incarnation = log->row.incarnation,
                .by = node->incarnation,
                .since_wall_ns = mob_wall_now()};
            struct mob_gcs_put put = put_of(log, key);
            status = mob_gcs_put(node->gcs, &put, mob_gcs_sync_done, &log->claim);
        }
        for (struct recovered_log *each = from; each != log && status == MOB_OK; each = each->next)
            status = claimed(each, deadline);
    }
    if (status != MOB_OK)
        MOB_LOG_ERROR("recover", "not_taken", "status=%s", mob_status_code(status));
    return status == MOB_OK && MOB_FAILPOINT("node.recover_claimed")
    ? MOB_IO : status;
}

enum mob_status recovery_waits(struct node *node, bool for_postgres)
{
    enum mob_status status = MOB_OK;
    if (node->recovery->waits == for_postgres)
        return MOB_OK;
    node->recovery->waits = for_postgres;
    if (for_postgres)
        MOB_LOG_WARN("recover", "waits_for_postgres",
            "why=\"unfinished tasks, or calls of actors, were flushed, and nobody reads them back\"");
    else
        MOB_LOG_INFO("recover", "postgres_answers", "by=%lu", node->incarnation);
    for (struct recovered_log *log = node->recovery->logs; log && status == MOB_OK; log = log->next) {
        uint8_t key[MOB_RECOVER_KEY_BYTES];
        log->row.waits_for = for_postgres ? MOB_RECOVER_WAITS_POSTGRES : MOB_RECOVER_WAITS_NOT;
        struct mob_gcs_put put = put_of(log, key);
        status =
            mob_gcs_put_wait(node->gcs, &put, mob_deadline_after(SAY_SECONDS_MAX * MOB_SEC), &log->version);
    }
    return status == MOB_CONFLICT ? MOB_SEALED : status;
}

/* ---- what they left ---- */

static struct recovered_log *log_of(struct node *node, uint64_t incarnation)
{
    struct recovery *r = node->recovery;
    if (r->last && r->last->row.incarnation == incarnation)
        return r->last;
    for (struct recovered_log *log = r->logs; log; log = log->next)
        if (log->row.incarnation == incarnation)
            return r->last = log;
    /* of another node's log, or of one that is said to have nothing left: it runs all the same */
    MOB_LOG_WARN("recover", "task_of_no_record", "incarnation=%lu", incarnation);
    return NULL;
}

void recovery_took(struct node *node, uint64_t incarnation, struct mob_task_id task)
{
    struct recovered_log *log = log_of(node, incarnation);
    if (!log)
        return;
    if (log->waiting == log->capacity) {
        log->capacity = log->capacity ? log->capacity * 2 : TASKS_FIRST;
        log->tasks = realloc(log->tasks, log->capacity * sizeof *log->tasks);
        MOB_ASSERT(log->tasks);
    }
    log->tasks[log->waiting++] = task;
    log->row.tasks++;
}

void recovery_lacks(struct node *node, uint64_t incarnation)
{
    struct recovered_log *log = log_of(node, incarnation);
    if (!log)
        return;
    log->row.tasks++;
    log->lacking++;
}

/* ---- their ends ---- */

static void step_of(struct recovered_log *log);

static void set_stage(struct recovered_log *log, enum stage stage)
{
    MOB_ASSERT(log->stage < STAGE_OVER && (stage > log->stage));
    log->stage = stage;
    log->sent = false;
    if (stage >= STAGE_OVER)
        log->node->recovery->open--;
}

static void lost(struct recovered_log *log, enum mob_status why)
{
    MOB_LOG_WARN("recover", "record_lost", "incarnation=%lu by=%lu status=%s", log->row.incarnation,
        log->row.by, mob_status_code(why));
    set_stage(log, STAGE_LOST);
}

static void on_ended(void *arg, const struct mob_gcs_answer *answer)
{
    struct recovered_log *log = arg;
    if (answer->status != MOB_OK) {
        lost(log, answer->status);
        return;
    }
    log->version = answer->version;
    set_stage(log, STAGE_ENDED);
    if (!MOB_FAILPOINT("node.recover_ended"))
        step_of(log);
}

static void on_removed(void *arg, const struct mob_gcs_answer *answer)
{
    struct recovered_log *log = arg;
    if (answer->status != MOB_OK) {
        lost(log, answer->status);
        return;
    }
    set_stage(log, STAGE_SAYING);
    if (!MOB_FAILPOINT("node.recover_removed"))
        step_of(log);
}

static void on_said(void *arg, const struct mob_gcs_answer *answer)
{
    struct recovered_log *log = arg;
    if (answer->status != MOB_OK) { /* the next incarnation takes it again, and finds nothing */
        lost(log, answer->status);
        return;
    }
    MOB_LOG_INFO("recover", "recovered", "incarnation=%lu by=%lu tasks=%u", log->row.incarnation, log->row.by,
        log->row.tasks);
    set_stage(log, STAGE_OVER);
    (void)MOB_FAILPOINT("node.recover_said");
}

/* All that this log's tasks have become is committed. */
static void on_committed(void *arg)
{
    struct recovered_log *log = arg;
    set_stage(log, STAGE_REMOVING);
    step_of(log);
}

/* The node ends before that is known; the log is freed with the others. */
static void not_committed(void *arg)
{
    (void)arg;
}

static bool all_have_ended(struct recovered_log *log)
{
    uint32_t looks = log->waiting < LOOKS_MAX ? log->waiting : LOOKS_MAX;
    for (; looks > 0; looks--) {
        if (log->at >= log->waiting)
            log->at = 0;
        if (node_task_find(log->node, log->tasks[log->at]))
            log->at++;
        else
            log->tasks[log->at] = log->tasks[--log->waiting];
    }
    return log->waiting == 0;
}

/* True: it was sent. What the control store has no place for is sent by a later step. */
static bool send_of_stage(struct recovered_log *log)
{
    struct node *node = log->node;
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    struct mob_gcs_put put = put_of(log, key);
    if (log->stage == STAGE_ENDING)
        return mob_gcs_put(node->gcs, &put, on_ended, log) == MOB_OK;
    if (log->stage == STAGE_REMOVING)
        return mob_gcs_delete(node->gcs, &put, on_removed, log) == MOB_OK;
    if (log->stage == STAGE_SAYING)
        return mob_gcs_log_recovered(node->gcs, log->row.incarnation, on_said, log) == MOB_OK;
    return true;
}

static void step_of(struct recovered_log *log)
{
    if (log->stage == STAGE_TAKEN && log->lacking == 0) {
        log->row.state = MOB_RECOVER_ENDED;
        log->row.since_wall_ns = mob_wall_now();
        set_stage(log, log->row.tasks > 0 ? STAGE_ENDING : STAGE_ENDED); /* else it goes at once */
    }
    if (log->stage == STAGE_ENDED && all_have_ended(log)) {
        free(log->tasks);
        log->tasks = NULL;
        set_stage(log, STAGE_COMMITTING);
        lineage_log_then(log->node->log, on_committed, not_committed, log);
    }
    if (!log->sent)
        log->sent = send_of_stage(log);
}

void recovery_step(struct node *node)
{
    if (!node->recovery->begun || node->recovery->open == 0)
        return;
    for (struct recovered_log *log = node->recovery->logs; log; log = log->next)
        if (log->stage < STAGE_OVER)
            step_of(log);
}

void recovery_begun(struct node *node)
{
    node->recovery->begun = true;
    for (struct recovered_log *log = node->recovery->logs; log; log = log->next) {
        const struct mob_recover_row *row = &log->row;
        bool worth_telling = !log->next || row->tasks > 0 || row->taken_from != 0; /* the newest always is */
        if (log->lacking > 0)
            MOB_LOG_ERROR("recover", "not_ended", "incarnation=%lu by=%lu tasks=%u lacking=%u",
                row->incarnation, row->by, row->tasks, log->lacking);
        else if (worth_telling)
            MOB_LOG_INFO(
                "recover", "ended", "incarnation=%lu by=%lu tasks=%u", row->incarnation, row->by, row->tasks);
        if (worth_telling && log->lacking == 0)
            node_event_recovered(node, row);
    }
    recovery_step(node);
}

/* ---- for those who ask ---- */

static const char *state_of(const struct recovered_log *log)
{
    return log->stage == STAGE_OVER ? "recovered"
        : log->stage == STAGE_LOST  ? "lost"
        : log->stage < STAGE_ENDED  ? mob_recover_state_text(MOB_RECOVER_RUNS)
                                    : mob_recover_state_text(log->row.state);
}

json_t *recovery_json(struct node *node)
{
    json_t *out = json_array();
    uint32_t count = 0;
    for (const struct recovered_log *log = node->recovery->logs; log; log = log->next)
        count++;
    for (struct recovered_log *log = node->recovery->logs; log; log = log->next, count--) {
        if (count > SHOWN_MAX)
            continue;
        json_t *one = json_pack("{s:I,s:s,s:i,s:i,s:I}", "incarnation", (json_int_t)log->row.incarnation,
            "state", state_of(log), "tasks", (int)log->row.tasks, "unfinished",
            (int)(log->waiting + log->lacking), "since_us", (json_int_t)(log->row.since_wall_ns / 1000));
        if (log->row.taken_from != 0)
            json_object_set_new(one, "taken_from", json_integer((json_int_t)log->row.taken_from));
        json_array_append_new(out, one);
    }
    return out;
}
