#include "runtime/node/job_list.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/node.h"

/* `before`: NULL = before all. */
static void put_behind(struct job_list *list, struct node_job *job, struct node_job *before)
{
    struct node_job *behind = before ? before->next : list->first;
    job->prev = before;
    job->next = behind;
    if (before)
        before->next = job;
    else
        list->first = job;
    if (behind)
        behind->prev = job;
    else
        list->last = job;
}

void job_list_push(struct job_list *list, struct node_job *job)
{
    put_behind(list, job, list->last);
}

void job_list_unshift(struct job_list *list, struct node_job *job)
{
    put_behind(list, job, NULL);
}

void job_list_insert(struct job_list *list, struct node_job *job)
{
    struct node_job *before = list->last;
    while (before && !before->deleted && before->ended_wall_ns > job->ended_wall_ns)
        before = before->prev;
    put_behind(list, job, before);
}

static int by_end(const void *a, const void *b)
{
    const struct node_job *x = *(struct node_job *const *)a, *y = *(struct node_job *const *)b;
    return (x->ended_wall_ns > y->ended_wall_ns) - (x->ended_wall_ns < y->ended_wall_ns);
}

void job_list_sort(struct job_list *list)
{
    size_t count = 0, at = 0;
    for (const struct node_job *job = list->first; job; job = job->next)
        count++;
    struct node_job **jobs = malloc((count + 1) * sizeof *jobs);
    MOB_ASSERT(jobs);
    for (struct node_job *job = list->first; job; job = job->next)
        jobs[at++] = job;
    qsort(jobs, count, sizeof *jobs, by_end);
    *list = (struct job_list){0};
    for (at = 0; at < count; at++)
        job_list_push(list, jobs[at]);
    free(jobs);
}

void job_list_remove(struct job_list *list, struct node_job *job)
{
    if (job->prev)
        job->prev->next = job->next;
    else
        list->first = job->next;
    if (job->next)
        job->next->prev = job->prev;
    else
        list->last = job->prev;
    job->next = job->prev = NULL;
}
