#include "gcs/chain/state.h"

#include <stdlib.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "gcs/chain/key_table.h"

/* Keys are in a hash table, where one that is there is found, and in a skip list: ordered pages for LIST,
 * logarithmic insertions, one allocation a key. Heights come from a hash of the key, so that equal contents
 * give equal structures on every member. */
#define LEVELS 16
#define CACHE_LINE 64u

struct node {
    struct key_link by_hash; /* the first: a link is its node */
    uint64_t version;
    uint64_t value_hash;
    uint8_t *value;
    uint32_t length, value_length;
    uint32_t height;
    struct node *next[]; /* height of them, then the key's bytes */
};

struct mob_state {
    struct node *head;
    struct key_table table;
    size_t keys, bytes;
    struct mob_gcs_incarnation *incarnations; /* by id */
    size_t incarnation_count, incarnation_capacity;
    uint64_t flushed;
    uint64_t digest; /* sum of the rows' hashes, so that a row's change is one subtraction and one addition */
};

static uint8_t *node_key(const struct node *n)
{
    return (uint8_t *)(uintptr_t)&n->next[n->height];
}

static size_t node_size(uint32_t height, uint32_t length)
{
    return sizeof(struct node) + height * sizeof(struct node *) + length;
}

static int compare(const struct node *n, const uint8_t *key, uint32_t length)
{
    uint32_t common = n->length < length ? n->length : length;
    int order = memcmp(node_key(n), key, common);
    return order != 0 ? order : (n->length > length) - (n->length < length);
}

struct mob_state *mob_state_create(void)
{
    struct mob_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->head = calloc(1, node_size(LEVELS, 0));
    if (s->head == NULL || !key_table_init(&s->table)) {
        free(s->head);
        free(s);
        return NULL;
    }
    s->head->height = LEVELS;
    return s;
}

static void node_free(struct node *n)
{
    free(n->value);
    free(n);
}

void mob_state_destroy(struct mob_state *s)
{
    if (s == NULL)
        return;
    for (struct node *n = s->head, *next; n != NULL; n = next) {
        next = n->next[0];
        node_free(n);
    }
    key_table_fini(&s->table);
    free(s->incarnations);
    free(s);
}

void mob_state_clear(struct mob_state *s)
{
    for (struct node *n = s->head->next[0], *next; n != NULL; n = next) {
        next = n->next[0];
        node_free(n);
    }
    memset(s->head->next, 0, LEVELS * sizeof s->head->next[0]);
    key_table_clear(&s->table);
    free(s->incarnations);
    *s = (struct mob_state){.head = s->head, .table = s->table};
}

size_t mob_state_keys(const struct mob_state *s)
{
    return s->keys;
}

size_t mob_state_incarnations(const struct mob_state *s)
{
    return s->incarnation_count;
}

size_t mob_state_bytes(const struct mob_state *s)
{
    return s->bytes + key_table_bytes(&s->table) + s->incarnation_capacity * sizeof *s->incarnations;
}

/* The last node below the key on each level. */
static void find_before(
    const struct mob_state *s, const uint8_t *key, uint32_t length, struct node *before[LEVELS])
{
    struct node *n = s->head;
    for (int level = LEVELS - 1; level >= 0; level--) {
        while (n->next[level] != NULL && compare(n->next[level], key, length) < 0)
            n = n->next[level];
        before[level] = n;
    }
}

/* "table byte ++ key" on the caller's stack. */
struct full_key {
    uint8_t bytes[1 + MOB_GCS_KEY_MAX];
    uint32_t length;
    uint64_t hash;
};

static void full_key_init(struct full_key *full, uint8_t table, const uint8_t *key, uint32_t length)
{
    MOB_ASSERT(length <= MOB_GCS_KEY_MAX);
    full->bytes[0] = table;
    if (length > 0)
        memcpy(full->bytes + 1, key, length);
    full->length = length + 1;
    full->hash = mob_hash64(full->bytes, full->length);
}

static void view(const struct node *n, struct mob_state_key *out)
{
    *out = (struct mob_state_key){.version = n->version,
        .bytes = node_key(n),
        .length = n->length,
        .value_length = n->value_length,
        .value = n->value};
}

static struct node *find(const struct mob_state *s, const struct full_key *full)
{
    const uint32_t hash = (uint32_t)full->hash;
    for (struct key_link *row = key_table_first(&s->table, hash); row != NULL; row = row->next) {
        struct node *n = (struct node *)row;
        if (row->hash == hash && n->length == full->length &&
            memcmp(node_key(n), full->bytes, full->length) == 0)
            return n;
    }
    return NULL;
}

bool mob_state_get(
    const struct mob_state *s, uint8_t table, const uint8_t *key, uint32_t length, struct mob_state_key *out)
{
    struct full_key full;
    full_key_init(&full, table, key, length);
    struct node *n = find(s, &full);
    if (n != NULL)
        view(n, out);
    return n != NULL;
}

/* The bytes from there on that a cache line holds any of. */
static void prefetch_bytes(const void *at, size_t length)
{
    for (size_t line = 0; line < length; line += CACHE_LINE)
        __builtin_prefetch((const uint8_t *)at + line, 1);
}

void mob_state_prefetch(const struct mob_state *s, const struct mob_state_ahead *keys, size_t count)
{
    uint32_t hashes[MOB_STATE_AHEAD];
    MOB_ASSERT(count <= MOB_STATE_AHEAD);
    for (size_t i = 0; i < count; i++) {
        struct full_key full;
        full_key_init(&full, keys[i].table, keys[i].key, keys[i].length);
        hashes[i] = (uint32_t)full.hash;
        key_table_prefetch(&s->table, hashes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const struct key_link *row = key_table_first(&s->table, hashes[i]);
        if (row != NULL)
            prefetch_bytes(row, node_size(1, keys[i].length + 1));
    }
    for (size_t i = 0; i < count; i++) {
        const struct node *n = (const struct node *)key_table_first(&s->table, hashes[i]);
        if (n != NULL && n->by_hash.hash == hashes[i] && n->value != NULL)
            prefetch_bytes(n->value, n->value_length);
    }
}

bool mob_state_next(const struct mob_state *s, uint8_t table, const uint8_t *prefix, uint32_t prefix_length,
    const uint8_t *after, uint32_t after_length, struct mob_state_key *out)
{
    struct full_key full, start;
    full_key_init(&full, table, prefix, prefix_length);
    full_key_init(&start, table, after, after_length);
    bool from_after = after_length > 0;
    struct node *before[LEVELS];
    find_before(s, from_after ? start.bytes : full.bytes, from_after ? start.length : full.length, before);
    struct node *n = before[0]->next[0];
    if (n != NULL && from_after && compare(n, start.bytes, start.length) == 0)
        n = n->next[0];
    if (n == NULL || n->length < full.length || memcmp(node_key(n), full.bytes, full.length) != 0)
        return false;
    view(n, out);
    return true;
}

bool mob_state_after(
    const struct mob_state *s, const uint8_t *after, uint32_t length, struct mob_state_key *out)
{
    struct node *before[LEVELS];
    find_before(s, after, length, before);
    struct node *n = before[0]->next[0];
    if (n != NULL && length > 0 && compare(n, after, length) == 0)
        n = n->next[0];
    if (n != NULL)
        view(n, out);
    return n != NULL;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 27) * 0x94d049bb133111ebull;
    return h ^ h >> 31;
}

static uint64_t key_hash(const struct node *n)
{
    uint64_t h = mob_hash64(node_key(n), n->length);
    h = mix(h + n->version * 0x9e3779b97f4a7c15ull);
    return mix(h ^ n->value_hash) + n->value_length;
}

static uint64_t incarnation_hash(const struct mob_gcs_incarnation *row)
{
    return mob_hash64(row, sizeof *row);
}

uint64_t mob_state_digest(const struct mob_state *s)
{
    return s->digest + mix(s->flushed);
}

uint64_t mob_state_flushed(const struct mob_state *s)
{
    return s->flushed;
}

void mob_state_set_flushed(struct mob_state *s, uint64_t upto)
{
    s->flushed = upto;
}

static uint32_t height_of(const struct full_key *full)
{
    uint64_t h = full->hash | 1ull << (2 * (LEVELS - 1));
    return 1u + (uint32_t)__builtin_ctzll(h) / 2u; /* one in four goes a level up */
}

/* In the memory of the old value when that has the same length, as most that are written again have. */
static enum mob_status node_set_value(struct mob_state *s, struct node *n, const struct mob_gcs_kv *kv)
{
    uint8_t *value = NULL;
    bool kept = n->value != NULL && n->value_length == kv->value_length;
    if (kept) {
        value = n->value;
    } else if (kv->value_length <= MOB_STATE_INLINE_MAX) {
        value = malloc(kv->value_length + 1u);
        if (value == NULL)
            return MOB_NO_MEMORY;
        s->bytes += kv->value_length + 1u;
    }
    if (value != NULL && kv->value_length > 0)
        memmove(value, kv->value, kv->value_length); /* it may be the old one itself */
    if (!kept && n->value != NULL) {
        s->bytes -= n->value_length + 1u;
        free(n->value);
    }
    n->value = value;
    n->value_length = kv->value_length;
    n->value_hash = mob_hash64(kv->value, kv->value_length);
    n->version = kv->version;
    s->digest += key_hash(n);
    return MOB_OK;
}

enum mob_status mob_state_set(struct mob_state *s, uint8_t table, const struct mob_gcs_kv *kv)
{
    struct full_key full;
    full_key_init(&full, table, kv->key, kv->key_length);
    struct node *n = find(s, &full);
    if (n != NULL) {
        uint64_t old = key_hash(n);
        enum mob_status set = node_set_value(s, n, kv);
        if (set == MOB_OK)
            s->digest -= old;
        return set;
    }
    if (s->keys >= MOB_STATE_KEYS_MAX)
        return MOB_GCS_FULL;
    uint32_t height = height_of(&full);
    n = calloc(1, node_size(height, full.length));
    if (n == NULL)
        return MOB_NO_MEMORY;
    n->height = height;
    n->length = full.length;
    memcpy(node_key(n), full.bytes, full.length);
    enum mob_status status = node_set_value(s, n, kv);
    if (status != MOB_OK) {
        free(n);
        return status;
    }
    MOB_ASSERT(height > 0);
    struct node *before[LEVELS];
    find_before(s, full.bytes, full.length, before);
    for (uint32_t level = 0; level < height; level++) {
        n->next[level] = before[level]->next[level];
        before[level]->next[level] = n;
    }
    key_table_add(&s->table, &n->by_hash, (uint32_t)full.hash);
    s->keys++;
    s->bytes += node_size(height, full.length);
    return MOB_OK;
}

void mob_state_remove(struct mob_state *s, uint8_t table, const uint8_t *key, uint32_t length)
{
    struct full_key full;
    full_key_init(&full, table, key, length);
    struct node *n = find(s, &full);
    if (n == NULL)
        return;
    struct node *before[LEVELS];
    find_before(s, full.bytes, full.length, before);
    for (uint32_t level = 0; level < n->height; level++)
        before[level]->next[level] = n->next[level];
    key_table_remove(&s->table, &n->by_hash);
    s->keys--;
    s->digest -= key_hash(n);
    s->bytes -= node_size(n->height, n->length) + (n->value != NULL ? n->value_length + 1u : 0);
    node_free(n);
}

static size_t incarnation_place(const struct mob_state *s, uint64_t after)
{
    size_t low = 0, high = s->incarnation_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->incarnations[middle].id <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct mob_gcs_incarnation *mob_state_incarnation_next(const struct mob_state *s, uint64_t after)
{
    size_t at = incarnation_place(s, after);
    return at < s->incarnation_count ? &s->incarnations[at] : NULL;
}

const struct mob_gcs_incarnation *mob_state_incarnation(const struct mob_state *s, uint64_t id)
{
    const struct mob_gcs_incarnation *row = id == 0 ? NULL : mob_state_incarnation_next(s, id - 1);
    return row != NULL && row->id == id ? row : NULL;
}

uint64_t mob_state_incarnation_last(const struct mob_state *s)
{
    return s->incarnation_count == 0 ? 0 : s->incarnations[s->incarnation_count - 1].id;
}

static enum mob_status incarnations_grow(struct mob_state *s)
{
    if (s->incarnation_count >= MOB_STATE_INCARNATIONS_MAX)
        return MOB_GCS_FULL;
    if (s->incarnation_count < s->incarnation_capacity)
        return MOB_OK;
    size_t capacity = s->incarnation_capacity == 0 ? 16 : s->incarnation_capacity * 2;
    struct mob_gcs_incarnation *grown = realloc(s->incarnations, capacity * sizeof *grown);
    if (grown == NULL)
        return MOB_NO_MEMORY;
    s->incarnations = grown;
    s->incarnation_capacity = capacity;
    return MOB_OK;
}

enum mob_status mob_state_register(struct mob_state *s, const struct mob_gcs_incarnation *row)
{
    size_t at = row->id == 0 ? s->incarnation_count : incarnation_place(s, row->id - 1);
    bool known = at < s->incarnation_count && s->incarnations[at].id == row->id;
    if (!known && at < s->incarnation_count)
        return MOB_CONFLICT;
    if (known) {
        s->digest -= incarnation_hash(&s->incarnations[at]);
    } else {
        enum mob_status status = incarnations_grow(s);
        if (status != MOB_OK)
            return status;
        s->incarnation_count++;
    }
    s->incarnations[at] = *row;
    s->digest += incarnation_hash(row);
    return MOB_OK;
}
