/* The journal of the store (journal_rows.h): replies, and values that the tables hold too. What a pass writes
 * to it is one APPEND to the newest segment. When there is too much of it, the oldest segment goes with a
 * pass that writes the rows of what nothing later has replaced; so rows that change often are never written,
 * and a start reads the rows first, and then the journal over them.
 */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#include "gcs/chain/chain_replies.h"
#include "gcs/shard/journal_rows.h"
#include "gcs/shard/ahead.h"

#define JOURNAL_BYTES_MAX (32u << 20)
#define JOURNAL_PART_OF_CAP 32u /* it is memory like everything else: so much of the soft cap at most */
#define SEGMENT_BYTES_MAX (128u << 10) /* what goes in one pass */
#define SEGMENTS_AT_LEAST 8u

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

static void open_grow(struct mob_journal *j, size_t need)
{
    if (j->open == NULL)
        j->open_capacity = 0;
    need = j->open == NULL && need < j->open_usual ? j->open_usual : need;
    j->open = grow(j->open, &j->open_capacity, need);
}

/* The batch has it, whole; the next will be about as long. */
static void open_give(struct mob_journal *j, struct mob_redis_batch *batch)
{
    mob_redis_arg_own(batch, j->open, j->open_length);
    j->open_usual = j->open_length;
    j->open = NULL;
    j->open_length = 0;
}

void journal_add(
    struct mob_shard *sh, const struct mob_journal_row *row, const void *head, size_t head_length)
{
    struct mob_journal *j = &sh->store.journal;
    struct mob_journal_row whole = *row;
    whole.value_length += (uint32_t)head_length;
    size_t begin = j->open_length == 0 ? MOB_JOURNAL_PASS_BYTES : j->open_length;
    size_t end = begin + MOB_JOURNAL_ROW_BYTES + whole.key_length + whole.value_length;
    open_grow(j, end);
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

/* False: nothing is to be written when it goes. */
static bool touched_row(const struct mob_journal_row *row, struct mob_touched_row *out)
{
    if (row->kind == MOB_JOURNAL_OUTSIDE || row->key[0] == 'c')
        return false;
    *out = (struct mob_touched_row){.key = row->key, .key_length = row->key_length};
    if (row->kind == MOB_JOURNAL_SET)
        memcpy(&out->version, row->value + (row->key[0] == 'r' ? offsetof(struct mob_gcs_reply, seq) : 0),
            sizeof out->version);
    return true;
}

/* Into the newest segment. */
static enum mob_status segment_index(struct mob_journal *j, const struct mob_journal_pass *pass)
{
    struct mob_touched_row rows[MOB_TOUCHED_TOGETHER];
    struct mob_journal_row row;
    size_t at = 0, count = 0;
    enum mob_status status;
    while ((status = mob_journal_row_next(pass, &at, &row)) == MOB_OK) {
        count += touched_row(&row, &rows[count]);
        if (count == MOB_TOUCHED_TOGETHER) {
            mob_touched_add(&j->touched, rows, count);
            count = 0;
        }
    }
    mob_touched_add(&j->touched, rows, count);
    return status == MOB_FINISHED ? MOB_OK : status;
}

void journal_reset(struct mob_shard *sh)
{
    struct mob_journal *j = &sh->store.journal;
    mob_touched_fini(&j->touched);
    free(j->open);
    free(j->loaded);
    *j = (struct mob_journal){.touched = j->touched};
}

void journal_name(struct mob_shard *sh)
{
    struct mob_journal *j = &sh->store.journal;
    if (j->open_length == 0 || j->named)
        return;
    j->named = true;
    store_set(sh, "J", 1, &j->touched.first, sizeof j->touched.first);
}

/* The key in Redis of the newest segment. */
static void newest_key(const struct mob_journal *j, uint8_t out[9])
{
    mob_redis_key(out, 'j', j->touched.first + j->touched.count - 1);
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
    struct mob_touched_segment *segment = mob_touched_newest(&j->touched);
    if (segment == NULL || segment->bytes >= segment_bytes(sh))
        mob_touched_begin(&j->touched);
    MOB_ASSERT(segment_index(j, &pass) == MOB_OK);
    mob_touched_newest(&j->touched)->bytes += j->open_length;
    j->bytes += j->open_length;
    uint8_t key[9];
    newest_key(j, key);
    mob_redis_command(batch, 3);
    mob_redis_arg(batch, "APPEND", 6);
    mob_redis_arg(batch, key, sizeof key);
    open_give(j, batch);
}

/* Behind the last pass, and of its position: nothing else changes. */
enum mob_status journal_write_gone(
    struct mob_shard *sh, redisContext *context, const uint8_t *keys, size_t length)
{
    struct mob_journal *j = &sh->store.journal;
    uint16_t n;
    MOB_ASSERT(j->open_length == 0 && j->touched.count > 0);
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
    newest_key(j, key);
    redisReply *reply = redisCommand(context, "APPEND %b %b", key, sizeof key, j->open, j->open_length);
    bool written = reply != NULL && reply->type == REDIS_REPLY_INTEGER;
    if (reply != NULL)
        freeReplyObject(reply);
    mob_touched_newest(&j->touched)->bytes += j->open_length;
    j->bytes += j->open_length;
    j->open_length = 0;
    return written ? segment_index(j, &pass) : MOB_UNAVAILABLE;
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

static void write_rows(struct mob_shard *sh, const struct mob_touched_row *rows, size_t count)
{
    struct ahead ahead = {.count = 0};
    for (size_t i = 0; i < count; i++)
        if (rows[i].key[0] != 'r')
            ahead.keys[ahead.count++] = (struct mob_state_ahead){
                .key = rows[i].key + 2, .length = rows[i].key_length - 2, .table = rows[i].key[1]};
    ahead_ask(&ahead, sh->state);
    for (size_t i = 0; i < count; i++)
        if (rows[i].key[0] == 'r')
            write_reply(sh, rows[i].key, rows[i].version);
        else
            write_value(sh, rows[i].key, rows[i].key_length, rows[i].version);
}

static void oldest_write(struct mob_shard *sh)
{
    struct mob_touched_row rows[MOB_STATE_AHEAD];
    size_t at = 0, count;
    do {
        for (count = 0; count < MOB_STATE_AHEAD; count++)
            if (!mob_touched_left(&sh->store.journal.touched, &at, &rows[count]))
                break;
        write_rows(sh, rows, count);
    } while (count == MOB_STATE_AHEAD);
}

void journal_trim(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    struct mob_journal *j = &st->journal;
    if (st->open == NULL || j->touched.count < 2 || j->bytes <= budget(sh))
        return;
    /* What the tables say must stand in a pass up to this one: nothing that is applied and not stored. */
    bool settled = st->open_deletes == 0 && st->open_seq == mob_chain_applied(sh->chain) &&
        mob_chain_synced(sh->chain) && !mob_chain_collecting(sh->chain);
    if (!settled)
        return;
    uint8_t key[9];
    oldest_write(sh);
    mob_redis_key(key, 'j', j->touched.first);
    j->bytes -= j->touched.segments[0].bytes;
    mob_touched_drop(&j->touched);
    store_delete(sh, key, sizeof key);
    store_set(sh, "J", 1, &j->touched.first, sizeof j->touched.first);
}

/* ---- from Redis ---- */

static enum mob_status take_segment(struct mob_shard *sh, const uint8_t *bytes, size_t length)
{
    struct mob_journal *j = &sh->store.journal;
    struct mob_journal_pass pass;
    size_t at = 0;
    enum mob_status status;
    mob_touched_begin(&j->touched);
    mob_touched_newest(&j->touched)->bytes = length;
    j->bytes += length;
    while ((status = mob_journal_pass_next(bytes, length, &at, &pass)) == MOB_OK) {
        status = segment_index(j, &pass);
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
    bool good = reply->type == REDIS_REPLY_STRING && reply->len == sizeof j->touched.first;
    if (good)
        memcpy(&j->touched.first, reply->str, sizeof j->touched.first);
    freeReplyObject(reply);
    if (!good)
        return none ? MOB_OK : MOB_CORRUPT;
    enum mob_status status = MOB_OK;
    while (status == MOB_OK)
        status = read_segment(sh, context, j->touched.first + j->touched.count);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

void journal_loaded(struct mob_shard *sh)
{
    struct mob_journal *j = &sh->store.journal;
    free(j->loaded);
    j->loaded = NULL;
    j->loaded_length = j->loaded_capacity = 0;
}
