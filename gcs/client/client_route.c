/* Who is asked: one member for all, or head and tail of a chain. The configuration comes from members, with
 * where each member is; one that is in no link's reach is looked for at the addresses that the client was
 * given. */
#include <string.h>
#include <sys/un.h>

#include "gcs/client/client_internal.h"

enum mob_status route_init(struct mob_gcs *g, const char *paths)
{
    for (const char *at = paths; *at != 0;) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof((struct sockaddr_un *)0)->sun_path || g->seed_count == SEEDS_MAX)
            return MOB_INVALID;
        memcpy(g->seeds[g->seed_count++], at, length);
        at += length;
        at += *at == ',';
    }
    g->head = g->tail = &g->links[0];
    g->seeks = true;
    return g->seed_count > 0 ? MOB_OK : MOB_INVALID;
}

void mob_gcs_chain(const struct mob_gcs *g, struct mob_gcs_config *out)
{
    *out = g->book.config;
}

static struct link *other(struct mob_gcs *g, const struct link *l)
{
    return &g->links[l == &g->links[0]];
}

/* The link to `path` if there is one, else one that `taken` is not, closed. */
static struct link *link_to(struct mob_gcs *g, const char *path, const struct link *taken)
{
    for (size_t i = 0; i < 2; i++)
        if (&g->links[i] != taken && g->links[i].state != LINK_DOWN && strcmp(g->links[i].path, path) == 0)
            return &g->links[i];
    return taken != NULL ? other(g, taken) : NULL;
}

static void point_at(struct link *l, const char *path)
{
    if (strcmp(l->path, path) != 0)
        l->said = (struct mob_gcs_durable){0}; /* it was another's */
    if (l->state != LINK_DOWN && strcmp(l->path, path) != 0)
        link_fail(l, MOB_UNAVAILABLE);
    memcpy(l->path, path, strlen(path) + 1);
    if (l->state == LINK_DOWN) {
        l->retry_ns = l->gcs->now_ns;
        l->retry_pause_ns = RETRY_PAUSE_NS;
    }
}

static void set_route(struct mob_gcs *g, const struct mob_gcs_book *book)
{
    const char *head_path = book->places[0].client, *tail_path = book->places[book->config.count - 1].client;
    bool one = strcmp(head_path, tail_path) == 0;
    struct link *old_tail = g->tail, *tail = link_to(g, tail_path, NULL);
    struct link *head = one ? tail : link_to(g, head_path, tail);
    if (head == NULL && tail == NULL)
        head = tail = &g->links[0];
    if (!one && (tail == NULL || head == tail))
        tail = other(g, head);
    if (tail != old_tail)
        subs_leave(g, old_tail);
    g->head = head;
    g->tail = tail;
    /* The same place may have another name here than where the client looked for it (a link, a doubled
     * slash), and then its link ends, perhaps the last one: that is no reason to seek. */
    g->seeks = true;
    point_at(head, head_path);
    point_at(tail, tail_path);
    g->seeks = false;
    if (one && other(g, head)->state != LINK_DOWN)
        link_fail(other(g, head), MOB_UNAVAILABLE);
    link_memory(g);
    if (tail != old_tail) {
        reads_down(g);
        cold_down(g);
    }
}

static void seek(struct mob_gcs *g)
{
    g->seeks = true;
    cold_down(g);
    g->head = g->tail = &g->links[0];
    if (g->links[1].state != LINK_DOWN)
        link_fail(&g->links[1], MOB_UNAVAILABLE);
}

/* Nobody of the configuration is in reach: others may know a newer one. */
static void seek_if_alone(struct mob_gcs *g)
{
    if (!g->seeks && g->book.config.epoch != 0 && g->links[0].state == LINK_DOWN &&
        g->links[1].state == LINK_DOWN)
        seek(g);
}

void route_failed(struct link *l)
{
    seek_if_alone(l->gcs);
}

void route_step(struct mob_gcs *g)
{
    for (size_t i = 0; i < 2; i++) {
        struct link *l = &g->links[i];
        bool late = g->now_ns - l->opened_ns > OPENING_PATIENCE_NS;
        bool silent = l->state == LINK_OPENING && (g->seed_count > 1 || g->book.config.epoch != 0);
        bool useless = g->seeks && l->state == LINK_UP && l->chain; /* it does not know a configuration */
        if (late && (silent || useless))
            link_fail(l, MOB_UNAVAILABLE);
    }
    if (g->seeks && g->head->state == LINK_DOWN && g->now_ns >= g->head->retry_ns) {
        link_open(g->head, g->seeds[g->next_seed++ % g->seed_count]);
    } else if (!g->seeks) {
        if (g->head->state == LINK_DOWN && g->now_ns >= g->head->retry_ns)
            link_open(g->head, g->head->path);
        if (g->tail->state == LINK_DOWN && g->now_ns >= g->tail->retry_ns)
            link_open(g->tail, g->tail->path);
        seek_if_alone(g); /* a configuration may have led to those who died meanwhile */
    }
}

int64_t route_next_ns(const struct mob_gcs *g)
{
    int64_t next = MOB_FOREVER_NS;
    for (size_t i = 0; i < 2; i++) {
        const struct link *l = &g->links[i];
        bool used = l == g->head || l == g->tail;
        int64_t at = MOB_FOREVER_NS;
        if (used && l->state == LINK_DOWN)
            at = l->retry_ns;
        else if (used && (l->state == LINK_OPENING || g->seeks) && (l->chain || g->seed_count > 1))
            at = l->opened_ns + OPENING_PATIENCE_NS + MOB_MS;
        if (at < next)
            next = at;
    }
    return next;
}

/* It was not taken, since the member has another configuration, or no part in it yet. */
static void retry_soon(struct mob_gcs *g, uint64_t client)
{
    int64_t at = g->now_ns + WRONG_MEMBER_NS;
    struct mob_gcs_log *log = log_find(g, client);
    if (log != NULL)
        stream_detach(&log->stream, at);
    else if (client == g->client || client == g->nonce)
        stream_detach(&g->stream, at);
    else if (client == g->left.client)
        left_detach(g);
    reads_down(g);
    cold_down(g);
    g->reads_ns = at;
}

/* Everything had died since the newest configuration that it knew, so the history is another one, and links
 * lead to who is dead: also one whose end has not been noticed and at whose address another is now. What is
 * still on its way there must not be heard as the new chain's. */
static void chain_was_started(struct link *l)
{
    struct mob_gcs *g = l->gcs;
    g->position.committed = g->position.durable = 0; /* what it has, it says */
    if (other(g, l)->state != LINK_DOWN)
        link_fail(other(g, l), MOB_UNAVAILABLE);
}

void route_nack(struct link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs *g = l->gcs;
    struct mob_gcs_nack nack;
    struct mob_gcs_book book;
    if (mob_gcs_nack_decode(frame->head, frame->head_bytes, &nack) != MOB_OK ||
        mob_gcs_book_decode(frame->body, frame->body_bytes, &book) != MOB_OK) {
        link_fail(l, MOB_CORRUPT);
        return;
    }
    uint64_t known = g->book.config.epoch;
    if (book.config.epoch < known) {
        if (g->seeks) /* left behind */
            link_fail(l, MOB_UNAVAILABLE);
        else if (frame->from != 0)
            retry_soon(g, frame->from);
        return;
    }
    g->collecting = nack.reason == MOB_AGAIN;
    if (book.config.epoch == known && !g->seeks) {
        if (frame->from != 0)
            retry_soon(g, frame->from);
        else if (l == g->tail)
            reads_down(g); /* it hears of this only now, and had nothing to say to who asked before */
        return;
    }
    if (book.config.started > known)
        chain_was_started(l);
    g->book = book;
    g->position.epoch = book.config.epoch;
    set_route(g, &book);
    detach_all(g, g->now_ns);
    reads_again(g, g->now_ns);
}
