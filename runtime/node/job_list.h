/* Jobs one behind the other: those that run as they came, those that have ended in the order of their ends,
 * so that who looks for old ones need not pass by the others. A job is in one list; node thread only.
 *
 *   job_list_push(&node->jobs, job);
 *   job_list_remove(&node->jobs, job);
 *   job_list_insert(&node->ended_jobs, job);    // job->ended_wall_ns says where
 */
#ifndef MOB_RUNTIME_NODE_JOB_LIST_H
#define MOB_RUNTIME_NODE_JOB_LIST_H

struct node_job;
struct job_list {
    struct node_job *first, *last;
};

/* Behind all. */
void job_list_push(struct job_list *list, struct node_job *job);
/* Before all. */
void job_list_unshift(struct job_list *list, struct node_job *job);
/* Behind those whose end is not later; looked for from the last on, so what ended now has its place at once.
 */
void job_list_insert(struct job_list *list, struct node_job *job);
/* By their ends. */
void job_list_sort(struct job_list *list);
void job_list_remove(struct job_list *list, struct node_job *job);

#endif
