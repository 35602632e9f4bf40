#include "common/wire/bucket.h"

#include <lz4.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/base/log.h"

#define MAGIC 0x544b424du /* "MBKT" */
#define FRONT_BYTES 24u
#define CRC_FROM 12u
#define FUNCTIONS_MAX 256u

/* ---- keys and hashes ---- */

struct mob_bucket_key mob_bucket_key(struct mob_stream stream, uint32_t index)
{
    struct mob_bucket_key key;
    memcpy(key.b, stream.b, sizeof stream.b);
    for (unsigned i = 0; i < 4; i++)
        key.b[12 + i] = (uint8_t)(index >> (24 - 8 * i));
    return key;
}

struct mob_bloom_hash mob_bucket_group_hash(struct mob_stream stream, uint32_t group)
{
    return mob_bloom_hash(mob_task_id_mix((struct mob_task_id){stream, group}));
}

struct mob_bloom_hash mob_bucket_function_hash(struct mob_function_id function)
{
    uint64_t mixed; /* a function's id is a hash already */
    memcpy(&mixed, function.b, sizeof mixed);
    return mob_bloom_hash(mixed);
}

/* ---- origins. Entries that were neighbours in the log mostly are so here, in a few interleaved runs: the
 * specs of a parent, the completions of each worker. So the last positions of CURSORS runs are kept, newest
 * first, and an entry says which one it continues and how many it skips: token = zigzag(skip) << 3 | cursor,
 * a varint; or cursor NEW, then zigzag(seq - the newest cursor's) and the ordinal. ---- */

enum { CURSORS = 7, NEW = 7, SKIP_MAX = 15 };

struct cursors {
    struct mob_bucket_origin next[CURSORS]; /* where each run goes on */
    uint32_t count;
};

static void to_front(struct cursors *c, uint32_t from, struct mob_bucket_origin value)
{
    memmove(&c->next[1], &c->next[0], from * sizeof c->next[0]);
    c->next[0] = value;
}

static void add_new(struct cursors *c, struct mob_bucket_origin value)
{
    if (c->count < CURSORS)
        c->count++;
    to_front(c, c->count - 1, value);
}

static uint32_t find_cursor(const struct cursors *c, struct mob_bucket_origin o, int32_t *skip_out)
{
    for (uint32_t k = 0; k < c->count; k++) {
        int32_t skip = (int32_t)o.ordinal - (int32_t)c->next[k].ordinal;
        if (c->next[k].seq == o.seq && skip >= -SKIP_MAX && skip <= SKIP_MAX) {
            *skip_out = skip;
            return k;
        }
    }
    return NEW;
}

static uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static void write_origin(struct mob_writer *w, struct cursors *c, struct mob_bucket_origin o, uint64_t base)
{
    int32_t skip = 0;
    uint32_t k = find_cursor(c, o, &skip);
    struct mob_bucket_origin behind = {o.seq, o.ordinal + 1};
    mob_write_varint(w, zigzag(skip) << 3 | k);
    if (k != NEW) {
        to_front(c, k, behind);
        return;
    }
    uint64_t before = c->count > 0 ? c->next[0].seq : base;
    mob_write_zigzag(w, (int64_t)(o.seq - before));
    mob_write_varint(w, o.ordinal);
    add_new(c, behind);
}

static bool read_origin(struct mob_reader *r, struct cursors *c, uint64_t base, struct mob_bucket_origin *out)
{
    uint64_t token = mob_read_varint(r);
    uint32_t k = token & 7;
    int64_t skip = (int64_t)(token >> 4) ^ -(int64_t)(token >> 3 & 1);
    if (!mob_reader_ok(r) || token >> 3 > 2 * SKIP_MAX || (k != NEW && k >= c->count) || (k == NEW && skip))
        return false;
    if (k == NEW) {
        uint64_t before = c->count > 0 ? c->next[0].seq : base;
        out->seq = before + (uint64_t)mob_read_zigzag(r);
        uint64_t ordinal = mob_read_varint(r);
        if (!mob_reader_ok(r) || ordinal >= MOB_BLOCK_ENTRIES_MAX)
            return false;
        out->ordinal = (uint32_t)ordinal;
        add_new(c, (struct mob_bucket_origin){out->seq, out->ordinal + 1});
        return true;
    }
    int64_t ordinal = (int64_t)c->next[k].ordinal + skip;
    if (ordinal < 0 || ordinal >= (int64_t)MOB_BLOCK_ENTRIES_MAX)
        return false;
    *out = (struct mob_bucket_origin){c->next[k].seq, (uint32_t)ordinal};
    to_front(c, k, (struct mob_bucket_origin){out->seq, out->ordinal + 1});
    return true;
}

enum mob_status mob_bucket_origins(
    const struct mob_bucket_block *block, struct mob_bucket_origin *out, uint32_t count)
{
    struct cursors c = {.count = 0};
    struct mob_reader r = mob_reader_of(block->origins, block->origin_bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (block->whole)
            out[i] = (struct mob_bucket_origin){block->seq, i};
        else if (!read_origin(&r, &c, block->seq, &out[i]))
            return MOB_CORRUPT;
    }
    return mob_reader_left(&r) == 0 ? MOB_OK : MOB_CORRUPT;
}

/* ---- building ---- */

struct mob_bucket_builder {
    struct mob_bucket_summary summary;
    uint64_t last_seq;
    struct mob_writer directory, blocks, origins;
    uint64_t *groups; /* mixed, for the filter */
    size_t group_count, group_capacity;
    struct mob_function_id functions[FUNCTIONS_MAX];
    uint32_t function_count; /* FUNCTIONS_MAX + 1 = too many */
    uint8_t *group_filter;
    uint8_t function_filter[FUNCTIONS_MAX * MOB_BLOOM_BITS_EACH / 8 + 8];
    struct mob_zone_map zone;
    struct mob_block_header header;
    uint8_t directory_bytes[MOB_BUCKET_BLOCKS_MAX * 20];
    uint8_t block_bytes[MOB_BUCKET_TARGET_BYTES + MOB_BLOCK_BYTES_MAX];
    uint8_t origin_bytes[MOB_BUCKET_RAW_MAX - MOB_BUCKET_TARGET_BYTES - MOB_BLOCK_BYTES_MAX -
        MOB_BUCKET_BLOCKS_MAX * 20];
    uint8_t raw[MOB_BUCKET_RAW_MAX];
};

struct mob_bucket_builder *mob_bucket_builder_create(void)
{
    struct mob_bucket_builder *b = malloc(sizeof *b);
    if (b == NULL)
        return NULL;
    b->groups = NULL;
    b->group_filter = NULL;
    b->group_capacity = 0;
    mob_bucket_begin(b);
    return b;
}

void mob_bucket_builder_destroy(struct mob_bucket_builder *b)
{
    if (b == NULL)
        return;
    free(b->groups);
    free(b->group_filter);
    free(b);
}

void mob_bucket_begin(struct mob_bucket_builder *b)
{
    b->summary = (struct mob_bucket_summary){
        .seq_min = UINT64_MAX, .time_min_ns = INT64_MAX, .time_max_ns = INT64_MIN};
    b->last_seq = 0;
    b->group_count = 0;
    b->function_count = 0;
    b->directory = mob_writer_of(b->directory_bytes, sizeof b->directory_bytes);
    b->blocks = mob_writer_of(b->block_bytes, sizeof b->block_bytes);
    b->origins = mob_writer_of(b->origin_bytes, sizeof b->origin_bytes);
}

uint32_t mob_bucket_bytes(const struct mob_bucket_builder *b)
{
    return (uint32_t)mob_writer_length(&b->blocks);
}

uint32_t mob_bucket_blocks(const struct mob_bucket_builder *b)
{
    return b->summary.blocks;
}

static enum mob_status groups_reserve(struct mob_bucket_builder *b, size_t more)
{
    if (b->group_count + more <= b->group_capacity)
        return MOB_OK;
    size_t capacity = b->group_capacity == 0 ? 1024 : 2 * b->group_capacity;
    while (capacity < b->group_count + more)
        capacity *= 2;
    uint64_t *groups = realloc(b->groups, capacity * sizeof *groups);
    if (groups != NULL)
        b->groups = groups;
    uint8_t *filter = groups == NULL ? NULL : realloc(b->group_filter, mob_bloom_bytes(capacity));
    if (filter == NULL)
        return MOB_NO_MEMORY;
    b->group_filter = filter;
    b->group_capacity = capacity;
    return MOB_OK;
}

static void note_functions(struct mob_bucket_builder *b)
{
    const struct mob_zone_map *z = &b->zone;
    if (z->function_count > MOB_ZONE_FUNCTIONS_MAX)
        b->function_count = FUNCTIONS_MAX + 1;
    for (uint32_t i = 0; i < z->function_count && b->function_count <= FUNCTIONS_MAX; i++) {
        uint32_t k = 0;
        while (
            k < b->function_count && memcmp(&b->functions[k], &z->functions[i], sizeof z->functions[i]) != 0)
            k++;
        if (k == b->function_count && k < FUNCTIONS_MAX)
            b->functions[k] = z->functions[i];
        b->function_count += k == b->function_count;
    }
}

static void note_groups(struct mob_bucket_builder *b)
{
    struct mob_bucket_summary *s = &b->summary;
    for (uint32_t i = 0; i < b->zone.group_count; i++) {
        const struct mob_zone_group *g = &b->zone.groups[i];
        struct mob_bucket_key first = mob_bucket_key(g->stream, g->group << MOB_GROUP_SHIFT),
                              last = mob_bucket_key(g->stream, g->group << MOB_GROUP_SHIFT | 255);
        if (s->groups == 0 || memcmp(&first, &s->first, sizeof first) < 0)
            s->first = first;
        if (s->groups == 0 || memcmp(&last, &s->last, sizeof last) > 0)
            s->last = last;
        b->groups[b->group_count++] = mob_task_id_mix((struct mob_task_id){g->stream, g->group});
        s->groups++;
    }
}

static void note_zone(struct mob_bucket_builder *b)
{
    struct mob_bucket_summary *s = &b->summary;
    const struct mob_zone_map *z = &b->zone;
    int64_t to_wall = (int64_t)((uint64_t)b->header.wall_ns - (uint64_t)b->header.mono_ns);
    bool timed = z->specs + z->finals > 0;
    int64_t from = timed ? (int64_t)((uint64_t)z->time_min_ns + (uint64_t)to_wall) : b->header.wall_ns,
            to = timed ? (int64_t)((uint64_t)z->time_max_ns + (uint64_t)to_wall) : b->header.wall_ns;
    s->time_min_ns = from < s->time_min_ns ? from : s->time_min_ns;
    s->time_max_ns = to > s->time_max_ns ? to : s->time_max_ns;
    s->longest_ns = z->longest_ns > s->longest_ns ? z->longest_ns : s->longest_ns;
    s->specs += z->specs;
    s->finals += z->finals;
    s->failed += z->failed;
    s->others += z->others;
    s->entries += b->header.entry_count;
    s->blocks++;
}

static void note_seq(struct mob_bucket_summary *s, uint64_t seq)
{
    s->seq_min = seq < s->seq_min ? seq : s->seq_min;
    s->seq_max = seq > s->seq_max ? seq : s->seq_max;
}

/* Bytes written; 0 for a block as it was in the log. */
static uint32_t write_origins(
    struct mob_bucket_builder *b, uint64_t seq, const struct mob_bucket_origin *origins)
{
    struct cursors c = {.count = 0};
    size_t before = mob_writer_length(&b->origins);
    uint32_t count = b->header.entry_count;
    if (origins == NULL)
        note_seq(&b->summary, seq);
    for (uint32_t i = 0; origins != NULL && i < count; i++) {
        note_seq(&b->summary, origins[i].seq);
        write_origin(&b->origins, &c, origins[i], seq);
    }
    return (uint32_t)(mob_writer_length(&b->origins) - before);
}

enum mob_status mob_bucket_add(struct mob_bucket_builder *b, uint64_t seq, const uint8_t *block,
    uint32_t length, const struct mob_bucket_origin *origins)
{
    enum mob_status status = mob_block_peek(block, length, &b->header, &b->zone);
    if (status != MOB_OK)
        return status;
    if (origins != NULL && b->header.entry_count == 0)
        return MOB_INVALID; /* it would read as a whole one */
    /* At worst an origin takes a token of 1, a seq of 10 and an ordinal of 2 bytes. */
    size_t origin_room = origins == NULL ? 0 : 13u * b->header.entry_count;
    if (b->summary.blocks == MOB_BUCKET_BLOCKS_MAX || mob_bucket_bytes(b) >= MOB_BUCKET_TARGET_BYTES ||
        length > mob_writer_left(&b->blocks) || origin_room > mob_writer_left(&b->origins))
        return MOB_QUEUE_FULL;
    status = groups_reserve(b, b->zone.group_count);
    if (status != MOB_OK)
        return status;
    uint32_t origin_bytes = write_origins(b, seq, origins);
    mob_write_zigzag(&b->directory, (int64_t)(seq - b->last_seq));
    mob_write_varint(&b->directory, length);
    mob_write_varint(&b->directory, origin_bytes);
    mob_write_bytes(&b->blocks, block, length);
    b->last_seq = seq;
    note_zone(b);
    note_groups(b);
    note_functions(b);
    MOB_ASSERT(mob_writer_ok(&b->directory) && mob_writer_ok(&b->blocks) && mob_writer_ok(&b->origins));
    return MOB_OK;
}

static void make_filters(struct mob_bucket_builder *b)
{
    struct mob_bucket_summary *s = &b->summary;
    s->group_filter_bytes = mob_bloom_bytes(b->group_count);
    if (s->group_filter_bytes > 0)
        memset(b->group_filter, 0, s->group_filter_bytes);
    for (size_t i = 0; i < b->group_count; i++)
        mob_bloom_add(b->group_filter, s->group_filter_bytes, mob_bloom_hash(b->groups[i]));
    bool known = b->function_count > 0 && b->function_count <= FUNCTIONS_MAX;
    s->function_filter_bytes = known ? mob_bloom_bytes(b->function_count) : 0;
    memset(b->function_filter, 0, sizeof b->function_filter);
    for (uint32_t i = 0; known && i < b->function_count; i++)
        mob_bloom_add(
            b->function_filter, s->function_filter_bytes, mob_bucket_function_hash(b->functions[i]));
    /* Without one function there is one byte string that has none in it. */
    if (b->function_count == 0)
        s->function_filter_bytes = 8;
    s->group_filter = b->group_filter;
    s->function_filter = b->function_filter;
}

static void put_u32(uint8_t *at, uint32_t v)
{
    memcpy(at, &v, sizeof v);
}

uint32_t mob_bucket_end(struct mob_bucket_builder *b, uint8_t *out, struct mob_bucket_summary *summary_out)
{
    struct mob_writer raw = mob_writer_of(b->raw, sizeof b->raw);
    const struct mob_writer *const parts[] = {&b->directory, &b->blocks, &b->origins};
    for (size_t i = 0; i < 3; i++)
        mob_write_bytes(&raw, parts[i]->begin, mob_writer_length(parts[i]));
    MOB_ASSERT(mob_writer_ok(&raw)); /* the three capacities add up to its own */
    uint32_t raw_bytes = (uint32_t)mob_writer_length(&raw);
    int packed = raw_bytes == 0 ? 0
                                : LZ4_compress_default((const char *)b->raw, (char *)out + FRONT_BYTES,
                                      (int)raw_bytes, (int)raw_bytes - 1);
    if (packed <= 0) { /* it does not get smaller */
        memcpy(out + FRONT_BYTES, b->raw, raw_bytes);
        packed = (int)raw_bytes;
    }
    uint16_t version = MOB_BUCKET_VERSION, front = FRONT_BYTES;
    put_u32(out, MAGIC);
    memcpy(out + 4, &version, sizeof version);
    memcpy(out + 6, &front, sizeof front);
    put_u32(out + 12, raw_bytes);
    put_u32(out + 16, (uint32_t)packed);
    put_u32(out + 20, b->summary.blocks);
    uint32_t total = FRONT_BYTES + (uint32_t)packed;
    put_u32(out + 8, mob_crc32c(out + CRC_FROM, total - CRC_FROM));
    make_filters(b);
    b->summary.raw_bytes = raw_bytes;
    *summary_out = b->summary;
    return total;
}

/* ---- reading ---- */

struct mob_bucket_reader {
    uint32_t blocks, next;
    uint64_t last_seq;
    struct mob_reader directory;
    const uint8_t *block, *origin; /* of the next block */
    uint8_t raw[MOB_BUCKET_RAW_MAX];
};

struct mob_bucket_reader *mob_bucket_reader_create(void)
{
    struct mob_bucket_reader *r = malloc(sizeof *r);
    if (r != NULL)
        r->blocks = r->next = 0;
    return r;
}

void mob_bucket_reader_destroy(struct mob_bucket_reader *r)
{
    free(r);
}

/* Walks the directory once: where blocks and origins begin, and that all of it is there and no more. */
static bool check_directory(struct mob_bucket_reader *r, uint32_t raw_bytes)
{
    uint64_t block_bytes = 0, origin_bytes = 0;
    struct mob_reader d = mob_reader_of(r->raw, raw_bytes);
    for (uint32_t i = 0; i < r->blocks; i++) {
        (void)mob_read_zigzag(&d);
        uint64_t length = mob_read_varint(&d), origins = mob_read_varint(&d);
        if (!mob_reader_ok(&d) || length == 0 || length > MOB_BLOCK_BYTES_MAX || origins > raw_bytes)
            return false;
        block_bytes += length;
        origin_bytes += origins;
    }
    if (block_bytes + origin_bytes != mob_reader_left(&d))
        return false;
    r->directory = mob_reader_of(r->raw, raw_bytes - mob_reader_left(&d));
    r->block = d.at;
    r->origin = d.at + block_bytes;
    return true;
}

enum mob_status mob_bucket_open(
    struct mob_bucket_reader *r, const uint8_t *bytes, size_t length, uint32_t *blocks_out)
{
    r->blocks = r->next = 0;
    r->last_seq = 0;
    struct mob_reader in = mob_reader_of(bytes, length);
    uint32_t magic = mob_read_u32(&in);
    uint16_t version = mob_read_u16(&in), front = mob_read_u16(&in);
    uint32_t crc = mob_read_u32(&in), raw = mob_read_u32(&in), packed = mob_read_u32(&in),
             blocks = mob_read_u32(&in);
    if (!mob_reader_ok(&in))
        return MOB_TRUNCATED;
    if (magic != MAGIC)
        return MOB_CORRUPT;
    if (version != MOB_BUCKET_VERSION) {
        MOB_LOG_ERROR("wire", "bucket_version", "found=%u known=%u", version, MOB_BUCKET_VERSION);
        return MOB_VERSION;
    }
    if (front != FRONT_BYTES || raw > MOB_BUCKET_RAW_MAX || packed > raw || blocks > MOB_BUCKET_BLOCKS_MAX)
        return MOB_CORRUPT;
    if (packed > mob_reader_left(&in))
        return MOB_TRUNCATED;
    if (packed < mob_reader_left(&in) || crc != mob_crc32c(bytes + CRC_FROM, length - CRC_FROM))
        return MOB_CORRUPT;
    if (packed == raw)
        memcpy(r->raw, in.at, raw);
    else if (LZ4_decompress_safe((const char *)in.at, (char *)r->raw, (int)packed, (int)raw) != (int)raw)
        return MOB_CORRUPT;
    r->blocks = blocks;
    if (!check_directory(r, raw)) {
        r->blocks = 0;
        return MOB_CORRUPT;
    }
    *blocks_out = blocks;
    return MOB_OK;
}

bool mob_bucket_next(struct mob_bucket_reader *r, struct mob_bucket_block *out)
{
    if (r->next == r->blocks)
        return false;
    r->next++;
    r->last_seq += (uint64_t)mob_read_zigzag(&r->directory);
    uint32_t length = (uint32_t)mob_read_varint(&r->directory),
             origins = (uint32_t)mob_read_varint(&r->directory);
    *out = (struct mob_bucket_block){.seq = r->last_seq,
        .bytes = r->block,
        .length = length,
        .whole = origins == 0,
        .origins = r->origin,
        .origin_bytes = origins};
    r->block += length;
    r->origin += origins;
    return true;
}
