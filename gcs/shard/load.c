/* The tables and the index, rebuilt from Redis when the member starts. Blocking; nothing is served yet. */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#include "common/base/log_value.h"
#include "gcs/chain/chain_replies.h"

#define SCAN_COUNT "2000"
#define GET_AT_ONCE 256u
#define LOST_SAID_MAX 100u /* lines of the log */

struct number_list {
    uint64_t *items;
    size_t count, capacity;
};
struct byte_list { /* keys of other kinds: u16 length, bytes */
    uint8_t *bytes;
    size_t length, capacity;
};
struct loader {
    struct mob_shard *sh;
    redisContext *context;
    struct number_list blocks, incarnations, sums, notes;
    struct byte_list keys;
    struct byte_list holes; /* keys that the journal says have a row, and that have none */
};

static void number_add(struct number_list *list, uint64_t n)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 1024 : list->capacity * 2;
        list->items = realloc(list->items, list->capacity * sizeof *list->items);
        MOB_ASSERT(list->items != NULL);
    }
    list->items[list->count++] = n;
}

static void key_add(struct byte_list *list, const char *key, size_t length)
{
    uint16_t n = (uint16_t)length;
    while (list->length + sizeof n + length > list->capacity) {
        list->capacity = list->capacity == 0 ? 65536 : list->capacity * 2;
        list->bytes = realloc(list->bytes, list->capacity);
    }
    MOB_ASSERT(list->bytes != NULL);
    memcpy(list->bytes + list->length, &n, sizeof n);
    memcpy(list->bytes + list->length + sizeof n, key, length);
    list->length += sizeof n + length;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* SCAN may give a key twice. */
static void number_sort(struct number_list *list)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, by_number);
    size_t unique = 0;
    for (size_t i = 0; i < list->count; i++)
        if (i == 0 || list->items[i] != list->items[i - 1])
            list->items[unique++] = list->items[i];
    list->count = unique;
}

static void sort_key(struct loader *l, const char *key, size_t length)
{
    const uint8_t *bytes = (const uint8_t *)key;
    if (key[0] == 'b' && length == 9)
        number_add(&l->blocks, mob_redis_key_to_number(bytes + 1));
    else if (key[0] == 'i' && length == 9)
        number_add(&l->incarnations, mob_redis_key_to_number(bytes + 1));
    else if (key[0] == 'N' && length == 9)
        number_add(&l->sums, mob_redis_key_to_number(bytes + 1));
    else if (key[0] == 'n' && length == 9)
        number_add(&l->notes, mob_redis_key_to_number(bytes + 1));
    else if ((key[0] == 'k' && length > 2) || (key[0] == 'c' && length == 9) ||
        (key[0] == 'r' && length == 10))
        key_add(&l->keys, key, length);
}

static enum mob_status scan_keys(struct loader *l)
{
    char cursor[32] = "0";
    do {
        redisReply *reply = redisCommand(l->context, "SCAN %s COUNT " SCAN_COUNT, cursor);
        bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
            reply->element[0]->len < (int)sizeof cursor;
        if (good) {
            memcpy(cursor, reply->element[0]->str, (size_t)reply->element[0]->len + 1);
            const redisReply *keys = reply->element[1];
            for (size_t i = 0; i < keys->elements; i++)
                sort_key(l, keys->element[i]->str, (size_t)keys->element[i]->len);
        }
        if (reply != NULL)
            freeReplyObject(reply);
        if (!good)
            return MOB_UNAVAILABLE;
    } while (strcmp(cursor, "0") != 0);
    number_sort(&l->blocks);
    number_sort(&l->incarnations);
    number_sort(&l->sums);
    number_sort(&l->notes);
    return MOB_OK;
}

/* Pipelined GETs: appended by the caller, read here one by one. */
static enum mob_status next_value(struct loader *l, redisReply **reply_out)
{
    void *reply = NULL;
    if (redisGetReply(l->context, &reply) != REDIS_OK || reply == NULL)
        return MOB_UNAVAILABLE;
    *reply_out = reply;
    return MOB_OK;
}

static enum mob_status load_block(struct loader *l, uint64_t seq, const redisReply *reply)
{
    struct mob_shard *sh = l->sh;
    struct mob_redis_block head;
    if (reply->type != REDIS_REPLY_STRING || (size_t)reply->len <= sizeof head)
        return MOB_CORRUPT;
    memcpy(&head, reply->str, sizeof head);
    const uint8_t *block = (const uint8_t *)reply->str + sizeof head;
    uint32_t length = (uint32_t)((size_t)reply->len - sizeof head);
    enum mob_status status = mob_block_peek(block, length, &sh->peeked_header, &sh->peeked_zone);
    if (status != MOB_OK)
        return status;
    mob_index_add(sh->index, seq, length, &sh->peeked_header, &sh->peeked_zone);
    struct mob_gcs_reply answer = {.request = head.number + 1, .count = 1, .seq = seq, .number = head.number};
    mob_chain_load_reply(sh->chain, head.incarnation, &answer);
    return MOB_OK;
}

static enum mob_status load_incarnation(struct loader *l, uint64_t id, const redisReply *reply)
{
    struct mob_gcs_incarnation row;
    if (reply->type != REDIS_REPLY_STRING || (size_t)reply->len != sizeof row)
        return MOB_CORRUPT;
    memcpy(&row, reply->str, sizeof row);
    if (row.id != id)
        return MOB_CORRUPT;
    enum mob_status status = mob_state_register(l->sh->state, &row);
    if (status == MOB_OK && row.state == MOB_GCS_LIVE)
        status = mob_chain_load_client(l->sh->chain, id, row.blocks);
    return status;
}

static enum mob_status load_sum(struct loader *l, uint64_t part, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return MOB_CORRUPT;
    return flushed_load_sum(l->sh, part, (const uint8_t *)reply->str, (size_t)reply->len);
}

static enum mob_status load_note(struct loader *l, uint64_t number, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return MOB_CORRUPT;
    return flushed_load_note(l->sh, number, (const uint8_t *)reply->str, (size_t)reply->len);
}

static enum mob_status load_numbers(struct loader *l, const struct number_list *list, char kind,
    enum mob_status (*load)(struct loader *, uint64_t, const redisReply *))
{
    for (size_t at = 0; at < list->count; at += GET_AT_ONCE) {
        size_t end = at + GET_AT_ONCE < list->count ? at + GET_AT_ONCE : list->count;
        for (size_t i = at; i < end; i++) {
            uint8_t key[9];
            mob_redis_key(key, kind, list->items[i]);
            redisAppendCommand(l->context, "GET %b", key, sizeof key);
        }
        enum mob_status first = MOB_OK;
        for (size_t i = at; i < end; i++) {
            redisReply *reply;
            if (next_value(l, &reply) != MOB_OK)
                return MOB_UNAVAILABLE;
            enum mob_status status = load(l, list->items[i], reply);
            freeReplyObject(reply);
            if (status != MOB_OK && first == MOB_OK) {
                MOB_LOG_ERROR("gcs", "stored_value_bad", "kind=%c number=%llu why=%s", kind,
                    (unsigned long long)list->items[i], mob_status_code(status));
                first = status;
            }
        }
        if (first != MOB_OK)
            return first;
    }
    return MOB_OK;
}

static enum mob_status load_row(
    struct loader *l, const uint8_t *key, uint32_t length, const uint8_t *value, size_t value_length)
{
    struct mob_shard *sh = l->sh;
    uint64_t client = key[0] == 'k' ? 0 : mob_redis_key_to_number(key + 1);
    if (key[0] == 'c') {
        struct mob_redis_identity identity;
        if (value_length != sizeof identity)
            return MOB_CORRUPT;
        memcpy(&identity, value, sizeof identity);
        bool is_log = (client & MOB_GCS_CLIENT_BIT) == 0;
        enum mob_status status = is_log ? MOB_OK : mob_chain_load_client(sh->chain, client, 0);
        return status == MOB_OK ? attach_load(sh, client, &identity) : status;
    }
    if (key[0] == 'r') {
        struct mob_gcs_reply reply_row;
        if (value_length != sizeof reply_row)
            return MOB_CORRUPT;
        memcpy(&reply_row, value, sizeof reply_row);
        enum mob_status status = mob_chain_load_client(sh->chain, client, 0);
        mob_chain_load_reply(sh->chain, client, &reply_row);
        return status;
    }
    struct mob_gcs_kv kv = {.key = key + 2, .key_length = length - 2u};
    if (value_length < sizeof kv.version || kv.key_length > MOB_GCS_KEY_MAX)
        return MOB_CORRUPT;
    memcpy(&kv.version, value, sizeof kv.version);
    kv.value = value + sizeof kv.version;
    kv.value_length = (uint32_t)(value_length - sizeof kv.version);
    return mob_state_set(sh->state, key[1], &kv);
}

static enum mob_status load_key(
    struct loader *l, const uint8_t *key, uint32_t length, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return MOB_CORRUPT;
    return load_row(l, key, length, (const uint8_t *)reply->str, (size_t)reply->len);
}

static enum mob_status load_keys(struct loader *l)
{
    const struct byte_list *keys = &l->keys;
    for (size_t at = 0; at < keys->length;) {
        size_t start = at, count = 0;
        uint16_t n;
        for (; at < keys->length && count < GET_AT_ONCE; count++) {
            memcpy(&n, keys->bytes + at, sizeof n);
            redisAppendCommand(l->context, "GET %b", keys->bytes + at + sizeof n, (size_t)n);
            at += sizeof n + n;
        }
        enum mob_status first = MOB_OK;
        for (size_t i = 0; i < count; i++) {
            redisReply *reply;
            memcpy(&n, keys->bytes + start, sizeof n);
            if (next_value(l, &reply) != MOB_OK)
                return MOB_UNAVAILABLE;
            enum mob_status status = load_key(l, keys->bytes + start + sizeof n, n, reply);
            freeReplyObject(reply);
            first = first == MOB_OK ? status : first;
            start += sizeof n + n;
        }
        if (first != MOB_OK)
            return first;
    }
    return MOB_OK;
}

/* ---- the journal, over what the rows say ---- */

/* The row went with the segment of an earlier deletion, since by then the key was gone once more: the journal
 * has that behind this. Version 0, which nothing has, tells whether it has. */
static enum mob_status load_hole(struct loader *l, const struct mob_journal_row *row)
{
    struct mob_gcs_kv none = {.key = row->key + 2, .key_length = row->key_length - 2};
    key_add(&l->holes, (const char *)row->key, row->key_length);
    return mob_state_set(l->sh->state, row->key[1], &none);
}

/* Keys have any bytes: what is no printable character is shown as a dot. */
static void say_lost(const uint8_t *key, uint32_t length)
{
    char text[65], escaped[2 * sizeof text];
    uint32_t shown = length - 2 < sizeof text - 1 ? length - 2 : (uint32_t)sizeof text - 1;
    for (uint32_t i = 0; i < shown; i++)
        text[i] = key[2 + i] > 0x20 && key[2 + i] < 0x7f ? (char)key[2 + i] : '.';
    text[shown] = 0;
    MOB_LOG_ERROR("gcs", "stored_value_lost",
        "table=%u key=\"%s\" key_bytes=%u why=\"this member's Redis lacks what it had\"", key[1],
        mob_log_value(text, escaped, sizeof escaped), length - 2);
}

/* Values that the store had, by its journal, and that nobody has deleted. A person may say that it goes on
 * without them. Without masters they are gone then, which the journal is told, so that it is said once. In a
 * chain another member may have them: at each start, until it has joined, this store counts as the shortest
 * of those with its newest epoch. */
static enum mob_status settle_holes(struct loader *l)
{
    struct mob_shard *sh = l->sh;
    const struct byte_list *holes = &l->holes;
    struct byte_list lost = {0};
    struct mob_state_key now;
    uint32_t count = 0;
    uint16_t n;
    for (size_t at = 0; at < holes->length; at += sizeof n + n) {
        memcpy(&n, holes->bytes + at, sizeof n);
        const uint8_t *key = holes->bytes + at + sizeof n;
        if (!mob_state_get(sh->state, key[1], key + 2, n - 2u, &now) || now.version != 0)
            continue;
        mob_state_remove(sh->state, key[1], key + 2, n - 2u);
        key_add(&lost, (const char *)key, n);
        if (count++ < LOST_SAID_MAX)
            say_lost(key, n);
    }
    if (count == 0)
        return MOB_OK;
    enum mob_status status = MOB_CORRUPT;
    if (sh->options.start_without_all) {
        status = shard_has_masters(sh) ? MOB_OK : journal_write_gone(sh, l->context, lost.bytes, lost.length);
        sh->member.stored_seq = 0;
    }
    MOB_LOG_ERROR("gcs", "store_lacks_values", "values=%u goes_on=%d hint=\"%s\"", count, status == MOB_OK,
        status == MOB_OK ? "they are lost, and named above"
                         : "put back an append-only file that has them, or go on without them, for good: "
                           "gcs-start-without-all");
    free(lost.bytes);
    return status;
}

/* Rows of the journal before this one may have replaced what was loaded. */
static enum mob_status load_outside(struct loader *l, const struct mob_journal_row *row)
{
    redisReply *reply = redisCommand(l->context, "GET %b", row->key, (size_t)row->key_length);
    if (reply == NULL)
        return MOB_UNAVAILABLE;
    enum mob_status status =
        reply->type == REDIS_REPLY_NIL ? load_hole(l, row) : load_key(l, row->key, row->key_length, reply);
    freeReplyObject(reply);
    return status;
}

static enum mob_status load_journal_row(struct loader *l, const struct mob_journal_row *row)
{
    struct mob_shard *sh = l->sh;
    switch ((enum mob_journal_kind)row->kind) {
    case MOB_JOURNAL_SET:
        return load_row(l, row->key, row->key_length, row->value, row->value_length);
    case MOB_JOURNAL_OUTSIDE:
        return load_outside(l, row);
    case MOB_JOURNAL_GONE:
        if (row->key[0] == 'c')
            mob_chain_load_forget(sh->chain, mob_redis_key_to_number(row->key + 1));
        else
            mob_state_remove(sh->state, row->key[1], row->key + 2, row->key_length - 2);
        return MOB_OK;
    }
    return MOB_CORRUPT;
}

static enum mob_status load_pass(struct loader *l, const struct mob_journal_pass *pass)
{
    struct mob_journal_row row;
    enum mob_status status = MOB_OK;
    for (size_t at = 0; status == MOB_OK;) {
        status = mob_journal_row_next(pass, &at, &row);
        if (status == MOB_OK)
            status = load_journal_row(l, &row);
    }
    return status == MOB_FINISHED ? MOB_OK : status;
}

static enum mob_status load_journal(struct loader *l)
{
    const struct mob_journal *j = &l->sh->store.journal;
    struct mob_journal_pass pass;
    enum mob_status status = MOB_OK;
    for (size_t at = 0; status == MOB_OK;) {
        status = mob_journal_pass_next(j->loaded, j->loaded_length, &at, &pass);
        if (status == MOB_OK)
            status = load_pass(l, &pass);
    }
    return status == MOB_FINISHED ? settle_holes(l) : status;
}

enum mob_status load_all(struct mob_shard *sh, redisContext *context)
{
    int64_t start = mob_now();
    struct loader l = {.sh = sh, .context = context};
    enum mob_status status = scan_keys(&l);
    if (status == MOB_OK)
        status = load_numbers(&l, &l.incarnations, 'i', load_incarnation);
    if (status == MOB_OK)
        status = load_numbers(&l, &l.blocks, 'b', load_block);
    if (status == MOB_OK)
        status = load_numbers(&l, &l.sums, 'N', load_sum);
    if (status == MOB_OK)
        status = load_numbers(&l, &l.notes, 'n', load_note);
    if (status == MOB_OK)
        status = load_keys(&l);
    if (status == MOB_OK)
        status = load_journal(&l);
    MOB_LOG_INFO("gcs", "loaded",
        "status=%s blocks=%zu incarnations=%zu keys=%zu clients=%zu journal_bytes=%zu ms=%lld",
        mob_status_code(status), l.blocks.count, l.incarnations.count, mob_state_keys(sh->state),
        mob_chain_clients(sh->chain), sh->store.journal.loaded_length,
        (long long)((mob_now() - start) / MOB_MS));
    free(l.blocks.items);
    free(l.incarnations.items);
    free(l.sums.items);
    free(l.notes.items);
    free(l.keys.bytes);
    free(l.holes.bytes);
    return status;
}
