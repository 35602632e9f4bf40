/* Records of tasks taken out of lineage blocks, a group of 256 neighbours at a time, and their JSON.
 *
 * A lineage_set is what one request has read so far: groups come in by lineage_set_block (a block may hold
 * parts of several; only what belongs to wanted groups, and single wanted tasks, is kept), records are found
 * by task id. One thread; freed whole.
 */
#ifndef MOB_SERVER_API_LINEAGE_H
#define MOB_SERVER_API_LINEAGE_H

#include <jansson.h>

#include "common/wire/block.h"
#include "server/http/text.h"

/* An object that a task put. The bytes are kept of argument pages only. */
struct lineage_put {
    struct mob_out_put put;
    uint8_t *payload; /* inline_bytes of it, or NULL */
};

/* An item of a generator. */
struct lineage_item {
    uint32_t index;
    enum mob_value_type type;
    uint8_t flags; /* MOB_RETURN_* */
    uint64_t size;
    struct mob_hash128 hash;
    uint8_t *payload; /* of one that is inline */
    uint64_t seq; /* block that it is in */
};

/* An attempt behind which there is to be another. */
struct lineage_attempt {
    uint32_t attempt, worker;
};

struct task_record {
    struct task_record *next; /* of its bucket */
    struct mob_task_id id;
    struct mob_job_id job;
    uint64_t seq; /* of the block with its newest spec or completion */
    /* Of the completion's block, when there is one: each block has a pair of clocks of its own. */
    uint64_t incarnation;
    int64_t wall_minus_mono_ns;
    bool has_spec, has_completion, cancelled;
    struct mob_spec_head spec;
    uint8_t *tail;
    uint32_t tail_bytes;
    int64_t submitted_wall_ns; /* the first time, whatever the attempt; 0: not known */
    struct mob_completion_head completion;
    uint8_t *body;
    struct lineage_put *puts; /* objects that this task put, and pages of its arguments */
    size_t put_count, put_capacity;
    struct lineage_item *items; /* those that the set wants, in no order */
    size_t item_count, item_capacity;
    uint32_t items_logged; /* index of the last item in the log + 1 */
    struct lineage_attempt *retried; /* each once, by number; those that died with their node are not known */
    size_t retried_count, retried_capacity;
};

/* A stateful edge: this call was the actor's position-th. */
struct actor_edge {
    uint32_t next; /* of its bucket, + 1 */
    struct mob_actor_id actor;
    struct mob_task_id task;
    uint64_t position;
    uint32_t incarnation;
};

struct lineage_set;
struct lineage_set *lineage_set_create(void);
void lineage_set_destroy(struct lineage_set *set);
/* Of the items of this generator those with an index in [first, first + count) are kept. */
void lineage_set_want_items(struct lineage_set *set, struct mob_task_id task, uint32_t first, uint32_t count);
/* False: it was wanted before. */
bool lineage_set_want(struct lineage_set *set, struct mob_stream stream, uint32_t group);
/* Of this task alone, not of its neighbours. */
void lineage_set_want_task(struct lineage_set *set, struct mob_task_id task);
/* From here on the edges of this actor are taken, wherever they come by; an actor of millions of calls has as
 * many. */
void lineage_set_want_edges(struct lineage_set *set, struct mob_actor_id actor);
/* Tells of the spec of every entry of blocks that come by, wanted or not; `head` is borrowed. */
void lineage_set_each_spec(
    struct lineage_set *set, void (*each)(void *arg, const struct mob_spec_head *head), void *arg);
/* Takes what is wanted out of a block, which lies at `seq` in the log. A damaged block is skipped. */
void lineage_set_block(struct lineage_set *set, struct mob_block_decoder *decoder, uint64_t seq,
    const uint8_t *bytes, size_t length);
struct task_record *lineage_set_find(const struct lineage_set *set, struct mob_task_id id);
/* The call at a position of an actor whose edges were wanted; NULL if none is known. */
const struct actor_edge *lineage_set_edge(
    struct lineage_set *set, struct mob_actor_id actor, uint64_t position);

/* All edges of an actor that were wanted and came by, by position; their number. Gives (free with free()). */
size_t lineage_set_edges(
    const struct lineage_set *set, struct mob_actor_id actor, struct actor_edge **edges_out);

/* Names for the text. */
struct lineage_names {
    void *cls;
    /* Static for the time of the call; NULL if unknown. `method` is an index for actor calls, else
     * UINT16_MAX. */
    const char *(*function)(void *cls, struct mob_function_id id);
    /* Hash of the function's module. */
    const char *(*hash)(void *cls, struct mob_function_id id);
    const char *(*method)(void *cls, struct mob_function_id id, uint16_t method, char *out, size_t capacity);
    const char *(*node)(void *cls, uint64_t incarnation);
};

const char *task_record_state(const struct task_record *record);
/* The whole record; `live` (may be NULL) is the node's word about a task that has not finished. */
void task_record_write(const struct task_record *record, const struct lineage_names *names,
    const json_t *live, struct mob_text *out);
/* `,"priority":0,...`: what was asked for. Of a record with a spec. */
void task_record_write_options(const struct task_record *record, struct mob_text *out);
/* `,"error":{...}` of one that failed. */
void task_record_write_error(const struct task_record *record, struct mob_text *out);
void task_record_write_name(
    const struct task_record *record, const struct lineage_names *names, struct mob_text *out);
/* Calls back for every object that its value was made from: what its arguments refer to, and what it returned
 * in its place (a tail call). */
void task_record_inputs(
    const struct task_record *record, void (*each)(void *cls, struct mob_object_id id), void *cls);
/* Was this object put by the task, and is it still there for all that the log knows? */
enum lineage_put_state { LINEAGE_PUT_NEVER, LINEAGE_PUT_THERE, LINEAGE_PUT_DELETED };
/* Does the task return this object: by its spec, or of a generator as an item in the log? */
bool task_record_returns(const struct task_record *record, struct mob_object_id id);
enum lineage_put_state task_record_put_state(const struct task_record *record, struct mob_object_id id);

/* Walk over all arguments, those in pages too. `missing` is set at the end when the log does not hold all. */
struct argument_walk {
    const struct task_record *record;
    struct mob_tail_iter inline_args;
    uint32_t page, pages, at;
    bool missing;
};
struct argument_walk task_record_arguments(const struct task_record *record);
bool argument_next(struct argument_walk *walk, struct mob_arg_view *out);

/* The first page of its arguments, from `from` on, whose bytes are not in the log: nested tasks have theirs
 * in the store. */
bool task_record_missing_page(const struct task_record *record, uint32_t from, uint32_t *page_out);
void task_record_add_page(struct task_record *record, uint32_t page, const uint8_t *bytes, uint32_t length);

/* An item of a generator: {"index","id","type","size"} and its value when that is in the log. */
void lineage_item_write(struct mob_task_id task, const struct lineage_item *item, struct mob_text *out);
/* The value of one whose payload is in the log. */
void lineage_item_write_value(const struct lineage_item *item, struct mob_text *out);

#endif
