/* Records of unfinished tasks: what siblings share (templates, tails), and a task's own. task.c; the node's
 * thread only. */
#ifndef MOB_RUNTIME_NODE_TASK_H
#define MOB_RUNTIME_NODE_TASK_H

#include "runtime/node/node.h"

#define PARENT_UNKNOWN UINT32_MAX
#define PARENT_NONE (UINT32_MAX - 1) /* a driver's */
/* What siblings share: the head of their specs, kept once. */
struct node_template {
    struct mob_spec_head head; /* task.index, attempt, caller_seq: of the first */
    struct node_function *function;
    struct node_job *job;
    uint32_t refs;
    uint32_t parent_handle; /* of the parent's task record; checked when used */
    uint16_t sched_class;
    uint16_t sched_function;
    uint8_t in_slot; /* head slot of the worker that got it last; checked when used */
    enum mob_status refused; /* not MOB_OK: its resources cannot be expressed here */
    bool plain; /* its tasks are logged, and have one return: plain.h */
    struct node_tail *last_tail; /* of the newest sibling: equal ones share it */
};

/* A tail that is more than a word, or that several share. */
struct node_tail {
    uint32_t refs;
    uint32_t bytes;
    uint64_t zero;
    uint8_t data[] __attribute__((aligned(8)));
};

/* A task's arguments and options, or its extra record, which has them then: struct node_task.form says which.
 */
union node_task_own {
    uint64_t word; /* one argument of eight bytes, and nothing else: mob_spec_tail_is_word */
    struct node_tail *shared;
    struct node_task_extra *extra;
};

/* What few tasks have: retries, actor calls. */
struct node_task_extra {
    union node_task_own tail;
    uint32_t attempt, generation, caller_seq, incarnation;
    uint64_t position; /* of an actor call, from 0; of one that only reads: of the first call behind it */
    uint32_t yielded; /* items of a generator, of all attempts */
    uint32_t retries_spent; /* of max_retries, under earlier incarnations of the node */
    bool repeats; /* this attempt repeats one of its generation */
    bool diverged; /* ... and asked for something else than that one */
    uint32_t items; /* of one that is `logged`: that are in the log */
    bool logged; /* runs again, with its outcome in the log: that stands, whatever this run gives */
    bool compared; /* ... by value, with this digest (remade.h): an actor that gives another is none */
    struct mob_hash128 digest;
    bool shadow; /* of an actor's shadow (shadow.h): nothing of it is committed or told but its results */
    uint32_t first_generation; /* of this record: earlier ones have ended under another, or ran before */
    uint32_t wanted_count;
    uint32_t *wanted; /* slots of puts that somebody waits for this run to make again */
    uint32_t stored_count;
    struct node_stored_return *stored; /* what a run that makes lost objects again must give; remade.c */
};

/* A task that is not finished. */
struct node_task {
    struct mob_sched_task sched; /* first: the scheduler links it */
    uint32_t submitter_session;
    struct node_template *template;
    int64_t submitted_ns;
    uint32_t ready_us, dispatched_us; /* after submitted_ns: node_elapsed_us. TASK_INPUTS_MISSING: not yet */
    uint16_t submitter; /* client slot; TASK_NO_SUBMITTER */
    uint8_t flags; /* TASK_* */
    uint8_t form; /* of the tail: TASK_TAIL_SHARED, or the type of its word. TASK_HAS_EXTRA: there is one */
    union node_task_own own;
} __attribute__((aligned(32))); /* wherever one begins in a chunk, it lies in two lines and not in three */
_Static_assert(sizeof(struct node_task) == 96, "a queued task is small");
#define TASK_NO_SUBMITTER UINT16_MAX
#define TASK_INPUTS_MISSING UINT32_MAX
#define TASK_TAIL_SHARED MOB_TYPE_NONE
#define TASK_HAS_EXTRA 0x80u
_Static_assert(MOB_TYPE_COUNT <= TASK_HAS_EXTRA, "types and that flag have a byte together");
/* NULL: first attempt, generation 0, no actor call. */
static inline struct node_task_extra *node_extra_of(const struct node_task *task)
{
    return task->form & TASK_HAS_EXTRA ? task->own.extra : NULL;
}

/* Flags of struct node_task. */
enum {
    TASK_LOOK_UP = 1, /* not a first attempt under first attempts: its children's ids are looked up first */
    TASK_REMAKE =
        2, /* runs again only to make its objects (or an actor) again: the first completion stands */
    TASK_UNLOGGED = 4,
    TASK_BORROWS = 8, /* its arguments are counted (borrowed.h) */
    TASK_ACTOR_CREATE = 16,
    TASK_ACTOR_CALL = 32,
    TASK_NO_OUTCOMES = 128, /* the lineage was read: it logged none */
    TASK_RESTORE = 64 /* an actor's creation from its checkpoint */
};

/* Gives a reference. `refused` says whether its tasks can run here. */
struct node_template *node_template_make(
    struct node *node, const struct mob_spec_head *head, const uint8_t *tail, struct node_job *job);
/* Unless it has it: it may have been deployed since the head came. */
void node_template_find_function(struct node *node, struct node_template *template);
/* Of a head that a client sent: whether the method only reads is said by its class here, whatever its caller
 * says. What the log holds is not asked again. */
void node_template_ask_class(struct node_template *template);
void node_template_hold(struct node_template *template);
void node_template_drop(struct node *node, struct node_template *template); /* NULL: nothing */
/* Into a head slot: takes `template` (NULL: empties it), and drops what stood there. */
void node_template_place(struct node *node, struct node_template **slot, struct node_template *template);
/* NULL = too many tasks. Holds the template. */
struct node_task *node_task_create(struct node *node, struct node_template *template, struct mob_task_id id,
    const uint8_t *tail, uint32_t tail_bytes);
/* The same, of a tail that is a word. */
struct node_task *node_task_create_word(
    struct node *node, struct node_template *template, struct mob_task_id id, const uint64_t tail[3]);
void node_task_destroy(struct node *node, struct node_task *task);
/* What all tasks hold, at the node's own end; their records go with the scheduler. */
void node_tasks_free(struct node *node);
/* Memory of templates, tails and extras; nothing holds one any more. */
void node_task_rooms_free(struct node *node);
struct node_task_extra *node_task_extra(
    struct node *node, struct node_task *task); /* made when it has none */

/* A call of a method that only reads: it has no place among the actor's calls, and no edge; the calls below
 * its position stand before it, and no others. */
static inline bool node_task_reads(const struct node_task *task)
{
    const struct mob_spec_head *head = &task->template->head;
    return head->kind == MOB_KIND_ACTOR_CALL && (head->flags & MOB_SPEC_READ_ONLY);
}
uint32_t node_task_attempt(const struct node_task *task);
uint32_t node_task_generation(const struct node_task *task);
bool node_task_is_shadow(const struct node_task *task);
/* Of a word it is made in `room`; else it stays until the task is destroyed. */
struct node_tail_room {
    uint64_t words[MOB_SPEC_WORD_TAIL / 8];
};
const uint8_t *node_task_tail(const struct node_task *task, struct node_tail_room *room, uint32_t *bytes_out);
void node_task_head(const struct node_task *task, struct mob_spec_head *head_out);
struct node_task *node_task_find(struct node *node, struct mob_task_id id);

/* 0 to TASK_INPUTS_MISSING - 1; saturating. */
static inline uint32_t node_elapsed_us(int64_t from_ns, int64_t to_ns)
{
    int64_t us = (to_ns - from_ns) / 1000;
    return us < 0 ? 0 : us >= TASK_INPUTS_MISSING ? TASK_INPUTS_MISSING - 1 : (uint32_t)us;
}

/* A worker takes the end of its last task for the start of the next: right in a batch, too early when it had
 * to wait for this one. So none started before its dispatch. */
static inline int64_t node_started_ns(const struct node_task *task, int64_t said_ns)
{
    int64_t dispatched_ns = task->submitted_ns + (int64_t)task->dispatched_us * 1000;
    return said_ns > 0 && said_ns < dispatched_ns ? dispatched_ns : said_ns;
}

/* The running task that submits; NULL for drivers, and when it has ended. */
struct node_task *node_template_parent(struct node *node, struct node_template *template);

#endif
