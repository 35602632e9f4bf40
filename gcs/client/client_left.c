/* Clients of this process that were destroyed when no link could carry their good-bye. Their places in the
 * member's table are kept for a minute, and a member that restarts waits for them, since their process lives.
 * The next client of the same members in this process says good-bye for them: one at a time, on its own link,
 * where it attaches the one that has gone (which keeps nothing) and lets it go. One that gets no answer goes
 * behind the others, and says it when an answer comes late. Where there is no other client, the minute
 * stands.
 *
 * The list is the process's, since who destroys a client and who has a link may be two threads' loops.
 */
#include "gcs/client/client_internal.h"

#include <pthread.h>
#include <stdatomic.h>

#define LEFT_MAX 64u /* one more pushes the oldest out, whose place then expires */
/* Then its place has expired, or its member was away for all that time. */
#define LEFT_AGE_NS (600 * MOB_SEC)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct left list[LEFT_MAX];
static _Atomic uint32_t count; /* written under the lock */

static void add(const struct left *gone)
{
    pthread_mutex_lock(&lock);
    uint32_t n = atomic_load_explicit(&count, memory_order_relaxed);
    if (n == LEFT_MAX)
        memmove(&list[0], &list[1], --n * sizeof list[0]);
    list[n] = *gone;
    atomic_store_explicit(&count, n + 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

/* Ids are of one store, so its members' addresses are part of who it was. */
static struct mob_hash128 members_of(const struct mob_gcs *g)
{
    struct {
        struct mob_cluster_id cluster;
        uint32_t shard, seed_count;
        struct mob_hash128 seeds;
    } who = {.cluster = g->options.cluster,
        .shard = g->options.shard,
        .seed_count = g->seed_count,
        .seeds = mob_hash128(g->seeds, g->seed_count * sizeof g->seeds[0])};
    return mob_hash128(&who, sizeof who);
}

void left_behind(struct mob_gcs *g)
{
    left_detach(g);
    if (g->client == 0)
        return;
    struct left gone = {.members = members_of(g), .client = g->client, .since_ns = mob_now()};
    gone.answered = g->op_first != NULL ? g->op_first->head.request - 1 : g->next_request - 1;
    for (const struct op *op = g->op_first; op != NULL && op->answered; op = op->next)
        gone.answered = op->head.request;
    add(&gone);
}

void left_detach(struct mob_gcs *g)
{
    if (g->left.client == 0)
        return;
    add(&g->left);
    g->left.client = 0;
    g->left_ns = g->now_ns + STREAM_PATIENCE_NS;
}

static bool is_aged(const struct left *gone, int64_t now_ns)
{
    return now_ns - gone->since_ns >= LEFT_AGE_NS;
}

static void cut_out(uint32_t i)
{
    uint32_t n = atomic_load_explicit(&count, memory_order_relaxed) - 1;
    memmove(&list[i], &list[i + 1], (n - i) * sizeof list[0]);
    atomic_store_explicit(&count, n, memory_order_relaxed);
}

/* The oldest of these members, or the one with that id (0: any). Whoever has waited for too long goes. */
static bool take(const struct mob_hash128 *members, uint64_t client, int64_t now_ns, struct left *out)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < atomic_load_explicit(&count, memory_order_relaxed) && !found;) {
        bool wanted = mob_hash128_eq(list[i].members, *members) && (client == 0 || list[i].client == client);
        if (!wanted && !is_aged(&list[i], now_ns)) {
            i++;
            continue;
        }
        found = wanted && !is_aged(&list[i], now_ns);
        if (found)
            *out = list[i];
        cut_out(i);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void left_pump(struct mob_gcs *g)
{
    if (g->left.client != 0 && g->now_ns - g->left_sent_ns >= STREAM_PATIENCE_NS)
        left_detach(g);
    /* relaxed: who does not see one yet sees it in a later step */
    bool none = atomic_load_explicit(&count, memory_order_relaxed) == 0;
    if (none || g->left.client != 0 || g->stream.state != STREAM_ATTACHED || g->now_ns < g->left_ns)
        return;
    struct mob_hash128 members = members_of(g);
    if (!take(&members, 0, g->now_ns, &g->left))
        return;
    g->left_sent_ns = g->now_ns;
    struct mob_gcs_attach attach = {.answered = g->left.answered, .kept = g->left.answered + 1, .known = 1};
    out_frame(
        g->head, MOB_GCS_ATTACH, g->left.client, g->position.epoch, &attach, sizeof attach, NULL, 0, NULL);
}

int64_t left_next_ns(const struct mob_gcs *g)
{
    if (g->left.client != 0)
        return g->left_sent_ns + STREAM_PATIENCE_NS;
    bool later = g->now_ns < g->left_ns && atomic_load_explicit(&count, memory_order_relaxed) != 0;
    return later ? g->left_ns : MOB_FOREVER_NS;
}

void left_heard(struct mob_gcs *g, const struct mob_gcs_frame *frame)
{
    struct mob_hash128 members = members_of(g);
    struct left late;
    bool awaited = g->left.client != 0 && frame->from == g->left.client;
    if (!awaited && (frame->from == 0 || !take(&members, frame->from, g->now_ns, &late)))
        return;
    if (frame->type == MOB_GCS_ATTACHED) {
        /* that nothing more of it comes: a member that collects waits for no other */
        out_frame(g->head, MOB_GCS_RESENT, frame->from, g->position.epoch, NULL, 0, NULL, 0, NULL);
        out_frame(g->head, MOB_GCS_BYE, frame->from, g->position.epoch, NULL, 0, NULL, 0, NULL);
    }
    if (awaited)
        g->left.client = 0;
}
