#include "runtime/node/borrowed.h"

#include <stdlib.h>

#include "common/base/log.h"

/* Open addressing, linear probing, at most half full. */
struct borrowed {
    struct mob_object_id id;
    uint32_t tasks; /* 0: the place is free */
    bool let_go;
};
struct borrow_table {
    struct borrowed *places;
    uint32_t mask, count;
};

enum { PLACES_FIRST = 256 };

struct borrow_table *borrow_table_create(void)
{
    struct borrow_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    table->mask = PLACES_FIRST - 1;
    table->places = calloc(PLACES_FIRST, sizeof *table->places);
    MOB_ASSERT(table->places);
    return table;
}

void borrow_table_destroy(struct borrow_table *table)
{
    if (!table)
        return;
    free(table->places);
    free(table);
}

static uint32_t home_of(const struct borrow_table *table, struct mob_object_id id)
{
    uint64_t mix = (mob_task_id_mix(id.task) + id.slot) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(mix >> 32) & table->mask;
}

/* Where it is, or where it would be. */
static uint32_t place_of(const struct borrow_table *table, struct mob_object_id id)
{
    uint32_t at = home_of(table, id);
    while (table->places[at].tasks > 0 && !mob_object_id_eq(table->places[at].id, id))
        at = (at + 1) & table->mask;
    return at;
}

static void grow(struct borrow_table *table)
{
    struct borrow_table bigger = {.mask = table->mask * 2 + 1, .count = table->count};
    bigger.places = calloc((size_t)bigger.mask + 1, sizeof *bigger.places);
    MOB_ASSERT(bigger.places);
    for (uint32_t i = 0; i <= table->mask; i++)
        if (table->places[i].tasks > 0)
            bigger.places[place_of(&bigger, table->places[i].id)] = table->places[i];
    free(table->places);
    *table = bigger;
}

/* Those behind it move up, so that none is cut off from its home. */
static void remove_at(struct borrow_table *table, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & table->mask; table->places[at].tasks > 0; at = (at + 1) & table->mask) {
        uint32_t home = home_of(table, table->places[at].id);
        if (((at - home) & table->mask) < ((at - hole) & table->mask))
            continue; /* it lies between its home and the hole's other side */
        table->places[hole] = table->places[at];
        hole = at;
    }
    table->places[hole].tasks = 0;
    table->count--;
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
        struct borrowed *place = &table->places[place_of(table, arg.ref)];
        if (place->tasks == 0) {
            *place = (struct borrowed){.id = arg.ref};
            table->count++;
        }
        place->tasks++;
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
        MOB_ASSERT(table->places[at].tasks > 0);
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
    return table->count > 0 && table->places[place_of(table, id)].tasks > 0;
}

void node_let_go(struct node *node, struct mob_object_id id)
{
    struct borrowed *place = &node->borrows->places[place_of(node->borrows, id)];
    if (place->tasks > 0)
        place->let_go = true;
    else
        mob_store_object_free(node->store, id);
}
