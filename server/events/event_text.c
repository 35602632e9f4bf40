#include <stdio.h>
#include <string.h>

#include "common/base/id.h"
#include "server/events/events.h"

void mob_event_position_format(struct mob_event_position position, char out[MOB_EVENTS_POSITION_TEXT_MAX])
{
    uint8_t bytes[12];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(position.seq >> (56 - 8 * i));
    for (int i = 0; i < 4; i++)
        bytes[8 + i] = (uint8_t)(position.index >> (24 - 8 * i));
    mob_base32_encode(bytes, sizeof bytes, out);
}

enum mob_status mob_event_position_parse(const char *text, struct mob_event_position *out)
{
    uint8_t bytes[12];
    if (mob_base32_decode(text, strlen(text), bytes, sizeof bytes) != MOB_OK)
        return MOB_INVALID;
    struct mob_event_position position = {0};
    for (int i = 0; i < 8; i++)
        position.seq = position.seq << 8 | bytes[i];
    for (int i = 0; i < 4; i++)
        position.index = position.index << 8 | bytes[8 + i];
    *out = position;
    return MOB_OK;
}

static bool key_is(const char *key, const char *kind, const char *id)
{
    size_t length = strlen(kind);
    return id && *id && strncmp(key, kind, length) == 0 && key[length] == ':' &&
        strcmp(key + length + 1, id) == 0;
}

bool mob_event_matches(const struct mob_event_filter *filter, const struct mob_event *event)
{
    const char *key = filter->key;
    if (!*key && event->per_task)
        return false;
    if (*key && !key_is(key, "task", event->task) && !key_is(key, "job", event->job) &&
        !key_is(key, "function", event->function) && !key_is(key, "actor", event->actor))
        return false;
    for (unsigned i = 0; i < filter->topic_count; i++)
        if (strncmp(event->type, filter->topics[i], strlen(filter->topics[i])) == 0)
            return true;
    return filter->topic_count == 0;
}
