#include "runtime/node/borrowed.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/task.h"

/* Open addressing, linear probing, at most half full. */
struct borrowed {
    struct mob_object_id id;
    uint32_t tasks; /* not 0 where the place is taken */
    bool let_go;
};
struct borrow_table {
    struct borrowed *places;
    uint64_t *taken; /* a bit a place: most questions are about what is not here, and end in the cache */
    uint32_t mask, count;
};

enum { PLACES_FIRST = 256 };

static void make_places(struct borrow_table *table, uint32_t places)
{
    table->mask = places - 1;
    table->places = calloc(places, sizeof *table->places);
    table->taken = calloc(places / 64, sizeof *table->taken);
    MOB_ASSERT(table->places && table->taken);
}

struct borrow_table *borrow_table_create(void)
{
    struct borrow_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    make_places(table, PLACES_FIRST);
    return table;
}

void borrow_table_destroy(struct borrow_table *table)
{
    if (!table)
        return;
    free(table->places);
    free(table->taken);
    free(table);
}

static uint32_t home_of(const struct borrow_table *table, struct mob_object_id id)
{
    uint64_t mix = (mob_task_id_mix(id.task) + id.slot) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(mix >> 32) & table->mask;
}

static bool is_taken(const struct borrow_table *table, uint32_t at)
{
    return table->taken[at / 64] >> (at % 64) & 1;
}

/* Where it is, or where it would be: then the place is free. */
static uint32_t place_of(const struct borrow_table *table, struct mob_object_id id)
{
    uint32_t at = home_of(table, id);
    while (is_taken(table, at) && !mob_object_id_eq(table->places[at].id, id))
        at = (at + 1) & table->mask;
    return at;
}

static void take_place(struct borrow_table *table, uint32_t at, const struct borrowed *borrowed)
{
    table->taken[at / 64] |= 1ull << (at % 64);
    table->places[at] = *borrowed;
}

static void grow(struct borrow_table *table)
{
    struct borrow_table before = *table;
    make_places(table, 2 * (before.mask + 1));
    for (uint32_t i = 0; i <= before.mask; i++)
        if (is_taken(&before, i))
            take_place(table, place_of(table, before.places[i].id), &before.places[i]);
    free(before.places);
    free(before.taken);
}

/* Those behind it move up, so that none is cut off from its home. */
static void remove_at(struct borrow_table *table, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & table->mask; is_taken(table, at); at = (at + 1) & table->mask) {
        uint32_t home = home_of(table, table->places[at].id);
        if (((at - home) & table->mask) < ((at - hole) & table->mask))
            continue; /* it lies between its home and the hole's other side */
        table->places[hole] = table->places[at];
        hole = at;
    }
    table->taken[hole / 64] &= ~(1ull << (hole % 64));
    table->count--;
}

void node_borrow_fetch(const struct node *node, struct mob_object_id id)
{
    const struct borrow_table *table = node->borrows;
    __builtin_prefetch(&table->places[home_of(table, id)], 1);
}

void node_borrow(struct node *node, struct node_task *task)
{
    struct borrow_table *table = node->borrows;
    uint32_t bytes;
    struct node_tail_room room;
    struct mob_arg_view arg;
    struct mob_tail_iter it = mob_spec_args(node_task_tail(task, &room, &bytes));
    while (mob_tail_next_arg(&it, &arg)) {
        if (!arg.is_ref)
            continue;
        if (table->count > table->mask / 2)
            grow(table);
        uint32_t at = place_of(table, arg.ref);
        if (!is_taken(table, at)) {
            take_place(table, at, &(struct borrowed){.id = arg.ref});
            table->count++;
        }
        table->places[at].tasks++;
        task->flags |= TASK_BORROWS;
    }
}

void node_unborrow(struct node *node, const struct node_task *task)
{
    struct borrow_table *table = node->borrows;
    uint32_t bytes;
    struct node_tail_room room;
    struct mob_arg_view arg;
    struct mob_tail_iter it = mob_spec_args(node_task_tail(task, &room, &bytes));
    while (mob_tail_next_arg(&it, &arg)) {
        if (!arg.is_ref)
            continue;
        uint32_t at = place_of(table, arg.ref);
        MOB_ASSERT(is_taken(table, at));
        if (--table->places[at].tasks > 0)
            continue;
        bool let_go = table->places[at].let_go;
        remove_at(table, at);
        if (let_go)
            mob_store_object_free(node->store, arg.ref);
    }
}

bool node_borrowed(void *arg, struct mob_object_id id)
{
    const struct borrow_table *table = ((const struct node *)arg)->borrows;
    return table->count > 0 && is_taken(table, place_of(table, id));
}

bool node_borrows_any(void *arg)
{
    return ((const struct node *)arg)->borrows->count > 0;
}

void node_let_go(struct node *node, struct mob_object_id id)
{
    struct borrow_table *table = node->borrows;
    uint32_t at = place_of(table, id);
    if (is_taken(table, at))
        table->places[at].let_go = true;
    else
        mob_store_object_free(node->store, id);
}
