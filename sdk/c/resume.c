/* A driver whose node died goes on with the next one: the old segment is still mapped, and in it is
 * everything that the node had not acknowledged. It is sent again under the same ids, and the same futures
 * become ready. */
#include "sdk/c/client.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- heads of specs, for siblings whose spec was acknowledged before them ---- */

/* Of those below `acked` the last one of each slot stays: siblings above it may repeat it. */
static void drop_superseded(struct mob_client *client, uint64_t acked)
{
    bool seen[MOB_HEAD_SLOTS] = {false};
    uint32_t to = client->sent_head_count;
    for (uint32_t i = client->sent_head_count; i-- > 0;) {
        const struct mob_sent_head *sent = &client->sent_heads[i];
        if (sent->position <= acked && seen[sent->slot])
            continue;
        seen[sent->slot] |= sent->position <= acked;
        client->sent_heads[--to] = *sent;
    }
    client->sent_head_count -= to;
    memmove(
        client->sent_heads, client->sent_heads + to, client->sent_head_count * sizeof *client->sent_heads);
}

/* Half of it, so that so many come before the next time. */
static void make_room(struct mob_client *client)
{
    if (client->sent_head_count > 0)
        drop_superseded(client, mob_store_out_acked(client->store));
    if (client->sent_head_count < client->sent_head_capacity / 2)
        return;
    uint32_t capacity = client->sent_head_capacity == 0 ? 16 : client->sent_head_capacity * 2;
    struct mob_sent_head *heads = realloc(client->sent_heads, capacity * sizeof *heads);
    MOB_ASSERT(heads != NULL);
    client->sent_heads = heads;
    client->sent_head_capacity = capacity;
}

void mob_client_note_spec(
    struct mob_client *client, uint32_t slot, const struct mob_spec_head *head, uint64_t position)
{
    if (client->worker)
        return; /* a worker ends with its node */
    if (client->sent_head_count == client->sent_head_capacity)
        make_room(client);
    client->sent_heads[client->sent_head_count++] = (struct mob_sent_head){position, slot, *head};
}

/* ---- sending again ---- */

struct resend {
    struct mob_client *client;
    struct mob_store_client *old;
    struct {
        struct mob_spec_head head;
        bool known;
    } slots[MOB_HEAD_SLOTS]; /* what siblings repeat */
};

/* What stands in the slots at `position` of the old ring. */
static void heads_before(struct resend *r, uint64_t position)
{
    for (uint32_t i = 0; i < r->client->sent_head_count; i++) {
        const struct mob_sent_head *sent = &r->client->sent_heads[i];
        if (sent->position > position)
            return;
        r->slots[sent->slot].head = sent->head;
        r->slots[sent->slot].known = true;
    }
}

static enum mob_status resend_spec(struct resend *r, uint16_t aux, const uint8_t *body, uint32_t bytes)
{
    uint32_t slot = aux % MOB_HEAD_SLOTS;
    struct mob_client *client = r->client;
    struct mob_spec_head *head = &r->slots[slot].head;
    memcpy(head, body + sizeof(int64_t), sizeof *head);
    r->slots[slot].known = true;
    enum mob_status status = mob_client_publish(client, MOB_OUT_SPEC, aux, body, bytes, NULL, 0);
    if (status == MOB_OK)
        mob_client_note_spec(client, slot, head, mob_store_out_published(client->store) - bytes);
    return status;
}

static enum mob_status resend_sibling(struct resend *r, uint16_t aux, const uint8_t *body, uint32_t bytes)
{
    uint32_t slot = aux % MOB_HEAD_SLOTS;
    if (!r->slots[slot].known)
        return mob_client_fail(r->client, MOB_INTERNAL, "a spec that siblings repeat is not known any more");
    struct mob_spec_head head = r->slots[slot].head;
    uint8_t fixed[sizeof(int64_t) + sizeof head];
    memcpy(fixed, body, sizeof(int64_t));
    memcpy(&head.task.index, body + 8, sizeof head.task.index);
    memcpy(&head.caller_seq, body + 12, sizeof head.caller_seq);
    memcpy(fixed + sizeof(int64_t), &head, sizeof head);
    enum mob_status status =
        mob_client_publish(r->client, MOB_OUT_SPEC, aux, fixed, sizeof fixed, body + 16, bytes - 16);
    if (status == MOB_OK)
        mob_client_note_spec(r->client, slot, &head, mob_store_out_published(r->client->store) - bytes);
    return status;
}

/* The bytes move to the new segment; what was already evicted there was acknowledged, and is no longer ours.
 */
static enum mob_status resend_put(struct resend *r, const uint8_t *body, uint32_t bytes)
{
    struct mob_client *client = r->client;
    struct mob_out_put head;
    memcpy(&head, body, sizeof head);
    uint8_t small[MOB_OBJECT_INLINE_MAX];
    enum mob_value_type type;
    const void *value;
    uint64_t size;
    struct mob_object_ref pin, ref;
    enum mob_status made = MOB_EXISTS; /* not by us */
    if (mob_store_object_get(r->old, head.id, false, &type, small, &value, &size, &pin) == MOB_OK) {
        void *full;
        if (pin.entry == UINT32_MAX) {
            made = mob_store_put_small(client->store, head.id, type, small, (uint32_t)size, &ref);
            if (made == MOB_STORE_FULL)
                made = MOB_EXISTS; /* the record alone carries it */
        } else {
            made = mob_store_room(client, head.id, size, &ref, &full);
            if (made == MOB_OK)
                memcpy(full, value, size);
            mob_store_object_release(r->old, pin);
        }
    }
    if (made != MOB_OK && made != MOB_EXISTS)
        return made;
    enum mob_status status = mob_client_publish(client, MOB_OUT_PUT, 0, body, bytes, NULL, 0);
    if (made == MOB_OK && status == MOB_OK)
        mob_store_object_seal(client->store, ref);
    else if (made == MOB_OK)
        mob_store_object_abort(client->store, ref);
    return status;
}

/* The old segment may have been damaged by whoever else mapped it: then a new node would end this session for
 * what it is sent. Nothing of the record is used before this. */
static bool is_whole(const struct mob_record *record, const uint8_t *body, uint32_t bytes)
{
    struct mob_spec spec;
    struct mob_out_put put;
    uint16_t args;
    switch ((int)record->type) {
    case MOB_OUT_SPEC:
        return bytes >= 8 && mob_spec_open(body + 8, bytes - 8, &spec) == MOB_OK;
    case MOB_OUT_SIBLING:
        return bytes >= 16 && mob_spec_tail_check(body + 16, bytes - 16, &args) == MOB_OK;
    case MOB_OUT_PUT:
        if (bytes < sizeof put)
            return false;
        memcpy(&put, body, sizeof put);
        return put.inline_bytes <= MOB_PUT_INLINE_MAX && put.inline_bytes <= bytes - sizeof put &&
            put.type < MOB_TYPE_COUNT && ((put.flags & MOB_PUT_PROMISE) || put.type != MOB_TYPE_NONE);
    case MOB_OUT_CANCEL:
        return bytes >= sizeof(struct mob_out_cancel);
    case MOB_OUT_EVENT:
        return bytes >= sizeof(struct mob_out_event);
    default:
        return true;
    }
}

static enum mob_status resend_one(struct resend *r, const struct mob_record *record, const uint8_t *body)
{
    uint32_t bytes = record->bytes - (uint32_t)sizeof *record;
    if (!is_whole(record, body, bytes)) {
        MOB_LOG_WARN("sdk", "record_lost", "type=%u why=\"the old segment was damaged\"", record->type);
        return MOB_OK; /* whoever waits for it is told that there is no such thing */
    }
    switch ((enum mob_out_record)record->type) {
    case MOB_OUT_SPEC:
        return resend_spec(r, record->aux, body, bytes);
    case MOB_OUT_SIBLING:
        return resend_sibling(r, record->aux, body, bytes);
    case MOB_OUT_PUT:
        return resend_put(r, body, bytes);
    case MOB_OUT_CANCEL:
    case MOB_OUT_EVENT:
        return mob_client_publish(r->client, record->type, record->aux, body, bytes, NULL, 0);
    case MOB_OUT_REQUEST: /* those without a reply are asked again below */
    case MOB_OUT_WATCH: /* all pending futures are watched again */
    case MOB_OUT_RELEASE:
    case MOB_OUT_COMPLETION:
    case MOB_OUT_YIELD:
    case MOB_OUT_OUTCOME:
    case MOB_OUT_BLOCKED:
    case MOB_OUT_UNBLOCKED:
    case MOB_OUT_CHECKPOINT:
    case MOB_OUT_SUSPENDED:
    default:
        return MOB_OK;
    }
}

static enum mob_status resend_all(struct resend *r)
{
    struct mob_client *client = r->client;
    uint64_t at = mob_store_out_acked(r->old);
    struct mob_record record;
    const uint8_t *body;
    while (mob_store_out_unacked(r->old, &at, &record, &body)) {
        enum mob_status status = resend_one(r, &record, body);
        if (status != MOB_OK)
            return status;
    }
    enum mob_status status = mob_requests_resend(client);
    client->rewatch = true;
    client->rewatch_chunk = 0;
    return status;
}

/* Values in the old segment stay readable until they are released, and what is being made in it is moved. */
static bool keep_old(struct mob_client *client, struct mob_store_client *store)
{
    uint32_t users = 0;
    for (struct mob_value *value = client->used_values; value != NULL; value = value->next)
        users += value->pinned && value->store == store;
    for (const struct mob_making *m = client->making; m != NULL; m = m->next)
        users += m->store == store;
    if (users == 0)
        return false;
    struct mob_old_store *old = malloc(sizeof *old);
    MOB_ASSERT(old != NULL);
    *old = (struct mob_old_store){store, users, client->old_stores};
    client->old_stores = old;
    return true;
}

/* What mob_session_open and sending again replace. */
struct session {
    struct mob_store_client *store;
    int sock, memfd, eventfd;
    struct mob_sent_head *sent_heads;
    uint32_t sent_head_count, sent_head_capacity;
};

static struct session session_take(struct mob_client *client)
{
    struct session s = {client->store, client->sock, client->memfd, client->eventfd, client->sent_heads,
        client->sent_head_count, client->sent_head_capacity};
    client->sent_heads = NULL;
    client->sent_head_count = client->sent_head_capacity = 0;
    return s;
}

static void session_put_back(struct mob_client *client, const struct session *s)
{
    client->store = s->store;
    client->sock = s->sock;
    client->memfd = s->memfd;
    client->eventfd = s->eventfd;
    free(client->sent_heads);
    client->sent_heads = s->sent_heads;
    client->sent_head_count = s->sent_head_count;
    client->sent_head_capacity = s->sent_head_capacity;
}

/* All of it but the segment. */
static void session_close(const struct session *s)
{
    close(s->sock);
    close(s->memfd);
    close(s->eventfd);
    free(s->sent_heads);
}

/* A standing job has the name of its namespace and an id of its own. When the control store has lost it
 * (GCS.md 8) a node makes another one, in which nothing of this session means anything. */
static enum mob_status check_job(struct mob_client *client)
{
    if (memcmp(&client->welcome.job, &client->job, sizeof client->job) == 0)
        return MOB_OK;
    return mob_client_fail(client, MOB_NOT_FOUND, "the session's job is not known any more");
}

/* One node to go on with. When it does not take all (MOB_UNAVAILABLE: it died, too) the client is where it
 * was before, so that nothing is left behind. */
static enum mob_status move(const struct resend *r, int64_t deadline_ns)
{
    struct mob_client *client = r->client;
    struct session before = session_take(client);
    enum mob_status status = mob_session_open(client, deadline_ns);
    if (status != MOB_OK) {
        session_put_back(client, &before);
        return status;
    }
    for (uint32_t i = 0; i < MOB_HEAD_SLOTS; i++)
        client->heads[i].valid = false;
    client->plain_epoch++;
    struct resend again = *r;
    status = check_job(client);
    if (status == MOB_OK)
        status = resend_all(&again);
    if (status == MOB_OK) {
        session_close(&before);
        return MOB_OK;
    }
    struct session refused = session_take(client);
    mob_session_comes_again(refused.sock);
    session_close(&refused);
    mob_store_detach(refused.store);
    session_put_back(client, &before);
    return status;
}

enum mob_status mob_client_resume(struct mob_client *client, int64_t deadline_ns)
{
    if (client->worker)
        return mob_client_fail(client, MOB_UNAVAILABLE, "the node is gone");
    if (client->resuming)
        return mob_client_fail(client, MOB_UNAVAILABLE, "the node died while the session was moved to it");
    client->resuming = true;
    if (!client->lost)
        MOB_LOG_WARN("sdk", "node_lost", "directory=%s", client->directory);
    client->lost = true;
    mob_event_fd_quiesce(client);
    struct resend r = {.client = client, .old = client->store};
    heads_before(&r, mob_store_out_acked(r.old));
    client->hello.resume_incarnation = mob_store_client_incarnation(r.old);
    client->hello.resume_root = client->parent;
    client->hello.resume_stream = client->family->known ? client->family->stream : (struct mob_stream){{0}};
    client->hello.resume_next_child = client->family->known ? client->next_child : UINT32_MAX;
    enum mob_status status;
    do
        status = move(&r, deadline_ns);
    while (status == MOB_UNAVAILABLE && mob_now() < deadline_ns);
    client->resuming = false;
    client->refused = status == MOB_NOT_FOUND || status == MOB_FINISHED;
    if (status != MOB_OK)
        return status;
    client->lost = false;
    if (!keep_old(client, r.old))
        mob_store_detach(r.old);
    MOB_LOG_INFO("sdk", "node_found", "incarnation=%llu",
        (unsigned long long)mob_store_client_incarnation(client->store));
    return MOB_OK;
}
