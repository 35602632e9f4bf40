#include "gcs/shard/ahead.h"

#include <string.h>

#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_link.h"

static bool key_of_request(const struct mob_gcs_frame *frame, struct mob_state_ahead *out)
{
    struct mob_gcs_request r;
    if (mob_gcs_request_decode(frame->head, frame->head_bytes, &r) != MOB_OK)
        return false;
    *out = (struct mob_state_ahead){.key = frame->body, .length = r.key_length, .table = r.table};
    return r.op == MOB_GCS_OP_PUT || r.op == MOB_GCS_OP_DELETE;
}

static bool key_of_entry(const struct mob_gcs_frame *frame, struct mob_state_ahead *out)
{
    struct mob_gcs_entry e;
    if (frame->head_bytes != sizeof(struct mob_gcs_link) + sizeof e)
        return false;
    memcpy(&e, frame->head + sizeof(struct mob_gcs_link), sizeof e);
    *out = (struct mob_state_ahead){.key = frame->body, .length = e.key_length, .table = e.table};
    return e.op == MOB_GCS_OP_PUT || e.op == MOB_GCS_OP_DELETE;
}

static bool key_of(const struct mob_gcs_frame *frame, struct mob_state_ahead *out)
{
    bool has = (frame->type == MOB_GCS_PUT && key_of_request(frame, out)) ||
        (frame->type == MOB_GCS_UPD && key_of_entry(frame, out));
    return has && out->length <= MOB_GCS_KEY_MAX && out->length <= frame->body_bytes;
}

uint32_t ahead_look(struct ahead *a, const uint8_t *bytes, size_t length)
{
    struct mob_gcs_frame frame;
    size_t used;
    uint32_t frames = 0;
    while (a->count < MOB_STATE_AHEAD && mob_gcs_frame_peek(bytes, length, &frame, &used)) {
        a->count += key_of(&frame, &a->keys[a->count]);
        bytes += used;
        length -= used;
        frames++;
    }
    return frames;
}

void ahead_ask(const struct ahead *a, const struct mob_state *state)
{
    mob_state_prefetch(state, a->keys, a->count);
}
