#include "common/wire/gcs_link.h"

#include "common/base/hash.h"
#include "common/base/log.h"

bool mob_gcs_config_valid(const struct mob_gcs_config *config)
{
    if (config->epoch == 0 || config->count == 0 || config->count > MOB_GCS_MEMBERS_MAX ||
        config->start > 1 || (config->start == 1 && config->count != 1) || config->started > config->epoch ||
        (config->start == 1) != (config->started == config->epoch))
        return false;
    for (uint32_t i = 0; i < config->count; i++) {
        if (config->members[i] == 0)
            return false;
        for (uint32_t j = 0; j < i; j++)
            if (config->members[i] == config->members[j])
                return false;
    }
    return true;
}

uint32_t mob_gcs_link_encode(const struct mob_gcs_link_msg *msg, uint8_t *head_out)
{
    MOB_ASSERT(mob_gcs_is_link_frame(msg->type));
    struct mob_writer w = mob_writer_of(head_out, MOB_GCS_LINK_HEAD_MAX);
    mob_write_bytes(&w, &msg->link, sizeof msg->link);
    if (mob_gcs_link_has_entry(msg->type))
        mob_write_bytes(&w, &msg->entry, sizeof msg->entry);
    if (mob_gcs_link_has_config(msg->type))
        mob_write_bytes(&w, &msg->config, sizeof msg->config);
    return (uint32_t)mob_writer_length(&w);
}

static enum mob_status check_entry(const struct mob_gcs_link_msg *m, const struct mob_gcs_frame *frame)
{
    const struct mob_gcs_entry *e = &m->entry;
    uint64_t bytes = (uint64_t)e->body_bytes + (uint64_t)e->drop_count * sizeof(uint64_t);
    if (bytes != frame->body_bytes)
        return MOB_CORRUPT;
    /* The frame's sum is over the body and what is dropped behind it; the entry's is kept with the body. */
    uint32_t crc = e->drop_count > 0 ? mob_crc32c(frame->body, e->body_bytes) : frame->body_crc;
    bool good = e->body_crc == crc && e->key_length <= e->body_bytes && e->key_length <= MOB_GCS_KEY_MAX &&
        e->op != 0 && e->op < MOB_GCS_OPS && e->table < MOB_GCS_TABLES && e->status < MOB_STATUS_COUNT &&
        e->zero == 0 && m->link.seq > m->link.prev && (e->op != MOB_GCS_OP_PUT || e->key_length > 0);
    return good ? MOB_OK : MOB_CORRUPT;
}

enum mob_status mob_gcs_link_decode(const struct mob_gcs_frame *frame, struct mob_gcs_link_msg *msg_out)
{
    if (!mob_gcs_is_link_frame(frame->type))
        return MOB_CORRUPT;
    struct mob_gcs_link_msg m = {.type = frame->type,
        .epoch = frame->epoch,
        .from = frame->from,
        .body = frame->body,
        .body_bytes = frame->body_bytes};
    struct mob_reader r = mob_reader_of(frame->head, frame->head_bytes);
    mob_read_into(&r, &m.link, sizeof m.link);
    if (mob_gcs_link_has_entry(m.type))
        mob_read_into(&r, &m.entry, sizeof m.entry);
    if (mob_gcs_link_has_config(m.type))
        mob_read_into(&r, &m.config, sizeof m.config);
    if (!mob_reader_ok(&r) || mob_reader_left(&r) != 0)
        return MOB_TRUNCATED;
    if (mob_gcs_link_has_config(m.type) && !mob_gcs_config_valid(&m.config))
        return MOB_CORRUPT;
    if (mob_gcs_link_has_entry(m.type)) {
        enum mob_status status = check_entry(&m, frame);
        if (status != MOB_OK)
            return status;
        m.body_bytes = m.entry.body_bytes;
        m.drops = m.body + m.body_bytes;
    }
    *msg_out = m;
    return MOB_OK;
}
