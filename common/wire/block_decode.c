/* Decoder: frame and specs; completions and the other entries have files of their own.
 *
 * Entries are copied into the decoder, with zeros behind them, so that reads of bounded size need no check of
 * their own: a zero ends a varint, and next() refuses an entry that passed the end. Whatever has a length
 * from the input is checked before it is touched.
 */
#include "common/wire/block_format.h"

#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

struct mob_block_decoder *mob_block_decoder_create(void)
{
    struct mob_block_decoder *d = malloc(sizeof *d);
    if (d) {
        d->at = d->end = d->bytes;
        d->entries_left = 0;
    }
    return d;
}

void mob_block_decoder_destroy(struct mob_block_decoder *d)
{
    free(d);
}

/* Checks everything but the entries' bytes. */
static enum mob_status read_front(const uint8_t *block, size_t length, struct block_front *front)
{
    if (length < sizeof *front)
        return MOB_TRUNCATED;
    memcpy(front, block, sizeof *front);
    if (front->magic != BLOCK_MAGIC)
        return MOB_CORRUPT;
    if (front->version < MOB_BLOCK_VERSION_MIN || front->version > MOB_BLOCK_VERSION) {
        MOB_LOG_WARN("wire", "block_version", "found=%u supported=%u", front->version, MOB_BLOCK_VERSION);
        return MOB_VERSION;
    }
    if (length > MOB_BLOCK_BYTES_MAX || front->ns_bytes >= MOB_NAMESPACE_MAX ||
        front->front_bytes < sizeof *front + front->ns_bytes || front->entry_count > MOB_BLOCK_ENTRIES_MAX)
        return MOB_CORRUPT;
    uint64_t total = (uint64_t)front->front_bytes + front->zone_bytes + front->entries_bytes;
    if (total != length)
        return total > length ? MOB_TRUNCATED : MOB_CORRUPT;
    uint32_t checked = front->front_bytes + front->zone_bytes - BLOCK_CRC_FROM;
    if (mob_crc32c(block + BLOCK_CRC_FROM, checked) != front->front_crc)
        return MOB_CORRUPT;
    return memchr(block + sizeof *front, '\0', front->ns_bytes) ? MOB_CORRUPT : MOB_OK;
}

static void give_header(const uint8_t *block, const struct block_front *front, struct mob_block_header *out)
{
    out->version = front->version;
    out->cluster = front->cluster;
    out->incarnation = front->incarnation;
    out->sequence = front->sequence;
    out->job = front->job;
    memcpy(out->ns, block + sizeof *front, front->ns_bytes);
    memset(out->ns + front->ns_bytes, 0, sizeof out->ns - front->ns_bytes);
    out->wall_ns = front->wall_ns;
    out->mono_ns = front->mono_ns;
    out->entry_count = front->entry_count;
}

static enum mob_status peek(const uint8_t *block, size_t length, struct block_front *front,
    struct mob_block_header *header_out, struct mob_zone_map *zone_out)
{
    enum mob_status status = read_front(block, length, front);
    if (status != MOB_OK)
        return status;
    status = block_zone_decode(block + front->front_bytes, front->zone_bytes, front->mono_ns, zone_out);
    if (status != MOB_OK)
        return status;
    if (zone_out->specs + zone_out->finals + zone_out->others != front->entry_count)
        return MOB_CORRUPT;
    give_header(block, front, header_out);
    return MOB_OK;
}

enum mob_status mob_block_peek(
    const uint8_t *block, size_t length, struct mob_block_header *header_out, struct mob_zone_map *zone_out)
{
    struct block_front front;
    return peek(block, length, &front, header_out, zone_out);
}

enum mob_status mob_block_open(struct mob_block_decoder *d, const uint8_t *block, size_t length,
    struct mob_block_header *header_out, struct mob_zone_map *zone_out)
{
    struct block_front front;
    d->opened++;
    d->entries_left = 0;
    d->at = d->end = d->bytes;
    enum mob_status status = peek(block, length, &front, header_out, zone_out);
    if (status != MOB_OK)
        return status;
    const uint8_t *entries = block + front.front_bytes + front.zone_bytes;
    if (mob_crc32c(entries, front.entries_bytes) != front.entries_crc)
        return MOB_CORRUPT;
    memcpy(d->bytes, entries, front.entries_bytes);
    memset(d->bytes + front.entries_bytes, 0, DECODE_SLACK);
    d->end = d->bytes + front.entries_bytes;
    d->entries_left = front.entry_count;
    block_predictors_init(&d->p, header_out);
    return MOB_OK;
}

/* ---- specs ---- */

static const uint8_t *get_raw(const uint8_t *at, void *out, size_t n)
{
    memcpy(out, at, n);
    return at + n;
}

static const uint8_t *get_spec_rare_fields(const uint8_t *at, uint64_t mask, struct mob_spec_head *h)
{
    uint64_t v;
    if (mask & SPEC_JOB)
        at = get_raw(at, &h->job, sizeof h->job);
    if (mask & SPEC_GENERATION)
        at = get_u32(at, &h->generation);
    if (mask & SPEC_RETRIES) {
        at = get_zigzag(at, &v);
        h->max_retries = (int32_t)v;
    }
    if (mask & SPEC_PRIORITY) {
        at = get_zigzag(at, &v);
        h->priority = (int16_t)v;
    }
    if (mask & SPEC_CPU)
        at = get_u32(at, &h->cpu);
    if (mask & SPEC_ATTEMPT)
        at = get_u32(at, &h->attempt);
    if (mask & SPEC_DEADLINE) {
        at = get_zigzag(at, &v);
        h->deadline_wall_ns = (int64_t)((uint64_t)h->deadline_wall_ns + v);
    }
    if (mask & SPEC_NOT_BEFORE) {
        at = get_zigzag(at, &v);
        h->not_before_wall_ns = (int64_t)((uint64_t)h->not_before_wall_ns + v);
    }
    return at;
}

/* `h` holds the predicted head and gets the real one. NULL when corrupt. */
static const uint8_t *get_spec_fields(struct predictors *p, const uint8_t *at, struct mob_spec_head *h)
{
    uint64_t mask, v;
    at = get_varint(at, &mask);
    if (mask == 0 || mask >= SPEC_FIELDS)
        return NULL;
    if (mask & SPEC_KIND) {
        h->kind = *at++;
        h->runtime = *at++;
        if (h->kind < MOB_KIND_TASK || h->kind > MOB_KIND_ROOT || h->runtime < MOB_RUNTIME_C ||
            h->runtime > MOB_RUNTIME_WS)
            return NULL;
    }
    if (mask & SPEC_RETURNS)
        at = get_u16(at, &h->num_returns);
    if (mask & SPEC_FLAGS)
        at = get_u16(at, &h->flags);
    if (mask & SPEC_TASK && !(at = get_task_id(p, at, &h->task)))
        return NULL;
    if (mask & SPEC_INDEX) {
        at = get_zigzag(at, &v);
        h->task.index += (uint32_t)v;
    }
    if (mask & SPEC_SEQ) {
        at = get_zigzag(at, &v);
        h->caller_seq += (uint32_t)v;
    }
    if (mask & SPEC_ACTOR && !(at = get_task_id(p, at, &h->actor.creation)))
        return NULL;
    if (mask & SPEC_METHOD)
        at = get_u16(at, &h->method);
    if (mask & SPEC_PARENT && !(at = get_task_id(p, at, &h->parent)))
        return NULL;
    if (mask & SPEC_FUNCTION && !(at = get_function(p, at, &h->function)))
        return NULL;
    at = get_spec_rare_fields(at, mask, h);
    return h->max_retries >= -1 ? at : NULL;
}

/* One argument into the tail under construction. */
static bool get_arg(
    struct mob_block_decoder *d, struct spec_context *c, uint32_t number, struct mob_tail_builder *b)
{
    const uint8_t *at = d->at;
    if (at >= d->end)
        return false;
    uint8_t type = *at++;
    if (type & ITEM_REF) {
        struct mob_object_id id;
        if (!(at = get_task_id(&d->p, at, &id.task)))
            return false;
        d->at = get_u32(at, &id.slot);
        mob_tail_add_typed_ref(b, (enum mob_value_type)(type & ~ITEM_REF), id);
        return true;
    }
    if (type == MOB_TYPE_I64) {
        uint64_t difference;
        d->at = get_zigzag(at, &difference);
        uint64_t *value = &c->i64s[number % CONTEXT_I64S];
        *value += difference;
        mob_tail_add_value(b, MOB_TYPE_I64, value, sizeof *value);
        return true;
    }
    uint32_t bytes;
    if (!block_fixed_bytes(type, &bytes))
        at = get_u32(at, &bytes);
    if (at > d->end || bytes > (size_t)(d->end - at))
        return false;
    mob_tail_add_value(b, (enum mob_value_type)type, at, bytes);
    d->at = at + bytes;
    return true;
}

static bool get_exts(
    struct mob_block_decoder *d, struct spec_context *c, const uint8_t **exts_out, uint32_t *bytes_out)
{
    uint32_t words;
    d->at = get_u32(d->at, &words);
    if (words <= 1) {
        *exts_out = c->exts;
        *bytes_out = words == 0 ? 0 : c->ext_bytes;
        return true;
    }
    uint64_t bytes = ((uint64_t)words - 1) * 8;
    if (d->at > d->end || bytes > (size_t)(d->end - d->at))
        return false;
    *exts_out = d->at;
    *bytes_out = (uint32_t)bytes;
    d->at += bytes;
    if (bytes <= CONTEXT_EXT_MAX) {
        memcpy(c->exts, *exts_out, bytes);
        c->ext_bytes = (uint32_t)bytes;
    }
    return true;
}

/* Arguments and extensions into the scratch, as a tail; its bytes, 0 when corrupt. */
static uint32_t get_args(struct mob_block_decoder *d, struct spec_context *c)
{
    uint32_t count, ext_bytes;
    const uint8_t *exts;
    struct mob_tail_builder b;
    mob_tail_begin(&b, d->scratch, MOB_SPEC_TAIL_MAX);
    d->at = get_u32(d->at, &count);
    if (count > UINT16_MAX)
        return 0;
    for (uint32_t i = 0; i < count && !b.failed; i++)
        if (!get_arg(d, c, i, &b))
            return 0;
    if (b.failed || !get_exts(d, c, &exts, &ext_bytes) || ext_bytes > b.capacity - b.used)
        return 0;
    memcpy(b.base + b.used, exts, ext_bytes);
    b.used += ext_bytes;
    return mob_tail_end(&b);
}

static uint32_t get_raw_tail(struct mob_block_decoder *d)
{
    uint32_t bytes;
    d->at = get_u32(d->at, &bytes);
    if (d->at > d->end || bytes > (size_t)(d->end - d->at) || bytes > MOB_SPEC_TAIL_MAX)
        return 0;
    memcpy(d->scratch, d->at, bytes);
    d->at += bytes;
    return bytes;
}

static const uint8_t one_i64_tail[16] = {1, 0, 0, 0, 24, 0, 0, 0, 0, MOB_TYPE_I64, 0, 0, 8, 0, 0, 0};
static const uint8_t empty_tail[8] = {0, 0, 0, 0, 8, 0, 0, 0};

static bool get_tail(struct mob_block_decoder *d, struct spec_context *c, unsigned mode, struct mob_spec *out)
{
    uint32_t bytes;
    out->tail = d->scratch;
    if (mode == TAIL_EMPTY) {
        out->tail = empty_tail;
        out->tail_bytes = sizeof empty_tail;
        out->arg_count = 0;
        return true;
    }
    bytes = mode == TAIL_ARGS ? get_args(d, c) : get_raw_tail(d);
    out->tail_bytes = bytes;
    return bytes > 0 && mob_spec_tail_check(d->scratch, bytes, &out->arg_count) == MOB_OK;
}

static struct spec_context *spec_context_of(struct predictors *p, uint8_t byte)
{
    uint32_t slot = byte & ~CONTEXT_NEW & 0xff;
    if (slot >= SPEC_CONTEXTS)
        return NULL;
    if (byte & CONTEXT_NEW)
        block_spec_context_start(p, slot);
    else if ((p->spec_used >> slot & 1) == 0)
        return NULL;
    p->spec_last = slot;
    return &p->specs[slot];
}

static bool decode_spec(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out)
{
    struct predictors *p = &d->p;
    if (first & ENTRY_CONTEXT && !spec_context_of(p, *d->at++))
        return false;
    struct spec_context *c = &p->specs[p->spec_last];
    uint32_t seq_before = c->head.caller_seq;
    c->head.task.index++;
    c->head.caller_seq += c->seq_step;
    if (first & ENTRY_HEAD) {
        const uint8_t *at = get_spec_fields(p, d->at, &c->head);
        if (!at)
            return false;
        d->at = at;
        c->seq_step = c->head.caller_seq - seq_before;
    }
    uint64_t v;
    d->at = get_zigzag(d->at, &v);
    p->submitted += v;
    out->submitted_ns = (int64_t)p->submitted;
    out->spec.head = c->head;
    unsigned mode = first >> ENTRY_MODE_SHIFT;
    if (mode != TAIL_ONE_I64)
        return get_tail(d, c, mode, &out->spec);
    d->at = get_zigzag(d->at, &v);
    c->i64s[0] += v;
    memcpy(d->scratch, one_i64_tail, sizeof one_i64_tail);
    memcpy(d->scratch + sizeof one_i64_tail, &c->i64s[0], 8);
    out->spec.tail = d->scratch;
    out->spec.tail_bytes = 24;
    out->spec.arg_count = 1;
    return true;
}

enum mob_status mob_block_next(struct mob_block_decoder *d, struct mob_entry *out)
{
    if (d->entries_left == 0)
        return d->at == d->end ? MOB_CLOSED : MOB_CORRUPT;
    if (d->at >= d->end)
        return MOB_CORRUPT;
    uint8_t first = *d->at++;
    out->type = (enum mob_entry_type)(first & ENTRY_TYPE_MASK);
    bool ok;
    if (out->type == MOB_ENTRY_SPEC)
        ok = decode_spec(d, first, out);
    else if (out->type == MOB_ENTRY_COMPLETION)
        ok = block_decode_completion(d, first, out);
    else
        ok = block_decode_other(d, first, out);
    if (!ok || d->at > d->end) {
        d->entries_left = 1; /* and so again at the next call */
        d->at = d->end;
        return MOB_CORRUPT;
    }
    d->entries_left--;
    return MOB_OK;
}

uint64_t mob_block_decoder_opened(const struct mob_block_decoder *d)
{
    return d->opened;
}
