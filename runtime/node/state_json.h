/* What the node and its unfinished tasks look like to those who ask. What is JSON is a new reference.
 * Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_STATE_JSON_H
#define MOB_RUNTIME_NODE_STATE_JSON_H

#include <jansson.h>

#include "common/wire/record.h"
#include "runtime/node/node.h"

struct node_tail_call; /* alias.h */

/* The row of a list, where its end is not known. */
void node_task_live(struct node *node, struct mob_task_id id, struct mob_live_task *out);
/* As its record, without what was asked for. */
json_t *node_task_json(struct node *node, const struct node_task *task);
/* With what was asked for, which may be kilobytes. */
json_t *node_task_whole_json(struct node *node, const struct node_task *task);
/* What a submission asked for (common/wire/spec_json.h), into an object. */
void node_spec_options_into(json_t *object, const struct mob_spec_head *head, const uint8_t *tail);
/* Why it is not running, or where it runs. */
json_t *node_task_why_json(struct node *node, const struct node_task *task);
/* It has ended with the future of another task: that is what it waits for. `why`: as an answer to that. */
json_t *node_task_continued_json(const struct node_tail_call *call, bool why);
/* Counters, resources, store, queue, workers, log and the way to the control store. */
json_t *node_stats_json(struct node *node);

#endif
