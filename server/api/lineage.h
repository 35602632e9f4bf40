/* Records of tasks taken out of lineage blocks, a group of 256 neighbours at a time, and their JSON.
 *
 * A lineage_set is what one request has read so far: groups come in by lineage_set_block (a block may hold
 * parts of several; only what belongs to wanted groups is kept), records are found by task id. One thread;
 * freed whole.
 */
#ifndef MOB_SERVER_API_LINEAGE_H
#define MOB_SERVER_API_LINEAGE_H

#include <jansson.h>

#include "common/wire/block.h"
#include "server/http/text.h"

struct task_record {
    struct task_record *next; /* of its bucket */
    struct mob_task_id id;
    struct mob_job_id job;
    uint64_t incarnation;
    int64_t wall_minus_mono_ns;
    bool has_spec, has_completion, cancelled;
    struct mob_spec_head spec;
    uint8_t *tail;
    uint32_t tail_bytes;
    int64_t submitted_ns;
    struct mob_completion_head completion;
    uint8_t *body;
    struct mob_out_put *puts; /* objects that this task put */
    size_t put_count;
};

/* A stateful edge: this call was the actor's position-th. */
struct actor_edge {
    struct mob_actor_id actor;
    struct mob_task_id task;
    uint64_t position;
    uint32_t incarnation;
};

struct lineage_set;
struct lineage_set *lineage_set_create(void);
void lineage_set_destroy(struct lineage_set *set);
/* False: it was wanted before. */
bool lineage_set_want(struct lineage_set *set, struct mob_stream stream, uint32_t group);
/* Takes what is wanted out of a block. A damaged block is skipped. */
void lineage_set_block(
    struct lineage_set *set, struct mob_block_decoder *decoder, const uint8_t *bytes, size_t length);
struct task_record *lineage_set_find(const struct lineage_set *set, struct mob_task_id id);
/* The call at a position of an actor whose group was wanted; NULL if none is known. */
const struct actor_edge *lineage_set_edge(
    const struct lineage_set *set, struct mob_actor_id actor, uint64_t position);

/* All edges of an actor whose group was wanted, by position; their number. Gives (free with free()). */
size_t lineage_set_edges(
    const struct lineage_set *set, struct mob_actor_id actor, struct actor_edge **edges_out);

/* Names for the text. */
struct lineage_names {
    void *cls;
    /* Static for the time of the call; NULL if unknown. `method` is an index for actor calls, else
     * UINT16_MAX. */
    const char *(*function)(void *cls, struct mob_function_id id);
    const char *(*method)(void *cls, struct mob_function_id id, uint16_t method, char *out, size_t capacity);
};

const char *task_record_state(const struct task_record *record);
/* The whole record; `live` (may be NULL) is the node's word about a task that has not finished. */
void task_record_write(const struct task_record *record, const struct lineage_names *names,
    const json_t *live, struct mob_text *out);
void task_record_write_name(
    const struct task_record *record, const struct lineage_names *names, struct mob_text *out);
/* Calls back for every object that the spec's inline arguments refer to. */
void task_record_inputs(
    const struct task_record *record, void (*each)(void *cls, struct mob_object_id id), void *cls);

#endif
