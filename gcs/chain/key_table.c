#include "gcs/chain/key_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

/* The largest power of two that is at most n; n > 0. */
static size_t power_below(size_t n)
{
    return (size_t)1 << (63 - __builtin_clzll(n));
}

static struct key_link **bucket(const struct key_table *t, size_t number)
{
    return &t->segments[number / KEY_TABLE_SEGMENT][number % KEY_TABLE_SEGMENT];
}

/* Buckets behind the power of two are there as far as they have been split off. */
static struct key_link **bucket_of(const struct key_table *t, uint32_t hash)
{
    size_t half = power_below(t->buckets);
    size_t number = hash & (2 * half - 1);
    return bucket(t, number < t->buckets ? number : number - half);
}

static bool segment_add(struct key_table *t)
{
    if (t->segment_count == t->segment_capacity) {
        size_t capacity = t->segment_capacity == 0 ? 4 : 2 * t->segment_capacity;
        struct key_link ***grown = realloc(t->segments, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        t->segments = grown;
        t->segment_capacity = capacity;
    }
    struct key_link **segment = calloc(KEY_TABLE_SEGMENT, sizeof *segment);
    if (segment == NULL)
        return false;
    t->segments[t->segment_count++] = segment;
    return true;
}

bool key_table_init(struct key_table *t)
{
    *t = (struct key_table){.buckets = KEY_TABLE_SEGMENT};
    return segment_add(t);
}

void key_table_clear(struct key_table *t)
{
    while (t->segment_count > 1)
        free(t->segments[--t->segment_count]);
    memset(t->segments[0], 0, KEY_TABLE_SEGMENT * sizeof *t->segments[0]);
    t->buckets = KEY_TABLE_SEGMENT;
    t->rows = 0;
}

void key_table_fini(struct key_table *t)
{
    for (size_t i = 0; i < t->segment_count; i++)
        free(t->segments[i]);
    free(t->segments);
    *t = (struct key_table){.segments = NULL};
}

struct key_link *key_table_first(const struct key_table *t, uint32_t hash)
{
    return *bucket_of(t, hash);
}

void key_table_prefetch(const struct key_table *t, uint32_t hash)
{
    __builtin_prefetch(bucket_of(t, hash));
}

static void push(struct key_link **head, struct key_link *row)
{
    row->next = *head;
    *head = row;
}

/* Gives the rows that belong there to one bucket more. */
static void split(struct key_table *t)
{
    if (t->buckets == t->segment_count * KEY_TABLE_SEGMENT && !segment_add(t))
        return;
    size_t number = t->buckets, half = power_below(number);
    struct key_link **from = bucket(t, number - half), **to = bucket(t, number);
    struct key_link *row = *from, *next;
    *from = *to = NULL;
    for (; row != NULL; row = next) {
        next = row->next;
        push((row->hash & (2 * half - 1)) == number ? to : from, row);
    }
    t->buckets++;
}

/* The reverse: the last bucket's rows go back to where they were split off from. */
static void join(struct key_table *t)
{
    size_t number = --t->buckets;
    struct key_link **to = bucket(t, number - power_below(number));
    for (struct key_link *row = *bucket(t, number), *next; row != NULL; row = next) {
        next = row->next;
        push(to, row);
    }
    *bucket(t, number) = NULL;
    if (number % KEY_TABLE_SEGMENT == 0)
        free(t->segments[--t->segment_count]);
}

void key_table_add(struct key_table *t, struct key_link *row, uint32_t hash)
{
    row->hash = hash;
    push(bucket_of(t, hash), row);
    t->rows++;
    if (t->rows > t->buckets)
        split(t);
}

void key_table_remove(struct key_table *t, struct key_link *row)
{
    struct key_link **link = bucket_of(t, row->hash);
    while (*link != NULL && *link != row)
        link = &(*link)->next;
    MOB_ASSERT(*link == row);
    *link = row->next;
    t->rows--;
    if (t->buckets > t->rows && t->buckets > KEY_TABLE_SEGMENT)
        join(t);
}

size_t key_table_bytes(const struct key_table *t)
{
    return t->segment_count * KEY_TABLE_SEGMENT * sizeof **t->segments;
}
