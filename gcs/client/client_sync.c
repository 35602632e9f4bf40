#include "gcs/client/client_sync.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "gcs/client/client_internal.h"

#define LEAVE_LOOK_MS 1000

/* ---- copies of answers ---- */

struct mob_gcs_result {
    struct mob_gcs_answer answer;
    struct mob_gcs_stats stats;
    void *rows;
    uint8_t *bytes;
};

const struct mob_gcs_answer *mob_gcs_result_answer(const struct mob_gcs_result *result)
{
    return &result->answer;
}

void mob_gcs_result_destroy(struct mob_gcs_result *result)
{
    if (result == NULL)
        return;
    free(result->rows);
    free(result->bytes);
    free(result);
}

static size_t bytes_of(const struct mob_gcs_answer *a)
{
    size_t n = 1;
    for (uint32_t i = 0; i < a->kv_count; i++)
        n += (size_t)a->kvs[i].key_length + a->kvs[i].value_length;
    for (uint32_t i = 0; i < a->block_count; i++)
        n += a->blocks[i].length;
    return n;
}

static const uint8_t *append(uint8_t **at, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = *at;
    if (length > 0)
        memcpy(copy, bytes, length);
    *at += length;
    return copy;
}

static void copy_rows(struct mob_gcs_result *r, const struct mob_gcs_answer *a)
{
    uint8_t *at = r->bytes;
    struct mob_gcs_kv *kvs = r->rows;
    struct mob_gcs_block_row *blocks = r->rows;
    for (uint32_t i = 0; i < a->kv_count; i++) {
        kvs[i] = a->kvs[i];
        kvs[i].key = append(&at, a->kvs[i].key, a->kvs[i].key_length);
        kvs[i].value = append(&at, a->kvs[i].value, a->kvs[i].value_length);
        r->answer.kvs = kvs;
    }
    for (uint32_t i = 0; i < a->block_count; i++) {
        blocks[i] = a->blocks[i];
        blocks[i].bytes = append(&at, a->blocks[i].bytes, a->blocks[i].length);
        r->answer.blocks = blocks;
    }
    if (a->incarnation_count > 0) {
        memcpy(r->rows, a->incarnations, a->incarnation_count * sizeof *a->incarnations);
        r->answer.incarnations = r->rows;
    }
    if (a->group_count > 0) {
        memcpy(r->rows, a->groups, a->group_count * sizeof *a->groups);
        r->answer.groups = r->rows;
    }
    if (a->stats != NULL) {
        r->stats = *a->stats;
        r->answer.stats = &r->stats;
    }
}

static struct mob_gcs_result *result_copy(const struct mob_gcs_answer *a)
{
    struct mob_gcs_result *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->answer = *a;
    r->bytes = malloc(bytes_of(a));
    r->rows = malloc(a->kv_count * sizeof *a->kvs + a->block_count * sizeof *a->blocks +
        a->incarnation_count * sizeof *a->incarnations + a->group_count * sizeof *a->groups + 1);
    if (r->bytes == NULL || r->rows == NULL) {
        mob_gcs_result_destroy(r);
        return NULL;
    }
    copy_rows(r, a);
    return r;
}

void mob_gcs_sync_done(void *arg, const struct mob_gcs_answer *answer)
{
    struct mob_gcs_sync *sync = arg;
    sync->result = result_copy(answer);
    sync->done = true;
}

enum mob_status mob_gcs_sync_wait(
    struct mob_gcs *gcs, struct mob_gcs_sync *sync, int64_t deadline_ns, struct mob_gcs_result **result_out)
{
    enum mob_status status = mob_gcs_run_until(gcs, &sync->done, deadline_ns);
    if (status != MOB_OK)
        return status;
    if (sync->result == NULL)
        return MOB_NO_MEMORY;
    status = sync->result->answer.status;
    if (result_out != NULL)
        *result_out = sync->result;
    else
        mob_gcs_result_destroy(sync->result);
    sync->result = NULL;
    return status;
}

enum mob_status mob_gcs_connect_wait(struct mob_gcs *gcs, int64_t deadline_ns)
{
    for (;;) {
        int64_t now = mob_now(), next = mob_gcs_step(gcs, now);
        if (mob_gcs_connected(gcs))
            return MOB_OK;
        enum mob_status refused = mob_gcs_refusal(gcs, NULL);
        if (refused != MOB_OK)
            return refused;
        if (now >= deadline_ns)
            return MOB_TIMEOUT;
        int64_t until = next < deadline_ns ? next : deadline_ns, left = until - mob_now();
        struct pollfd ready = {.fd = mob_gcs_fd(gcs), .events = POLLIN};
        poll(&ready, 1, left <= 0 ? 0 : left > MOB_SEC ? 1000 : (int)(left / MOB_MS) + 1);
    }
}

/* ---- waits of one call ---- */

/* On the heap, so that an answer after MOB_TIMEOUT finds it: until then, or until the client's end, it stands
 * in the client's list of those that nobody waits for. */
struct mob_gcs_call {
    struct mob_gcs_sync sync;
    struct mob_gcs *gcs;
    struct mob_gcs_call *next;
    bool late;
};

struct mob_gcs_call *mob_gcs_call_create(void)
{
    struct mob_gcs_call *call = calloc(1, sizeof *call);
    MOB_ASSERT(call != NULL);
    return call;
}

void mob_gcs_call_done(void *arg, const struct mob_gcs_answer *answer)
{
    struct mob_gcs_call *call = arg;
    if (!call->late) {
        mob_gcs_sync_done(&call->sync, answer);
        return;
    }
    struct mob_gcs_call **at = &call->gcs->late_calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    free(call);
}

void late_calls_free(struct mob_gcs *g)
{
    while (g->late_calls != NULL) {
        struct mob_gcs_call *next = g->late_calls->next;
        free(g->late_calls);
        g->late_calls = next;
    }
}

enum mob_status mob_gcs_call_wait(struct mob_gcs *gcs, struct mob_gcs_call *call, enum mob_status submitted,
    int64_t deadline_ns, struct mob_gcs_result **result_out)
{
    enum mob_status status = submitted;
    if (status == MOB_OK)
        status = mob_gcs_sync_wait(gcs, &call->sync, deadline_ns, result_out);
    if (submitted != MOB_OK || call->sync.done) {
        free(call);
        return status;
    }
    call->late = true;
    call->gcs = gcs;
    call->next = gcs->late_calls;
    gcs->late_calls = call;
    return status;
}

enum mob_status mob_gcs_put_wait(
    struct mob_gcs *gcs, const struct mob_gcs_put *put, int64_t deadline_ns, uint64_t *version_out)
{
    struct mob_gcs_result *result = NULL;
    struct mob_gcs_call *call = mob_gcs_call_create();
    enum mob_status status = mob_gcs_put(gcs, put, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(gcs, call, status, deadline_ns, &result);
    if (result != NULL && version_out != NULL)
        *version_out = result->answer.version;
    mob_gcs_result_destroy(result);
    return status;
}

enum mob_status mob_gcs_get_wait(struct mob_gcs *gcs, enum mob_gcs_table table, const void *key,
    uint32_t key_length, int64_t deadline_ns, struct mob_gcs_result **result_out)
{
    struct mob_gcs_result *result = NULL;
    struct mob_gcs_call *call = mob_gcs_call_create();
    enum mob_status status = mob_gcs_get(gcs, table, key, key_length, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(gcs, call, status, deadline_ns, &result);
    if (status == MOB_OK)
        *result_out = result;
    else
        mob_gcs_result_destroy(result);
    return status;
}

enum mob_status mob_gcs_each_row_wait(
    struct mob_gcs *gcs, enum mob_gcs_table table, int64_t deadline_ns, mob_gcs_row_fn *row, void *arg)
{
    uint8_t after[MOB_GCS_KEY_MAX];
    uint32_t after_length = 0;
    for (bool more = true; more;) {
        struct mob_gcs_list list = {.table = table, .after = after, .after_length = after_length};
        struct mob_gcs_result *result = NULL;
        struct mob_gcs_call *call = mob_gcs_call_create();
        enum mob_status status = mob_gcs_list(gcs, &list, mob_gcs_call_done, call);
        status = mob_gcs_call_wait(gcs, call, status, deadline_ns, &result);
        if (status != MOB_OK) {
            mob_gcs_result_destroy(result);
            return status;
        }
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < answer->kv_count; i++)
            row(arg, &answer->kvs[i]);
        more = answer->next != 0 && answer->kv_count > 0;
        if (more) {
            after_length = answer->kvs[answer->kv_count - 1].key_length;
            memcpy(after, answer->kvs[answer->kv_count - 1].key, after_length);
        }
        mob_gcs_result_destroy(result);
    }
    return MOB_OK;
}

enum mob_status mob_gcs_node_register_wait(
    struct mob_gcs *gcs, const char *name, int64_t deadline_ns, uint64_t *incarnation_out)
{
    struct mob_gcs_result *result = NULL;
    struct mob_gcs_call *call = mob_gcs_call_create();
    enum mob_status status = mob_gcs_node_register(gcs, name, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(gcs, call, status, deadline_ns, &result);
    if (status == MOB_OK)
        *incarnation_out = result->answer.number;
    mob_gcs_result_destroy(result);
    return status;
}

enum mob_status mob_gcs_log_seal_wait(
    struct mob_gcs *gcs, uint64_t incarnation, int64_t deadline_ns, uint64_t *cut_out)
{
    struct mob_gcs_result *result = NULL;
    struct mob_gcs_call *call = mob_gcs_call_create();
    enum mob_status status = mob_gcs_log_seal(gcs, incarnation, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(gcs, call, status, deadline_ns, &result);
    if (status == MOB_OK && cut_out != NULL)
        *cut_out = result->answer.number;
    mob_gcs_result_destroy(result);
    return status;
}

/* ---- leaving ---- */

static bool may_leave(const struct mob_gcs *g)
{
    bool all = true;
    if (g->shard_count == 0)
        return g->up && g->stream.state == STREAM_ATTACHED && g->op_unanswered == 0;
    for (uint32_t i = 0; i < g->shard_count; i++)
        all = all && may_leave(g->shards[i]);
    return all;
}

enum mob_status mob_gcs_leave_wait(struct mob_gcs *gcs, int64_t deadline_ns)
{
    for (;;) {
        int64_t next = mob_gcs_step(gcs, mob_now());
        if (may_leave(gcs))
            return MOB_OK;
        int64_t now = mob_now();
        if (now >= deadline_ns)
            return MOB_TIMEOUT;
        next = next < deadline_ns ? next : deadline_ns;
        int64_t ms = next <= now ? 0 : (next - now) / MOB_MS + 1;
        struct pollfd p = {.fd = gcs->epoll_fd, .events = POLLIN};
        poll(&p, 1, ms > LEAVE_LOOK_MS ? LEAVE_LOOK_MS : (int)ms);
    }
}
