#include "runtime/node/large_hashes.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/known.h"
#include "runtime/node/notices.h"

enum { BUCKETS = 1024 };
#define SHARE_EVERY_NS 2000000 /* a step is a tenth of that: half a gigabyte a second of a busy node */

enum large_hash_state {
    HASH_UNASKED = 1, /* the store's queue was full */
    HASH_COMPUTED = 2, /* by the store, sooner or later */
    HASH_LOOKED_UP = 3, /* in the log: was it the same? */
    HASH_LOGGED = 4, /* its commit is on its way */
    HASH_FOLLOWS = 5 /* another one */
};

struct kept_effect {
    struct kept_effect *next;
    struct effect effect;
    bool of_session; /* CALL: waits for the older ones of its session as well, */
    uint32_t slot, session; /* which is this; NODE_NOBODY = for all */
};

/* A commit that waits. */
struct large_hash {
    struct large_hash *in_bucket;
    struct large_hash *older, *newer; /* in order of wanting; not of those that follow */
    struct large_hash *unasked; /* next */
    struct large_hash *leader, *followers, *next_follower;
    struct node *node;
    struct mob_object_id id;
    struct mob_job_id job;
    char ns[MOB_NAMESPACE_MAX];
    uint32_t slot, session;
    struct mob_hash128 hash;
    uint8_t state; /* enum large_hash_state */
    bool again, remakeable;
    enum mob_status status; /* that its waiters are told instead of their own, unless MOB_OK */
    struct kept_effect *effects, **effects_end;
};
struct large_hashes {
    struct large_hash *buckets[BUCKETS];
    struct large_hash *newest;
    struct large_hash *unasked, **unasked_end;
    uint32_t count;
    int64_t shared_ns; /* last step that was not of spare time */
    int64_t rest_until_ns;
};

struct large_hashes *large_hashes_create(void)
{
    struct large_hashes *hashes = calloc(1, sizeof *hashes);
    MOB_ASSERT(hashes);
    hashes->unasked_end = &hashes->unasked;
    return hashes;
}

static struct large_hash **bucket_of(const struct node *node, struct mob_object_id id)
{
    return &node->large_hashes->buckets[(mob_task_id_mix(id.task) ^ id.slot) % BUCKETS];
}

static struct large_hash *find(const struct node *node, struct mob_object_id id)
{
    if (node->large_hashes->count == 0)
        return NULL;
    struct large_hash *h = *bucket_of(node, id);
    while (h && !mob_object_id_eq(h->id, id))
        h = h->in_bucket;
    return h;
}

static struct large_hash *add(struct node *node, struct mob_object_id id)
{
    struct large_hash *h = calloc(1, sizeof *h), **bucket = bucket_of(node, id);
    MOB_ASSERT(h);
    h->node = node;
    h->id = id;
    h->slot = NODE_NOBODY;
    h->effects_end = &h->effects;
    h->in_bucket = *bucket;
    *bucket = h;
    node->large_hashes->count++;
    return h;
}

static void keep(struct large_hash *h, struct kept_effect *kept)
{
    kept->next = NULL;
    *h->effects_end = kept;
    h->effects_end = &kept->next;
}

static struct kept_effect *kept_of(const struct effect *effect)
{
    struct kept_effect *kept = malloc(sizeof *kept);
    MOB_ASSERT(kept);
    *kept = (struct kept_effect){.effect = *effect};
    return kept;
}

static void drop_effects(struct large_hash *h)
{
    while (h->effects) {
        struct kept_effect *kept = h->effects;
        h->effects = kept->next;
        if (kept->effect.kind == EFFECT_CALL)
            kept->effect.call.drop(kept->effect.call.arg);
        free(kept);
    }
}

void large_hashes_destroy(struct large_hashes *hashes)
{
    for (uint32_t i = 0; hashes && i < BUCKETS; i++)
        while (hashes->buckets[i]) {
            struct large_hash *h = hashes->buckets[i];
            hashes->buckets[i] = h->in_bucket;
            drop_effects(h);
            free(h);
        }
    free(hashes);
}

/* ---- the commit ---- */

static bool is_of_session(const struct large_hash *h, const struct kept_effect *kept)
{
    return kept->slot == NODE_NOBODY || (h->slot == kept->slot && h->session == kept->session);
}

/* What waits for a session goes on to its next older one; behind the log when there is none. */
static void pass_on(struct node *node, struct large_hash *older, struct kept_effect *kept)
{
    while (older && !is_of_session(older, kept))
        older = older->older;
    if (older) {
        keep(older, kept);
        return;
    }
    lineage_log_effect_later(node->log, &kept->effect);
    free(kept);
}

static void run_kept(struct node *node, const struct large_hash *h, struct kept_effect *kept)
{
    struct effect *effect = &kept->effect;
    if (kept->of_session) {
        pass_on(node, h->older, kept);
        return;
    }
    if (effect->kind == EFFECT_READY && h->status != MOB_OK) {
        effect->status = (uint16_t)h->status;
        effect->type = MOB_TYPE_ERROR;
    }
    node_run_effect(node, effect);
    free(kept);
}

static void unlink_record(struct node *node, struct large_hash *h)
{
    struct large_hash **at = bucket_of(node, h->id);
    while (*at != h)
        at = &(*at)->in_bucket;
    *at = h->in_bucket;
    node->large_hashes->count--;
    if (h->leader)
        return; /* not in the order */
    if (h->newer)
        h->newer->older = h->older;
    else
        node->large_hashes->newest = h->older;
    if (h->older)
        h->older->newer = h->newer;
}

/* Not findable any more, so what comes of its effects goes the usual way. */
static void commit(struct node *node, struct large_hash *h)
{
    unlink_record(node, h);
    while (h->effects) {
        struct kept_effect *kept = h->effects;
        h->effects = kept->next;
        run_kept(node, h, kept);
    }
    mob_store_object_committed(node->store, h->id, h->remakeable);
    while (h->followers) {
        struct large_hash *follower = h->followers;
        h->followers = follower->next_follower;
        commit(node, follower); /* these have no followers themselves */
    }
    free(h);
}

static void on_acknowledged(void *arg)
{
    struct large_hash *h = arg;
    commit(h->node, h);
}

static void stays_in_table(void *arg)
{
    (void)arg; /* large_hashes_destroy frees it */
}

static void commit_behind_log(struct node *node, struct large_hash *h)
{
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = on_acknowledged;
    effect.call.drop = stays_in_table;
    effect.call.arg = h;
    h->state = HASH_LOGGED;
    lineage_log_effect_later(node->log, &effect);
}

static void log_hash(struct node *node, struct large_hash *h)
{
    struct mob_entry_hash entry = {.id = h->id, .hash = h->hash};
    lineage_log_job(node->log, h->job, h->ns);
    lineage_log_other(node->log, MOB_ENTRY_HASH, &entry, sizeof entry, NULL, 0);
    known_logged(node, h->id.task);
    commit_behind_log(node, h);
}

/* ---- bytes that came back ---- */

/* The value that the log speaks of is lost: these are other bytes. */
static void other_bytes(struct node *node, struct large_hash *h)
{
    static const char message[] =
        "its bytes were lost, and those that came back have another hash: the value "
        "cannot be had any more";
    uint8_t payload[512];
    char id[MOB_ID_TEXT_MAX];
    struct mob_error_link link = {.status = MOB_REPLAY_DIVERGED,
        .task = h->id.task,
        .message = message,
        .message_bytes = sizeof message - 1};
    uint32_t bytes = mob_error_encode(payload, sizeof payload, &link, NULL, 0);
    MOB_LOG_WARN("hashes", "remade_otherwise", "object=%s", mob_object_id_format(h->id, id));
    h->status = MOB_REPLAY_DIVERGED;
    mob_store_object_free(node->store, h->id);
    enum mob_status put = node_restore_value(node, h->id, MOB_TYPE_ERROR, payload, bytes);
    if (put != MOB_OK) /* somebody reads the bytes, or no room: the notice says it all the same */
        MOB_LOG_WARN("hashes", "error_not_stored", "status=%s", mob_status_code(put));
}

static void on_known(void *arg, enum mob_status status, const struct known *known)
{
    struct node *node = arg;
    struct large_hash *h = find(node, known->id);
    if (!h || h->state != HASH_LOOKED_UP)
        return;
    if (status == MOB_OK && !known->hashed) {
        log_hash(node, h);
        return;
    }
    if (status != MOB_OK) { /* whoever asks next brings the bytes back, and compares, anew */
        h->status = status;
        mob_store_object_free(node->store, h->id);
    } else if (!mob_hash128_eq(known->hash, h->hash)) {
        other_bytes(node, h);
    }
    commit_behind_log(node, h);
}

static void hashed(struct node *node, struct large_hash *h, struct mob_hash128 hash)
{
    h->hash = hash;
    if (!h->again) {
        log_hash(node, h);
        return;
    }
    h->state = HASH_LOOKED_UP;
    known_ask(node, h->id, on_known, node);
}

/* ---- asking the store ---- */

static void ask_later(struct large_hashes *hashes, struct large_hash *h)
{
    h->state = HASH_UNASKED;
    h->unasked = NULL;
    *hashes->unasked_end = h;
    hashes->unasked_end = &h->unasked;
}

/* False: the store's queue is full. */
static bool ask(struct node *node, struct large_hash *h)
{
    enum mob_status status = mob_store_hash_later(node->store, h->id);
    if (status == MOB_QUEUE_FULL)
        return false;
    if (status == MOB_OK)
        h->state = HASH_COMPUTED;
    else
        commit_behind_log(node, h); /* it is gone meanwhile */
    return true;
}

static bool ask_more(struct node *node)
{
    struct large_hashes *hashes = node->large_hashes;
    bool asked = false;
    while (hashes->unasked && ask(node, hashes->unasked)) {
        hashes->unasked = hashes->unasked->unasked;
        asked = true;
    }
    if (!hashes->unasked)
        hashes->unasked_end = &hashes->unasked;
    return asked;
}

static void begin_rest(struct node *node)
{
    struct large_hashes *hashes = node->large_hashes;
    hashes->rest_until_ns = node->now_ns + LARGE_REST_NS;
    if (hashes->count == 1)
        hashes->shared_ns = node->now_ns; /* its arrival alone does not make the node a busy one */
}

bool large_hashes_want(struct node *node, const struct large_hash_wanted *wanted)
{
    struct large_hashes *hashes = node->large_hashes;
    struct mob_object_info info;
    if (!mob_store_object_info(node->store, wanted->id, &info) || !info.sealed || info.inline_value)
        return false;
    if (find(node, wanted->id))
        return true;
    struct large_hash *h = add(node, wanted->id);
    h->job = wanted->job;
    strncpy(h->ns, wanted->ns, sizeof h->ns - 1);
    h->slot = wanted->slot;
    h->session = wanted->session;
    h->again = wanted->again;
    h->older = hashes->newest;
    if (h->older)
        h->older->newer = h;
    hashes->newest = h;
    if (wanted->slot != NODE_NOBODY)
        begin_rest(node);
    if (hashes->unasked || !ask(node, h))
        ask_later(hashes, h);
    return true;
}

bool large_hashes_step(struct node *node)
{
    struct mob_object_id id;
    struct mob_hash128 hash;
    bool there, some = false;
    if (node->large_hashes->count == 0)
        return false;
    while (mob_store_next_hash(node->store, &id, &there, &hash)) {
        struct large_hash *h = find(node, id);
        some = true;
        if (!h || h->state != HASH_COMPUTED)
            continue;
        if (there)
            hashed(node, h, hash);
        else
            commit_behind_log(node, h);
    }
    return ask_more(node) || some;
}

/* ---- what waits ---- */

bool large_hashes_waits(const struct node *node, struct mob_object_id id)
{
    return find(node, id) != NULL;
}

void large_hashes_follow(struct node *node, struct mob_object_id alias, struct mob_object_id target)
{
    struct large_hash *leader = find(node, target);
    if (!leader || find(node, alias))
        return;
    leader = leader->leader ? leader->leader : leader; /* one level: chains of tail calls are long */
    struct large_hash *h = add(node, alias);
    h->state = HASH_FOLLOWS;
    h->leader = leader;
    h->next_follower = leader->followers;
    leader->followers = h;
}

bool large_hashes_keep(struct node *node, struct mob_object_id id, const struct effect *effect)
{
    struct large_hash *h = find(node, id);
    if (!h)
        return false;
    h->remakeable |= effect->kind == EFFECT_READY && effect->remakeable;
    keep(h, kept_of(effect));
    if (effect->kind == EFFECT_CALL || effect->slot != NODE_NOBODY) /* somebody waits */
        node->large_hashes->rest_until_ns = 0;
    return true;
}

bool large_hashes_after(struct node *node, uint32_t slot, uint32_t session, const struct effect *effect)
{
    struct kept_effect *kept = kept_of(effect);
    kept->of_session = true;
    kept->slot = slot;
    kept->session = session;
    struct large_hash *newest = node->large_hashes->newest;
    while (newest && !is_of_session(newest, kept))
        newest = newest->older;
    if (!newest) {
        free(kept);
        return false;
    }
    keep(newest, kept);
    node->large_hashes->rest_until_ns = 0;
    return true;
}

bool large_hashes_copied(struct node *node, struct mob_object_id id)
{
    struct large_hash *h = find(node, id);
    if (h)
        h->remakeable = true;
    return h != NULL;
}

bool large_hashes_any(const struct node *node)
{
    return node->large_hashes->count > 0;
}

bool large_hashes_rest(const struct node *node)
{
    return node->large_hashes->count > 0 && node->now_ns < node->large_hashes->rest_until_ns;
}

bool large_hashes_due(struct node *node)
{
    struct large_hashes *hashes = node->large_hashes;
    if (hashes->count == 0 || node->now_ns - hashes->shared_ns < SHARE_EVERY_NS)
        return false;
    hashes->shared_ns = node->now_ns;
    return true;
}
