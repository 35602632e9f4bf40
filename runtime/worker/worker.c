#include "runtime/worker/worker.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/wire/sibling.h"
#include "runtime/worker/forked.h"
#include "runtime/worker/worker_log.h"

#define RELEASE_EVERY 32u
#define URGENT_LOOK_NS (100 * MOB_MS)
/* In the flags of a stashed spec. */
#define STASH_CANCELLED 1u /* it ends without a run */
#define STASH_TAKEN_BACK 2u /* it is others' now: of it only the head counts */

/* ---- the stash ---- */

static bool stash_grow(struct mob_worker *worker)
{
    uint32_t capacity = worker->stash_capacity == 0 ? 1u << 16 : worker->stash_capacity * 2;
    if (capacity > MOB_STASH_MAX)
        return false;
    uint8_t *stash = realloc(worker->stash, capacity);
    if (stash == NULL)
        return false;
    worker->stash = stash;
    worker->stash_capacity = capacity;
    return true;
}

/* Under load the stash may never be empty, so what was run must not take room for ever. Only when at least
 * half of it was run: then each byte moves once for each byte that was pushed, at most. */
static void stash_pack(struct mob_worker *worker)
{
    if (worker->stash_begin == 0 || worker->stash_begin < worker->stash_capacity / 2)
        return;
    worker->stash_end -= worker->stash_begin;
    memmove(worker->stash, worker->stash + worker->stash_begin, worker->stash_end);
    worker->stash_begin = 0;
}

static bool stash_push(struct mob_worker *worker, const struct mob_record *record, const uint8_t *body)
{
    if (worker->stash_begin == worker->stash_end)
        worker->stash_begin = worker->stash_end = 0;
    if (worker->stash_end + record->bytes > worker->stash_capacity)
        stash_pack(worker);
    while (worker->stash_end + record->bytes > worker->stash_capacity)
        if (!stash_grow(worker))
            return false;
    uint8_t *at = worker->stash + worker->stash_end;
    memcpy(at, record, sizeof *record);
    memcpy(at + sizeof *record, body, record->bytes - sizeof *record);
    worker->stash_end += record->bytes;
    return true;
}

/* The head that later siblings repeat is that of the last spec in its slot, run or not. */
static void note_head(struct mob_worker *worker, const struct mob_record *record, const uint8_t *body)
{
    struct mob_worker_head *place = &worker->heads[record->aux % MOB_HEAD_SLOTS];
    if (record->type != MOB_IN_SPEC || record->bytes < sizeof *record + sizeof place->in + sizeof place->head)
        return;
    memcpy(&place->in, body, sizeof place->in);
    memcpy(&place->head, body + sizeof place->in, sizeof place->head);
}

static struct mob_record stash_at(const struct mob_worker *worker, uint32_t at)
{
    struct mob_record record;
    memcpy(&record, worker->stash + at, sizeof record);
    return record;
}

/* The first one, of which only the head counts any more. */
static void stash_skip(struct mob_worker *worker, const struct mob_record *record)
{
    note_head(worker, record, worker->stash + worker->stash_begin + sizeof *record);
    worker->stash_begin += record->bytes;
}

void mob_worker_forget_stash(struct mob_worker *worker)
{
    while (worker->stash_begin < worker->stash_end) {
        struct mob_record record = stash_at(worker, worker->stash_begin);
        stash_skip(worker, &record);
    }
}

/* The first spec that is still this worker's. */
static bool stash_first(struct mob_worker *worker, struct mob_record *record_out)
{
    while (worker->stash_begin < worker->stash_end) {
        *record_out = stash_at(worker, worker->stash_begin);
        if (!(record_out->flags & STASH_TAKEN_BACK))
            return true;
        stash_skip(worker, record_out);
    }
    return false;
}

/* ---- records ---- */

static void run_spec(
    struct mob_worker *worker, const struct mob_record *record, const uint8_t *body, bool cancelled)
{
    const uint32_t sibling_bytes = 16;
    uint32_t bytes = record->bytes - (uint32_t)sizeof *record;
    struct mob_worker_head *place = &worker->heads[record->aux % MOB_HEAD_SLOTS];
    uint32_t fixed =
        record->type == MOB_IN_SPEC ? (uint32_t)(sizeof place->in + sizeof place->head) : sibling_bytes;
    if (bytes < fixed)
        return;
    note_head(worker, record, body);
    if (record->type == MOB_IN_SIBLING) { /* in place: what differs, each sibling brings along */
        uint32_t index, caller_seq;
        memcpy(&place->in.position, body, 8);
        memcpy(&index, body + 8, 4);
        memcpy(&caller_seq, body + 12, 4);
        mob_sibling_head(&place->head, index, caller_seq);
    }
    if (cancelled)
        mob_worker_end_unstarted(worker, &place->in, &place->head, body + fixed, bytes - fixed);
    else
        mob_worker_run_task(worker, &place->in, &place->head, body + fixed, bytes - fixed);
}

static void take_outcome(struct mob_worker *worker, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_outcome head;
    if (bytes < sizeof head)
        return;
    memcpy(&head, body, sizeof head);
    if (head.payload_bytes > bytes - sizeof head)
        return;
    struct mob_logged_outcome *outcome = malloc(sizeof *outcome + head.payload_bytes);
    MOB_ASSERT(outcome != NULL); /* a replay without its log would be another run */
    outcome->next = NULL;
    outcome->head = head;
    memcpy(outcome->payload, body + sizeof head, head.payload_bytes);
    *worker->outcomes_tail = outcome;
    worker->outcomes_tail = &outcome->next;
}

static void take_function(struct mob_worker *worker, const uint8_t *body, uint32_t bytes)
{
    struct mob_in_function function;
    if (bytes < sizeof function)
        return;
    memcpy(&function, body, sizeof function);
    const char *name = (const char *)body + sizeof function;
    enum mob_status status = mob_module_cache_add(
        &worker->modules, function.function, function.module, name, strnlen(name, bytes - sizeof function));
    if (status != MOB_OK)
        MOB_LOG_ERROR("worker", "function_not_kept", "status=%s", mob_status_code(status));
}

/* Of a record in the stash. `streams` are those of the heads that its siblings repeat. */
static bool stashed_id(const struct mob_record *record, const uint8_t *body, struct mob_stream *streams,
    struct mob_task_id *task_out)
{
    struct mob_stream *stream = &streams[record->aux % MOB_HEAD_SLOTS];
    struct mob_spec_head head;
    const size_t prefix = record->type == MOB_IN_SPEC ? sizeof(struct mob_in_spec) : 8;
    if (record->bytes < sizeof *record + prefix + (record->type == MOB_IN_SPEC ? sizeof head : 4))
        return false;
    if (record->type == MOB_IN_SPEC) {
        memcpy(&head, body + prefix, sizeof head);
        *stream = head.task.stream;
        *task_out = head.task;
    } else {
        task_out->stream = *stream;
        memcpy(&task_out->index, body + prefix, 4);
    }
    return true;
}

/* Where in the stash this task's spec stands, if it is still this worker's; else the end of the stash. */
static uint32_t stash_find(const struct mob_worker *worker, struct mob_task_id task)
{
    struct mob_stream streams[MOB_HEAD_SLOTS];
    struct mob_record record;
    struct mob_task_id id;
    for (uint32_t i = 0; i < MOB_HEAD_SLOTS; i++)
        streams[i] = worker->heads[i].head.task.stream;
    uint32_t at = worker->stash_begin;
    for (; at < worker->stash_end; at += record.bytes) {
        record = stash_at(worker, at);
        if (stashed_id(&record, worker->stash + at + sizeof record, streams, &id) &&
            mob_task_id_eq(id, task) && !(record.flags & STASH_TAKEN_BACK))
            break;
    }
    return at;
}

static void stash_mark(struct mob_worker *worker, uint32_t at, uint8_t flag)
{
    struct mob_record record = stash_at(worker, at);
    record.flags |= flag;
    memcpy(worker->stash + at, &record, sizeof record);
}

/* What stands behind `last` is others' now. If that one is not here it has begun, and all has been taken. A
 * spec that stays may repeat the head of one before it, so those behind it are not forgotten at once. */
static void take_back(struct mob_worker *worker, const uint8_t *body, uint32_t bytes)
{
    struct mob_task_id last;
    if (bytes < sizeof last)
        return;
    memcpy(&last, body, sizeof last);
    uint32_t at = stash_find(worker, last);
    if (at == worker->stash_end) {
        mob_worker_forget_stash(worker);
        return;
    }
    while ((at += stash_at(worker, at).bytes) < worker->stash_end)
        stash_mark(worker, at, STASH_TAKEN_BACK);
}

static void take_cancel(struct mob_worker *worker, const uint8_t *body, uint32_t bytes)
{
    struct mob_task_id task;
    if (bytes < sizeof task)
        return;
    memcpy(&task, body, sizeof task);
    bool started = false; /* on this stack */
    for (uint32_t i = 0; worker->client->call != NULL && i <= worker->depth; i++)
        if (mob_task_id_eq(worker->frames[i]->call.head.task, task))
            worker->frames[i]->call.cancelled = started = true;
    uint32_t at = started ? worker->stash_end : stash_find(worker, task);
    if (at < worker->stash_end) /* it has not started, and will not: when its turn comes it ends */
        stash_mark(worker, at, STASH_CANCELLED);
}

/* A value of an argument that the node sent ahead; for futures the client has used it already. */
static void take_hint(struct mob_worker *worker, const uint8_t *body)
{
    struct mob_in_ready ready;
    memcpy(&ready, body, sizeof ready);
    if (worker->client->call != NULL || ready.inline_bytes != ready.size || ready.size > MOB_HINT_BYTES ||
        ready.status != MOB_OK)
        return;
    struct mob_hint *hint = &worker->hints[worker->next_hint++ % MOB_HINTS];
    uint8_t *payload = realloc(hint->payload, ready.size + 1);
    hint->bytes = 0;
    hint->type = MOB_TYPE_NONE;
    if (payload == NULL)
        return;
    hint->payload = payload;
    hint->id = ready.id;
    hint->type = (enum mob_value_type)ready.type;
    hint->bytes = (uint32_t)ready.size;
    memcpy(payload, body + sizeof ready, ready.size);
}

/* Records that only workers get; called while the ring is read, be it by the loop or by a task that waits. */
static void take_record(struct mob_client *client, const struct mob_record *record, const uint8_t *body)
{
    struct mob_worker *worker = client->owner;
    uint32_t bytes = record->bytes - (uint32_t)sizeof *record;
    switch ((enum mob_in_record)record->type) {
    case MOB_IN_SPEC:
    case MOB_IN_SIBLING:
        if (worker->revokes > 0)
            note_head(worker, record, body);
        else
            /* Better a dead worker, whose tasks run elsewhere, than a task that nobody runs. */
            MOB_ASSERT(stash_push(worker, record, body));
        return;
    case MOB_IN_REVOKED:
        worker->revokes -= worker->revokes > 0;
        return;
    case MOB_IN_NEST:
        mob_worker_take_nest(worker, body, bytes);
        return;
    case MOB_IN_TAKEN_BACK:
        take_back(worker, body, bytes);
        return;
    case MOB_IN_CANCEL:
        take_cancel(worker, body, bytes);
        return;
    case MOB_IN_OUTCOME:
        take_outcome(worker, body, bytes);
        return;
    case MOB_IN_FUNCTION:
        take_function(worker, body, bytes);
        return;
    case MOB_IN_STOP:
        worker->stopping = true;
        return;
    case MOB_IN_READY:
        take_hint(worker, body);
        return;
    case MOB_IN_READY_RUN:
    case MOB_IN_REPLY:
    case MOB_IN_ACKED:
    case MOB_IN_MISSED:
        return;
    }
}

/* MOB_OUT_BLOCKED is about to be published: what has not started goes to others. */
static void on_blocked(struct mob_client *client)
{
    struct mob_worker *worker = client->owner;
    mob_worker_forget_stash(worker);
    mob_store_rest(client->store);
    worker->revokes++;
}

/* ---- life ---- */

static struct mob_inbox_hooks hooks = {.record = take_record,
    .blocked = on_blocked,
    .suspends = mob_worker_suspends,
    .on_top = mob_worker_on_top};

enum mob_status mob_worker_init(struct mob_worker *worker, const char *state_dir,
    const struct mob_session_welcome *welcome, int memfd, int eventfd)
{
    memset(worker, 0, sizeof *worker);
    worker->outcomes_tail = &worker->outcomes;
    worker->number = welcome->worker;
    snprintf(worker->modules.dir, sizeof worker->modules.dir, "%s/modules", state_dir);
    struct mob_client *client = mob_client_new();
    if (client == NULL)
        return MOB_NO_MEMORY;
    enum mob_status status = mob_store_attach(memfd, eventfd, welcome->slot, &client->store);
    if (status != MOB_OK) {
        mob_client_free(client);
        return status;
    }
    client->worker = true;
    client->owner = worker;
    client->hooks = &hooks;
    client->welcome = *welcome;
    worker->client = client;
    worker->nest_max = welcome->nest_max < MOB_NEST_MAX ? welcome->nest_max : MOB_NEST_MAX;
    status = mob_frame_open(worker);
    if (status != MOB_OK) {
        mob_client_free(client);
        return status;
    }
    worker->cpu_mark_ns = mob_thread_cpu_now();
    return MOB_OK;
}

void mob_worker_fini(struct mob_worker *worker)
{
    mob_worker_destroy_actor(worker);
    for (uint32_t i = 0; i < MOB_HINTS; i++)
        free(worker->hints[i].payload);
    while (worker->outcomes != NULL) {
        struct mob_logged_outcome *outcome = worker->outcomes;
        worker->outcomes = outcome->next;
        free(outcome);
    }
    free(worker->stash);
    mob_frames_free(worker);
    mob_module_cache_fini(&worker->modules);
    mob_client_free(worker->client);
}

bool mob_worker_stashed_task(struct mob_worker *worker, struct mob_task_id *task_out)
{
    struct mob_record record;
    if (!stash_first(worker, &record))
        return false;
    struct mob_stream streams[MOB_HEAD_SLOTS];
    uint32_t slot = record.aux % MOB_HEAD_SLOTS;
    streams[slot] = worker->heads[slot].head.task.stream;
    return stashed_id(&record, worker->stash + worker->stash_begin + sizeof record, streams, task_out);
}

/* Whether it is still this worker's, and what is cancelled, is known before it begins. The record may be on
 * its way: the node publishes it next. */
void mob_worker_read_urgent(struct mob_worker *worker)
{
    struct mob_client *client = worker->client;
    while (mob_store_in_has_urgent(client->store))
        if (mob_client_pump(client) == 0) {
            enum mob_status status =
                mob_store_sleep(client->store, mob_deadline_after(URGENT_LOOK_NS), NULL, NULL);
            (void)status; /* the record, or look again */
        }
}

void mob_worker_run_stashed(struct mob_worker *worker)
{
    struct mob_record record;
    bool any = stash_first(worker, &record);
    MOB_ASSERT(any);
    /* A copy: the task may push to the stash, which then moves. */
    uint8_t *body = malloc(record.bytes);
    MOB_ASSERT(body != NULL);
    memcpy(body, worker->stash + worker->stash_begin + sizeof record, record.bytes - sizeof record);
    worker->stash_begin += record.bytes;
    run_spec(worker, &record, body, record.flags & STASH_CANCELLED);
    free(body);
}

bool mob_worker_step(struct mob_worker *worker)
{
    struct mob_client *client = worker->client;
    bool may_start = worker->suspends == 0;
    struct mob_record record;
    if (may_start && stash_first(worker, &record)) {
        if (mob_store_in_begin(client->store))
            mob_worker_run_stashed(worker);
        else
            mob_worker_read_urgent(worker);
        return true;
    }
    const uint8_t *body = mob_store_in_peek(client->store, &record);
    if (body == NULL)
        return false;
    if (may_start && (record.type == MOB_IN_SPEC || record.type == MOB_IN_SIBLING) && worker->revokes == 0) {
        if (!mob_store_in_begin(client->store)) {
            mob_worker_read_urgent(worker);
            return true;
        }
        /* run_task copies the spec before anything else can read the ring. */
        mob_store_in_pop(client->store);
        run_spec(worker, &record, body, false);
        if (++worker->unreleased >= RELEASE_EVERY) {
            mob_store_in_release(client->store);
            worker->unreleased = 0;
        }
        return true;
    }
    mob_client_take(client, &record, body);
    mob_store_in_pop(client->store);
    return true;
}

/* Step and sleep until the node says stop. */
static void mob_worker_loop(struct mob_worker *worker)
{
    struct mob_client *client = worker->client;
    while (!worker->stopping) {
        if (mob_worker_step(worker))
            continue;
        mob_client_end_damaged_worker(client);
        mob_store_in_release(client->store);
        worker->unreleased = 0;
        worker->finished_ns = 0;
        enum mob_status status = mob_store_sleep(client->store, INT64_MAX, NULL, NULL);
        (void)status; /* a record, or look again */
        worker->cpu_mark_ns = 0;
    }
    while (mob_worker_step(worker)) { /* what was there before the stop */
    }
    mob_store_in_release(client->store);
}

int mob_worker_run(
    const struct mob_worker_config *config, const struct mob_session_welcome *welcome, int memfd, int eventfd)
{
    enum mob_status status = mob_worker_log_open(config, welcome->worker);
    if (status != MOB_OK)
        MOB_LOG_ERROR(
            "worker", "log_not_open", "worker=%u status=%s", welcome->worker, mob_status_code(status));
    struct mob_worker *worker = malloc(sizeof *worker);
    if (worker == NULL)
        return 1;
    status = mob_worker_init(worker, config->state_dir, welcome, memfd, eventfd);
    if (status != MOB_OK) {
        MOB_LOG_ERROR(
            "worker", "not_attached", "worker=%u status=%s", welcome->worker, mob_status_code(status));
        return 1;
    }
    mob_worker_watch_forks();
    mob_worker_loop(worker);
    mob_worker_fini(worker);
    free(worker);
    fflush(NULL);
    return 0;
}
