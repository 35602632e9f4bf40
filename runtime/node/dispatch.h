/* The scheduler's decisions, carried out (dispatch.c), and tasks that run again, sent behind the outcomes
 * that they logged (outcomes.c). The node's thread only. */
#ifndef MOB_RUNTIME_NODE_DISPATCH_H
#define MOB_RUNTIME_NODE_DISPATCH_H

#include "runtime/node/node.h"

/* True: enough for one pass, there are more. */
bool node_dispatch(struct node *node);
void node_dispatch_all(struct node *node);
/* Its ring was full: tried again as soon as it has room. */
void node_worker_no_room(struct node *node, struct node_worker *worker);
/* Into the worker's inbound ring. False = no room. */
bool node_send_task(struct node *node, struct node_client *client, struct node_task *task);

/* A task that runs again is sent behind its logged outcomes, and what is dispatched after it
 * behind it. */
void node_send_in_order(struct node *node, struct node_client *client, struct node_task *task);
/* Sends those at the head whose outcomes are there. */
void node_send_held(struct node *node, struct node_worker *worker);
void node_worker_abandon_held(struct node_worker *worker);

#endif
