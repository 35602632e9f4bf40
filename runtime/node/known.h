/* What the lineage knows of single tasks and objects (ARCHITECTURE "Identity": known ids are looked up, a
 * group at a time).
 *
 * A question is about one task and one of its objects. Those that come in one pass about one group of 256
 * neighbours share a read of that group, which starts when the pass ends, or when one of the same group that
 * is under way has ended. An answer is never out of date: when this node logged something of the task after
 * the read began, the group is read again, so whoever uses an answer decides on all that was logged until
 * then. Node thread only.
 *
 *     question = known_ask(node, id, NULL, NULL);
 *     ... later ...
 *     if (known_answered(node, question, &status)) use(known_of(question));
 *     known_forget(node, question);
 */
#ifndef MOB_RUNTIME_NODE_KNOWN_H
#define MOB_RUNTIME_NODE_KNOWN_H

#include "runtime/node/node.h"
#include "runtime/node/remade.h"

struct known_item {
    enum mob_value_type type;
    bool stored; /* its bytes are, or were, in the store */
    uint32_t bytes; /* of the payload of one that is not */
    uint8_t payload[];
};

/* Copies of log entries; all NULL: no log knows the task. */
struct known {
    struct mob_object_id id;
    struct mob_spec_head *spec; /* followed by its tail */
    uint32_t spec_tail_bytes;
    int64_t spec_submitted_wall_ns;
    struct mob_completion_head *completion; /* the final one, followed by its body */
    struct mob_out_put *put; /* of the object, followed by its inline value */
    uint64_t put_incarnation; /* whose log has it */
    bool outcomes; /* the task logged some */
    struct mob_job_id put_job; /* of that log's entry */
    char put_ns[MOB_NAMESPACE_MAX];
    int64_t put_wall_ns; /* when its block was begun */
    bool deleted; /* what was put */
    bool hashed; /* the object's hash was logged by itself (large_hashes.h) */
    struct mob_entry_hash *hashes; /* of objects of the task, as they were logged; NULL: none */
    uint32_t hash_count;
    struct mob_hash128 hash;
    struct known_item *item; /* the object is this item of a generator */
    uint32_t items; /* of the generator that are in the log, */
    struct node_stored_return *stored_items; /* and those that stood in the store (remade.h) */
    uint32_t stored_item_count;
    struct node_stored_puts stored_puts; /* of the task, of the groups that were read */
    /* Of attempts that ended, and are not the final one: the last, the generation of what follows, and the
     * retries that were paid for. */
    uint32_t attempt, generation, retries_spent;
};
struct known_question;
/* Gets the answer once and the question is gone; may ask again. */
typedef void known_done_fn(void *arg, enum mob_status status, const struct known *known);

struct known_table *known_table_create(void);
void known_table_destroy(struct known_table *table);

/* With `done` it is called, and the question gone after that; without, the asker looks, and forgets it. Ends
 * the process when there is no memory. */
struct known_question *known_ask(struct node *node, struct mob_object_id id, known_done_fn *done, void *arg);
/* Is a question about this object under way whose answer goes to `done`? */
bool known_asked(const struct node *node, struct mob_object_id id, known_done_fn *done);
/* True: everything logged until now is in known_of(), unless *status_out is an error of the control store. */
bool known_answered(struct node *node, struct known_question *question, enum mob_status *status_out);
const struct known *known_of(const struct known_question *question);
/* NULL is fine. */
void known_forget(struct node *node, struct known_question *question);
/* What an entry says of known->id; for those who read themselves. */
void known_note(struct known *known, const struct mob_entry *entry, const struct mob_block_header *block);
void known_free(struct known *known);
/* Lineage was deleted. */
void known_clear(struct node *node);
/* Spec, completion or put of this task was logged: answers that do not have it are out of date. Cheap when
 * nothing is asked. */
void known_logged(struct node *node, struct mob_task_id task);
/* Would known_logged do anything? */
bool known_any(const struct node *node);
/* End of a pass: starts the reads that it asked for. */
void known_start(struct node *node);
bool known_waiting(const struct node *node); /* known_start has something to do */

#endif
