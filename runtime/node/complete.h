/* Ends of attempts and of tasks, and what they make ready. complete.c; the node's thread only. */
#ifndef MOB_RUNTIME_NODE_COMPLETE_H
#define MOB_RUNTIME_NODE_COMPLETE_H

#include "runtime/node/node.h"

/* An attempt ended with its worker; the scheduler runs the task again. */
void node_attempt_lost(struct node *node, struct node_task *task);
void node_complete(struct node *node, struct node_client *client, const struct mob_completion *completion);
/* A hint that this task ends now: who waits for its result and what it took are looked up in tables that are
 * larger than the cache when many wait. Fetched here, they have come by the end of the completion. */
void node_complete_fetch(const struct node *node, const struct node_task *task);
/* A second one, when the first has had time. */
void node_complete_fetch_more(const struct node *node, const struct node_task *task);
void node_yielded(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes);
/* The node's times, and an actor call's place, into the head of a worker's completion. */
void node_fill_times(const struct node_task *task, struct mob_completion_head *head);
/* Of the task that ran when the worker ended whose death is handled: on which worker, and from when, which is
 * its dispatch as far as the node knows, since the worker took its start along. Nothing for any other. */
void node_fill_death(const struct node *node, const struct node_task *task, struct mob_completion_head *head);

/* The failure of an input, of its worker, or a refusal is its outcome. `cause` = error value it comes from,
 * or NULL. */
void node_task_fail(struct node *node, struct node_task *task, enum mob_status status, const char *message,
    const uint8_t *cause, uint32_t cause_bytes, int signal, const char *detail);
/* Of one that never had a record; its submitter is at `slot`. */
void node_fail_without_record(struct node *node, uint32_t slot, uint32_t session,
    const struct mob_spec_head *spec, enum mob_status status, const char *message);
/* A root that is not taken at all: only its submitter hears of it. */
void node_refuse_root(struct node *node, struct node_client *client, const struct mob_spec_head *spec,
    enum mob_status status, const char *message);

#endif
