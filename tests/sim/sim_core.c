/* Random numbers, time, the queue of events, counters, and how a run fails. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_internal.h"

const struct sim_cover_row sim_cover_rows[SIM_COVERS] = {
#define SIM_COVER_ROW(name, text, minimum) [SIM_##name] = {#name, text, minimum},
    SIM_COVER(SIM_COVER_ROW)
#undef SIM_COVER_ROW
#define SIM_COVER_ROW(name, text, minimum) [SIM_MSG_##name] = {"MSG_" #name, text, minimum},
        SIM_MESSAGES(SIM_COVER_ROW)
#undef SIM_COVER_ROW
#define SIM_COVER_ROW(name, text, minimum) [SIM_LINK_##name] = {"LINK_" #name, text, minimum},
            SIM_LINKS(SIM_COVER_ROW)
#undef SIM_COVER_ROW
#define SIM_COVER_ROW(name, text, minimum) [SIM_ASKED_##name] = {"ASKED_" #name, text, minimum},
                SIM_QUESTIONS(SIM_COVER_ROW)
#undef SIM_COVER_ROW
#define SIM_COVER_ROW(name, text, minimum) [SIM_COVER_FAULT_##name] = {"FAULT_" #name, text, minimum},
                    SIM_FAULTS(SIM_COVER_ROW)
#undef SIM_COVER_ROW
};

/* ---- xoshiro256** ---- */

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t sim_random(struct sim *s)
{
    uint64_t *r = s->rng, result = rotl(r[1] * 5, 7) * 9, t = r[1] << 17;
    r[2] ^= r[0];
    r[3] ^= r[1];
    r[1] ^= r[2];
    r[0] ^= r[3];
    r[2] ^= t;
    r[3] = rotl(r[3], 45);
    return result;
}

void sim_seed(struct sim *s, uint64_t seed)
{
    for (int i = 0; i < 4; i++) { /* splitmix64 */
        seed += 0x9e3779b97f4a7c15ull;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        s->rng[i] = z ^ z >> 31;
    }
}

uint64_t sim_below(struct sim *s, uint64_t n)
{
    return n == 0 ? 0 : sim_random(s) % n;
}

int64_t sim_between(struct sim *s, int64_t low, int64_t high)
{
    return low + (int64_t)sim_below(s, (uint64_t)(high - low + 1));
}

bool sim_chance(struct sim *s, double p)
{
    return p > 0 && (double)(sim_random(s) >> 11) * 0x1p-53 < p;
}

/* ---- time and events ---- */

int64_t sim_clock(const struct sim *s, const struct sim_node *node)
{
    return node->clock_offset + (int64_t)((double)s->now * node->clock_rate);
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_push(struct sim *s, const struct sim_event *event)
{
    if (s->heap_count == s->heap_capacity) {
        s->heap_capacity = s->heap_capacity == 0 ? 1024 : s->heap_capacity * 2;
        s->heap = realloc(s->heap, s->heap_capacity * sizeof *s->heap);
    }
    size_t i = s->heap_count++;
    for (; i > 0 && before(event, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = *event;
}

bool sim_pop(struct sim *s, struct sim_event *out)
{
    if (s->heap_count == 0)
        return false;
    *out = s->heap[0];
    struct sim_event last = s->heap[--s->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return true;
}

void sim_at(struct sim *s, int64_t delay, struct sim_event event)
{
    event.at = s->now + delay;
    event.order = s->next_order++;
    heap_push(s, &event);
}

/* A stopped process handles it, in the old order, when it goes on. */
void sim_defer(struct sim *s, const struct sim_event *event, int64_t until)
{
    struct sim_event later = *event;
    later.at = until;
    heap_push(s, &later);
}

/* ---- telling ---- */

void sim_cover_add(struct sim *s, enum sim_cover what)
{
    s->result->cover[what]++;
}

bool sim_traces(const struct sim *s)
{
    return s->setup.trace;
}

void sim_trace(struct sim *s, const char *format, ...)
{
    printf("%12.6f ms  ", (double)s->now / 1e6);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(struct sim *s, const char *format, ...)
{
    char why[400];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    s->result->failed = true;
    snprintf(s->result->why, sizeof s->result->why, "at %.6f ms: %s", (double)s->now / 1e6, why);
    SIM_TRACE(s, "FAILED %s", why);
    longjmp(*sim_end(), 1);
}

/* ---- whose is it ---- */

uint8_t sim_node_of_member(uint64_t member_id)
{
    return (uint8_t)((mob_gcs_member_store(member_id) & 255) - 1); /* members are the first nodes */
}

void sim_name_client(struct sim *s, uint64_t client, uint8_t node)
{
    for (size_t i = 0; i < s->named_count; i++)
        if (s->named[i].client == client)
            return;
    if (s->named_count == s->named_capacity) {
        s->named_capacity = s->named_capacity == 0 ? 32 : s->named_capacity * 2;
        s->named = realloc(s->named, s->named_capacity * sizeof *s->named);
    }
    s->named[s->named_count++] = (struct sim_named){client, node, s->nodes[node].life};
}

uint8_t sim_node_of_client(const struct sim *s, uint64_t client)
{
    for (size_t i = s->named_count; i-- > 0;)
        if (s->named[i].client == client)
            return s->nodes[s->named[i].node].life == s->named[i].life ? s->named[i].node : 255;
    return 255;
}
