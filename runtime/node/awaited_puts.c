#include "runtime/node/awaited_puts.h"
#include "runtime/node/jobs.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/resolve.h"

struct awaited_put {
    struct awaited_put *next;
    struct mob_object_id id;
    int64_t until_ns;
};
struct awaited_puts {
    struct awaited_put *first; /* few: what one driver had not been acknowledged */
};

struct awaited_puts *awaited_puts_create(void)
{
    struct awaited_puts *awaited = calloc(1, sizeof *awaited);
    MOB_ASSERT(awaited);
    return awaited;
}

void awaited_puts_destroy(struct awaited_puts *awaited)
{
    while (awaited && awaited->first) {
        struct awaited_put *next = awaited->first->next;
        free(awaited->first);
        awaited->first = next;
    }
    free(awaited);
}

static struct awaited_put **place_of(struct awaited_puts *awaited, struct mob_object_id id)
{
    struct awaited_put **at = &awaited->first;
    while (*at && !mob_object_id_eq((*at)->id, id))
        at = &(*at)->next;
    return at;
}

/* A driver's own job has the stream of its root; sessions of a standing one have roots of their own. */
static bool job_ended(struct node *node, struct mob_object_id id)
{
    const struct node_job *job = node_job_by_id(node, (struct mob_job_id){id.task.stream});
    return job && job->state == JOB_ENDED;
}

bool awaited_puts_add(struct node *node, struct mob_object_id id)
{
    if (job_ended(node, id))
        return false;
    struct awaited_put **at = place_of(node->awaited, id);
    if (*at)
        return true;
    struct awaited_put *put = malloc(sizeof *put);
    MOB_ASSERT(put);
    *put = (struct awaited_put){NULL, id, node->now_ns + NODE_DRIVER_GRACE_NS};
    *at = put;
    char text[MOB_ID_TEXT_MAX];
    MOB_LOG_INFO("puts", "awaited", "object=%s why=\"its driver has not been told that it is kept\"",
        mob_object_id_format(id, text));
    return true;
}

static void drop(struct awaited_put **at)
{
    struct awaited_put *put = *at;
    *at = put->next;
    free(put);
}

void awaited_puts_remove(struct node *node, struct mob_object_id id)
{
    struct awaited_put **at = place_of(node->awaited, id);
    if (*at)
        drop(at);
}

void awaited_puts_tick(struct node *node)
{
    struct awaited_put **at = &node->awaited->first;
    while (*at) {
        struct mob_object_id id = (*at)->id;
        if (node->now_ns < (*at)->until_ns && !job_ended(node, id)) {
            at = &(*at)->next;
            continue;
        }
        drop(at);
        node_ready_committed(node, id, MOB_OBJECT_LOST, MOB_TYPE_ERROR, NODE_NOBODY, 0);
        at = &node->awaited->first; /* the list may have changed meanwhile */
    }
}

bool awaited_puts_any(const struct node *node)
{
    return node->awaited->first != NULL;
}
