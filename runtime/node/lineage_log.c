#include "runtime/node/lineage_log.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"

enum {
    ALONE_ENTRIES = 2, /* in a block: one task at a time */
    OPEN_RUNS = 16, /* of results, by worker */
    RUNS_A_CHUNK = 64,
    FETCH_AHEAD = 8 /* effects: as long as a line takes to come from memory */
};

/* A closed block on its way: kept until it is durable. */
struct log_block {
    struct mob_gcs_block base;
    struct log_block *next; /* waiting to be handed to the client */
    int64_t opened_ns;
    uint8_t bytes[];
};

/* Effects at or behind `effect` wait. */
struct log_hold {
    struct log_hold *next;
    uint64_t number, effect;
};

/* Runs when acked > block, as an effect, but no hold keeps it. */
struct log_then {
    struct log_then *next;
    uint64_t block;
    void (*fn)(void *arg);
    void (*drop)(void *arg);
    void *arg;
};

struct run_chunk {
    struct run_chunk *next;
    struct effect_run runs[RUNS_A_CHUNK];
};

struct lineage_log {
    struct lineage_log_options options;
    struct log_then *then, **then_end; /* empty: end is not valid */
    struct log_hold *holds; /* few, oldest last */
    uint64_t holds_given;
    struct mob_block_encoder *encoder;
    struct mob_gcs_log *gcs_log;
    struct mob_job_id job;
    char ns[MOB_NAMESPACE_MAX];
    bool open; /* the encoder holds entries of block `sequence` */
    bool wanted; /* somebody waits for what is in the open block */
    uint32_t usual_entries; /* of the last blocks, in 1/16 */
    bool sealed;
    bool refused; /* the client took no more: until it has let go of some */
    int64_t opened_ns;
    int64_t to_wall_ns; /* wall clock less monotonic clock */
    uint64_t sequence; /* of the open, or else the next, block */
    uint64_t handed; /* blocks given to the client */
    uint64_t kept_from; /* those from this number on are not, for now */
    uint64_t acked;
    uint64_t durable;
    uint64_t entries, bytes;
    struct log_block *waiting_head, *waiting_tail;
    struct effect *effects; /* circular, capacity a power of two */
    uint64_t effect_head, effect_tail, effect_capacity;
    struct open_run {
        uint64_t effect; /* number + 1 of the one that the worker's next result may join; 0 = none */
        struct mob_task_id next; /* whose result would follow its last one */
    } open_runs[OPEN_RUNS];
    struct effect_run *free_runs;
    struct run_chunk *run_chunks;
    uint8_t scratch[MOB_BLOCK_BYTES_MAX];
};

static struct effect *effect_at(struct lineage_log *log, uint64_t i)
{
    return &log->effects[i & (log->effect_capacity - 1)];
}

static struct effect_run *run_take(struct lineage_log *log)
{
    if (!log->free_runs) {
        struct run_chunk *chunk = malloc(sizeof *chunk);
        MOB_ASSERT(chunk); /* as many as effects, and those are bounded by the window */
        chunk->next = log->run_chunks;
        log->run_chunks = chunk;
        for (int i = RUNS_A_CHUNK - 1; i >= 0; i--) {
            chunk->runs[i].next_free = log->free_runs;
            log->free_runs = &chunk->runs[i];
        }
    }
    struct effect_run *run = log->free_runs;
    log->free_runs = run->next_free;
    return run;
}

static void run_give(struct lineage_log *log, struct effect_run *run)
{
    run->next_free = log->free_runs;
    log->free_runs = run;
}

static void runs_free(struct lineage_log *log)
{
    while (log->run_chunks) {
        struct run_chunk *next = log->run_chunks->next;
        free(log->run_chunks);
        log->run_chunks = next;
    }
}

/* Index of the first effect that a hold keeps back. */
static uint64_t first_held(const struct lineage_log *log)
{
    uint64_t first = UINT64_MAX;
    for (const struct log_hold *hold = log->holds; hold; hold = hold->next)
        first = hold->effect < first ? hold->effect : first;
    return first;
}

/* Results of one stream lie side by side; where another stream begins, nothing has been fetched yet. */
static void fetch_ahead(struct lineage_log *log)
{
    uint64_t ahead = log->effect_head + FETCH_AHEAD;
    if (ahead >= log->effect_tail || log->options.fetch_effect == NULL)
        return;
    const struct effect *soon = effect_at(log, ahead), *before = effect_at(log, ahead - 1);
    if (soon->kind == EFFECT_READY && before->kind == EFFECT_READY &&
        mob_stream_eq(soon->ready.id.task.stream, before->ready.id.task.stream))
        return;
    log->options.fetch_effect(log->options.arg, soon);
}

static void run_due_effects(struct lineage_log *log)
{
    while (log->effect_head < log->effect_tail && (!log->holds || log->effect_head < first_held(log)) &&
        (effect_at(log, log->effect_head)->block < log->acked || lineage_log_idle(log))) {
        struct effect due =
            *effect_at(log, log->effect_head); /* running it may queue more and move the ring */
        log->effect_head++;
        fetch_ahead(log);
        log->options.run_effect(log->options.arg, &due);
        if (due.kind == EFFECT_RUN)
            run_give(log, due.run);
    }
}

static void run_due_calls(struct lineage_log *log)
{
    while (log->then && (log->then->block < log->acked || lineage_log_idle(log))) {
        struct log_then *due = log->then;
        log->then = due->next;
        due->fn(due->arg);
        free(due);
    }
}

static void run_due(struct lineage_log *log)
{
    run_due_effects(log);
    run_due_calls(log);
}

static void on_acked(void *arg, uint64_t count)
{
    struct lineage_log *log = arg;
    MOB_ASSERT(count >= log->acked && count <= log->sequence);
    log->acked = count;
    run_due(log);
}

static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct lineage_log *log = arg;
    log->durable = block->number + 1;
    log->refused = false;
    free((struct log_block *)block);
}

static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    struct lineage_log *log = arg;
    MOB_LOG_WARN(
        "lineage", "sealed", "why=%s cut=%lu appended=%lu", mob_status_code(why), cut, log->sequence);
    log->sealed = true;
    log->options.sealed(log->options.arg);
}

enum mob_status lineage_log_create(const struct lineage_log_options *options, struct lineage_log **out)
{
    enum mob_status status = MOB_NO_MEMORY;
    struct lineage_log *log = calloc(1, sizeof *log);
    if (!log)
        return MOB_NO_MEMORY;
    log->options = *options;
    log->kept_from = UINT64_MAX;
    log->effect_capacity = 4096;
    log->effects = malloc(log->effect_capacity * sizeof *log->effects);
    log->encoder = mob_block_encoder_create();
    if (!log->effects || !log->encoder)
        goto err_free;
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, log};
    status = mob_gcs_log_open(options->gcs, options->incarnation, 0, &events, &log->gcs_log);
    if (status != MOB_OK)
        goto err_free;
    *out = log;
    return MOB_OK;
err_free:
    mob_block_encoder_destroy(log->encoder);
    free(log->effects);
    free(log);
    return status;
}

void lineage_log_destroy(struct lineage_log *log)
{
    if (!log)
        return;
    while (log->waiting_head) {
        struct log_block *next = log->waiting_head->next;
        free(log->waiting_head);
        log->waiting_head = next;
    }
    while (log->then) {
        struct log_then *next = log->then->next;
        log->then->drop(log->then->arg);
        free(log->then);
        log->then = next;
    }
    for (; log->effect_head < log->effect_tail; log->effect_head++) {
        struct effect *effect = effect_at(log, log->effect_head);
        if (effect->kind == EFFECT_CALL)
            effect->call.drop(effect->call.arg);
    }
    while (log->holds) {
        struct log_hold *next = log->holds->next;
        free(log->holds);
        log->holds = next;
    }
    mob_block_encoder_destroy(log->encoder);
    runs_free(log);
    free(log->effects);
    free(log);
}

static bool may_hand_over(const struct lineage_log *log)
{
    return log->waiting_head && log->handed - log->acked < LOG_BLOCKS_IN_FLIGHT_MAX &&
        log->handed < log->kept_from;
}

static void hand_over(struct lineage_log *log)
{
    while (may_hand_over(log)) {
        struct log_block *block = log->waiting_head;
        enum mob_status status = mob_gcs_log_append(log->gcs_log, &block->base);
        log->refused = status != MOB_OK;
        if (log->refused) {
            if (status != MOB_QUEUE_FULL && !log->sealed)
                MOB_LOG_WARN("lineage", "append_refused", "status=%s", mob_status_code(status));
            return; /* kept: goes with a later pump */
        }
        log->handed++;
        log->waiting_head = block->next;
        if (!log->waiting_head)
            log->waiting_tail = NULL;
    }
}

static void close_block(struct lineage_log *log)
{
    if (!log->open)
        return;
    log->options.before_close(log->options.arg);
    log->usual_entries += mob_block_entries(log->encoder) * 4;
    log->usual_entries -= log->usual_entries / 4;
    uint32_t length = mob_block_end(log->encoder, log->scratch);
    struct log_block *block = malloc(sizeof *block + length);
    MOB_ASSERT(block); /* unbounded need of memory is excluded by lineage_log_blocked */
    memcpy(block->bytes, log->scratch, length);
    block->base = (struct mob_gcs_block){.bytes = block->bytes, .length = length};
    block->next = NULL;
    block->opened_ns = log->opened_ns;
    if (log->waiting_tail)
        log->waiting_tail->next = block;
    else
        log->waiting_head = block;
    log->waiting_tail = block;
    log->bytes += length;
    log->sequence++;
    log->open = false;
    log->wanted = false;
    if (log->sequence - log->handed >= LOG_BLOCKS_GATHERED)
        hand_over(log);
}

/* Blocks of one log have the same distance between their clocks, unless the wall clock was set or has drifted
 * away: so that a time is the same to the microsecond in whatever block its entry is cut into later. */
int64_t lineage_log_wall(struct lineage_log *log, int64_t mono_ns)
{
    int64_t to_wall_ns = mob_wall_minus_mono(), drift_ns = to_wall_ns - log->to_wall_ns;
    if (drift_ns > LOG_CLOCK_DRIFT_NS || drift_ns < -LOG_CLOCK_DRIFT_NS)
        log->to_wall_ns = to_wall_ns;
    return mono_ns + log->to_wall_ns;
}

int64_t lineage_log_mono(struct lineage_log *log, int64_t wall_ns, int64_t now_ns)
{
    if (wall_ns == 0)
        return 0;
    int64_t mono_ns = wall_ns - lineage_log_wall(log, 0);
    mono_ns = mono_ns < now_ns ? mono_ns : now_ns;
    return mono_ns == 0 ? 1 : mono_ns; /* 0 says that it is not known */
}

static void open_block(struct lineage_log *log)
{
    if (log->open)
        return;
    int64_t now_ns = mob_now();
    struct mob_block_header header = {
        .version = MOB_BLOCK_VERSION,
        .cluster = log->options.cluster,
        .incarnation = log->options.incarnation,
        .sequence = log->sequence,
        .job = log->job,
        .wall_ns = lineage_log_wall(log, now_ns),
        .mono_ns = now_ns,
    };
    memcpy(header.ns, log->ns, sizeof header.ns);
    mob_block_begin(log->encoder, &header);
    log->opened_ns = header.mono_ns;
    log->open = true;
}

void lineage_log_job(struct lineage_log *log, struct mob_job_id job, const char *ns)
{
    if (memcmp(&job, &log->job, sizeof job) == 0)
        return;
    close_block(log);
    log->job = job;
    memset(log->ns, 0, sizeof log->ns);
    strncpy(log->ns, ns, sizeof log->ns - 1);
}

/* Runs `add` on the open block, or on a fresh one when it does not fit. An entry larger than a block is a
 * defect. */
#define APPEND(log, add) \
    do { \
        open_block(log); \
        enum mob_status status_ = (add); \
        if (status_ == MOB_QUEUE_FULL) { \
            close_block(log); \
            open_block(log); \
            status_ = (add); \
        } \
        MOB_ASSERT(status_ == MOB_OK); \
        (log)->entries++; \
    } while (0)

void lineage_log_spec(struct lineage_log *log, const struct mob_spec_head *head, const uint8_t *tail,
    uint32_t tail_bytes, int64_t submitted_ns)
{
    APPEND(log, mob_block_add_spec(log->encoder, head, tail, tail_bytes, submitted_ns));
}

void lineage_log_completion(
    struct lineage_log *log, const struct mob_completion_head *head, const uint8_t *body)
{
    APPEND(log, mob_block_add_completion(log->encoder, head, body));
}

uint32_t lineage_log_specs(struct lineage_log *log, const struct mob_spec_head *head,
    const struct mob_sibling_word *siblings, uint32_t count)
{
    open_block(log);
    uint32_t added = mob_block_add_specs(log->encoder, head, siblings, count);
    if (added == 0) {
        close_block(log);
        open_block(log);
        added = mob_block_add_specs(log->encoder, head, siblings, count);
    }
    MOB_ASSERT(added > 0);
    log->entries += added;
    return added;
}

void lineage_log_completions(struct lineage_log *log, uint32_t worker,
    const struct mob_completion_word *words, const struct mob_queue_times *times, uint32_t count)
{
    log->entries += count;
    open_block(log);
    for (;;) {
        uint32_t added = mob_block_add_completions(log->encoder, worker, words, times, count);
        if (added == count)
            return;
        MOB_ASSERT(mob_block_entries(log->encoder) > 0);
        words += added;
        times += added;
        count -= added;
        close_block(log);
        open_block(log);
    }
}

void lineage_log_put(struct lineage_log *log, const struct mob_out_put *put, const uint8_t *inline_payload)
{
    APPEND(log, mob_block_add_put(log->encoder, put, inline_payload));
}

void lineage_log_edge(struct lineage_log *log, const struct mob_entry_edge *edge)
{
    APPEND(log, mob_block_add_edge(log->encoder, edge));
}

void lineage_log_other(struct lineage_log *log, enum mob_entry_type type, const void *fixed,
    uint32_t fixed_bytes, const void *payload, uint32_t payload_bytes)
{
    APPEND(log, mob_block_add_other(log->encoder, type, fixed, fixed_bytes, payload, payload_bytes));
}

static void grow_effects(struct lineage_log *log)
{
    uint64_t capacity = log->effect_capacity * 2;
    struct effect *bigger = malloc(capacity * sizeof *bigger);
    MOB_ASSERT(bigger); /* at most a few effects an entry, entries are bounded by the window */
    for (uint64_t i = log->effect_head; i < log->effect_tail; i++)
        bigger[i & (capacity - 1)] = *effect_at(log, i);
    free(log->effects);
    log->effects = bigger;
    log->effect_capacity = capacity;
}

/* The open one, or else the newest closed one; never before block 0 is there. */
static uint64_t newest_block(const struct lineage_log *log)
{
    return log->open ? log->sequence : (log->sequence > 0 ? log->sequence - 1 : 0);
}

void lineage_log_then(struct lineage_log *log, void (*fn)(void *arg), void (*drop)(void *arg), void *arg)
{
    struct log_then *then = malloc(sizeof *then);
    MOB_ASSERT(then);
    *then = (struct log_then){.block = newest_block(log), .fn = fn, .drop = drop, .arg = arg};
    log->wanted = true;
    if (!log->then)
        log->then_end = &log->then;
    *log->then_end = then;
    log->then_end = &then->next;
}

void lineage_log_effect(struct lineage_log *log, struct effect *effect)
{
    if (lineage_log_idle(log) && log->effect_head == log->effect_tail && !log->holds) {
        log->options.run_effect(log->options.arg, effect);
        return;
    }
    lineage_log_effect_later(log, effect);
}

/* Not what only marks an object as committed, or gives ring space back. */
static bool somebody_waits(const struct effect *effect)
{
    return effect->kind == EFFECT_CALL ||
        ((effect->kind == EFFECT_READY || effect->kind == EFFECT_RUN) && effect->slot != UINT32_MAX);
}

void lineage_log_effect_later(struct lineage_log *log, struct effect *effect)
{
    if (log->effect_tail - log->effect_head == log->effect_capacity)
        grow_effects(log);
    log->wanted |= somebody_waits(effect);
    effect->block = newest_block(log);
    *effect_at(log, log->effect_tail++) = *effect;
}

/* The effect that the result which follows may join: of the same block, with nothing held back in between. */
static struct effect *joinable(struct lineage_log *log, const struct log_result *result, uint64_t number)
{
    if (number <= log->effect_head)
        return NULL;
    struct effect *effect = effect_at(log, number - 1);
    bool joins = effect->block == newest_block(log) && effect->slot == result->slot &&
        effect->session == result->session && effect->type == result->type &&
        effect->run->count < EFFECT_RUN_MAX;
    return joins ? effect : NULL;
}

static struct effect alone(const struct log_result *result)
{
    struct effect effect = {.kind = EFFECT_READY,
        .type = result->type,
        .flags = MOB_READY_COMMITTED,
        .remakeable = true,
        .status = MOB_OK,
        .inline_bytes = sizeof result->value,
        .slot = result->slot,
        .session = result->session};
    effect.ready.id = mob_object_of(result->task, 0);
    effect.ready.size = sizeof result->value;
    memcpy(effect.ready.small, &result->value, sizeof result->value);
    return effect;
}

static struct effect run_of_one(struct lineage_log *log, const struct log_result *result)
{
    struct effect effect = {
        .kind = EFFECT_RUN, .type = result->type, .slot = result->slot, .session = result->session};
    effect.run = run_take(log);
    effect.run->stream = result->task.stream;
    effect.run->first = result->task.index;
    effect.run->count = 1;
    effect.run->values[0] = result->value;
    return effect;
}

static void lineage_log_result(struct lineage_log *log, const struct log_result *result)
{
    struct open_run *run = &log->open_runs[result->worker % OPEN_RUNS];
    bool follows = mob_task_id_eq(run->next, result->task);
    struct effect *open = follows ? joinable(log, result, run->effect) : NULL;
    run->next = (struct mob_task_id){result->task.stream, result->task.index + 1};
    if (open) {
        open->run->values[open->run->count++] = result->value;
        return;
    }
    struct effect effect = follows ? run_of_one(log, result) : alone(result);
    lineage_log_effect_later(log, &effect);
    run->effect = follows ? log->effect_tail : 0;
}

void lineage_log_results(
    struct lineage_log *log, const struct log_result *first, const uint64_t *values, uint32_t count)
{
    struct log_result one = *first;
    struct open_run *run = &log->open_runs[first->worker % OPEN_RUNS];
    for (uint32_t i = 0; i < count;) {
        one.value = values[i];
        lineage_log_result(log, &one); /* opens a run, or finds the open one */
        one.task.index++;
        i++;
        struct effect *open = run->effect ? joinable(log, &one, run->effect) : NULL;
        if (!open)
            continue;
        uint32_t room = EFFECT_RUN_MAX - open->run->count, some = count - i < room ? count - i : room;
        memcpy(&open->run->values[open->run->count], &values[i], some * sizeof *values);
        open->run->count += some;
        one.task.index += some;
        run->next.index += some;
        i += some;
    }
}

uint64_t lineage_log_hold(struct lineage_log *log)
{
    memset(log->open_runs, 0, sizeof log->open_runs); /* what comes now is held: it joins nothing before */
    struct log_hold *hold = malloc(sizeof *hold);
    MOB_ASSERT(hold);
    *hold = (struct log_hold){log->holds, ++log->holds_given, log->effect_tail};
    log->holds = hold;
    return hold->number;
}

void lineage_log_release(struct lineage_log *log, uint64_t number)
{
    for (struct log_hold **at = &log->holds; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            struct log_hold *hold = *at;
            *at = hold->next;
            free(hold);
            break;
        }
    run_due(log);
}

bool lineage_log_idle(const struct lineage_log *log)
{
    return !log->open && log->acked == log->sequence;
}

bool lineage_log_open(const struct lineage_log *log)
{
    return log->open;
}

bool lineage_log_blocked(const struct lineage_log *log)
{
    return log->sequence - log->acked >= 2 * LOG_BLOCKS_IN_FLIGHT_MAX || log->sealed;
}

int64_t lineage_log_next(const struct lineage_log *log)
{
    if (may_hand_over(log) && !log->refused)
        return log->waiting_head->opened_ns + LOG_BLOCK_AGE_NS_MAX;
    if (log->open)
        return log->opened_ns + LOG_BLOCK_AGE_NS_MAX;
    bool effect_due = log->effect_head < log->effect_tail && !log->holds;
    return log->acked == log->sequence && (effect_due || log->then) ? 0 : INT64_MAX;
}

/* What a sending costs here, in the control store and in its Redis is nearly the same for one block as for
 * many. So what is full waits for company: while more comes, and while others are on their way, whose
 * acknowledgement ends the wait. */
static bool leaves(const struct lineage_log *log, int64_t now_ns, enum lineage_log_turn turn)
{
    if (!log->waiting_head)
        return false;
    return turn == LOG_TURN_FLUSH || (turn == LOG_TURN_QUIET && log->handed == log->acked) ||
        log->sequence - log->handed >= LOG_BLOCKS_GATHERED ||
        now_ns - log->waiting_head->opened_ns >= LOG_BLOCK_AGE_NS_MAX;
}

int64_t lineage_log_pump(struct lineage_log *log, int64_t now_ns, enum lineage_log_turn turn)
{
    /* Among many, what nobody waits for fills the block until its age, and a spec goes out together with its
     * completion. A lone task's goes at once: its acknowledgement is on the way while the task runs. */
    bool due = log->acked == log->sequence && (log->wanted || log->usual_entries <= ALONE_ENTRIES * 16);
    bool flush = turn == LOG_TURN_FLUSH;
    bool closes = log->open && (flush || due || now_ns - log->opened_ns >= LOG_BLOCK_AGE_NS_MAX);
    if (closes)
        close_block(log);
    if (closes || leaves(log, now_ns, turn))
        hand_over(log);
    run_due(log);
    return lineage_log_next(log);
}

void lineage_log_keep_from(struct lineage_log *log, uint64_t block)
{
    log->kept_from = block;
}

void lineage_log_rest(struct lineage_log *log)
{
    if (log->handed == log->acked)
        hand_over(log);
}

void lineage_log_stats(const struct lineage_log *log, struct lineage_log_stats *out)
{
    *out = (struct lineage_log_stats){
        .entries = log->entries,
        .blocks = log->sequence,
        .bytes = log->bytes,
        .handed = log->handed,
        .acked = log->acked,
        .durable = log->durable,
        .in_flight = log->sequence - log->acked,
        .effects_waiting = log->effect_tail - log->effect_head,
    };
}
