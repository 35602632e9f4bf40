/* The journal of the store (journal_rows.h): replies, and values that the tables hold too. What a pass writes
 * to it is one APPEND to the newest segment. When there is too much of it, the oldest segment goes with a
 * pass that writes the rows of what nothing later has replaced; so rows that change often are never written,
 * and a start reads the rows first, and then the journal over them.
 */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#include "gcs/chain/chain_replies.h"
#include "gcs/shard/journal_rows.h"

#define JOURNAL_BYTES_MAX (32u << 20)
#define JOURNAL_PART_OF_CAP 32u /* it is memory like everything else: so much of the soft cap at most */
#define SEGMENT_BYTES_MAX (128u << 10) /* what goes in one pass */
#define SEGMENTS_AT_LEAST 8u

/* What a segment keeps of a row: enough to ask the tables whether it is still the newest. */
struct touched {
    uint64_t version; /* of a reply its seq; 0: the key is gone */
    uint16_t key_length;
};
#define TOUCHED_BYTES 10u

static void *grow(void *bytes, size_t *capacity, size_t need)
{
    if (need <= *capacity)
        return bytes;
    while (*capacity < need)
        *capacity = *capacity == 0 ? 4096 : *capacity * 2;
    bytes = realloc(bytes, *capacity);
    MOB_ASSERT(bytes != NULL);
    return bytes;
}

static uint64_t budget(const struct mob_shard *sh)
{
    uint64_t part = sh->options.soft_bytes / JOURNAL_PART_OF_CAP;
    return part < JOURNAL_BYTES_MAX ? part : JOURNAL_BYTES_MAX;
}

static uint64_t segment_bytes(const struct mob_shard *sh)
{
    uint64_t part = budget(sh) / SEGMENTS_AT_LEAST;
    return part < SEGMENT_BYTES_MAX ? part : SEGMENT_BYTES_MAX;
}

/* ---- the open pass ---- */

void journal_add(
    struct mob_shard *sh, const struct mob_journal_row *row, const void *head, size_t head_length)
{
    struct mob_journal *j = &sh->store.journal;
    struct mob_journal_row whole = *row;
    whole.value_length += (uint32_t)head_length;
    size_t begin = j->open_length == 0 ? MOB_JOURNAL_PASS_BYTES : j->open_length;
    size_t end = begin + MOB_JOURNAL_ROW_BYTES + whole.key_length + whole.value_length;
    j->open = grow(j->open, &j->open_capacity, end);
    uint8_t *at = j->open + begin;
    mob_journal_row_encode(&whole, at);
    at += MOB_JOURNAL_ROW_BYTES;
    memcpy(at, row->key, row->key_length);
    at += row->key_length;
    if (head_length > 0)
        memcpy(at, head, head_length);
    if (row->value_length > 0)
        memcpy(at + head_length, row->value, row->value_length);
    j->open_length = end;
}

/* ---- segments ---- */

static struct mob_journal_segment *segment_add(struct mob_journal *j)
{
    if (j->count == j->capacity) {
        j->capacity = j->capacity == 0 ? 16 : j->capacity * 2;
        j->segments = realloc(j->segments, j->capacity * sizeof *j->segments);
    }
    MOB_ASSERT(j->segments != NULL);
    j->segments[j->count] = (struct mob_journal_segment){0};
    return &j->segments[j->count++];
}

static void segment_touch(struct mob_journal_segment *segment, const struct mob_journal_row *row)
{
    struct touched t = {.key_length = (uint16_t)row->key_length};
    if (row->kind == MOB_JOURNAL_OUTSIDE || row->key[0] == 'c')
        return; /* nothing is to be written when it goes */
    if (row->kind == MOB_JOURNAL_SET)
        memcpy(&t.version, row->value + (row->key[0] == 'r' ? offsetof(struct mob_gcs_reply, seq) : 0),
            sizeof t.version);
    segment->touched =
        grow(segment->touched, &segment->capacity, segment->length + TOUCHED_BYTES + row->key_length);
    uint8_t *at = segment->touched + segment->length;
    memcpy(at, &t.version, sizeof t.version);
    memcpy(at + sizeof t.version, &t.key_length, sizeof t.key_length);
    memcpy(at + TOUCHED_BYTES, row->key, row->key_length);
    segment->length += TOUCHED_BYTES + row->key_length;
}

static enum mob_status segment_index(struct mob_journal_segment *segment, const struct mob_journal_pass *pass)
{
    struct mob_journal_row row;
    size_t at = 0;
    enum mob_status status;
    while ((status = mob_journal_row_next(pass, &at, &row)) == MOB_OK)
        segment_touch(segment, &row);
    return status == MOB_FINISHED ? MOB_OK : status;
}

void journal_reset(struct mob_shard *sh)
{
    struct mob_journal *j = &sh->store.journal;
    for (uint32_t i = 0; i < j->count; i++)
        free(j->segments[i].touched);
    free(j->segments);
    free(j->open);
    free(j->loaded);
    *j = (struct mob_journal){.first = 1};
}

void journal_name(struct mob_shard *sh)
{
    struct mob_journal *j = &sh->store.journal;
    if (j->open_length == 0 || j->named)
        return;
    j->named = true;
    store_set(sh, "J", 1, &j->first, sizeof j->first);
}

void journal_close(
    struct mob_shard *sh, struct mob_redis_batch *batch, const struct mob_redis_position *position)
{
    struct mob_journal *j = &sh->store.journal;
    if (j->open_length == 0)
        return;
    struct mob_journal_pass pass = {.epoch = position->epoch,
        .seq = position->seq,
        .rows = j->open + MOB_JOURNAL_PASS_BYTES,
        .length = j->open_length - MOB_JOURNAL_PASS_BYTES};
    mob_journal_pass_encode(&pass, j->open);
    struct mob_journal_segment *segment = j->count == 0 ? NULL : &j->segments[j->count - 1];
    if (segment == NULL || segment->bytes >= segment_bytes(sh))
        segment = segment_add(j);
    MOB_ASSERT(segment_index(segment, &pass) == MOB_OK);
    segment->bytes += j->open_length;
    j->bytes += j->open_length;
    uint8_t key[9];
    mob_redis_key(key, 'j', j->first + j->count - 1);
    mob_redis_command(batch, 3);
    mob_redis_arg(batch, "APPEND", 6);
    mob_redis_arg(batch, key, sizeof key);
    mob_redis_arg(batch, j->open, j->open_length);
    j->open_length = 0;
}

/* Behind the last pass, and of its position: nothing else changes. */
enum mob_status journal_write_gone(
    struct mob_shard *sh, redisContext *context, const uint8_t *keys, size_t length)
{
    struct mob_journal *j = &sh->store.journal;
    uint16_t n;
    MOB_ASSERT(j->open_length == 0 && j->count > 0);
    for (size_t at = 0; at < length; at += sizeof n + n) {
        memcpy(&n, keys + at, sizeof n);
        struct mob_journal_row row = {.kind = MOB_JOURNAL_GONE, .key = keys + at + sizeof n, .key_length = n};
        journal_add(sh, &row, NULL, 0);
    }
    struct mob_journal_pass pass = {.epoch = j->position.epoch,
        .seq = j->position.seq,
        .rows = j->open + MOB_JOURNAL_PASS_BYTES,
        .length = j->open_length - MOB_JOURNAL_PASS_BYTES};
    mob_journal_pass_encode(&pass, j->open);
    uint8_t key[9];
    mob_redis_key(key, 'j', j->first + j->count - 1);
    redisReply *reply = redisCommand(context, "APPEND %b %b", key, sizeof key, j->open, j->open_length);
    bool written = reply != NULL && reply->type == REDIS_REPLY_INTEGER;
    if (reply != NULL)
        freeReplyObject(reply);
    struct mob_journal_segment *segment = &j->segments[j->count - 1];
    segment->bytes += j->open_length;
    j->bytes += j->open_length;
    j->open_length = 0;
    return written ? segment_index(segment, &pass) : MOB_UNAVAILABLE;
}

/* ---- the oldest segment goes ---- */

static void write_reply(struct mob_shard *sh, const uint8_t *key, uint64_t seq)
{
    const struct mob_gcs_reply *reply = mob_chain_reply(sh->chain, mob_redis_key_to_number(key + 1), key[9]);
    if (reply != NULL && reply->seq == seq)
        store_set(sh, key, 10, reply, sizeof *reply);
}

static void write_value(struct mob_shard *sh, const uint8_t *key, uint32_t length, uint64_t version)
{
    struct mob_state_key now;
    bool found = mob_state_get(sh->state, key[1], key + 2, length - 2, &now);
    if (!found && version == 0)
        store_delete(sh, key, length);
    if (!found || version == 0 || now.version != version || now.value == NULL)
        return; /* replaced by a later row of the journal, or outside of it */
    uint8_t value[sizeof now.version + MOB_STATE_INLINE_MAX];
    memcpy(value, &now.version, sizeof now.version);
    memcpy(value + sizeof now.version, now.value, now.value_length);
    store_set(sh, key, length, value, sizeof now.version + now.value_length);
}

static void segment_write(struct mob_shard *sh, const struct mob_journal_segment *segment)
{
    for (size_t i = 0; i < segment->length;) {
        struct touched t;
        const uint8_t *at = segment->touched + i, *key = at + TOUCHED_BYTES;
        memcpy(&t.version, at, sizeof t.version);
        memcpy(&t.key_length, at + sizeof t.version, sizeof t.key_length);
        if (key[0] == 'r')
            write_reply(sh, key, t.version);
        else
            write_value(sh, key, t.key_length, t.version);
        i += TOUCHED_BYTES + t.key_length;
    }
}

void journal_trim(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    struct mob_journal *j = &st->journal;
    if (st->open == NULL || j->count < 2 || j->bytes <= budget(sh))
        return;
    /* What the tables say must stand in a pass up to this one: nothing that is applied and not stored. */
    bool settled = st->open_deletes == 0 && st->open_seq == mob_chain_applied(sh->chain) &&
        mob_chain_synced(sh->chain) && !mob_chain_collecting(sh->chain);
    if (!settled)
        return;
    uint8_t key[9];
    struct mob_journal_segment oldest = j->segments[0];
    segment_write(sh, &oldest);
    mob_redis_key(key, 'j', j->first++);
    store_delete(sh, key, sizeof key);
    store_set(sh, "J", 1, &j->first, sizeof j->first);
    j->bytes -= oldest.bytes;
    free(oldest.touched);
    memmove(j->segments, j->segments + 1, --j->count * sizeof *j->segments);
}

/* ---- from Redis ---- */

static enum mob_status take_segment(struct mob_shard *sh, const uint8_t *bytes, size_t length)
{
    struct mob_journal *j = &sh->store.journal;
    struct mob_journal_segment *segment = segment_add(j);
    struct mob_journal_pass pass;
    size_t at = 0;
    enum mob_status status;
    segment->bytes = length;
    j->bytes += length;
    while ((status = mob_journal_pass_next(bytes, length, &at, &pass)) == MOB_OK) {
        status = segment_index(segment, &pass);
        if (status != MOB_OK)
            return status;
        bool later =
            pass.seq > j->position.seq || (pass.seq == j->position.seq && pass.epoch > j->position.epoch);
        if (later)
            j->position = (struct mob_redis_position){.epoch = pass.epoch, .seq = pass.seq};
    }
    if (status != MOB_FINISHED)
        return status;
    j->loaded = grow(j->loaded, &j->loaded_capacity, j->loaded_length + length);
    memcpy(j->loaded + j->loaded_length, bytes, length);
    j->loaded_length += length;
    return MOB_OK;
}

/* MOB_NOT_FOUND: there is none. */
static enum mob_status read_segment(struct mob_shard *sh, redisContext *context, uint64_t number)
{
    uint8_t key[9];
    mob_redis_key(key, 'j', number);
    redisReply *reply = redisCommand(context, "GET %b", key, sizeof key);
    if (reply == NULL)
        return MOB_UNAVAILABLE;
    enum mob_status status = reply->type == REDIS_REPLY_NIL ? MOB_NOT_FOUND : MOB_CORRUPT;
    if (reply->type == REDIS_REPLY_STRING)
        status = take_segment(sh, (const uint8_t *)reply->str, (size_t)reply->len);
    if (status == MOB_CORRUPT)
        MOB_LOG_ERROR("gcs", "stored_value_bad", "kind=j number=%llu", (unsigned long long)number);
    freeReplyObject(reply);
    return status;
}

enum mob_status journal_read(struct mob_shard *sh, redisContext *context)
{
    journal_reset(sh);
    struct mob_journal *j = &sh->store.journal;
    redisReply *reply = redisCommand(context, "GET J");
    if (reply == NULL)
        return MOB_UNAVAILABLE;
    bool none = reply->type == REDIS_REPLY_NIL;
    bool good = reply->type == REDIS_REPLY_STRING && reply->len == sizeof j->first;
    if (good)
        memcpy(&j->first, reply->str, sizeof j->first);
    freeReplyObject(reply);
    if (!good)
        return none ? MOB_OK : MOB_CORRUPT;
    enum mob_status status = MOB_OK;
    while (status == MOB_OK)
        status = read_segment(sh, context, j->first + j->count);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

void journal_loaded(struct mob_shard *sh)
{
    struct mob_journal *j = &sh->store.journal;
    free(j->loaded);
    j->loaded = NULL;
    j->loaded_length = j->loaded_capacity = 0;
}
