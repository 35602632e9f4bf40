#include "cli/node_seal.h"

#include "cli/state_dir.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/client.h"

#define PAUSE_NS (100 * MOB_MS)

static void step(struct node_seal *seal);
static void list(struct node_seal *seal);

static void on_closed(uv_handle_t *handle)
{
    struct node_seal *seal = handle->data;
    if (--seal->closing > 0)
        return;
    mob_gcs_destroy(seal->gcs);
    seal->gcs = NULL;
    if (!seal->stopped)
        seal->done(seal);
}

static void end(struct node_seal *seal)
{
    if (seal->closing > 0)
        return;
    seal->closing = 2;
    uv_close((uv_handle_t *)&seal->poll, on_closed);
    uv_close((uv_handle_t *)&seal->timer, on_closed);
}

static void look_later(struct node_seal *seal, enum mob_status why)
{
    MOB_LOG_ERROR("supervisor", "not_sealed", "status=%s", mob_status_code(why));
    seal->look_at_ns = mob_now() + PAUSE_NS;
}

static void on_sealed(void *arg, const struct mob_gcs_answer *answer)
{
    struct node_seal *seal = arg;
    seal->outstanding--;
    if (answer->status == MOB_OK)
        seal->sealed_count++;
    else
        look_later(seal, answer->status);
    /* one more look: it ends only when none is live */
    if (seal->outstanding == 0 && seal->look_at_ns == 0)
        list(seal);
}

static void on_listed(void *arg, const struct mob_gcs_answer *answer)
{
    struct node_seal *seal = arg;
    seal->outstanding--;
    uint32_t live = 0;
    for (uint32_t i = 0; answer->status == MOB_OK && i < answer->incarnation_count; i++) {
        const struct mob_gcs_incarnation *incarnation = &answer->incarnations[i];
        if (incarnation->state == MOB_GCS_LIVE) {
            live++;
            MOB_LOG_INFO("supervisor", "sealing", "node=%s incarnation=%llu blocks=%llu", incarnation->name,
                (unsigned long long)incarnation->id, (unsigned long long)incarnation->blocks);
            if (mob_gcs_log_seal(seal->gcs, incarnation->id, on_sealed, seal) == MOB_OK)
                seal->outstanding++;
        } else if (live == 0) {
            seal->after = incarnation->id; /* sealed for ever: not asked for again */
        }
    }
    if (answer->status != MOB_OK)
        look_later(seal, answer->status);
    else if (live == 0 && answer->next == 0)
        seal->finished = true;
    else if (seal->outstanding == 0)
        list(seal);
}

/* Sealed ones stay in the list, so it is read on from the last one before which all are sealed. */
static void list(struct node_seal *seal)
{
    if (mob_gcs_incarnations(seal->gcs, seal->after, on_listed, seal) == MOB_OK)
        seal->outstanding++;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    step(poll->data);
}

static void on_time(uv_timer_t *timer)
{
    step(timer->data);
}

static void step(struct node_seal *seal)
{
    int64_t now_ns = mob_now();
    if (seal->look_at_ns != 0 && now_ns >= seal->look_at_ns && seal->outstanding == 0) {
        seal->look_at_ns = 0;
        list(seal);
    }
    int64_t next_ns = mob_gcs_step(seal->gcs, now_ns);
    if (seal->look_at_ns != 0 && seal->look_at_ns < next_ns)
        next_ns = seal->look_at_ns;
    if (seal->finished) {
        end(seal);
        return;
    }
    if (next_ns == INT64_MAX)
        uv_timer_stop(&seal->timer);
    else
        uv_timer_start(
            &seal->timer, on_time, next_ns <= now_ns ? 0 : (uint64_t)((next_ns - now_ns) / MOB_MS) + 1, 0);
}

bool node_seal_start(struct node_seal *seal, uv_loop_t *loop, const struct node_seal_options *options,
    void (*done)(struct node_seal *))
{
    uint8_t secret[STATE_SECRET_BYTES];
    struct mob_gcs_options gcs = {.socket_path = options->gcs_socket, .secret = secret};

    if (seal->gcs)
        return false;
    *seal = (struct node_seal){.done = done};
    bool known = state_dir_cluster(options->directory, &gcs.cluster) == MOB_OK &&
        state_dir_secret(options->directory, secret) == MOB_OK;
    if (!known || mob_gcs_create(&gcs, &seal->gcs) != MOB_OK) {
        seal->gcs = NULL;
        return false;
    }
    uv_poll_init(loop, &seal->poll, mob_gcs_fd(seal->gcs));
    uv_timer_init(loop, &seal->timer);
    seal->poll.data = seal->timer.data = seal;
    uv_poll_start(&seal->poll, UV_READABLE, on_readable);
    list(seal);
    uv_timer_start(&seal->timer, on_time, 0, 0);
    return true;
}

void node_seal_stop(struct node_seal *seal)
{
    if (!seal->gcs)
        return;
    seal->stopped = true;
    end(seal);
}
