/* Jobs: whom work belongs to, and when it ends (jobs.c). Node thread only. */
#ifndef MOB_RUNTIME_NODE_JOBS_H
#define MOB_RUNTIME_NODE_JOBS_H

#include "runtime/node/node.h"

struct node_job *node_job_by_id(struct node *node, struct mob_job_id id);
struct node_job_options {
    const char *ns, *name;
    struct mob_task_id root;
    uint32_t weight; /* share of dispatches against other jobs; 0 = MOB_JOB_WEIGHT_DEFAULT */
    bool standing, detached, over_http;
    bool keyed; /* a driver may come back to it under its key */
    struct driver_process driver; /* else who it is, as far as known */
};
/* NULL: no memory, or no such weight. */
struct node_job *node_job_open(struct node *node, const struct node_job_options *options);
/* The scheduler's number of this job, of which there are MOB_SCHED_JOBS_MAX: a job has one while it has
 * tasks, and until others need it. Not to be kept. MOB_QUEUE_FULL: that many jobs have tasks now. */
MOB_MUST_USE enum mob_status node_job_number(struct node *node, struct node_job *job, uint16_t *number_out);
/* Another weight; 0 = as it is. */
void node_job_set_weight(struct node *node, struct node_job *job, uint32_t weight);
/* Its driver is here again, with or without a key. */
void node_job_rejoined(struct node *node, struct node_job *job, bool keyed, struct driver_process driver);
/* Its last driver's session is over. `for_good`: by a good-bye or its process' end, so only its key brings
 * it back. */
void node_job_left(struct node *node, struct node_job *job, bool for_good);
/* Whoever keeps a pointer to a job beyond the current pass holds it; ended jobs without holders, sessions and
 * lineage are forgotten, here and in the control store. NULL is fine. */
void node_job_hold(struct node_job *job);
void node_job_release(struct node_job *job);
void node_job_end(struct node *node, struct node_job *job, bool cancel_tasks);
void node_job_save(struct node *node, struct node_job *job);
void node_jobs_tick(struct node *node);
/* One that has ended, and that nothing points to: here, and its row. */
void node_job_forget(struct node *node, struct node_job *job);
/* jobs_age.c. Drops lineage that is older than the retention, and forgets jobs that have none left; now and
 * then. */
void node_jobs_age(struct node *node);
#define NODE_AGE_EVERY_NS (60 * MOB_SEC)
enum mob_status node_jobs_load(struct node *node);
/* Once unfinished tasks are there again: those of jobs that had ended are cancelled, whose cancel the log may
 * not have. */
void node_jobs_recovered(struct node *node);
/* Frees the lineage of a job that has ended; the reply says how many blocks. */
void node_job_delete(struct node *node, struct node_client *client, uint32_t request, struct node_job *job);
/* At the node's own end. */
void node_jobs_free(struct node *node);
char *node_jobs_json(struct node *node);

#endif
