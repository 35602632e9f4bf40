/* What the node and its unfinished tasks look like to those who ask, as JSON. Each gives a new reference.
 * Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_STATE_JSON_H
#define MOB_RUNTIME_NODE_STATE_JSON_H

#include <jansson.h>

#include "runtime/node/node.h"

struct node_tail_call; /* alias.h */

/* As in lists. */
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
