/* The node's pass over the outbound rings, in ticket order.
 *
 * A client takes a ticket when its record is complete and publishes it after that. The pass reads the ticket
 * counter first, then the rings, and takes only tickets at or below the counter. What a record depends on was
 * published before its own ticket was taken, so before the counter was read, so before the rings are looked
 * at: the pass sees it, too.
 *
 * Notice: the client stores its cursor, then its dirty bit if it is not set (both in the total order); the
 * node takes the bits, then reads the cursors. A client that finds its bit set knows that the node has not
 * taken it yet, so it will read the cursor later.
 */
#include "runtime/store/store_internal.h"

#include "common/base/log.h"

void mob_client_mark_damaged(struct mob_store *store, struct mob_node_client *client)
{
    if (client->damaged)
        return;
    client->damaged = true;
    store->damages++;
    uint32_t slot = (uint32_t)(client - store->clients);
    store->pending[slot / 64] &= ~(1ull << (slot % 64));
    MOB_LOG_WARN("store", "client_damaged", "slot=%u taken=%llu head=%llu", slot,
        (unsigned long long)client->out.taken, (unsigned long long)client->out.head);
}

/* Look at the next record of a ring. true = it belongs to this pass. */
static bool look_at_all(struct mob_store *store, struct mob_node_client *client)
{
    uint32_t slot = (uint32_t)(client - store->clients);
    switch (mob_ring_peek(&client->out, &client->next)) {
    case MOB_RING_EMPTY:
        /* Whatever was published after the cursor was read has set the dirty bit again. */
        store->pending[slot / 64] &= ~(1ull << (slot % 64));
        return false;
    case MOB_RING_DAMAGED:
        mob_client_mark_damaged(store, client);
        return false;
    case MOB_RING_RECORD:
        break;
    }
    client->next_ticket = client->next.ticket;
    if (client->next_ticket > store->counter) {
        /* Taken after the counter was read; the next pass reads a higher one. */
        if (client->waited)
            mob_client_mark_damaged(store, client);
        client->waited = true;
        return false;
    }
    if (client->next_ticket < client->last_ticket) {
        mob_client_mark_damaged(store, client);
        return false;
    }
    client->waited = false;
    return true;
}

/* The same, for what the next record mostly is: whole, in its place, of this pass. */
static inline bool look(struct mob_store *store, struct mob_node_client *client)
{
    struct mob_record next;
    if (!mob_ring_peek_whole(&client->out, &next) || next.ticket > store->counter ||
        next.ticket < client->last_ticket)
        return look_at_all(store, client);
    client->next = next;
    client->next_ticket = next.ticket;
    client->waited = false;
    return true;
}

static bool read_head(struct mob_store *store, struct mob_node_client *client)
{
    uint64_t head = MOB_SEG_LOAD_SC(&client->seg_client->out_head);
    if (head < client->out.head || head - client->out_released > client->out.size || head % 8 != 0) {
        mob_client_mark_damaged(store, client);
        return false;
    }
    client->out.head = head;
    return true;
}

static void begin_slot(struct mob_store *store, uint32_t slot)
{
    struct mob_node_client *client = slot < store->view.clients_max ? &store->clients[slot] : NULL;
    if (!client || !client->open || client->damaged) {
        store->pending[slot / 64] &= ~(1ull << (slot % 64));
        return;
    }
    if (read_head(store, client) && look(store, client))
        store->active[store->active_count++] = slot;
}

void mob_store_pass_begin(struct mob_store *store)
{
    struct mob_seg_header *header = store->view.seg_header;
    uint64_t counter = MOB_SEG_LOAD_SC(&header->ticket);
    if (counter < store->counter) {
        if (!store->damaged)
            MOB_LOG_ERROR("store", "segment_damaged", "ticket=%llu before=%llu", (unsigned long long)counter,
                (unsigned long long)store->counter);
        store->damaged = true;
        counter = store->counter;
    }
    store->counter = counter;
    store->active_count = 0;
    store->current = UINT32_MAX;
    uint32_t words = (store->clients_top + 63) / 64;
    for (uint32_t i = 0; i < words; i++) {
        if (MOB_SEG_LOAD_RELAXED(&header->dirty[i]) != 0)
            store->pending[i] |= MOB_SEG_XCHG(&header->dirty[i], 0);
        for (uint64_t bits = store->pending[i]; bits != 0; bits &= bits - 1)
            begin_slot(store, i * 64 + (uint32_t)__builtin_ctzll(bits));
    }
}

/* The ring with the smallest ticket, and how far it may go before another one's turn comes. */
static void choose(struct mob_store *store)
{
    uint64_t smallest = UINT64_MAX, second = UINT64_MAX;
    uint32_t best = 0;
    for (uint32_t i = 0; i < store->active_count; i++) {
        uint64_t ticket = store->clients[store->active[i]].next_ticket;
        if (ticket < smallest) {
            second = smallest;
            smallest = ticket;
            best = i;
        } else if (ticket < second) {
            second = ticket;
        }
    }
    store->current = best;
    store->current_until = second;
}

static void report_damage(struct mob_store *store, uint32_t *damaged_slot_out)
{
    for (uint32_t slot = 0; slot < store->clients_top; slot++) {
        struct mob_node_client *client = &store->clients[slot];
        if (client->open && client->damaged && !client->damage_reported) {
            client->damage_reported = true;
            store->damages--;
            *damaged_slot_out = slot;
            return;
        }
    }
}

/* A sibling with one argument, and a completion with one result, of eight bytes each: most records are these.
 * Records of a run are no larger than RUN_RECORD_MAX.
 */
enum { RUN_RECORD_MAX = 256, SMALL_SIBLING = 40, SMALL_COMPLETION = sizeof(struct mob_completion_word) };

static inline void copy_body(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    if (bytes == SMALL_SIBLING)
        memcpy(to, from, SMALL_SIBLING);
    else if (bytes == SMALL_COMPLETION)
        memcpy(to, from, SMALL_COMPLETION);
    else
        memcpy(to, from, bytes);
}

/* The chosen ring's record into private memory, behind the parts of it that came before: a client that goes
 * on writing changes nothing under the decoder's hands. */
static inline void copy_record(
    struct mob_store *store, struct mob_node_client *client, struct mob_record *record_out)
{
    const uint8_t *body =
        client->out.bytes + (client->out.taken & (client->out.size - 1)) + sizeof(struct mob_record);
    uint32_t bytes = client->next.bytes - (uint32_t)sizeof(struct mob_record);
    struct mob_parts *parts = &client->parts;
    *record_out = client->next;
    if (__builtin_expect(parts->used == 0 && client->next.type != MOB_REC_PART, 1)) {
        copy_body(store->record, body, bytes);
        return;
    }
    if (!mob_parts_add(parts, body, bytes)) {
        mob_client_mark_damaged(store, client);
        record_out->type = MOB_REC_PART; /* nobody gets it */
        return;
    }
    if (client->next.type == MOB_REC_PART)
        return;
    memcpy(store->record, parts->bytes, parts->used);
    record_out->bytes = (uint32_t)sizeof(struct mob_record) + parts->used;
    parts->used = 0;
}

/* Takes one record, or part of one, and looks at what follows it. */
static inline uint32_t take(struct mob_store *store, struct mob_record *record_out)
{
    uint32_t slot = store->active[store->current];
    struct mob_node_client *client = &store->clients[slot];
    copy_record(store, client, record_out);
    store->taken_from = client->out.taken;
    client->out.taken += client->next.bytes;
    client->last_ticket = client->next_ticket;
    if (!client->touched) {
        client->touched = true;
        store->touched[store->touched_count++] = slot;
    }
    if (client->damaged || !look(store, client)) {
        store->active[store->current] = store->active[--store->active_count];
        store->current = UINT32_MAX;
    }
    return slot;
}

/* Ticket, which each has of its own, aside. */
static inline bool alike(const struct mob_record *a, const struct mob_record *b)
{
    uint64_t first, second;
    _Static_assert(offsetof(struct mob_record, ticket) == sizeof first, "alike compares what is before it");
    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    return first == second;
}

/* What follows the record that was taken, as long as it is whole, in its place, alike, and its turn is before
 * any other ring's. Bodies go behind the first one. Headers are read again here: what is alike is as sound as
 * the first. */
static uint32_t take_alike(
    struct mob_store *store, uint32_t slot, const struct mob_record *record, uint32_t max)
{
    struct mob_node_client *client = &store->clients[slot];
    struct mob_ring_reader *ring = &client->out;
    uint32_t body_bytes = record->bytes - (uint32_t)sizeof *record, count = 1;
    if (ring->taken != store->taken_from + record->bytes || store->current == UINT32_MAX)
        return count; /* the end of the ring was padded: the next one does not stand behind this one */
    uint64_t until = store->current_until < store->counter ? store->current_until : store->counter;
    uint64_t position = ring->taken & (ring->size - 1), contiguous = ring->size - position;
    uint64_t left = ring->head - ring->taken;
    left = left < contiguous ? left : contiguous;
    const uint8_t *at = ring->bytes + position;
    for (; count < max && left >= record->bytes; count++, at += record->bytes, left -= record->bytes) {
        struct mob_record next;
        memcpy(&next, at, sizeof next);
        if (!alike(&next, record) || next.ticket > until || next.ticket < client->last_ticket)
            break;
        __builtin_prefetch(at + record->bytes + MOB_RING_FETCH_AHEAD);
        copy_body(store->record + (size_t)count * body_bytes, at + sizeof next, body_bytes);
        client->last_ticket = next.ticket;
    }
    if (count == 1)
        return count;
    ring->taken += (uint64_t)(count - 1) * record->bytes;
    if (!look(store, client)) {
        store->active[store->current] = store->active[--store->active_count];
        store->current = UINT32_MAX;
    }
    return count;
}

bool mob_store_next_run(
    struct mob_store *store, struct mob_store_run *run_out, uint32_t max, uint32_t *damaged_slot_out)
{
    struct mob_store_run *run = run_out;
    MOB_ASSERT(max > 0 && max <= MOB_STORE_RUN_MAX);
    if (!mob_store_next(store, &run->slot, &run->record, &run->bodies, damaged_slot_out))
        return false;
    run->from = store->taken_from;
    run->count = run->record.bytes <= RUN_RECORD_MAX ? take_alike(store, run->slot, &run->record, max) : 1;
    return true;
}

bool mob_store_next(struct mob_store *store, uint32_t *slot_out, struct mob_record *record_out,
    const uint8_t **body_out, uint32_t *damaged_slot_out)
{
    *damaged_slot_out = UINT32_MAX;
    if (store->damages > 0)
        report_damage(store, damaged_slot_out);
    while (store->active_count > 0) {
        if (store->current == UINT32_MAX ||
            store->clients[store->active[store->current]].next_ticket > store->current_until)
            choose(store);
        uint32_t slot = take(store, record_out);
        if (record_out->type == MOB_REC_PART)
            continue;
        *body_out = store->record;
        *slot_out = slot;
        return true;
    }
    return false;
}

static void release(struct mob_node_client *client, uint64_t position)
{
    if (position <= client->out_released || position > client->out.taken)
        return;
    client->out_released = position;
    MOB_SEG_XCHG(&client->seg_client->out_released, position);
    mob_bell_ring(client->seg_client, MOB_ASLEEP_SPACE);
}

void mob_store_pass_end(struct mob_store *store)
{
    for (uint32_t i = 0; i < store->touched_count; i++) {
        struct mob_node_client *client = &store->clients[store->touched[i]];
        if (client->open && client->touched && client->kind == MOB_CLIENT_WORKER)
            release(client, client->out.taken);
        client->touched = false;
    }
    store->touched_count = 0;
    if (store->backlogs > 0)
        mob_inbound_push(store);
}

uint64_t mob_store_taken(const struct mob_store *store, uint32_t slot)
{
    MOB_ASSERT(slot < store->view.clients_max);
    return store->clients[slot].out.taken;
}

void mob_store_ack(struct mob_store *store, uint32_t slot, uint64_t position)
{
    MOB_ASSERT(slot < store->view.clients_max);
    if (store->clients[slot].open)
        release(&store->clients[slot], position);
}
