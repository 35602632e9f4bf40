#include <stdio.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/log.h"
#include "common/wire/json_text.h"
#include "server/events/events.h"

#define PLACE_BYTES 12u
_Static_assert((MOB_EVENTS_SHARDS_MAX * PLACE_BYTES * 8 + 4) / 5 < MOB_EVENTS_POSITION_TEXT_MAX, "base32");

void mob_event_position_format(
    const struct mob_event_position *position, char out[MOB_EVENTS_POSITION_TEXT_MAX])
{
    uint8_t bytes[MOB_EVENTS_SHARDS_MAX * PLACE_BYTES];
    MOB_ASSERT(position->shards <= MOB_EVENTS_SHARDS_MAX);
    for (uint32_t shard = 0; shard < position->shards; shard++) {
        const struct mob_event_place *place = &position->at[shard];
        uint8_t *at = bytes + shard * PLACE_BYTES;
        for (int i = 0; i < 8; i++)
            at[i] = (uint8_t)(place->seq >> (56 - 8 * i));
        for (int i = 0; i < 4; i++)
            at[8 + i] = (uint8_t)(place->index >> (24 - 8 * i));
    }
    mob_base32_encode(bytes, position->shards * PLACE_BYTES, out);
}

enum mob_status mob_event_position_parse(const char *text, struct mob_event_position *out)
{
    uint8_t bytes[MOB_EVENTS_SHARDS_MAX * PLACE_BYTES];
    struct mob_event_position position = {.shards = 1};
    size_t length = strlen(text);
    while (position.shards < MOB_EVENTS_SHARDS_MAX && (position.shards * PLACE_BYTES * 8 + 4) / 5 < length)
        position.shards++;
    if (mob_base32_decode(text, length, bytes, position.shards * PLACE_BYTES) != MOB_OK)
        return MOB_INVALID;
    for (uint32_t shard = 0; shard < position.shards; shard++) {
        struct mob_event_place *place = &position.at[shard];
        const uint8_t *at = bytes + shard * PLACE_BYTES;
        for (int i = 0; i < 8; i++)
            place->seq = place->seq << 8 | at[i];
        for (int i = 0; i < 4; i++)
            place->index = place->index << 8 | at[8 + i];
    }
    *out = position;
    return MOB_OK;
}

static bool is_json(const char *text, size_t length)
{
    struct json_slice whole = {text, text + length}, value;
    return json_whole(whole, &value) != JSON_NONE;
}

void mob_event_data_write(struct mob_text *t, const char *data)
{
    size_t length = strlen(data);
    if (!is_json(data, length)) {
        mob_text_puts(t, "{\"text\":");
        mob_text_json_string(t, data, length);
        mob_text_putc(t, '}');
        return;
    }
    for (const char *c = data; *c; c++) /* strings have no raw line ends, so these are blanks */
        mob_text_putc(t, *c == '\n' || *c == '\r' ? ' ' : *c);
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
        !key_is(key, "function", event->function) && !key_is(key, "function", event->call) &&
        !key_is(key, "actor", event->actor))
        return false;
    for (unsigned i = 0; i < filter->topic_count; i++)
        if (strncmp(event->type, filter->topics[i], strlen(filter->topics[i])) == 0)
            return true;
    return filter->topic_count == 0;
}
