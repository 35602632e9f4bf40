/* A control store in the test's hands: it defines what runtime/node calls of gcs/client, so the node under
 * test links it instead. Blocks and rows outlive the node (FAKE), as the real one's do; what is acknowledged
 * or answered, and when, the test says. One file of a test program includes it. One thread.
 */
#ifndef MOB_TESTS_UNIT_RUNTIME_NODE_FAKE_GCS_H
#define MOB_TESTS_UNIT_RUNTIME_NODE_FAKE_GCS_H

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/wire/block.h"
#include "gcs/client/client_sync.h"

enum { FAKE_BLOCKS_MAX = 65536, FAKE_ROWS_MAX = 4096, FAKE_LOGS_MAX = 64 };

struct fake_block {
    uint64_t incarnation, number;
    uint32_t length;
    uint8_t *bytes;
};
struct fake_row {
    enum mob_gcs_table table;
    uint8_t key[MOB_GCS_KEY_MAX];
    uint32_t key_length, value_length;
    uint8_t *value; /* NULL: deleted */
    uint64_t version; /* 0: it was never there */
};
/* An operation that is not answered yet. */
struct fake_op {
    struct fake_op *next;
    enum { FAKE_OTHER, FAKE_READ } kind;
    mob_gcs_done_fn *done;
    void *arg;
    enum mob_status status;
    uint64_t number, version;
    /* a read of a group, answered from what is there when its turn comes */
    struct mob_gcs_group_key groups[MOB_GCS_GROUPS_MAX];
    uint32_t group_count;
    bool all; /* not some groups: everything */
    int row; /* a get: which; -1 none */
    enum mob_gcs_table table; /* a list */
    bool list, keys_only, incarnations;
    uint8_t prefix[MOB_GCS_KEY_MAX]; /* of a list */
    uint32_t prefix_length;
    uint64_t after; /* of incarnations */
};
struct mob_gcs_log {
    uint64_t incarnation, appended, acked;
    struct mob_gcs_log_events events;
    struct mob_gcs_block *first, **end; /* not acknowledged yet */
};
struct mob_gcs {
    int fd;
    struct fake_op *ops, **ops_end;
    struct mob_gcs_log log;
};

static struct {
    struct fake_block blocks[FAKE_BLOCKS_MAX];
    uint32_t block_count;
    struct fake_row rows[FAKE_ROWS_MAX];
    uint32_t row_count;
    uint64_t incarnations, versions;
    char node_name[16]; /* of all incarnations; "": none of them is the node's, so it recovers no log */
    bool recovered[FAKE_LOGS_MAX]; /* RECOVERED was said of incarnation i + 1 */
    bool superseded; /* one behind the newest that registered lives, under the same name */
    uint64_t lost_registration; /* this one is not there any more; 0: all are */
    uint64_t sealed; /* the latest that was asked to be */
    uint32_t reads; /* of groups, answered so far */
    uint32_t lone_reads; /* of these, for one group alone */
    bool is_old; /* it does not know questions for several groups */
    bool hold_acks; /* blocks are kept, and nobody hears it */
    bool leaves_unfinished; /* a node that starts is told of none */
    bool hold_reads; /* reads of groups wait for fake_gcs_answer_read */
    bool hold_losses; /* nor are losses listed */
    enum mob_status group_reads; /* what they end with, if not MOB_OK */
    uint32_t failing_reads; /* so many of them end with MOB_UNAVAILABLE */
    bool full; /* it has no room for changes of rows */
    struct mob_job_id dropped; /* of this job a block went, says the answer to each that drops its blocks */
    uint32_t value_bytes_listed; /* of all lists of checkpoints */
    enum mob_status checkpoint_reads; /* what gets of checkpoints end with, if not MOB_OK */
} FAKE;

static inline void fake_gcs_reset(void)
{
    for (uint32_t i = 0; i < FAKE.block_count; i++)
        free(FAKE.blocks[i].bytes);
    for (uint32_t i = 0; i < FAKE.row_count; i++)
        free(FAKE.rows[i].value);
    memset(&FAKE, 0, sizeof FAKE);
}

/* ---- the log ---- */

enum mob_status mob_gcs_log_open(struct mob_gcs *gcs, uint64_t incarnation, uint64_t first_number,
    const struct mob_gcs_log_events *events, struct mob_gcs_log **log_out)
{
    gcs->log = (struct mob_gcs_log){
        .incarnation = incarnation, .appended = first_number, .acked = first_number, .events = *events};
    gcs->log.end = &gcs->log.first;
    *log_out = &gcs->log;
    return MOB_OK;
}

enum mob_status mob_gcs_log_append(struct mob_gcs_log *log, struct mob_gcs_block *block)
{
    MOB_ASSERT(FAKE.block_count < FAKE_BLOCKS_MAX);
    struct fake_block *b = &FAKE.blocks[FAKE.block_count++];
    *b = (struct fake_block){log->incarnation, log->appended, block->length, malloc(block->length)};
    memcpy(b->bytes, block->bytes, block->length);
    block->number = log->appended++;
    block->next = NULL;
    *log->end = block;
    log->end = &block->next;
    return MOB_OK;
}

static inline void fake_acknowledge(struct mob_gcs *gcs)
{
    struct mob_gcs_log *log = &gcs->log;
    if (log->acked == log->appended)
        return;
    log->acked = log->appended;
    struct mob_gcs_block *block = log->first;
    log->first = NULL;
    log->end = &log->first;
    log->events.acked(log->events.arg, log->acked);
    while (block) {
        struct mob_gcs_block *next = block->next;
        log->events.released(log->events.arg, block);
        block = next;
    }
}

/* ---- operations ---- */

static inline struct fake_op *fake_op(struct mob_gcs *gcs, mob_gcs_done_fn *done, void *arg)
{
    struct fake_op *op = calloc(1, sizeof *op);
    MOB_ASSERT(op);
    op->done = done;
    op->arg = arg;
    op->row = -1;
    *gcs->ops_end = op;
    gcs->ops_end = &op->next;
    return op;
}

static inline bool fake_block_holds(
    const struct fake_block *b, const struct mob_gcs_group_key *groups, uint32_t count)
{
    static struct mob_zone_map zone;
    struct mob_block_header header;
    MOB_ASSERT(mob_block_peek(b->bytes, b->length, &header, &zone) == MOB_OK);
    for (uint32_t i = 0; i < zone.group_count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (zone.groups[i].group == groups[k].group &&
                mob_stream_eq(zone.groups[i].stream, groups[k].stream))
                return true;
    return false;
}

static inline void fake_answer_blocks(struct fake_op *op, struct mob_gcs_answer *answer)
{
    static struct mob_gcs_block_row rows[FAKE_BLOCKS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < FAKE.block_count; i++) {
        const struct fake_block *b = &FAKE.blocks[i];
        if (op->all || fake_block_holds(b, op->groups, op->group_count))
            rows[count++] = (struct mob_gcs_block_row){.seq = i + 1,
                .incarnation = b->incarnation,
                .number = b->number,
                .bytes = b->bytes,
                .length = b->length};
    }
    answer->blocks = rows;
    answer->block_count = count;
}

static inline void fake_kv(const struct fake_row *row, bool key_only, struct mob_gcs_kv *kv)
{
    *kv = (struct mob_gcs_kv){.key = row->key,
        .key_length = row->key_length,
        .value = key_only ? NULL : row->value,
        .value_length = key_only ? 0 : row->value_length,
        .version = row->version};
}

static inline bool fake_is_asked(const struct fake_op *op, int row)
{
    const struct fake_row *r = &FAKE.rows[row];
    if (!op->list)
        return row == op->row;
    return r->table == op->table && r->key_length >= op->prefix_length &&
        memcmp(r->key, op->prefix, op->prefix_length) == 0;
}

static inline void fake_answer_rows(struct fake_op *op, struct mob_gcs_answer *answer)
{
    static struct mob_gcs_kv kvs[FAKE_ROWS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < FAKE.row_count; i++)
        if (FAKE.rows[i].value && fake_is_asked(op, (int)i))
            fake_kv(&FAKE.rows[i], op->keys_only, &kvs[count++]);
    for (uint32_t i = 0; op->list && op->table == MOB_GCS_CHECKPOINTS && i < count; i++)
        FAKE.value_bytes_listed += kvs[i].value_length;
    answer->kvs = kvs;
    answer->kv_count = count;
}

static inline void fake_answer(struct mob_gcs *gcs, struct fake_op *op)
{
    static struct mob_gcs_incarnation incarnations[FAKE_LOGS_MAX];
    (void)gcs;
    struct mob_gcs_answer answer = {.status = op->status, .number = op->number, .version = op->version};
    bool of_group = op->kind == FAKE_READ && !op->all, fails = of_group && FAKE.failing_reads > 0;
    FAKE.failing_reads -= fails;
    if (fails)
        answer.status = MOB_UNAVAILABLE;
    else if (of_group && FAKE.group_reads != MOB_OK)
        answer.status = FAKE.group_reads;
    else if (of_group && FAKE.is_old && op->group_count > 1)
        answer.status = MOB_INVALID;
    else if (op->kind == FAKE_READ)
        fake_answer_blocks(op, &answer);
    else if (op->list || op->row >= 0)
        fake_answer_rows(op, &answer);
    if (op->incarnations) {
        for (uint64_t i = op->after; i < FAKE.incarnations + FAKE.superseded; i++) {
            if (FAKE.lost_registration == i + 1)
                continue;
            struct mob_gcs_incarnation *in = &incarnations[answer.incarnation_count++];
            *in = (struct mob_gcs_incarnation){.id = i + 1,
                .state = i == FAKE.incarnations ? MOB_GCS_LIVE
                    : FAKE.recovered[i]         ? MOB_GCS_RECOVERED
                                                : MOB_GCS_SEALED};
            memcpy(in->name, FAKE.node_name, sizeof FAKE.node_name);
        }
        answer.incarnations = incarnations;
    }
    FAKE.reads += op->kind == FAKE_READ;
    FAKE.lone_reads += of_group && op->group_count == 1;
    if (op->done)
        op->done(op->arg, &answer);
    free(op);
}

static inline struct fake_op *fake_take_out(struct mob_gcs *gcs, struct fake_op **at)
{
    struct fake_op *op = *at;
    *at = op->next;
    if (!op->next)
        gcs->ops_end = at;
    return op;
}

/* How many reads of groups wait, and the answer to one of them (0 = the first asked). */
static inline bool fake_gcs_losses_wait(const struct mob_gcs *gcs)
{
    const struct fake_op *op = gcs->ops;
    while (op && !(op->list && op->table == MOB_GCS_LOSSES))
        op = op->next;
    return op != NULL;
}

static inline uint32_t fake_gcs_reads_waiting(const struct mob_gcs *gcs)
{
    uint32_t count = 0;
    for (const struct fake_op *op = gcs->ops; op; op = op->next)
        count += op->kind == FAKE_READ && !op->all;
    return count;
}

static inline void fake_gcs_answer_read(struct mob_gcs *gcs, uint32_t which)
{
    for (struct fake_op **at = &gcs->ops; *at; at = &(*at)->next)
        if ((*at)->kind == FAKE_READ && !(*at)->all && which-- == 0) {
            fake_answer(gcs, fake_take_out(gcs, at));
            return;
        }
    MOB_ASSERT(!"so many reads wait");
}

int64_t mob_gcs_step(struct mob_gcs *gcs, int64_t now_ns)
{
    (void)now_ns;
    if (!FAKE.hold_acks)
        fake_acknowledge(gcs);
    for (struct fake_op **at = &gcs->ops; *at;) {
        bool held = (*at)->kind == FAKE_READ
            ? !(*at)->all && FAKE.hold_reads
            : (*at)->list && (*at)->table == MOB_GCS_LOSSES && FAKE.hold_losses;
        if (held) {
            at = &(*at)->next;
            continue;
        }
        fake_answer(gcs, fake_take_out(gcs, at));
        at = &gcs->ops; /* the answer may have asked for more */
    }
    return INT64_MAX;
}

int64_t mob_gcs_send(struct mob_gcs *gcs)
{
    (void)gcs;
    return INT64_MAX;
}

enum mob_status mob_gcs_run_until(struct mob_gcs *gcs, const bool *done, int64_t deadline_ns)
{
    (void)deadline_ns;
    for (int i = 0; i < 1000 && !*done; i++)
        mob_gcs_step(gcs, 0);
    return *done ? MOB_OK : MOB_TIMEOUT;
}

enum mob_status mob_gcs_group_blocks(struct mob_gcs *gcs, struct mob_stream stream, uint32_t group,
    uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    (void)position;
    struct fake_op *op = fake_op(gcs, done, arg);
    op->kind = FAKE_READ;
    op->groups[0] = (struct mob_gcs_group_key){stream, group};
    op->group_count = 1;
    return MOB_OK;
}

enum mob_status mob_gcs_groups_blocks(struct mob_gcs *gcs, const struct mob_gcs_group_key *groups,
    uint32_t count, uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    (void)position;
    MOB_ASSERT(count > 0 && count <= MOB_GCS_GROUPS_MAX);
    struct fake_op *op = fake_op(gcs, done, arg);
    op->kind = FAKE_READ;
    memcpy(op->groups, groups, count * sizeof *groups);
    op->group_count = count;
    return MOB_OK;
}

enum mob_status mob_gcs_unfinished(
    struct mob_gcs *gcs, uint64_t incarnation, uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    (void)incarnation;
    (void)position;
    struct fake_op *op = fake_op(gcs, done, arg);
    op->kind = FAKE_READ;
    op->all = !FAKE.leaves_unfinished;
    return MOB_OK;
}

/* All blocks in one page: a filter may give more than it has to. */
enum mob_status mob_gcs_scan(
    struct mob_gcs *gcs, const struct mob_gcs_scan *scan, mob_gcs_done_fn *done, void *arg)
{
    (void)scan;
    struct fake_op *op = fake_op(gcs, done, arg);
    op->kind = FAKE_READ;
    op->all = true;
    return MOB_OK;
}

static inline int fake_row_of(enum mob_gcs_table table, const void *key, uint32_t length)
{
    for (uint32_t i = 0; i < FAKE.row_count; i++)
        if (FAKE.rows[i].table == table && FAKE.rows[i].key_length == length &&
            memcmp(FAKE.rows[i].key, key, length) == 0)
            return (int)i;
    return -1;
}

static inline void fake_gcs_set(
    enum mob_gcs_table table, const void *key, uint32_t key_length, const void *value, uint32_t value_length)
{
    int i = fake_row_of(table, key, key_length);
    if (i < 0) {
        MOB_ASSERT(FAKE.row_count < FAKE_ROWS_MAX && key_length <= MOB_GCS_KEY_MAX);
        i = (int)FAKE.row_count++;
        FAKE.rows[i] = (struct fake_row){.table = table, .key_length = key_length};
        memcpy(FAKE.rows[i].key, key, key_length);
    }
    free(FAKE.rows[i].value);
    FAKE.rows[i].value = value ? malloc(value_length + 1) : NULL;
    FAKE.rows[i].value_length = value_length;
    if (value)
        memcpy(FAKE.rows[i].value, value, value_length);
    FAKE.rows[i].version = ++FAKE.versions;
}

/* Compare-and-set; true: the row is as asked. The answer has the version then, or the present one. */
static inline bool fake_matches(const struct mob_gcs_put *put, struct fake_op *op)
{
    int i = fake_row_of(put->table, put->key, put->key_length);
    uint64_t present = i >= 0 && FAKE.rows[i].value ? FAKE.rows[i].version : 0;
    if (put->if_version == MOB_GCS_ANY_VERSION || put->if_version == present)
        return true;
    op->status = MOB_CONFLICT;
    op->version = present;
    return false;
}

enum mob_status mob_gcs_put(
    struct mob_gcs *gcs, const struct mob_gcs_put *put, mob_gcs_done_fn *done, void *arg)
{
    if (FAKE.full)
        return MOB_QUEUE_FULL;
    struct fake_op *op = fake_op(gcs, done, arg);
    if (fake_matches(put, op)) {
        fake_gcs_set(put->table, put->key, put->key_length, put->value, put->value_length);
        op->version = FAKE.versions;
    }
    return MOB_OK;
}

enum mob_status mob_gcs_delete(
    struct mob_gcs *gcs, const struct mob_gcs_put *del, mob_gcs_done_fn *done, void *arg)
{
    if (FAKE.full)
        return MOB_QUEUE_FULL;
    struct fake_op *op = fake_op(gcs, done, arg);
    if (fake_matches(del, op))
        fake_gcs_set(del->table, del->key, del->key_length, NULL, 0);
    return MOB_OK;
}

enum mob_status mob_gcs_get(struct mob_gcs *gcs, enum mob_gcs_table table, const void *key,
    uint32_t key_length, mob_gcs_done_fn *done, void *arg)
{
    struct fake_op *op = fake_op(gcs, done, arg);
    op->row = fake_row_of(table, key, key_length);
    if (op->row < 0 || !FAKE.rows[op->row].value)
        op->status = MOB_NOT_FOUND;
    if (table == MOB_GCS_CHECKPOINTS && FAKE.checkpoint_reads != MOB_OK) {
        op->status = FAKE.checkpoint_reads;
        op->row = -1;
    }
    return MOB_OK;
}

enum mob_status mob_gcs_list(
    struct mob_gcs *gcs, const struct mob_gcs_list *list, mob_gcs_done_fn *done, void *arg)
{
    struct fake_op *op = fake_op(gcs, done, arg);
    op->list = true;
    op->table = list->table;
    op->keys_only = list->keys_only;
    op->prefix_length = list->prefix_length;
    if (list->prefix_length > 0)
        memcpy(op->prefix, list->prefix, list->prefix_length);
    return MOB_OK;
}

enum mob_status mob_gcs_incarnations(struct mob_gcs *gcs, uint64_t after, mob_gcs_done_fn *done, void *arg)
{
    struct fake_op *op = fake_op(gcs, done, arg);
    op->incarnations = true;
    op->after = after;
    return MOB_OK;
}

enum mob_status mob_gcs_log_read(
    struct mob_gcs *gcs, uint64_t incarnation, uint64_t number, mob_gcs_done_fn *done, void *arg)
{
    (void)incarnation;
    (void)number;
    fake_op(gcs, done, arg)->status = MOB_NOT_FOUND;
    return MOB_OK;
}

enum mob_status mob_gcs_log_seal(struct mob_gcs *gcs, uint64_t incarnation, mob_gcs_done_fn *done, void *arg)
{
    FAKE.sealed = incarnation > FAKE.sealed ? incarnation : FAKE.sealed;
    fake_op(gcs, done, arg);
    return MOB_OK;
}

enum mob_status mob_gcs_log_recovered(
    struct mob_gcs *gcs, uint64_t incarnation, mob_gcs_done_fn *done, void *arg)
{
    FAKE.recovered[incarnation - 1] = true;
    fake_op(gcs, done, arg);
    return MOB_OK;
}

enum mob_status mob_gcs_job_drop(struct mob_gcs *gcs, struct mob_job_id job, bool finished_only,
    int64_t before_wall_ns, mob_gcs_done_fn *done, void *arg)
{
    (void)finished_only, (void)before_wall_ns;
    fake_op(gcs, done, arg)->number = mob_stream_eq(job.root, FAKE.dropped.root);
    return MOB_OK;
}

enum mob_status mob_gcs_node_register(struct mob_gcs *gcs, const char *name, mob_gcs_done_fn *done, void *arg)
{
    (void)name;
    fake_op(gcs, done, arg)->number = ++FAKE.incarnations;
    return MOB_OK;
}

enum mob_status mob_gcs_refusal(const struct mob_gcs *gcs, const char **why_out)
{
    (void)gcs, (void)why_out;
    return MOB_OK;
}

enum mob_status mob_gcs_create(const struct mob_gcs_options *options, struct mob_gcs **gcs_out)
{
    (void)options;
    struct mob_gcs *gcs = calloc(1, sizeof *gcs);
    MOB_ASSERT(gcs);
    gcs->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    gcs->ops_end = &gcs->ops;
    *gcs_out = gcs;
    return MOB_OK;
}

void mob_gcs_destroy(struct mob_gcs *gcs)
{
    if (!gcs)
        return;
    struct mob_gcs_log *log = &gcs->log;
    while (log->first) {
        struct mob_gcs_block *next = log->first->next;
        log->events.released(log->events.arg, log->first);
        log->first = next;
    }
    while (gcs->ops)
        free(fake_take_out(gcs, &gcs->ops));
    close(gcs->fd);
    free(gcs);
}

int mob_gcs_fd(const struct mob_gcs *gcs)
{
    return gcs->fd;
}

bool mob_gcs_connected(const struct mob_gcs *gcs)
{
    (void)gcs;
    return true;
}

uint32_t mob_gcs_shard_count(const struct mob_gcs *gcs)
{
    (void)gcs;
    return 1;
}

struct mob_gcs *mob_gcs_shard(struct mob_gcs *gcs, uint32_t shard)
{
    (void)shard;
    return gcs;
}

void mob_gcs_chain(const struct mob_gcs *gcs, struct mob_gcs_config *out)
{
    (void)gcs;
    *out = (struct mob_gcs_config){0};
}

void mob_gcs_position(const struct mob_gcs *gcs, struct mob_gcs_position *out)
{
    (void)gcs;
    *out = (struct mob_gcs_position){0};
}

#endif
