#include "common/wire/block_format.h"

#include "common/base/bytes.h"

enum { GROUP_NEW_STREAM = 1 };

void block_zone_init(struct zone_builder *z)
{
    z->putter = (struct mob_task_id){0};
    z->puts = mob_stream_of_puts(z->putter);
}

void block_zone_begin(struct zone_builder *z)
{
    z->map.time_min_ns = INT64_MAX;
    z->map.time_max_ns = INT64_MIN;
    z->map.longest_ns = 0;
    z->map.specs = z->map.finals = z->map.failed = z->map.others = 0;
    z->map.function_count = z->map.group_count = 0;
    z->last_spec = z->last_final = z->last_put = z->last_edge = 0;
    memset(z->table, 0, sizeof z->table);
}

/* At most one new group per entry, so the table never fills and every group has room. */
struct mob_zone_group *block_zone_find(struct zone_builder *z, struct mob_task_id task, uint32_t *last)
{
    struct mob_task_id key = {task.stream, task.index >> MOB_GROUP_SHIFT};
    uint32_t slot = (uint32_t)mob_task_id_mix(key) % ZONE_TABLE_SLOTS;
    while (z->table[slot] != 0) {
        struct mob_zone_group *g = &z->map.groups[z->table[slot] - 1];
        if (g->group == key.index && mob_stream_eq(g->stream, key.stream)) {
            *last = z->table[slot] - 1u;
            return g;
        }
        slot = (slot + 1) % ZONE_TABLE_SLOTS;
    }
    *last = z->map.group_count++;
    z->table[slot] = (uint16_t)(*last + 1);
    struct mob_zone_group *g = &z->map.groups[*last];
    *g = (struct mob_zone_group){.stream = key.stream, .group = key.index};
    return g;
}

void block_zone_function(struct zone_builder *z, struct mob_function_id function)
{
    if (z->map.function_count > MOB_ZONE_FUNCTIONS_MAX)
        return;
    for (uint32_t i = 0; i < z->map.function_count; i++)
        if (memcmp(&z->map.functions[i], &function, sizeof function) == 0)
            return;
    if (z->map.function_count < MOB_ZONE_FUNCTIONS_MAX)
        z->map.functions[z->map.function_count] = function;
    z->map.function_count++;
}

static uint8_t *encode_group(uint8_t *at, const struct mob_zone_group *g, const struct mob_zone_group *before)
{
    bool same_stream = before && mob_stream_eq(before->stream, g->stream);
    /* the count of others is mostly zero, so the flag shares its varint */
    at = put_varint(at, (uint64_t)g->others << 1 | (same_stream ? 0 : GROUP_NEW_STREAM));
    if (!same_stream) {
        memcpy(at, &g->stream, sizeof g->stream);
        at += sizeof g->stream;
    }
    uint32_t base = same_stream ? before->group : 0;
    at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(g->group - base));
    at = put_varint(at, g->specs);
    return put_varint(at, g->finals);
}

uint32_t block_zone_encode(const struct zone_builder *z, int64_t base_ns, uint8_t *out)
{
    const struct mob_zone_map *m = &z->map;
    uint8_t *at = out;
    bool timed = m->time_min_ns <= m->time_max_ns;
    uint64_t from = timed ? (uint64_t)m->time_min_ns : (uint64_t)base_ns;
    uint64_t to = timed ? (uint64_t)m->time_max_ns : from;
    at = put_zigzag(at, from - (uint64_t)base_ns);
    at = put_varint(at, to - from);
    at = put_varint(at, (uint64_t)m->longest_ns);
    at = put_varint(at, m->specs);
    at = put_varint(at, m->finals);
    at = put_varint(at, m->failed);
    at = put_varint(at, m->others);
    at = put_varint(at, m->function_count);
    uint32_t functions =
        m->function_count < MOB_ZONE_FUNCTIONS_MAX ? m->function_count : MOB_ZONE_FUNCTIONS_MAX;
    memcpy(at, m->functions, functions * sizeof *m->functions);
    at += functions * sizeof *m->functions;
    at = put_varint(at, m->group_count);
    for (uint32_t i = 0; i < m->group_count; i++)
        at = encode_group(at, &m->groups[i], i > 0 ? &m->groups[i - 1] : NULL);
    return (uint32_t)(at - out);
}

static bool decode_group(struct mob_reader *r, struct mob_zone_group *g, const struct mob_zone_group *before)
{
    uint64_t others = mob_read_varint(r);
    if ((others & GROUP_NEW_STREAM) != 0)
        mob_read_into(r, &g->stream, sizeof g->stream);
    else if (before)
        g->stream = before->stream;
    else
        return false;
    uint32_t base = (others & GROUP_NEW_STREAM) != 0 ? 0 : before->group;
    g->group = base + (uint32_t)mob_read_zigzag(r);
    uint64_t specs = mob_read_varint(r), finals = mob_read_varint(r);
    others >>= 1;
    if (!mob_reader_ok(r) || specs > MOB_BLOCK_ENTRIES_MAX || finals > MOB_BLOCK_ENTRIES_MAX ||
        others > MOB_BLOCK_ENTRIES_MAX || g->group > UINT32_MAX >> MOB_GROUP_SHIFT)
        return false;
    g->specs = (uint16_t)specs;
    g->finals = (uint16_t)finals;
    g->others = (uint16_t)others;
    return true;
}

/* Counts of entries; false when above what a block can hold. */
static bool decode_counts(struct mob_reader *r, struct mob_zone_map *m)
{
    uint64_t specs = mob_read_varint(r), finals = mob_read_varint(r), failed = mob_read_varint(r);
    uint64_t others = mob_read_varint(r), functions = mob_read_varint(r);
    if (specs + finals + others > MOB_BLOCK_ENTRIES_MAX || specs > MOB_BLOCK_ENTRIES_MAX ||
        finals > MOB_BLOCK_ENTRIES_MAX || failed > finals || functions > MOB_ZONE_FUNCTIONS_MAX + 1)
        return false;
    m->specs = (uint32_t)specs;
    m->finals = (uint32_t)finals;
    m->failed = (uint32_t)failed;
    m->others = (uint32_t)others;
    m->function_count = (uint32_t)functions;
    return mob_reader_ok(r);
}

enum mob_status block_zone_decode(
    const uint8_t *bytes, uint32_t length, int64_t base_ns, struct mob_zone_map *out)
{
    struct mob_reader r = mob_reader_of(bytes, length);
    out->time_min_ns = (int64_t)((uint64_t)base_ns + (uint64_t)mob_read_zigzag(&r));
    out->time_max_ns = (int64_t)((uint64_t)out->time_min_ns + mob_read_varint(&r));
    out->longest_ns = (int64_t)mob_read_varint(&r);
    if (!decode_counts(&r, out))
        return MOB_CORRUPT;
    uint32_t functions =
        out->function_count < MOB_ZONE_FUNCTIONS_MAX ? out->function_count : MOB_ZONE_FUNCTIONS_MAX;
    mob_read_into(&r, out->functions, functions * sizeof *out->functions);
    uint64_t groups = mob_read_varint(&r);
    if (!mob_reader_ok(&r) || groups > MOB_ZONE_GROUPS_MAX)
        return MOB_CORRUPT;
    out->group_count = (uint32_t)groups;
    for (uint32_t i = 0; i < out->group_count; i++)
        if (!decode_group(&r, &out->groups[i], i > 0 ? &out->groups[i - 1] : NULL))
            return MOB_CORRUPT;
    return mob_reader_left(&r) == 0 ? MOB_OK : MOB_CORRUPT;
}
