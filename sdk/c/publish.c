/* The outbound ring: records leave here, and a full ring is waited for here. */
#include "sdk/c/client.h"

#include <sched.h>

static enum mob_status wait_for_room(struct mob_client *client, uint32_t body_bytes, void **body_out)
{
    /* A worker has nobody to tell: it waits for as long as its node lives. */
    int64_t deadline = client->worker ? INT64_MAX : mob_deadline_after(MOB_PUBLISH_PATIENCE_NS);
    if (body_bytes > MOB_RECORD_MAX - sizeof(struct mob_record))
        return mob_client_fail(client, MOB_TOO_LARGE, "a record of %u bytes is over the limit of %u",
            body_bytes, MOB_RECORD_MAX);
    for (;;) {
        mob_client_pump(client);
        *body_out = mob_store_out_reserve(client->store, body_bytes);
        if (*body_out != NULL)
            return MOB_OK;
        if (client->event_fd != NULL || client->own_loop)
            return mob_client_fail(
                client, MOB_QUEUE_FULL, "the ring to the node is full: step, then try again");
        if (client->pumping) { /* the doorbell has rung for the record in hand: it would not sleep */
            if (!mob_session_alive(client)) /* what is pending is asked for again in the next session */
                return mob_client_fail(client, MOB_UNAVAILABLE, "the node is gone");
            sched_yield();
            continue;
        }
        enum mob_status status = mob_store_sleep(client->store, deadline, mob_session_alive, client);
        if (status == MOB_TIMEOUT)
            return mob_client_fail(client, MOB_QUEUE_FULL, "the node has not taken a record for %lld s",
                (long long)(MOB_PUBLISH_PATIENCE_NS / MOB_SEC));
        if (status == MOB_UNAVAILABLE && (status = mob_client_resume(client, deadline)) != MOB_OK)
            return status;
    }
}

enum mob_status mob_client_reserve(struct mob_client *client, uint32_t body_bytes, void **body_out)
{
    *body_out = mob_store_out_reserve(client->store, body_bytes);
    if (__builtin_expect(*body_out != NULL, 1))
        return MOB_OK;
    return wait_for_room(client, body_bytes, body_out);
}

void mob_client_commit(struct mob_client *client, uint8_t type, uint16_t aux, uint32_t body_bytes)
{
    mob_store_out_commit(client->store, type, 0, aux, body_bytes);
}

enum mob_status mob_client_publish(struct mob_client *client, uint8_t type, uint16_t aux, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes)
{
    void *body;
    enum mob_status status = mob_client_reserve(client, a_bytes + b_bytes, &body);
    if (status != MOB_OK)
        return status;
    struct mob_writer w = mob_writer_of(body, a_bytes + b_bytes);
    mob_write_bytes(&w, a, a_bytes);
    mob_write_bytes(&w, b, b_bytes);
    mob_client_commit(client, type, aux, a_bytes + b_bytes);
    return MOB_OK;
}

enum mob_status mob_client_flush_releases(struct mob_client *client)
{
    uint32_t count = client->release_count;
    client->release_count = 0;
    client->release_bytes = 0;
    if (count == 0)
        return MOB_OK;
    return mob_client_publish(client, MOB_OUT_RELEASE, (uint16_t)count, client->releases,
        count * (uint32_t)sizeof(struct mob_object_id), NULL, 0);
}

/* A hint, so it is sent in batches, and nothing is done about one that cannot be sent. */
void mob_client_release_id(struct mob_client *client, struct mob_object_id id, uint64_t bytes)
{
    client->releases[client->release_count++] = id;
    client->release_bytes += bytes;
    if (client->release_count == MOB_RELEASE_BATCH || client->release_bytes >= MOB_RELEASE_BYTES)
        (void)mob_client_flush_releases(client);
}

enum mob_status mob_client_watch(struct mob_client *client, struct mob_object_id id)
{
    return mob_client_publish(client, MOB_OUT_WATCH, 1, &id, sizeof id, NULL, 0);
}
