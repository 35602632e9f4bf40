/* What a member's Redis and its file hold, independent of how the machine keeps its tables: rows as
 * gcs/shard/redis_keys.h has them. */
#include <stdlib.h>

#include "gcs/chain/chain_rows.h"
#include "tests/sim/sim_internal.h"

static struct sim_key *find_key(struct sim_image *i, uint8_t table, const uint8_t *key, uint32_t length)
{
    for (size_t k = 0; k < i->key_count; k++) {
        struct sim_key *row = &i->keys[k];
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): set_key replaces what it frees */
        if (row->table == table && row->key_length == length && memcmp(row->bytes, key, length) == 0)
            return row;
    }
    return NULL;
}

static void set_key(struct sim_image *i, uint8_t table, const struct mob_gcs_kv *kv)
{
    struct sim_key *row = find_key(i, table, kv->key, kv->key_length);
    if (row == NULL)
        row = memset(SIM_GROW(i->keys, i->key_count, i->key_capacity), 0, sizeof *row);
    uint8_t *bytes = malloc((size_t)kv->key_length + kv->value_length + 1);
    memcpy(bytes, kv->key, kv->key_length);
    if (kv->value_length > 0)
        memcpy(bytes + kv->key_length, kv->value, kv->value_length);
    uint8_t *before = row->bytes;
    *row = (struct sim_key){.table = table,
        .key_length = kv->key_length,
        .value_length = kv->value_length,
        .version = kv->version,
        .bytes = bytes};
    free(before);
}

static void remove_key(struct sim_image *i, uint8_t table, const uint8_t *key, uint32_t length)
{
    struct sim_key *row = find_key(i, table, key, length);
    if (row == NULL)
        return;
    free(row->bytes);
    *row = i->keys[--i->key_count];
}

static struct sim_disk_client *find_client(struct sim_image *i, uint64_t id)
{
    for (size_t k = 0; k < i->client_count; k++)
        if (i->clients[k].id == id)
            return &i->clients[k];
    return NULL;
}

static struct sim_disk_client *add_client(struct sim_image *i, uint64_t id)
{
    struct sim_disk_client *c = find_client(i, id);
    if (c == NULL)
        c = SIM_GROW(i->clients, i->client_count, i->client_capacity);
    memset(c, 0, sizeof *c);
    c->id = id;
    return c;
}

static void remove_client(struct sim_image *i, uint64_t id)
{
    struct sim_disk_client *c = find_client(i, id);
    if (c != NULL)
        *c = i->clients[--i->client_count];
}

static struct mob_gcs_incarnation *find_incarnation(struct sim_image *i, uint64_t id)
{
    for (size_t k = 0; k < i->incarnation_count; k++)
        if (i->incarnations[k].id == id)
            return &i->incarnations[k];
    return NULL;
}

static void set_incarnation(struct sim_image *i, const struct mob_gcs_incarnation *row)
{
    struct mob_gcs_incarnation *there = find_incarnation(i, row->id);
    if (there == NULL)
        there = SIM_GROW(i->incarnations, i->incarnation_count, i->incarnation_capacity);
    *there = *row;
}

/* Sorted by seq; a block that comes twice is the same. */
static void add_block(struct sim_image *i, const struct sim_block *block)
{
    size_t at = i->block_count;
    while (at > 0 && i->blocks[at - 1].seq >= block->seq)
        at--;
    if (at < i->block_count && i->blocks[at].seq == block->seq)
        return;
    (void)SIM_GROW(i->blocks, i->block_count, i->block_capacity);
    memmove(&i->blocks[at + 1], &i->blocks[at], (i->block_count - 1 - at) * sizeof *i->blocks);
    i->blocks[at] = *block;
}

static void drop_blocks(struct sim_image *i, const struct mob_chain_entry *e)
{
    size_t kept = 0;
    for (size_t k = 0; k < i->block_count; k++) {
        bool drop = e->op == MOB_GCS_OP_FLUSH && i->blocks[k].seq <= mob_chain_flush_upto(e);
        for (uint32_t d = 0; d < e->drop_count; d++)
            drop = drop || e->drops[d] == i->blocks[k].seq;
        if (!drop)
            i->blocks[kept++] = i->blocks[k];
    }
    i->block_count = kept;
}

static void set_log(struct sim_image *i, uint64_t id, uint32_t state, uint64_t blocks)
{
    struct mob_gcs_incarnation *row = find_incarnation(i, id);
    if (row == NULL)
        return;
    row->state = state;
    row->blocks = blocks;
}

static void apply_effect(struct sim_image *i, const struct mob_chain_entry *e)
{
    switch ((enum mob_gcs_op)e->op) {
    case MOB_GCS_OP_APPEND: {
        struct sim_block block = {.seq = e->seq, .incarnation = e->client, .number = e->number};
        memcpy(&block.hash, e->body, sizeof block.hash);
        memcpy(&block.record, e->body + sizeof block.hash, sizeof block.record);
        add_block(i, &block);
        struct mob_gcs_incarnation *row = find_incarnation(i, e->client);
        set_log(i, e->client, row != NULL ? row->state : MOB_GCS_LIVE, e->request);
        break;
    }
    case MOB_GCS_OP_PUT:
    case MOB_GCS_OP_LOSS: {
        struct mob_gcs_kv kv = {
            e->body, e->body + e->key_length, e->key_length, e->body_bytes - e->key_length, e->version};
        set_key(i, e->table, &kv);
        break;
    }
    case MOB_GCS_OP_DELETE:
        remove_key(i, e->table, e->body, e->key_length);
        break;
    case MOB_GCS_OP_REGISTER: {
        struct mob_gcs_incarnation row = {.id = e->number, .state = MOB_GCS_LIVE};
        memcpy(row.name, e->body, e->body_bytes);
        set_incarnation(i, &row);
        add_client(i, row.id);
        break;
    }
    case MOB_GCS_OP_SEAL:
    case MOB_GCS_OP_RECOVERED: {
        bool recovered = e->op == MOB_GCS_OP_RECOVERED || e->version != 0;
        set_log(i, e->target, recovered ? MOB_GCS_RECOVERED : MOB_GCS_SEALED, e->number);
        remove_client(i, e->target);
        break;
    }
    case MOB_GCS_OP_EXPIRE:
        remove_client(i, e->target);
        break;
    case MOB_GCS_OP_OPEN:
        add_client(i, e->number);
        break;
    case MOB_GCS_OP_FLUSH:
        if (mob_chain_flush_upto(e) > i->notes.upto && e->body_bytes == sizeof(uint64_t)) {
            uint64_t rows;
            memcpy(&rows, e->body, sizeof rows);
            i->notes.upto = e->number;
            i->notes.rows += rows;
        }
        if (mob_chain_flush_upto(e) > i->flushed)
            i->flushed = e->number;
        drop_blocks(i, e);
        break;
    case MOB_GCS_OP_JOB_DROP:
        drop_blocks(i, e);
        break;
    case MOB_GCS_OPS:
        break;
    }
}

void sim_image_apply_entry(struct sim_image *i, const struct mob_chain_entry *e)
{
    if (e->status == MOB_OK)
        apply_effect(i, e);
    uint64_t keeper = mob_chain_entry_keeper(e);
    struct sim_disk_client *client = keeper == 0 ? NULL : find_client(i, keeper);
    if (client != NULL) {
        client->last = e->request;
        client->replies[e->request % MOB_GCS_WINDOW] = mob_chain_reply_of(e);
    }
    if (e->op == MOB_GCS_OP_LOSS && e->target != 0 && (client = find_client(i, e->target)) != NULL)
        client->last = e->number;
    i->seq = e->seq;
    i->epoch = e->epoch;
}

bool sim_image_opened(const struct sim_image *i, uint64_t nonce)
{
    for (size_t k = 0; k < i->client_count && nonce != 0; k++) {
        const struct mob_gcs_reply *open = &i->clients[k].replies[0];
        if (open->request == 0 && open->seq != 0 && open->version == nonce)
            return true;
    }
    return false;
}

void sim_image_add_base(struct sim_image *i, const struct mob_chain_stream_base *base)
{
    if (i->base_count == SIM_BASES_MAX)
        memmove(&i->bases[0], &i->bases[1], --i->base_count * sizeof i->bases[0]);
    i->bases[i->base_count++] = *base;
}

struct sim_notes sim_image_notes(const struct sim_image *i)
{
    struct sim_notes notes = {.upto = i->notes.upto, .rows = i->notes.rows, .base_count = i->base_count};
    memcpy(notes.bases, i->bases, sizeof notes.bases);
    return notes;
}

void sim_image_apply_rows(struct sim_image *i, const uint8_t *rows, uint32_t length)
{
    struct mob_reader r = mob_reader_of(rows, length);
    struct mob_chain_row row;
    while (mob_chain_row_next(&r, &row)) {
        struct mob_gcs_incarnation incarnation;
        struct mob_chain_row_client client;
        struct mob_gcs_kv kv;
        uint8_t table;
        if (row.kind == MOB_CHAIN_ROW_INCARNATION &&
            mob_chain_row_incarnation(&row, &incarnation) == MOB_OK) {
            set_incarnation(i, &incarnation);
        } else if (row.kind == MOB_CHAIN_ROW_CLIENT && mob_chain_row_client(&row, &client) == MOB_OK) {
            struct sim_disk_client *c = add_client(i, client.id);
            c->last = client.last;
            for (uint32_t k = 0; k < client.count; k++) {
                struct mob_gcs_reply reply;
                memcpy(&reply, client.replies + k * sizeof reply, sizeof reply);
                c->replies[reply.request % MOB_GCS_WINDOW] = reply;
            }
        } else if (row.kind == MOB_CHAIN_ROW_KEY && mob_chain_row_key(&row, &table, &kv) == MOB_OK) {
            set_key(i, table, &kv);
        } else if (row.kind == MOB_CHAIN_ROW_FLUSHED) {
            memcpy(&i->flushed, row.content, sizeof i->flushed);
        } else if (row.kind == MOB_CHAIN_ROW_OWNER && row.bytes == sizeof(struct sim_notes)) {
            struct sim_notes notes;
            memcpy(&notes, row.content, sizeof notes);
            i->notes.upto = notes.upto;
            i->notes.rows = notes.rows;
            memcpy(i->bases, notes.bases, sizeof i->bases);
            i->base_count = (uint32_t)notes.base_count;
        } else if (row.kind == MOB_CHAIN_ROW_OWNER) {
            struct sim_block block;
            memcpy(&block, row.content, sizeof block);
            add_block(i, &block);
        }
    }
}

void sim_image_clear(struct sim_image *i)
{
    for (size_t k = 0; k < i->key_count; k++)
        free(i->keys[k].bytes);
    free(i->keys);
    free(i->blocks);
    free(i->clients);
    free(i->incarnations);
    *i = (struct sim_image){0};
}

void sim_image_copy(struct sim_image *to, const struct sim_image *from)
{
    for (size_t k = 0; k < from->key_count; k++) {
        const struct sim_key *row = &from->keys[k];
        struct mob_gcs_kv kv = {
            row->bytes, row->bytes + row->key_length, row->key_length, row->value_length, row->version};
        set_key(to, row->table, &kv);
    }
    for (size_t k = 0; k < from->block_count; k++)
        add_block(to, &from->blocks[k]);
    for (size_t k = 0; k < from->client_count; k++)
        *add_client(to, from->clients[k].id) = from->clients[k];
    for (size_t k = 0; k < from->incarnation_count; k++)
        set_incarnation(to, &from->incarnations[k]);
    to->flushed = from->flushed;
    to->notes = from->notes;
    memcpy(to->bases, from->bases, sizeof to->bases);
    to->base_count = from->base_count;
    to->seq = from->seq;
    to->epoch = from->epoch;
}

bool sim_image_same_blocks(const struct sim_image *a, const struct sim_image *b)
{
    return a->block_count == b->block_count && a->notes.upto == b->notes.upto &&
        a->notes.rows == b->notes.rows &&
        (a->block_count == 0 || memcmp(a->blocks, b->blocks, a->block_count * sizeof *a->blocks) == 0);
}

/* ---- writes ---- */

static void write_free(struct sim_write *w)
{
    if (w->type == SIM_WRITE_ENTRY) {
        free((void *)(uintptr_t)w->entry.body);
        free(w->entry.drops);
    }
    free(w->bytes);
}

static void fold(struct sim_disk *d, uint64_t upto)
{
    for (; d->folded < upto; d->folded++) {
        struct sim_write *w = &d->writes[d->folded - d->first];
        if (w->type == SIM_WRITE_ENTRY)
            sim_image_apply_entry(&d->image, &w->entry);
        else if (w->type == SIM_WRITE_ROWS)
            sim_image_apply_rows(&d->image, w->bytes, w->length);
        else if (w->type == SIM_WRITE_WIPE)
            sim_image_clear(&d->image);
        else if (w->type == SIM_WRITE_BASE)
            sim_image_add_base(&d->image, &w->base);
        if (w->type == SIM_WRITE_META) {
            d->image.member = w->member;
            d->image.synced = w->synced;
            d->image.seq = w->seq != 0 ? w->seq : d->image.seq;
            d->image.part_epoch = w->part_epoch;
        }
        write_free(w);
    }
    size_t done = (size_t)(d->folded - d->first);
    if (done > 256) {
        memmove(d->writes, d->writes + done, (d->count - done) * sizeof *d->writes);
        d->count -= done;
        d->first = d->folded;
    }
}

void sim_disk_write(struct sim_disk *d, const struct sim_write *write)
{
    struct sim_write *w = SIM_GROW(d->writes, d->count, d->capacity);
    *w = *write;
    d->submitted++;
    fold(d, d->durable);
}

void sim_disk_cut(struct sim_disk *d, uint64_t cut)
{
    if (cut < d->folded)
        cut = d->folded;
    while (d->submitted > cut) {
        write_free(&d->writes[--d->count]);
        d->submitted--;
    }
    fold(d, cut);
    d->stored = d->durable = cut;
}

void sim_disk_wipe(struct sim_disk *d)
{
    sim_disk_cut(d, d->folded);
    sim_image_clear(&d->image);
}

void sim_disk_fini(struct sim_disk *d)
{
    while (d->submitted > d->folded) {
        write_free(&d->writes[--d->count]);
        d->submitted--;
    }
    free(d->writes);
    sim_image_clear(&d->image);
    *d = (struct sim_disk){0};
}
