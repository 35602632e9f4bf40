#include "server/api/engine_specs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

#define FIRST_BLOCKS 8u /* of a group, and before an end */
#define FURTHER 8u /* times as far back each time, ... */
#define BACK_MAX (FIRST_BLOCKS * FURTHER * FURTHER * FURTHER) /* ... up to here: in blocks of all groups */
#define REST_BLOCKS 64u /* a page of what is left */

struct sought {
    struct mob_task_id task;
    uint64_t position; /* of the block with its end; 0: not known */
};

/* Which part of its group a task is looked for in. */
enum part { PART_FIRST, PART_BEFORE_END, PART_REST };

struct spec_search {
    struct engine *engine;
    struct lineage_set *set;
    struct sought *sought;
    size_t count, capacity;
    uint64_t *decoded; /* positions of blocks that this reading had; 0: free */
    size_t decoded_count, decoded_capacity;
    void (*done)(void *arg, enum mob_status status);
    void *arg;
    /* The reading that is under way. */
    size_t at; /* of `sought` */
    struct mob_task_id group; /* any of the group that is read */
    enum part part;
    uint64_t back; /* PART_BEFORE_END: blocks before the end */
    uint64_t rest; /* the group's blocks up to here were all read; 0: none */
    bool read_first, read_whole; /* of the group */
};

struct spec_search *spec_search_create(struct engine *engine)
{
    struct spec_search *s = calloc(1, sizeof *s);
    MOB_ASSERT(s != NULL);
    s->engine = engine;
    s->set = lineage_set_create();
    MOB_ASSERT(s->set != NULL);
    return s;
}

void spec_search_destroy(struct spec_search *s)
{
    if (!s)
        return;
    lineage_set_destroy(s->set);
    free(s->sought);
    free(s->decoded);
    free(s);
}

void spec_search_want(struct spec_search *s, struct mob_task_id task)
{
    lineage_set_want_task(s->set, task);
}

void spec_search_each(
    struct spec_search *s, void (*each)(void *arg, const struct mob_spec_head *head), void *arg)
{
    lineage_set_each_spec(s->set, each, arg);
}

void spec_search_block(struct spec_search *s, const struct mob_gcs_block_row *row)
{
    lineage_set_block(s->set, s->engine->decoder, row->seq, row->bytes, row->length);
}

void spec_search_seek(struct spec_search *s, struct mob_task_id task, uint64_t position)
{
    spec_search_want(s, task);
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 64;
        s->sought = realloc(s->sought, s->capacity * sizeof *s->sought);
        MOB_ASSERT(s->sought != NULL);
    }
    s->sought[s->count++] = (struct sought){task, position};
}

const struct task_record *spec_search_find(const struct spec_search *s, struct mob_task_id task)
{
    const struct task_record *record = lineage_set_find(s->set, task);
    return record && record->has_spec ? record : NULL;
}

/* A later attempt may have been logged once more: the first one says when the task was submitted. */
static bool is_known(const struct spec_search *s, struct mob_task_id task)
{
    const struct task_record *record = spec_search_find(s, task);
    return record && record->spec.attempt <= 1;
}

/* ---- blocks of this reading ---- */

static uint64_t *decoded_slot(const struct spec_search *s, uint64_t position)
{
    size_t i = (position * 0x9e3779b97f4a7c15ull >> 20) & (s->decoded_capacity - 1);
    while (s->decoded[i] != 0 && s->decoded[i] != position)
        i = (i + 1) & (s->decoded_capacity - 1);
    return &s->decoded[i];
}

static void grow_decoded(struct spec_search *s)
{
    uint64_t *old = s->decoded;
    size_t count = s->decoded_capacity;
    s->decoded_capacity = count ? 2 * count : 256;
    s->decoded = calloc(s->decoded_capacity, sizeof *s->decoded);
    MOB_ASSERT(s->decoded != NULL);
    for (size_t i = 0; i < count; i++)
        if (old[i] != 0)
            *decoded_slot(s, old[i]) = old[i];
    free(old);
}

/* All that is wanted was before the reading began, so a block that was decoded has nothing more to give. What
 * comes from PostgreSQL are parts of blocks. */
static void take_block(struct spec_search *s, const struct mob_gcs_block_row *row)
{
    if (2 * (s->decoded_count + 1) > s->decoded_capacity)
        grow_decoded(s);
    uint64_t *slot = decoded_slot(s, row->seq);
    if (!row->recut && *slot != 0)
        return;
    if (!row->recut) {
        *slot = row->seq;
        s->decoded_count++;
    }
    spec_search_block(s, row);
}

/* ---- which blocks are next ---- */

static void on_blocks(void *arg, const struct mob_gcs_answer *answer);

/* Group by group; of a group the newest end first. */
static int in_reading_order(const void *a, const void *b)
{
    const struct sought *x = a, *y = b;
    int stream = memcmp(&x->task.stream, &y->task.stream, sizeof x->task.stream);
    uint32_t of_x = x->task.index >> MOB_GROUP_SHIFT, of_y = y->task.index >> MOB_GROUP_SHIFT;
    if (stream != 0)
        return stream;
    return of_x != of_y ? (of_x > of_y) - (of_x < of_y)
                        : (x->position < y->position) - (x->position > y->position);
}

static bool is_of_group(const struct spec_search *s, struct mob_task_id task)
{
    return mob_stream_eq(task.stream, s->group.stream) &&
        task.index >> MOB_GROUP_SHIFT == s->group.index >> MOB_GROUP_SHIFT;
}

static void end(struct spec_search *s, enum mob_status status)
{
    free(s->decoded);
    s->decoded = NULL;
    s->count = s->decoded_count = s->decoded_capacity = 0;
    s->done(s->arg, status);
}

static void ask(struct spec_search *s, uint64_t position, uint32_t limit)
{
    enum mob_status status = mob_gcs_group_page(
        s->engine->gcs, s->group.stream, s->group.index >> MOB_GROUP_SHIFT, position, limit, on_blocks, s);
    if (status != MOB_OK)
        end(s, status);
}

static void ask_rest(struct spec_search *s)
{
    s->part = PART_REST;
    ask(s, s->rest, REST_BLOCKS);
}

/* A commit position is 0 at the beginning of its shard. */
static uint64_t in_shard(uint64_t position)
{
    uint32_t shard;
    return mob_gcs_position_in_shard(position, &shard);
}

static void ask_before_end(struct spec_search *s)
{
    uint64_t position = s->sought[s->at].position;
    if (s->back > BACK_MAX || in_shard(position) <= s->back)
        ask_rest(s);
    else
        ask(s, position - s->back, (uint32_t)s->back);
}

static void ask_next(struct spec_search *s)
{
    for (; s->at < s->count; s->at++) {
        const struct sought *sought = &s->sought[s->at];
        if (!is_of_group(s, sought->task)) {
            s->read_first = s->read_whole = false;
            s->rest = 0;
        }
        s->group = sought->task;
        if (!s->read_whole && !is_known(s, sought->task))
            break;
    }
    if (s->at == s->count) {
        end(s, MOB_OK);
    } else if (!s->read_first) {
        s->part = PART_FIRST;
        ask(s, 0, FIRST_BLOCKS);
    } else {
        s->part = PART_BEFORE_END;
        s->back = FIRST_BLOCKS;
        ask_before_end(s);
    }
}

/* ---- what came ---- */

/* From the beginning on: all of the page is taken, for the others of the group. */
static void take_in_order(struct spec_search *s, const struct mob_gcs_answer *answer)
{
    for (uint32_t i = 0; i < answer->block_count; i++)
        take_block(s, &answer->blocks[i]);
    s->rest = answer->next;
    s->read_whole = answer->next == 0;
    s->read_first = true;
    if (s->part == PART_FIRST || s->read_whole || is_known(s, s->sought[s->at].task))
        ask_next(s);
    else
        ask_rest(s);
}

/* Most specs stand right before the end. */
static void take_before_end(struct spec_search *s, const struct mob_gcs_answer *answer)
{
    const struct sought *sought = &s->sought[s->at];
    bool passed = answer->next == 0;
    for (uint32_t i = answer->block_count; i > 0 && !is_known(s, sought->task); i--) {
        bool behind = answer->blocks[i - 1].seq > sought->position;
        passed |= behind;
        if (!behind)
            take_block(s, &answer->blocks[i - 1]);
    }
    if (is_known(s, sought->task)) {
        ask_next(s);
    } else if (!passed) {
        ask(s, answer->next, (uint32_t)s->back);
    } else {
        s->back *= FURTHER;
        ask_before_end(s);
    }
}

static void on_blocks(void *arg, const struct mob_gcs_answer *answer)
{
    struct spec_search *s = arg;
    s->engine->worked++;
    if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND)
        end(s, answer->status);
    else if (s->part == PART_BEFORE_END)
        take_before_end(s, answer);
    else
        take_in_order(s, answer);
}

void spec_search_read(struct spec_search *s, void (*done)(void *arg, enum mob_status status), void *arg)
{
    s->done = done;
    s->arg = arg;
    s->at = 0;
    s->read_first = s->read_whole = false;
    s->rest = 0;
    if (s->count > 0) {
        qsort(s->sought, s->count, sizeof *s->sought, in_reading_order);
        s->group = s->sought[0].task;
    }
    ask_next(s);
}
