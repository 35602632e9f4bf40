/* MOB_REQ_FETCH: an object that a client holds and does not find in the store.
 *
 * What left memory comes back from its file, from what the last look-ups found (value_cache.h), or by a
 * look-up (resolve.c). Whoever reads in order gets the next ones along with the one that it asked for, so
 * that it comes here once for many.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "runtime/node/full_store.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/notices.h"
#include "runtime/node/taken.h"
#include "runtime/node/task.h"
#include "runtime/node/value_cache.h"

enum { AHEAD = 64 }; /* neighbours that come along */

static struct mob_object_id next_of(struct mob_object_id id)
{
    if (id.slot & MOB_SLOT_PUT)
        id.slot++;
    else
        id.task.index++;
    return id;
}

/* MOB_NOT_FOUND: the last look-ups did not come by it. */
static enum mob_status restore_known(struct node *node, struct mob_object_id id)
{
    enum mob_value_type type;
    uint32_t bytes;
    const uint8_t *payload = value_cache_find(node->values, id, &type, &bytes);
    if (!payload)
        return MOB_NOT_FOUND;
    enum mob_status status = node_restore_value(node, id, type, payload, bytes);
    if (status == MOB_OK)
        mob_store_object_committed(node->store, id, true);
    return status == MOB_EXISTS ? MOB_OK : status;
}

static bool restore_run(struct node *node, struct mob_object_id id)
{
    if (restore_known(node, id) != MOB_OK)
        return false; /* a full store too: the resolver waits for room */
    for (int i = 0; i < AHEAD; i++) {
        id = next_of(id);
        if (restore_known(node, id) != MOB_OK)
            break;
    }
    return true;
}

/* The bytes are here; who sees only what is committed gets its reply when they are. */
struct fetched {
    struct node *node;
    uint32_t slot, session, request;
};

static void reply_fetched(void *arg)
{
    struct fetched *f = arg;
    node_reply(f->node, f->slot, f->session, f->request, MOB_OK, NULL, 0);
    free(f);
}

/* False: there is nothing to wait for. */
static bool reply_when_committed(
    struct node *node, struct node_client *client, uint32_t request, struct mob_object_id id)
{
    struct mob_object_info info;
    if (node_sees_uncommitted(client) || !mob_store_object_info(node->store, id, &info) || info.committed)
        return false;
    if (!node_object_taken(node, id, &info)) {
        node_watch_request(node, client, id, request);
        return true;
    }
    struct fetched *f = malloc(sizeof *f);
    MOB_ASSERT(f);
    *f = (struct fetched){node, client->slot, client->session, request};
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = reply_fetched;
    effect.call.drop = free;
    effect.call.arg = f;
    if (!large_hashes_keep(node, id, &effect))
        lineage_log_effect(node->log, &effect);
    return true;
}

/* A fetch that found the store full of what waits for its commit. */
struct fetch_later {
    struct node *node;
    uint32_t slot, session, request;
    struct mob_object_id id;
    int64_t give_up_ns;
};

static void fetch(struct node_client *client, const struct fetch_later *f);

static void fetch_after_commit(void *arg)
{
    struct fetch_later *f = arg;
    if (node_client_is(f->node, f->slot, f->session))
        fetch(node_client_at(f->node, f->slot), f);
    free(f);
}

static void fetch_into_full_store(const struct fetch_later *f)
{
    struct fetch_later *later = f->node->now_ns > f->give_up_ns ? NULL : malloc(sizeof *later);
    if (later)
        *later = *f;
    if (later && full_store_call_later(f->node, fetch_after_commit, free, later))
        return;
    free(later);
    char text[FULL_STORE_TEXT_MAX];
    full_store_text(f->node, text);
    node_reply(f->node, f->slot, f->session, f->request, MOB_STORE_FULL, text, (uint32_t)strlen(text));
}

/* Its record was taken, so its bytes are whole: all of a task that has ended, and items that a generator's
 * first run has yielded. A put is sealed when its record is taken. */
static bool is_whole(struct node *node, struct mob_object_id id)
{
    if (id.slot & MOB_SLOT_PUT)
        return false;
    struct node_task *maker = node_task_find(node, id.task);
    return !maker || /* one that runs again is compared first */
        (maker->template->head.num_returns == MOB_RETURNS_STREAM &&
            !(maker->flags & (TASK_LOOK_UP | TASK_REMAKE)) && node_extra_of(maker) &&
            id.slot < node_extra_of(maker)->yielded);
}

/* A worker publishes its record, then seals, and may get no core in between for longer than whoever was woken
 * by the record asks again. The commit seals as well, but a hold (a large put's file) may keep it back. */
bool node_seal_for_maker(struct node *node, struct mob_object_id id)
{
    struct mob_object_info info;
    return is_whole(node, id) && mob_store_object_info(node->store, id, &info) && !info.sealed &&
        mob_store_seal_published(node->store, id, info.slot_owner) == MOB_OK;
}

static void fetch(struct node_client *client, const struct fetch_later *f)
{
    struct node *node = f->node;
    struct mob_object_id id = f->id;
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    enum mob_status status = mob_store_object_bytes(node->store, id, true, &type, &bytes, &size);
    if (status == MOB_NOT_READY && node_seal_for_maker(node, id))
        status = mob_store_object_bytes(node->store, id, true, &type, &bytes, &size);
    if (status == MOB_NOT_FOUND && restore_run(node, id))
        status = MOB_OK;
    if (status == MOB_OK && reply_when_committed(node, client, f->request, id))
        return;
    if (status == MOB_STORE_FULL) {
        fetch_into_full_store(f);
        return;
    }
    if (status == MOB_OK || status == MOB_CORRUPT) {
        node_reply(node, client->slot, client->session, f->request, status, NULL, 0);
        return;
    }
    struct node_task *maker = node_task_find(node, id.task);
    if (maker && (id.slot & MOB_SLOT_PUT) && !(maker->flags & (TASK_LOOK_UP | TASK_REMAKE)) &&
        !node_promised(node, id)) {
        /* Put and let go: its task runs on and puts it once. */
        node_reply(node, client->slot, client->session, f->request, MOB_OBJECT_LOST, NULL, 0);
        return;
    }
    node_watch_request(node, client, id, f->request);
    if (!maker)
        node_resolve(node, id);
}

void node_fetch(struct node *node, struct node_client *client, uint32_t request, struct mob_object_id id)
{
    struct fetch_later f = {.node = node,
        .slot = client->slot,
        .session = client->session,
        .request = request,
        .id = id,
        .give_up_ns = node->now_ns + FULL_STORE_PATIENCE_NS};
    fetch(client, &f);
}
