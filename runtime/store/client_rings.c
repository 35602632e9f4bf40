/* Client side: mapping the segment, and the rings. */
#include "runtime/store/store_internal.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

static enum mob_status check_header(const struct mob_seg_header *header, uint64_t bytes)
{
    if (header->magic != MOB_SEGMENT_MAGIC) {
        MOB_LOG_ERROR("store", "not_a_segment", "magic=%llx", (unsigned long long)header->magic);
        return MOB_CORRUPT;
    }
    if (header->version != MOB_SEGMENT_VERSION) {
        MOB_LOG_ERROR(
            "store", "segment_version", "segment=%u supported=%u", header->version, MOB_SEGMENT_VERSION);
        return MOB_VERSION;
    }
    return header->segment_bytes == bytes ? MOB_OK : MOB_CORRUPT;
}

static bool inside(const struct mob_view *view, uint64_t offset, uint64_t bytes)
{
    return offset >= view->arena_offset && offset <= view->bytes && bytes <= view->bytes - offset;
}

static bool power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Take the slot's numbers out of the segment, once, checked. */
static enum mob_status open_slot(struct mob_store_client *client)
{
    struct mob_seg_client *shared = client->seg_client;
    const struct mob_view *view = &client->view;
    uint32_t out_bytes = MOB_SEG_LOAD(&shared->out_bytes), in_bytes = MOB_SEG_LOAD(&shared->in_bytes);
    uint64_t out_offset = MOB_SEG_LOAD(&shared->out_offset), in_offset = MOB_SEG_LOAD(&shared->in_offset);
    uint64_t pins_offset = MOB_SEG_LOAD(&shared->pins_offset);
    client->pins_max = MOB_SEG_LOAD(&shared->pins_max);
    client->kind = (enum mob_client_kind)MOB_SEG_LOAD(&shared->kind);
    if (client->kind == 0 || !power_of_two(out_bytes) || !power_of_two(in_bytes) ||
        !inside(view, out_offset, out_bytes) || !inside(view, in_offset, in_bytes) ||
        !inside(view, pins_offset, (uint64_t)client->pins_max * sizeof(struct mob_seg_pin)))
        return MOB_INVALID;
    client->seg_pins = (struct mob_seg_pin *)(view->base + pins_offset);
    uint64_t out_head = MOB_SEG_LOAD(&shared->out_head);
    atomic_init(&client->full_at, CLIENT_HAS_SPACE); /* private: this process */
    client->out = (struct mob_ring_writer){
        .bytes = view->base + out_offset,
        .size = out_bytes,
        .head = out_head,
        .flushed = out_head,
        .released = MOB_SEG_LOAD(&shared->out_released),
    };
    client->in = (struct mob_ring_reader){
        .bytes = view->base + in_offset,
        .size = in_bytes,
        .taken = MOB_SEG_LOAD(&shared->in_released),
    };
    client->in.head = client->in.taken;
    client->pin_stack = malloc(((size_t)client->pins_max + 1) * sizeof *client->pin_stack);
    if (!client->pin_stack)
        return MOB_NO_MEMORY;
    for (uint32_t i = 0; i < client->pins_max; i++)
        client->pin_stack[i] = client->pins_max - 1 - i; /* slot 0 on top */
    client->pins_free = client->pins_max;
    return MOB_OK;
}

/* Everything but the mapping. */
static enum mob_status client_init(struct mob_store_client *client, int eventfd, uint32_t slot)
{
    const struct mob_seg_header *header = client->view.seg_header;
    if (slot >= client->view.clients_max)
        return MOB_INVALID;
    client->slot = slot;
    client->eventfd = eventfd;
    client->incarnation = header->incarnation;
    client->seg_client = &client->view.seg_clients[slot];
    enum mob_status status = open_slot(client);
    if (status != MOB_OK)
        return status;
    mob_begun_open(client);
    mob_arena_user_init(&client->arena, &client->view, slot, client->seg_client);
    client->table = (struct mob_table_user){.view = &client->view, .arena = &client->arena, .owner = slot};
    return MOB_OK;
}

enum mob_status mob_store_attach_inside(struct mob_store *store, uint32_t slot, struct mob_store_client **out)
{
    struct mob_store_client *client = calloc(1, sizeof *client);
    if (!client)
        return MOB_NO_MEMORY;
    client->view = store->view;
    client->shares_mapping = true;
    enum mob_status status = client_init(client, store->eventfd, slot);
    if (status == MOB_OK)
        *out = client;
    else
        free(client);
    return status;
}

enum mob_status mob_store_attach(int memfd, int eventfd, uint32_t slot, struct mob_store_client **out)
{
    struct stat stat;
    if (fstat(memfd, &stat) != 0 || stat.st_size < (off_t)sizeof(struct mob_seg_header))
        return MOB_INVALID;
    uint64_t bytes = (uint64_t)stat.st_size;
    struct mob_store_client *client = calloc(1, sizeof *client);
    if (!client)
        return MOB_NO_MEMORY;
    uint8_t *base = mob_segment_map(memfd, bytes);
    enum mob_status status = MOB_NO_MEMORY;
    if (!base)
        goto err_free;
    const struct mob_seg_header *header = (const struct mob_seg_header *)base;
    status = check_header(header, bytes);
    if (status != MOB_OK)
        goto err_unmap;
    status = MOB_CORRUPT;
    if (!mob_view_layout(&client->view, base, bytes, header->clients_max, header->entries) ||
        client->view.units != header->units)
        goto err_unmap;
    status = client_init(client, eventfd, slot);
    if (status != MOB_OK)
        goto err_unmap;
    *out = client;
    return MOB_OK;
err_unmap:
    mob_segment_unmap(base, bytes);
err_free:
    free(client);
    return status;
}

void mob_store_detach(struct mob_store_client *client)
{
    if (!client)
        return;
    mob_arena_user_fini(&client->arena);
    if (!client->shares_mapping)
        mob_segment_unmap(client->view.base, client->view.bytes);
    free(client->pin_stack);
    free(client->large);
    free(client->parts.bytes);
    free(client);
}

uint64_t mob_store_client_incarnation(const struct mob_store_client *client)
{
    return client->incarnation;
}

/* ---- outbound ---- */

static void publish_to(struct mob_store_client *client, uint64_t head)
{
    client->out.flushed = head;
    struct mob_seg_header *header = client->view.seg_header;
    /* The exchange orders the cursor before both looks below: pass.c and doorbell.c say why that is enough.
     */
    MOB_SEG_XCHG(&client->seg_client->out_head, head);
    uint64_t bit = 1ull << (client->slot % 64);
    if ((MOB_SEG_LOAD_SC(&header->dirty[client->slot / 64]) & bit) == 0)
        MOB_SEG_OR(&header->dirty[client->slot / 64], bit);
    if (MOB_SEG_LOAD_SC(&header->node_sleeps) != 0 && MOB_SEG_XCHG(&header->node_sleeps, 0) == 1) {
        uint64_t one = 1;
        ssize_t n = write(client->eventfd, &one, sizeof one);
        (void)n; /* its counter is full: then it is awake already */
    }
}

static void note_damage(struct mob_store_client *client)
{
    if (!mob_store_rings_damaged(client))
        MOB_LOG_WARN("store", "rings_damaged", "slot=%u incarnation=%llu", client->slot,
            (unsigned long long)client->incarnation);
    atomic_store_explicit(&client->damaged, true, memory_order_relaxed); /* private: this process */
}

bool mob_store_rings_damaged(const struct mob_store_client *client)
{
    return atomic_load_explicit(&client->damaged, memory_order_relaxed); /* private: this process */
}

static uint64_t take_ticket(struct mob_store_client *client)
{
    return MOB_SEG_ADD(&client->view.seg_header->ticket, 1) + 1;
}

/* A worker's record that its ring does not hold is written in private memory, and goes in parts. Others'
 * records stay in their rings until they are acknowledged, so theirs are whole, and their rings hold the
 * largest. */
static void *reserve_large(struct mob_store_client *client, uint32_t body_bytes)
{
    if (client->kind != MOB_CLIENT_WORKER || body_bytes > MOB_RECORD_MAX - sizeof(struct mob_record) ||
        mob_round_up(sizeof(struct mob_record) + body_bytes, 8) <= client->out.size / 2)
        return NULL;
    if (!client->large)
        client->large = aligned_alloc(MOB_CACHE_LINE, mob_round_up(MOB_RECORD_MAX, MOB_CACHE_LINE));
    client->large_bytes = client->large ? body_bytes : 0;
    return client->large;
}

void *mob_store_out_reserve(struct mob_store_client *client, uint32_t body_bytes)
{
    void *body = mob_ring_reserve(&client->out, &client->seg_client->out_released, body_bytes);
    if (__builtin_expect(!body, 0)) {
        if (client->out.damaged)
            note_damage(client);
        body = reserve_large(client, body_bytes);
        uint64_t full_at = body ? CLIENT_HAS_SPACE : client->out.released;
        atomic_store_explicit(&client->full_at, full_at, memory_order_relaxed); /* private: this process */
    }
    return body;
}

static void commit_large(
    struct mob_store_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes)
{
    struct mob_ring_writer *ring = &client->out;
    client->large_bytes = 0;
    for (uint32_t at = 0, bytes; at < body_bytes; at += bytes) {
        bytes = mob_part_bytes(ring->size, body_bytes - at);
        void *to;
        while (!(to = mob_ring_reserve(ring, &client->seg_client->out_released, bytes))) {
            if (ring->damaged) {
                note_damage(client); /* the rest would wait for ever: its owner is told, and comes again */
                return;
            }
            mob_store_wait_space(client);
        }
        MOB_SEG_COPY(to, client->large + at, bytes);
        bool last = at + bytes == body_bytes;
        mob_ring_commit(
            ring, last ? type : MOB_REC_PART, last ? flags : 0, last ? aux : 0, bytes, take_ticket(client));
        publish_to(client, ring->head);
    }
}

void mob_store_out_commit(
    struct mob_store_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes)
{
    if (__builtin_expect(client->large_bytes > 0, 0)) {
        commit_large(client, type, flags, aux, body_bytes);
        return;
    }
    /* The body is complete; only now the ticket. */
    mob_ring_commit(&client->out, type, flags, aux, body_bytes, take_ticket(client));
    publish_to(client, client->out.head);
}

enum mob_status mob_store_publish(struct mob_store_client *client, uint8_t type, uint8_t flags, uint16_t aux,
    const struct mob_piece *pieces, int piece_count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < piece_count; i++)
        bytes += pieces[i].length;
    uint64_t most = client->kind == MOB_CLIENT_WORKER ? MOB_RECORD_MAX : client->out.size / 2;
    if (bytes + sizeof(struct mob_record) > most || bytes + sizeof(struct mob_record) > MOB_RECORD_MAX)
        return MOB_TOO_LARGE;
    uint8_t *body = mob_store_out_reserve(client, (uint32_t)bytes);
    if (!body)
        return MOB_AGAIN;
    for (int i = 0; i < piece_count; i++) {
        if (pieces[i].length > 0)
            MOB_SEG_COPY(body, pieces[i].bytes, pieces[i].length); /* or private memory: no matter */
        body += pieces[i].length;
    }
    mob_store_out_commit(client, type, flags, aux, (uint32_t)bytes);
    return MOB_OK;
}

uint64_t mob_store_out_published(const struct mob_store_client *client)
{
    return client->out.flushed;
}

uint64_t mob_store_out_acked(const struct mob_store_client *client)
{
    uint64_t acked = MOB_SEG_LOAD(&client->seg_client->out_released);
    bool possible = acked >= client->out.released && acked <= client->out.flushed;
    return possible ? acked : client->out.released; /* nothing counts as durable that the node did not say */
}

bool mob_store_out_unacked(
    struct mob_store_client *client, uint64_t *at, struct mob_record *record_out, const uint8_t **body_out)
{
    struct mob_ring_reader reader = {
        .bytes = client->out.bytes, .size = client->out.size, .taken = *at, .head = client->out.flushed};
    if (*at > reader.head || reader.head - *at > reader.size ||
        mob_ring_peek(&reader, record_out) != MOB_RING_RECORD)
        return false;
    *body_out = reader.bytes + (reader.taken & (reader.size - 1)) + sizeof(struct mob_record);
    *at = reader.taken + record_out->bytes;
    return true;
}

/* ---- inbound ---- */

static enum mob_ring_peek peek(struct mob_store_client *client, struct mob_record *record_out)
{
    struct mob_ring_reader *ring = &client->in;
    if (ring->taken == ring->head) {
        uint64_t head = MOB_SEG_LOAD(&client->seg_client->in_head);
        if (head < ring->head || head - ring->taken > ring->size || head % 8 != 0)
            return MOB_RING_DAMAGED;
        ring->head = head;
    }
    return mob_ring_peek(ring, record_out);
}

/* A part is copied out and gives back its room, or the next one would have none. At the last, the whole body.
 */
static const uint8_t *take_parts(
    struct mob_store_client *client, struct mob_record *record, const uint8_t *body)
{
    struct mob_ring_reader *ring = &client->in;
    client->in_peeked = 0;
    while (!client->parts_whole) {
        if (!mob_parts_add(&client->parts, body, record->bytes - (uint32_t)sizeof *record)) {
            note_damage(client); /* not from our node; nothing more is read */
            return NULL;
        }
        client->parts_whole = record->type != MOB_REC_PART;
        if (client->parts_whole)
            break;
        ring->taken += record->bytes;
        mob_store_in_release(client);
        if (peek(client, record) != MOB_RING_RECORD)
            return NULL;
        body = ring->bytes + (ring->taken & (ring->size - 1)) + sizeof *record;
    }
    client->in_peeked = record->bytes;
    record->bytes = (uint32_t)sizeof *record + client->parts.used;
    return client->parts.bytes;
}

const uint8_t *mob_store_in_peek(struct mob_store_client *client, struct mob_record *record_out)
{
    struct mob_ring_reader *ring = &client->in;
    if (!mob_ring_peek_whole(ring, record_out)) {
        enum mob_ring_peek found = peek(client, record_out);
        if (__builtin_expect(found == MOB_RING_DAMAGED, 0))
            note_damage(client);
        if (found != MOB_RING_RECORD)
            return NULL;
    }
    const uint8_t *body = ring->bytes + (ring->taken & (ring->size - 1)) + sizeof(struct mob_record);
    if (__builtin_expect(client->parts.used > 0 || record_out->type == MOB_REC_PART, 0))
        return take_parts(client, record_out, body);
    client->in_peeked = record_out->bytes;
    return body;
}

void mob_store_in_pop(struct mob_store_client *client)
{
    if (client->in_peeked == 0)
        return;
    client->in.taken += client->in_peeked;
    client->in_peeked = 0;
    client->parts.used = 0;
    client->parts_whole = false;
}

void mob_store_in_release(struct mob_store_client *client)
{
    MOB_SEG_STORE(&client->seg_client->in_released, client->in.taken);
}
