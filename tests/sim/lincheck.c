#include "tests/sim/lincheck.h"

#include <stdlib.h>
#include <string.h>

#define WORDS (LINCHECK_OPS_MAX / 64u)
#define ABSENT UINT32_MAX

/* Which operations have been put in order, and which write is in force then. */
struct state {
    uint64_t done[WORDS];
    uint32_t write; /* index, or ABSENT */
};
struct search {
    const struct lincheck_op *ops;
    size_t count, words;
    uint64_t versions[LINCHECK_OPS_MAX]; /* of each write; 0 = unknown */
    struct state *seen; /* open addressing */
    size_t capacity, used, max;
    struct state *stack;
    size_t depth, stack_capacity;
};

static uint64_t hash_of(const struct search *s, const struct state *x)
{
    uint64_t h = x->write * 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < s->words; i++) {
        h ^= x->done[i];
        h *= 0xbf58476d1ce4e5b9ull;
        h ^= h >> 29;
    }
    return h;
}

static bool same(const struct search *s, const struct state *a, const struct state *b)
{
    return a->write == b->write && memcmp(a->done, b->done, s->words * sizeof a->done[0]) == 0;
}

/* An empty slot has an impossible write. */
#define EMPTY (UINT32_MAX - 1)

static void clear(struct state *slots, size_t n)
{
    for (size_t i = 0; i < n; i++)
        slots[i].write = EMPTY;
}

static bool add(struct search *s, const struct state *x);

static void grow(struct search *s)
{
    struct state *old = s->seen;
    size_t n = s->capacity;
    s->capacity = n == 0 ? 256 : n * 4;
    s->seen = malloc(s->capacity * sizeof *s->seen);
    clear(s->seen, s->capacity);
    s->used = 0;
    for (size_t i = 0; i < n; i++)
        if (old[i].write != EMPTY)
            (void)add(s, &old[i]);
    free(old);
}

/* False: it was there. */
static bool add(struct search *s, const struct state *x)
{
    if (2 * (s->used + 1) > s->capacity)
        grow(s);
    size_t i = hash_of(s, x) & (s->capacity - 1);
    for (; s->seen[i].write != EMPTY; i = (i + 1) & (s->capacity - 1))
        if (same(s, &s->seen[i], x))
            return false;
    s->seen[i] = *x;
    s->used++;
    return true;
}

static bool is_done(const struct state *x, size_t i)
{
    return (x->done[i / 64] >> (i % 64) & 1) != 0;
}

static bool writes(const struct lincheck_op *op)
{
    return op->type == LINCHECK_PUT || op->type == LINCHECK_CAS;
}

static bool claimed(const struct search *s, uint64_t version)
{
    for (size_t i = 0; i < s->count; i++)
        if (writes(&s->ops[i]) && s->versions[i] == version)
            return true;
    return false;
}

/* May what is in force have this version? */
static bool has_version(const struct search *s, uint32_t write, uint64_t version)
{
    if (write == ABSENT)
        return version == 0;
    if (s->versions[write] != 0)
        return s->versions[write] == version;
    return version != 0 && !claimed(s, version);
}

static void learn_versions(struct search *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct lincheck_op *op = &s->ops[i];
        s->versions[i] = writes(op) && op->outcome == LINCHECK_DONE ? op->version : 0;
        for (size_t k = 0; s->versions[i] == 0 && writes(op) && k < s->count; k++) {
            const struct lincheck_op *get = &s->ops[k];
            if (get->type == LINCHECK_GET && get->outcome == LINCHECK_DONE && get->value == op->value)
                s->versions[i] = get->version;
        }
    }
}

/* What op i does to `x`; false: its outcome is not possible there. An unknown one that had no effect needs no
 * place in the order. */
static bool step(const struct search *s, const struct state *x, size_t i, struct state *out)
{
    const struct lincheck_op *op = &s->ops[i];
    bool unknown = op->outcome == LINCHECK_UNKNOWN;
    *out = *x;
    out->done[i / 64] |= 1ull << (i % 64);
    switch (op->type) {
    case LINCHECK_PUT:
        out->write = (uint32_t)i;
        return true;
    case LINCHECK_CAS:
        if (op->outcome == LINCHECK_CONFLICT)
            return !(op->expect == op->version) && has_version(s, x->write, op->version);
        if (!has_version(s, x->write, op->expect))
            return false; /* an unknown one had no effect then: it need not be put in order */
        out->write = (uint32_t)i;
        return true;
    case LINCHECK_DELETE:
        if (op->outcome == LINCHECK_ABSENT)
            return x->write == ABSENT;
        if (x->write == ABSENT)
            return false;
        out->write = ABSENT;
        return true;
    case LINCHECK_GET:
        if (unknown)
            return false;
        if (op->outcome == LINCHECK_ABSENT)
            return x->write == ABSENT;
        return x->write != ABSENT && s->ops[x->write].value == op->value &&
            has_version(s, x->write, op->version);
    }
    return false;
}

static void push(struct search *s, const struct state *x)
{
    if (s->depth == s->stack_capacity) {
        s->stack_capacity = s->stack_capacity == 0 ? 256 : s->stack_capacity * 2;
        s->stack = realloc(s->stack, s->stack_capacity * sizeof *s->stack);
    }
    s->stack[s->depth++] = *x;
}

/* Every operation that returned is in order: what is unknown may be left out. */
static bool complete(const struct search *s, const struct state *x)
{
    for (size_t i = 0; i < s->count; i++)
        if (!is_done(x, i) && s->ops[i].return_at != LINCHECK_NEVER)
            return false;
    return true;
}

/* The next in order must have been called before any other that is still missing returned. */
static int64_t first_return(const struct search *s, const struct state *x)
{
    int64_t first = LINCHECK_NEVER;
    for (size_t i = 0; i < s->count; i++)
        if (!is_done(x, i) && s->ops[i].return_at < first)
            first = s->ops[i].return_at;
    return first;
}

static enum lincheck_result explore(struct search *s)
{
    struct state start = {.write = ABSENT};
    push(s, &start);
    (void)add(s, &start);
    while (s->depth > 0) {
        struct state x = s->stack[--s->depth];
        if (complete(s, &x))
            return LINCHECK_OK;
        if (s->used > s->max)
            return LINCHECK_GAVE_UP;
        int64_t before = first_return(s, &x);
        /* Later calls are pushed first, so that the earliest is tried first; unknown ones come last. */
        for (int unknown = 1; unknown >= 0; unknown--)
            for (size_t i = s->count; i-- > 0;) {
                struct state next;
                bool is_unknown = s->ops[i].outcome == LINCHECK_UNKNOWN;
                if (is_done(&x, i) || is_unknown != unknown || s->ops[i].call_at > before)
                    continue;
                if (step(s, &x, i, &next) && add(s, &next))
                    push(s, &next);
            }
    }
    return LINCHECK_VIOLATED;
}

enum lincheck_result lincheck(const struct lincheck_op *ops, size_t count, size_t states_max)
{
    if (count > LINCHECK_OPS_MAX)
        return LINCHECK_GAVE_UP;
    struct search s = {.ops = ops, .count = count, .words = (count + 63) / 64, .max = states_max};
    learn_versions(&s);
    enum lincheck_result result = explore(&s);
    free(s.seen);
    free(s.stack);
    return result;
}
