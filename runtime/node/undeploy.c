/* Deleting a module: when nothing runs it, no living actor is of it, and no task in the lineage was (a replay
 * would need it). While the lineage is read nobody gets its functions; afterwards they are as they were, or
 * gone: their rows in the control store, then the file. A name that meant this module means the one deployed
 * before it, if there is one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/functions.h"
#include "runtime/node/node.h"
#include "runtime/node/notices.h"
#include "runtime/node/task.h"

struct undeployment {
    struct node *node;
    uint32_t slot, session, request;
    struct mob_module_hash module;
    struct node_function **functions;
    uint32_t count, next; /* of the functions: which is looked at */
    struct mob_block_decoder *decoder;
    enum mob_status status;
    char user[MOB_ID_TEXT_MAX]; /* a task of the lineage that was of it */
    uint32_t shard; /* whose lineage is read */
};

static void destroy(void *arg)
{
    struct undeployment *u = arg;
    mob_block_decoder_destroy(u->decoder);
    free(u->functions);
    free(u);
}

static void answer(struct undeployment *u, enum mob_status status, const char *text)
{
    char hash[64];
    mob_base32_encode(u->module.b, sizeof u->module.b, hash);
    for (uint32_t i = 0; i < u->count; i++) {
        u->functions[i]->leaving = false;
        u->functions[i]->gone = status == MOB_OK;
    }
    MOB_LOG_INFO("functions", "undeploy", "module=%s status=%s", hash, mob_status_code(status));
    node_reply(u->node, u->slot, u->session, u->request, status, text, (uint32_t)strlen(text));
    u->node->undeploying--;
    destroy(u);
}

/* --- who needs it now --- */

static bool is_of(const struct undeployment *u, const struct node_function *f)
{
    return f && memcmp(&f->module, &u->module, sizeof f->module) == 0;
}

/* False: `why` says who. */
static bool unused_here(const struct undeployment *u, char *why, size_t capacity)
{
    char id[MOB_ID_TEXT_MAX];
    struct mob_actor_id actor;
    uint32_t at = 0;
    struct mob_sched_task *task;
    while ((task = mob_sched_each(u->node->sched, &at)))
        if (is_of(u, ((struct node_task *)task)->template->function)) {
            snprintf(why, capacity, "%s has not ended", mob_task_id_format(task->id, id));
            return false;
        }
    for (uint32_t i = 0; i < u->count; i++)
        if (node_actor_of_class(u->node, u->functions[i], &actor)) {
            snprintf(
                why, capacity, "%s is a living %s", mob_actor_id_format(actor, id), u->functions[i]->name);
            return false;
        }
    return true;
}

/* --- who needed it, by the lineage --- */

static bool block_has_task_of(struct undeployment *u, const struct mob_gcs_block_row *row)
{
    struct mob_block_header header;
    static struct mob_entry entry; /* large; node thread only */
    static struct mob_zone_map zone;
    enum mob_status status = mob_block_open(u->decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(u->decoder, &entry)) == MOB_OK)
        if (entry.type == MOB_ENTRY_SPEC &&
            memcmp(&entry.spec.head.function, &u->functions[u->next]->id, sizeof entry.spec.head.function) ==
                0) {
            mob_task_id_format(entry.spec.head.task, u->user);
            return true;
        }
    return false;
}

static void remove_rows(struct undeployment *u);
static void read_lineage(struct undeployment *u, uint32_t shard, uint64_t position);

static void on_blocks(void *arg, const struct mob_gcs_answer *blocks)
{
    struct undeployment *u = arg;
    char why[160];
    if (blocks->status != MOB_OK && blocks->status != MOB_NOT_FOUND) {
        answer(u, blocks->status, "the lineage cannot be read now");
        return;
    }
    for (uint32_t i = 0; i < blocks->block_count; i++)
        if (block_has_task_of(u, &blocks->blocks[i])) {
            snprintf(why, sizeof why, "the lineage needs it: %s was made by %s", u->user,
                u->functions[u->next]->name);
            answer(u, MOB_IN_USE, why);
            return;
        }
    if (blocks->next != 0 && blocks->block_count > 0) {
        read_lineage(u, u->shard, blocks->next);
        return;
    }
    if (u->shard + 1 < mob_gcs_shard_count(u->node->gcs)) {
        read_lineage(u, u->shard + 1, 0);
        return;
    }
    if (++u->next < u->count) {
        read_lineage(u, 0, 0);
        return;
    }
    u->next = 0;
    remove_rows(u);
}

static void read_lineage(struct undeployment *u, uint32_t shard, uint64_t position)
{
    u->shard = shard;
    struct mob_gcs_scan scan = {
        .shard = shard, .function = u->functions[u->next]->id, .newest_first = true, .position = position};
    enum mob_status status = mob_gcs_scan(u->node->gcs, &scan, on_blocks, u);
    if (status != MOB_OK)
        answer(u, status, "the lineage cannot be read now");
}

static void after_commit(void *arg)
{
    read_lineage(arg, 0, 0);
}

/* --- rows and file --- */

static void finish(struct undeployment *u)
{
    char path[NODE_PATH_MAX + 128], hash[64];
    if (u->status != MOB_OK) {
        answer(u, u->status, "the control store refused to change the function table's rows");
        return;
    }
    mob_base32_encode(u->module.b, sizeof u->module.b, hash);
    snprintf(path, sizeof path, "%s/modules/%s.so", u->node->options.directory, hash);
    if (unlink(path) != 0)
        MOB_LOG_WARN("functions", "file_left", "module=%s", hash);
    answer(u, MOB_OK, "{}");
}

static void next_rows(void *arg, const struct mob_gcs_answer *done)
{
    struct undeployment *u = arg;
    if (done->status != MOB_OK && done->status != MOB_NOT_FOUND)
        u->status = done->status;
    if (u->status == MOB_OK && ++u->next < u->count)
        remove_rows(u);
    else
        finish(u);
}

/* The name's own row: another version's, or none. */
static void rename_row(struct undeployment *u, const struct mob_gcs_kv *successor)
{
    struct node_function *f = u->functions[u->next];
    struct mob_gcs_put put = {.table = MOB_GCS_FUNCTIONS,
        .key = f->name,
        .key_length = (uint32_t)strlen(f->name),
        .value = successor ? successor->value : NULL,
        .value_length = successor ? successor->value_length : 0,
        .if_version = MOB_GCS_ANY_VERSION};
    if (successor)
        node_function_is_newest(u->node, successor);
    f->newest = false;
    enum mob_status status = successor ? mob_gcs_put(u->node->gcs, &put, next_rows, u)
                                       : mob_gcs_delete(u->node->gcs, &put, next_rows, u);
    if (status != MOB_OK)
        answer(u, status, "the control store does not answer");
}

/* Of two pinned rows of a name, was the first deployed later? Those without numbers are compared as before
 * there were any, which is right where there is one shard. */
static bool is_later(const struct mob_gcs_kv *a, const struct mob_gcs_kv *b)
{
    const uint64_t of_a = node_function_row_deployment(a), of_b = node_function_row_deployment(b);
    return of_a != of_b ? of_a > of_b : a->version > b->version;
}

/* The pinned rows that are left: the one that was deployed last. */
static void on_versions(void *arg, const struct mob_gcs_answer *rows)
{
    struct undeployment *u = arg;
    const struct mob_gcs_kv *successor = NULL;
    if (rows->status != MOB_OK && rows->status != MOB_NOT_FOUND) {
        answer(u, rows->status, "the control store does not answer");
        return;
    }
    for (uint32_t i = 0; i < rows->kv_count; i++)
        if (!successor || is_later(&rows->kvs[i], successor))
            successor = &rows->kvs[i];
    rename_row(u, successor);
}

static void on_unpinned(void *arg, const struct mob_gcs_answer *done)
{
    struct undeployment *u = arg;
    struct node_function *f = u->functions[u->next];
    char prefix[MOB_GCS_KEY_MAX];
    struct mob_gcs_list list = {.table = MOB_GCS_FUNCTIONS, .prefix = prefix};
    if (done->status != MOB_OK && done->status != MOB_NOT_FOUND) {
        answer(u, done->status, "the control store does not answer");
        return;
    }
    if (!f->newest) {
        next_rows(u, done);
        return;
    }
    list.prefix_length = (uint32_t)snprintf(prefix, sizeof prefix, "%s@", f->name);
    enum mob_status status = mob_gcs_list(u->node->gcs, &list, on_versions, u);
    if (status != MOB_OK)
        answer(u, status, "the control store does not answer");
}

static void remove_rows(struct undeployment *u)
{
    char pinned[MOB_GCS_KEY_MAX + 80], hash[64];
    mob_base32_encode(u->module.b, sizeof u->module.b, hash);
    snprintf(pinned, sizeof pinned, "%s@%s", u->functions[u->next]->name, hash);
    struct mob_gcs_put row = {.table = MOB_GCS_FUNCTIONS,
        .key = pinned,
        .key_length = (uint32_t)strlen(pinned),
        .if_version = MOB_GCS_ANY_VERSION};
    enum mob_status status = mob_gcs_delete(u->node->gcs, &row, on_unpinned, u);
    if (status != MOB_OK)
        answer(u, status, "the control store does not answer");
}

/* --- beginning --- */

void node_undeploy(
    struct node *node, struct node_client *client, uint32_t request, const uint8_t *payload, uint32_t bytes)
{
    char text[512], why[160];
    struct undeployment *u = calloc(1, sizeof *u);
    MOB_ASSERT(u);
    *u = (struct undeployment){.node = node,
        .slot = client->slot,
        .session = client->session,
        .request = request,
        .decoder = mob_block_decoder_create()};
    MOB_ASSERT(u->decoder);
    node->undeploying++;
    snprintf(text, sizeof text, "%.*s", (int)(bytes < sizeof text ? bytes : 0), (const char *)payload);
    enum mob_status status = node_module_find(node, text, &u->module, &u->functions, &u->count);
    if (status != MOB_OK) {
        answer(u, status,
            status == MOB_NOT_FOUND ? "no module has this hash" : "more than one module's hash begins so");
        return;
    }
    if (node->deploying > 0 || node->undeploying > 1) {
        u->count = 0; /* not this one's to change */
        answer(u, MOB_AGAIN, "another module is being deployed or deleted");
        return;
    }
    if (!unused_here(u, why, sizeof why)) {
        answer(u, MOB_IN_USE, why);
        return;
    }
    for (uint32_t i = 0; i < u->count; i++)
        u->functions[i]->leaving = true;
    lineage_log_then(node->log, after_commit, destroy, u);
}
