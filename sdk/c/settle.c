/* A future becomes ready: from a notice, from the store, or from another future. */
#include "sdk/c/client.h"

#include <stdlib.h>

/* ---- waiters ---- */

static void link_first(struct mob_waiter **head, struct mob_waiter *waiter)
{
    waiter->next = *head;
    waiter->place = head;
    if (*head != NULL)
        (*head)->place = &waiter->next;
    *head = waiter;
}

/* What a future that is ready, or takes another one's outcome, has outstanding. Few futures have: a table
 * beside their chunk, and not a word in each of them. */
static struct mob_told **told_of(struct mob_chunk *chunk, const struct mob_future *future)
{
    return chunk->told == NULL ? NULL : &chunk->told[future - mob_chunk_slot(chunk, 0)];
}

/* The slots of general futures are larger: they use some of its places only. */
static bool told_table_make(const struct mob_future *future)
{
    struct mob_chunk *chunk = mob_chunk_of(future);
    if (chunk->told == NULL)
        chunk->told = calloc(MOB_CHUNK_SLOTS, sizeof(struct mob_told *));
    return chunk->told != NULL;
}

static void told_link(struct mob_told *told, const struct mob_future *future)
{
    struct mob_told **place = told_of(mob_chunk_of(future), future);
    told->next_of_future = *place;
    told->place_of_future = place;
    if (*place != NULL)
        (*place)->place_of_future = &told->next_of_future;
    *place = told;
}

static void told_unlink(struct mob_told *told)
{
    if (told->place_of_future != NULL) {
        *told->place_of_future = told->next_of_future;
        if (told->next_of_future != NULL)
            told->next_of_future->place_of_future = told->place_of_future;
        told->place_of_future = NULL;
    }
    if (told->place_of_set != NULL) {
        *told->place_of_set = told->next_of_set;
        if (told->next_of_set != NULL)
            told->next_of_set->place_of_set = told->place_of_set;
        told->place_of_set = NULL;
    }
}

static void set_link(struct mob_waitset *set, struct mob_told *told)
{
    told->next_of_set = set->members;
    told->place_of_set = &set->members;
    if (set->members != NULL)
        set->members->place_of_set = &told->next_of_set;
    set->members = told;
}

static void waiter_fire(struct mob_client *client, struct mob_waiter *waiter)
{
    struct mob_waiter ***tail = waiter->set != NULL ? &waiter->set->ready_tail : &client->ready_tail;
    waiter->next = NULL;
    waiter->place = *tail;
    **tail = waiter;
    *tail = &waiter->next;
    if (!waiter->borrowed)
        told_link((struct mob_told *)waiter, waiter->future);
}

static void add_waiter(struct mob_waiter *waiter)
{
    struct mob_future *future = waiter->future;
    if (future->state == MOB_FUTURE_STREAM && future->as.stream->last == UINT32_MAX) {
        link_first(&future->as.stream->waiters, waiter);
    } else if (!mob_future_settled(future) && future->state != MOB_FUTURE_STREAM) {
        if (!(future->flags & MOB_FUTURE_WAITED))
            future->as.waiter = NULL;
        link_first(&future->as.waiter, waiter);
        future->flags |= MOB_FUTURE_WAITED;
    } else {
        waiter_fire(mob_future_client(future), waiter);
    }
}

enum mob_status mob_future_add_waiter(struct mob_future *future, struct mob_waitset *set,
    void (*callback)(struct mob_future *, void *), struct mob_future *alias, void *arg)
{
    struct mob_told *told = calloc(1, sizeof *told);
    if (told == NULL || !told_table_make(alias != NULL ? alias : future)) {
        free(told);
        return mob_client_fail(mob_future_client(future), MOB_NO_MEMORY, "out of memory");
    }
    told->waiter =
        (struct mob_waiter){.future = future, .set = set, .callback = callback, .alias = alias, .arg = arg};
    if (set != NULL)
        set_link(set, told);
    if (alias != NULL)
        told_link(told, alias);
    add_waiter(&told->waiter);
    return MOB_OK;
}

enum mob_status mob_listen(struct mob_future *future, struct mob_waiter *waiter,
    void (*callback)(struct mob_future *, void *), void *arg)
{
    MOB_ASSERT(waiter->place == NULL);
    enum mob_status status = mob_future_watch(mob_future_client(future), future);
    if (status != MOB_OK)
        return status;
    *waiter = (struct mob_waiter){.future = future, .callback = callback, .arg = arg, .borrowed = true};
    add_waiter(waiter);
    return MOB_OK;
}

/* Takes it out of the list that it is in: its future's, or a ready queue. */
static void waiter_unlink(struct mob_client *client, struct mob_waiter *waiter)
{
    struct mob_future *future = waiter->future;
    struct mob_waiter ***tail = waiter->set != NULL ? &waiter->set->ready_tail : &client->ready_tail;
    *waiter->place = waiter->next;
    if (waiter->next != NULL)
        waiter->next->place = waiter->place;
    else if (*tail == &waiter->next)
        *tail = waiter->place;
    if (future->flags & MOB_FUTURE_WAITED && future->as.waiter == NULL)
        future->flags &= (uint8_t)~MOB_FUTURE_WAITED;
    waiter->place = NULL;
}

void mob_unlisten(struct mob_client *client, struct mob_waiter *waiter)
{
    if (waiter->place != NULL)
        waiter_unlink(client, waiter);
}

void mob_told_forget(struct mob_client *client, struct mob_told *told)
{
    waiter_unlink(client, &told->waiter);
    told_unlink(told);
    free(told);
}

void mob_told_release(struct mob_client *client, struct mob_future *future, bool last)
{
    struct mob_told **place = told_of(mob_chunk_of(future), future);
    struct mob_told *next;
    for (struct mob_told *told = place == NULL ? NULL : *place; told != NULL; told = next) {
        next = told->next_of_future;
        if (told->waiter.alias == NULL || last)
            mob_told_forget(client, told);
    }
}

struct mob_told *mob_told_find(struct mob_future *future, const struct mob_waitset *set)
{
    struct mob_told **place = told_of(mob_chunk_of(future), future);
    struct mob_told *told = place == NULL ? NULL : *place;
    while (told != NULL && told->waiter.set != set)
        told = told->next_of_future;
    return told;
}

/* Its future goes, and no turn of it will come. */
void mob_waiters_drop(struct mob_waiter *waiters)
{
    struct mob_waiter *next;
    for (struct mob_waiter *waiter = waiters; waiter != NULL; waiter = next) {
        next = waiter->next;
        waiter->place = NULL;
        if (waiter->borrowed)
            continue;
        told_unlink((struct mob_told *)waiter);
        free(waiter);
    }
}

struct mob_waiter *mob_ready_pop(struct mob_waiter **head, struct mob_waiter ***tail)
{
    struct mob_waiter *waiter = *head;
    *head = waiter->next;
    if (*head == NULL)
        *tail = head;
    else
        (*head)->place = head;
    waiter->place = NULL;
    if (!waiter->borrowed)
        told_unlink((struct mob_told *)waiter);
    return waiter;
}

static void queue_clear(struct mob_waiter **head, struct mob_waiter ***tail)
{
    mob_waiters_drop(*head);
    *head = NULL;
    *tail = head;
}

void mob_ready_clear(struct mob_client *client)
{
    queue_clear(&client->ready_head, &client->ready_tail);
    for (struct mob_waitset *set = client->sets; set != NULL; set = set->next)
        queue_clear(&set->ready_head, &set->ready_tail);
}

void mob_run_callbacks(struct mob_client *client)
{
    if (client->ready_head == NULL || client->in_callbacks)
        return;
    client->in_callbacks = true;
    while (client->ready_head != NULL) {
        struct mob_waiter *waiter = mob_ready_pop(&client->ready_head, &client->ready_tail);
        bool borrowed = waiter->borrowed; /* then the callback may free it */
        waiter->callback(waiter->future, waiter->arg);
        if (!borrowed)
            free(waiter);
    }
    client->in_callbacks = false;
}

/* ---- settling ---- */

static struct mob_block *block_of(const uint8_t *payload, uint64_t size)
{
    struct mob_block *block = malloc(sizeof *block + size + 1);
    if (block == NULL)
        return NULL;
    block->refs = 1;
    block->bytes = (uint32_t)size;
    if (size > 0)
        memcpy(block->payload, payload, size);
    block->payload[size] = 0;
    return block;
}

/* False: out of memory. */
bool mob_future_copy(struct mob_future *to, const struct mob_future *from)
{
    struct mob_block *block = NULL;
    struct mob_object_id id;
    if (from->where == MOB_WHERE_STORE) {
        id = mob_future_object(from);
        block = block_of((const uint8_t *)&id, sizeof id);
        if (block == NULL)
            return false;
    }
    to->as = from->as;
    to->state = from->state;
    to->type = from->type;
    to->where = from->where;
    to->status = from->status;
    to->size = from->size;
    if (block != NULL) {
        to->as.block = block;
        to->where = MOB_WHERE_OTHER;
    } else if (from->where == MOB_WHERE_BLOCK || from->where == MOB_WHERE_OTHER) {
        from->as.block->refs++;
    }
    return true;
}

static void settle_alias(struct mob_client *client, struct mob_future *alias, struct mob_future *target);

static void fire_all(struct mob_client *client, struct mob_future *future, struct mob_waiter *waiters)
{
    client->settled++;
    if (future->flags & MOB_FUTURE_COUNTED) {
        future->flags &= (uint8_t)~MOB_FUTURE_COUNTED;
        client->wait_hits++;
    }
    struct mob_waiter *next;
    for (struct mob_waiter *waiter = waiters; waiter != NULL; waiter = next) {
        next = waiter->next;
        struct mob_future *alias = waiter->alias;
        if (alias == NULL) {
            waiter_fire(client, waiter);
            continue;
        }
        told_unlink((struct mob_told *)waiter);
        free(waiter);
        settle_alias(client, alias, future);
    }
}

static void settle_alias(struct mob_client *client, struct mob_future *alias, struct mob_future *target)
{
    struct mob_waiter *waiters = alias->flags & MOB_FUTURE_WAITED ? alias->as.waiter : NULL;
    if (!mob_future_copy(alias, target)) {
        MOB_LOG_ERROR("sdk", "alias_dropped", "reason=no-memory");
        return;
    }
    alias->flags &= (uint8_t) ~(MOB_FUTURE_WAITED | MOB_FUTURE_ALIAS);
    fire_all(client, alias, waiters);
}

/* The future of what a tail call ends in. It stays in the map for as long as the client: several may end in
 * it. */
static struct mob_future *tail_target(struct mob_client *client, struct mob_object_id id)
{
    struct mob_future *future = id.slot == 0 ? mob_future_find_child(client, id.task) : NULL;
    if (future != NULL)
        return future;
    struct mob_general_future *g = mob_future_find_general(client, id);
    if (g != NULL) {
        g->refs++;
        return &g->future;
    }
    future = mob_future_new_general(client, id, true);
    if (future != NULL && !client->rewatch) { /* not now: this runs while the ring is read */
        client->rewatch = true;
        client->rewatch_chunk = UINT32_MAX;
    }
    return future;
}

/* A tail call: this future becomes what another object becomes. */
static void follow(struct mob_client *client, struct mob_future *future, const uint8_t *payload)
{
    struct mob_object_id id;
    memcpy(&id, payload, sizeof id);
    struct mob_future *target = tail_target(client, id);
    if (target == NULL || target == future)
        return;
    mob_future_escapes(target); /* its value is this one's too */
    if (mob_future_settled(target)) {
        settle_alias(client, future, target);
        return;
    }
    if (mob_future_add_waiter(target, NULL, NULL, future, NULL) == MOB_OK)
        future->flags |= MOB_FUTURE_ALIAS;
}

void mob_future_settle(struct mob_client *client, struct mob_future *future, enum mob_status status,
    enum mob_value_type type, const uint8_t *payload, uint64_t size, bool inlined)
{
    if (future->state != MOB_FUTURE_PENDING || future->flags & MOB_FUTURE_ALIAS)
        return; /* told twice: the first outcome stands */
    if (status == MOB_OK && type == MOB_TYPE_FUTURE && inlined && size == sizeof(struct mob_object_id)) {
        follow(client, future, payload);
        return;
    }
    struct mob_waiter *waiters = future->flags & MOB_FUTURE_WAITED ? future->as.waiter : NULL;
    struct mob_block *block = NULL;
    if (inlined && size > sizeof future->as.bytes) {
        block = block_of(payload, size);
        inlined = block != NULL; /* without memory it is read from the store, where it is as well */
    }
    future->flags &= (uint8_t)~MOB_FUTURE_WAITED;
    future->as.i64 = 0;
    future->type = (uint8_t)type;
    future->status = (uint16_t)status;
    future->where = !inlined ? MOB_WHERE_STORE : block != NULL ? MOB_WHERE_BLOCK : MOB_WHERE_SLOT;
    if (block != NULL) {
        future->as.block = block;
    } else if (inlined) {
        memcpy(future->as.bytes, payload, size);
        future->size = (uint16_t)size;
    } else {
        future->as.i64 = (int64_t)size;
    }
    future->state = status == MOB_OK && type != MOB_TYPE_ERROR ? MOB_FUTURE_READY : MOB_FUTURE_FAILED;
    if (future->state == MOB_FUTURE_FAILED && status == MOB_OK) {
        struct mob_error_link link;
        future->status = inlined && mob_error_decode(payload, size, &link, 1) > 0 ? (uint16_t)link.status
                                                                                  : (uint16_t)MOB_TASK_FAILED;
    }
    fire_all(client, future, waiters);
}

/* ---- notices ---- */

/* The end of a generator is the outcome that its future's waiters wait for. */
static void stream_end(
    struct mob_client *client, struct mob_future *stream, uint32_t last, enum mob_status status)
{
    struct mob_stream_state *state = stream->as.stream;
    if (state->last != UINT32_MAX)
        return;
    state->last = last;
    state->status = status;
    struct mob_waiter *waiters = state->waiters;
    state->waiters = NULL;
    fire_all(client, stream, waiters);
}

/* Items never fail: what failed stands where the next item would. */
static void stream_notice(struct mob_client *client, struct mob_future *stream,
    const struct mob_in_ready *ready, const uint8_t *payload)
{
    struct mob_stream_state *state = stream->as.stream;
    if (ready->flags & MOB_READY_LAST || ready->status != MOB_OK) {
        stream_end(client, stream, ready->id.slot, (enum mob_status)ready->status);
        return;
    }
    struct mob_general_future *g = mob_future_find_general(client, ready->id);
    struct mob_future *item = g != NULL ? &g->future : NULL;
    if (ready->id.slot >= state->next && ready->id.slot >= state->seen) {
        if (g != NULL)
            g->refs++;
        else
            item = mob_future_new_general(client, ready->id, true);
        state->seen = ready->id.slot + 1;
    }
    if (item != NULL)
        mob_future_settle(client, item, (enum mob_status)ready->status, (enum mob_value_type)ready->type,
            payload, ready->size, ready->inline_bytes == ready->size);
    mob_stream_pull_on(client, stream);
}

/* A future of an item that never came: there is no such object, or it is the generator's error. */
static void item_ended(struct mob_client *client, struct mob_future *item, const struct mob_in_ready *ready)
{
    enum mob_status status = ready->status == MOB_OK ? MOB_NOT_FOUND : (enum mob_status)ready->status;
    mob_future_settle(client, item, status, MOB_TYPE_ERROR, NULL, ready->size, false);
}

void mob_client_on_ready(struct mob_client *client, const struct mob_in_ready *ready, const uint8_t *payload)
{
    bool inlined = ready->inline_bytes == ready->size;
    struct mob_future *future = mob_future_find_child(client, ready->id.task);
    bool is_stream = future != NULL && future->state == MOB_FUTURE_STREAM;
    if (is_stream)
        stream_notice(client, future, ready, payload);
    if (future != NULL && !is_stream && ready->id.slot == 0)
        mob_future_settle(client, future, (enum mob_status)ready->status, (enum mob_value_type)ready->type,
            payload, ready->size, inlined);
    struct mob_general_future *g = mob_future_find_general(client, ready->id);
    if (g != NULL && ready->flags & MOB_READY_LAST)
        item_ended(client, &g->future, ready);
    else if (g != NULL)
        mob_future_settle(client, &g->future, (enum mob_status)ready->status,
            (enum mob_value_type)ready->type, payload, ready->size, inlined);
}
