/* Operations that concern every shard: asked of all at once and answered when all have, or read from one
 * after the other, page by page. */
#include "gcs/client/client_internal.h"

#include <stdlib.h>

#include "common/wire/home.h"
#include "gcs/client/client_sync.h"

#define SHARD_MASK (15ull << MOB_GCS_POSITION_SHARD_SHIFT)
_Static_assert(MOB_GCS_SHARDS_MAX < 15, "a shard's number and one more have four bits in a position");

/* One shard's part of an operation. */
struct part {
    struct gather *gather;
    struct mob_gcs_result *result; /* NULL: no answer yet, or no memory for it */
    uint32_t taken; /* rows of it that were given */
};
struct gather {
    struct gather *next, **before; /* of the client's */
    struct mob_gcs *gcs;
    mob_gcs_done_fn *done;
    void *arg;
    struct part parts[MOB_GCS_SHARDS_MAX];
    uint32_t awaited; /* parts without an answer */
    enum mob_status status; /* the first that was not good */
    void (*ready)(struct gather *gather); /* all parts are there; ends the gather */
    uint32_t limit; /* LIST */
    struct mob_gcs_get get; /* GROUP, GROUPS, UNFINISHED */
    struct mob_gcs_group_key groups[MOB_GCS_GROUPS_MAX]; /* GROUPS */
    uint32_t group_count;
    uint32_t shard; /* of the page that is read */
    /* REGISTER */
    char name[MOB_GCS_NAME_MAX + 1u];
    bool placed; /* `shard` is the home of an earlier incarnation of that name */
    uint64_t live[MOB_GCS_SHARDS_MAX];
};

static struct gather *gather_create(struct mob_gcs *g, mob_gcs_done_fn *done, void *arg)
{
    struct gather *gather = calloc(1, sizeof *gather);
    if (gather == NULL)
        return NULL;
    gather->gcs = g;
    gather->done = done;
    gather->arg = arg;
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++)
        gather->parts[i].gather = gather;
    gather->next = g->gathers;
    gather->before = &g->gathers;
    if (gather->next != NULL)
        gather->next->before = &gather->next;
    g->gathers = gather;
    return gather;
}

static void parts_free(struct gather *gather)
{
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++) {
        mob_gcs_result_destroy(gather->parts[i].result);
        gather->parts[i].result = NULL;
        gather->parts[i].taken = 0;
    }
}

static void gather_free(struct gather *gather)
{
    *gather->before = gather->next;
    if (gather->next != NULL)
        gather->next->before = gather->before;
    parts_free(gather);
    free(gather);
}

/* What is on its way to its shards is never answered: their clients are destroyed before. */
void gathers_destroy(struct mob_gcs *g)
{
    while (g->gathers != NULL) {
        /* It takes itself off the list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        gather_free(g->gathers);
    }
}

static void gather_end(struct gather *gather, const struct mob_gcs_answer *answer)
{
    if (gather->done != NULL)
        gather->done(gather->arg, answer);
    gather_free(gather);
}

static void gather_fail(struct gather *gather, enum mob_status status)
{
    struct mob_gcs_answer answer = {.status = status};
    gather_end(gather, &answer);
}

/* ---- all at once ---- */

static void on_part(void *arg, const struct mob_gcs_answer *answer)
{
    struct part *part = arg;
    struct gather *gather = part->gather;
    struct mob_gcs_sync copy = {0};
    mob_gcs_sync_done(&copy, answer);
    part->result = copy.result;
    enum mob_status status = copy.result == NULL ? MOB_NO_MEMORY : answer->status;
    if (gather->status == MOB_OK)
        gather->status = status;
    if (--gather->awaited > 0)
        return;
    if (gather->status != MOB_OK)
        gather_fail(gather, gather->status);
    else
        gather->ready(gather);
}

/* After a part was submitted, or not: then the answer says so, in its time. `first`: nothing was submitted
 * before, so it can be said at once. */
static enum mob_status submitted(struct gather *gather, enum mob_status status, bool first)
{
    if (status == MOB_OK) {
        gather->awaited++;
    } else if (first) {
        gather_free(gather);
    } else {
        if (gather->status == MOB_OK)
            gather->status = status;
        return MOB_OK;
    }
    return status;
}

/* Submits one shard's part of what is asked; on_part() has its answer. */
typedef enum mob_status ask_fn(struct mob_gcs *shard, const void *what, struct part *part);

/* Not MOB_OK: the gather is gone, and nobody is told of it. */
static enum mob_status ask_all(struct gather *gather, ask_fn *ask, const void *what)
{
    struct mob_gcs *g = gather->gcs;
    for (uint32_t i = 0; i < g->shard_count; i++) {
        enum mob_status status = submitted(gather, ask(g->shards[i], what, &gather->parts[i]), i == 0);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

static const struct mob_gcs_answer *answer_of(const struct gather *gather, uint32_t shard)
{
    return mob_gcs_result_answer(gather->parts[shard].result);
}

static void ready_job_drop(struct gather *gather)
{
    struct mob_gcs_answer answer = {.status = MOB_OK};
    for (uint32_t i = 0; i < gather->gcs->shard_count; i++) {
        answer.number += answer_of(gather, i)->number;
        answer.next |= answer_of(gather, i)->next;
    }
    gather_end(gather, &answer);
}

struct job_drop {
    struct mob_job_id job;
    bool finished_only;
    int64_t before_wall_ns;
};

static enum mob_status ask_job_drop(struct mob_gcs *shard, const void *what, struct part *part)
{
    const struct job_drop *drop = what;
    return mob_gcs_job_drop(shard, drop->job, drop->finished_only, drop->before_wall_ns, on_part, part);
}

enum mob_status gather_job_drop(struct mob_gcs *g, struct mob_job_id job, bool finished_only,
    int64_t before_wall_ns, mob_gcs_done_fn *done, void *arg)
{
    struct gather *gather = gather_create(g, done, arg);
    if (gather == NULL)
        return MOB_NO_MEMORY;
    gather->ready = ready_job_drop;
    return ask_all(gather, ask_job_drop, &(struct job_drop){job, finished_only, before_wall_ns});
}

/* ---- rows of all, merged ---- */

static int by_key(const struct mob_gcs_kv *a, const struct mob_gcs_kv *b)
{
    uint32_t n = a->key_length < b->key_length ? a->key_length : b->key_length;
    int order = memcmp(a->key, b->key, n);
    return order != 0 ? order : a->key_length < b->key_length ? -1 : a->key_length > b->key_length;
}

static const struct mob_gcs_kv *next_kv(const struct gather *gather, uint32_t shard)
{
    const struct mob_gcs_answer *a = answer_of(gather, shard);
    uint32_t taken = gather->parts[shard].taken;
    return taken < a->kv_count ? &a->kvs[taken] : NULL;
}

/* Nothing is known of what this shard has behind the rows that were given of it. */
static bool ends_early(const struct gather *gather)
{
    for (uint32_t i = 0; i < gather->gcs->shard_count; i++) {
        const struct mob_gcs_answer *a = answer_of(gather, i);
        if (a->next != 0 && gather->parts[i].taken == a->kv_count + a->incarnation_count)
            return true;
    }
    return false;
}

/* The shard with the smallest next key; UINT32_MAX: there is none. */
static uint32_t first_kv(const struct gather *gather)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < gather->gcs->shard_count; i++) {
        const struct mob_gcs_kv *kv = next_kv(gather, i);
        if (kv != NULL && (first == UINT32_MAX || by_key(kv, next_kv(gather, first)) < 0))
            first = i;
    }
    return first;
}

static void ready_list(struct gather *gather)
{
    uint32_t count = 0, room = 0, at;
    for (uint32_t i = 0; i < gather->gcs->shard_count; i++)
        room += answer_of(gather, i)->kv_count;
    struct mob_gcs_kv *kvs = malloc((room + 1u) * sizeof *kvs);
    if (kvs == NULL) {
        gather_fail(gather, MOB_NO_MEMORY);
        return;
    }
    while ((at = first_kv(gather)) != UINT32_MAX) {
        const struct mob_gcs_kv *kv = next_kv(gather, at);
        /* Losses of two shards may have one key: it is what the next page begins behind. */
        bool same = count > 0 && by_key(&kvs[count - 1], kv) == 0;
        if (!same && (count >= gather->limit || ends_early(gather)))
            break;
        kvs[count++] = *kv;
        gather->parts[at].taken++;
    }
    struct mob_gcs_answer answer = {
        .status = MOB_OK, .kvs = kvs, .kv_count = count, .next = at != UINT32_MAX || ends_early(gather)};
    gather_end(gather, &answer);
    free(kvs);
}

static enum mob_status ask_list(struct mob_gcs *shard, const void *what, struct part *part)
{
    return mob_gcs_list(shard, what, on_part, part);
}

enum mob_status gather_list(
    struct mob_gcs *g, const struct mob_gcs_list *list, mob_gcs_done_fn *done, void *arg)
{
    struct gather *gather = gather_create(g, done, arg);
    if (gather == NULL)
        return MOB_NO_MEMORY;
    gather->ready = ready_list;
    gather->limit = list->limit == 0 || list->limit > MOB_GCS_ROWS_MAX ? MOB_GCS_ROWS_MAX : list->limit;
    return ask_all(gather, ask_list, list);
}

static const struct mob_gcs_incarnation *next_incarnation(const struct gather *gather, uint32_t shard)
{
    const struct mob_gcs_answer *a = answer_of(gather, shard);
    uint32_t taken = gather->parts[shard].taken;
    return taken < a->incarnation_count ? &a->incarnations[taken] : NULL;
}

static uint32_t first_incarnation(const struct gather *gather)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < gather->gcs->shard_count; i++) {
        const struct mob_gcs_incarnation *row = next_incarnation(gather, i);
        if (row != NULL && (first == UINT32_MAX || row->id < next_incarnation(gather, first)->id))
            first = i;
    }
    return first;
}

static void ready_incarnations(struct gather *gather)
{
    uint32_t count = 0, room = 0, at;
    for (uint32_t i = 0; i < gather->gcs->shard_count; i++)
        room += answer_of(gather, i)->incarnation_count;
    struct mob_gcs_incarnation *rows = malloc((room + 1u) * sizeof *rows);
    if (rows == NULL) {
        gather_fail(gather, MOB_NO_MEMORY);
        return;
    }
    while ((at = first_incarnation(gather)) != UINT32_MAX && !ends_early(gather)) {
        rows[count++] = *next_incarnation(gather, at);
        gather->parts[at].taken++;
    }
    bool more = at != UINT32_MAX || ends_early(gather);
    struct mob_gcs_answer answer = {.status = MOB_OK,
        .incarnations = rows,
        .incarnation_count = count,
        .next = more && count > 0 ? rows[count - 1].id : 0};
    gather_end(gather, &answer);
    free(rows);
}

static enum mob_status ask_incarnations(struct mob_gcs *shard, const void *what, struct part *part)
{
    return mob_gcs_incarnations(shard, *(const uint64_t *)what, on_part, part);
}

enum mob_status gather_incarnations(struct mob_gcs *g, uint64_t after, mob_gcs_done_fn *done, void *arg)
{
    struct gather *gather = gather_create(g, done, arg);
    if (gather == NULL)
        return MOB_NO_MEMORY;
    gather->ready = ready_incarnations;
    return ask_all(gather, ask_incarnations, &after);
}

/* ---- a new incarnation: where was its node before, and where are how many? ---- */

static void on_registered(void *arg, const struct mob_gcs_answer *answer)
{
    gather_end(arg, answer);
}

static void choose_home(struct gather *gather)
{
    if (!gather->placed)
        gather->shard = mob_home_with_fewest(gather->live, gather->gcs->shard_count);
}

static void on_known(void *arg, const struct mob_gcs_answer *answer)
{
    struct gather *gather = arg;
    struct mob_gcs *g = gather->gcs;
    enum mob_status status = answer->status;
    for (uint32_t i = 0; i < answer->incarnation_count; i++) {
        const struct mob_gcs_incarnation *row = &answer->incarnations[i];
        uint32_t home = mob_gcs_home_shard(g, row->id);
        gather->live[home] += row->state == MOB_GCS_LIVE;
        if (strcmp(row->name, gather->name) != 0)
            continue;
        gather->placed = true;
        gather->shard = home;
    }
    if (status == MOB_OK && answer->next != 0) {
        status = gather_incarnations(g, answer->next, on_known, gather);
    } else if (status == MOB_OK) {
        choose_home(gather);
        status = ops_register(
            g->shards[gather->shard], gather->name, gather->shard, g->shard_count, on_registered, gather);
    }
    if (status != MOB_OK)
        gather_fail(gather, status);
}

enum mob_status gather_register(struct mob_gcs *g, const char *name, mob_gcs_done_fn *done, void *arg)
{
    struct gather *gather = gather_create(g, done, arg);
    if (gather == NULL)
        return MOB_NO_MEMORY;
    memcpy(gather->name, name, strlen(name) + 1);
    enum mob_status status = gather_incarnations(g, 0, on_known, gather);
    if (status != MOB_OK)
        gather_free(gather);
    return status;
}

/* ---- one shard after the other ---- */

static enum mob_status ask_page(struct gather *gather);

/* Where reading goes on behind this page; 0: nowhere. */
static uint64_t position_behind(const struct gather *gather, const struct mob_gcs_answer *answer)
{
    uint32_t count = gather->gcs->shard_count;
    if (answer->next != 0)
        return mob_gcs_shard_position(count, gather->shard, answer->next);
    return gather->shard + 1 < count ? mob_gcs_shard_position(count, gather->shard + 1, 0) : 0;
}

static void give_page(struct gather *gather, const struct mob_gcs_answer *page)
{
    struct mob_gcs_answer answer = *page;
    struct mob_gcs_block_row *rows = malloc((page->block_count + 1u) * sizeof *rows);
    if (rows == NULL) {
        gather_fail(gather, MOB_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < page->block_count; i++) {
        rows[i] = page->blocks[i];
        rows[i].seq = mob_gcs_shard_position(gather->gcs->shard_count, gather->shard, rows[i].seq);
    }
    answer.blocks = rows;
    answer.next = position_behind(gather, page);
    gather_end(gather, &answer);
    free(rows);
}

static void on_page(void *arg, const struct mob_gcs_answer *page)
{
    struct gather *gather = arg;
    bool empty = page->block_count == 0 && page->group_count == 0 && page->next == 0;
    bool good = page->status == MOB_OK || page->status == MOB_NOT_FOUND;
    if (page->next & SHARD_MASK) /* 2^38 blocks in one shard */
        gather_fail(gather, MOB_TOO_LARGE);
    else if (!good)
        gather_fail(gather, page->status);
    else if (!empty || gather->shard + 1 == gather->gcs->shard_count)
        give_page(gather, page);
    else {
        gather->shard++;
        gather->get.position = 0;
        enum mob_status status = ask_page(gather);
        if (status != MOB_OK)
            gather_fail(gather, status);
    }
}

static enum mob_status ask_page(struct gather *gather)
{
    return read_groups(gather->gcs->shards[gather->shard], &gather->get, gather->groups, gather->group_count,
        on_page, gather);
}

enum mob_status gather_pages(struct mob_gcs *g, const struct mob_gcs_get *get,
    const struct mob_gcs_group_key *groups, uint32_t group_count, mob_gcs_done_fn *done, void *arg)
{
    uint64_t shard = (get->position & SHARD_MASK) >> MOB_GCS_POSITION_SHARD_SHIFT;
    if (shard > g->shard_count)
        return MOB_INVALID;
    struct gather *gather = gather_create(g, done, arg);
    if (gather == NULL)
        return MOB_NO_MEMORY;
    gather->get = *get;
    gather->group_count = group_count;
    if (group_count > 0)
        memcpy(gather->groups, groups, group_count * sizeof *groups);
    /* One that was counted back to before the first of them is the beginning. */
    gather->get.position = shard > 0 ? get->position & ~SHARD_MASK : 0;
    gather->shard = shard > 0 ? (uint32_t)shard - 1 : 0;
    enum mob_status status = ask_page(gather);
    if (status != MOB_OK)
        gather_free(gather);
    return status;
}
