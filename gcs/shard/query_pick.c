/* Which rows answer a query: from the tables and the index as they are now; what is not in memory is noted to
 * be fetched.
 */
#include "gcs/shard/query_inner.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/failpoint.h"

/* ---- rows ---- */

uint8_t *query_body_add(struct query *q, const void *bytes, size_t length)
{
    while (q->body_bytes + length > q->body_capacity) {
        q->body_capacity = q->body_capacity == 0 ? 4096 : q->body_capacity * 2;
        q->body = realloc(q->body, q->body_capacity);
        MOB_ASSERT(q->body != NULL);
    }
    uint8_t *at = q->body + q->body_bytes;
    if (bytes != NULL && length > 0)
        memcpy(at, bytes, length);
    q->body_bytes += length;
    return at;
}

static void fetch_add(struct query *q, const uint8_t *key, size_t key_length, const struct fetch *fetch)
{
    if (q->batch == NULL)
        q->batch = mob_redis_batch_create();
    mob_redis_command(q->batch, 2);
    mob_redis_arg(q->batch, "GET", 3);
    mob_redis_arg(q->batch, key, key_length);
    if (q->fetch_count == q->fetch_capacity) {
        q->fetch_capacity = q->fetch_capacity == 0 ? 64 : q->fetch_capacity * 2;
        q->fetches = realloc(q->fetches, q->fetch_capacity * sizeof *q->fetches);
        MOB_ASSERT(q->fetches != NULL);
    }
    q->fetches[q->fetch_count++] = *fetch;
}

static void row_block(struct query *q, const struct mob_index_slot *slot)
{
    struct mob_gcs_block_row row = {
        .seq = slot->seq, .incarnation = slot->incarnation, .number = slot->number, .length = slot->length};
    mob_gcs_block_row_encode(&row, query_body_add(q, NULL, MOB_GCS_BLOCK_ROW_HEAD));
    const struct mob_chain_entry *kept = mob_chain_kept(q->shard->chain, slot->seq);
    if (kept != NULL) {
        query_body_add(q, kept->body, kept->body_bytes);
    } else {
        uint8_t key[9];
        mob_redis_key(key, 'b', slot->seq);
        struct fetch fetch = {q->body_bytes, slot->length, sizeof(struct mob_redis_block), 0};
        query_body_add(q, NULL, slot->length);
        fetch_add(q, key, sizeof key, &fetch);
    }
    q->rows.count++;
}

static void row_key_alone(struct query *q, const struct mob_state_key *k)
{
    struct mob_gcs_kv kv = {.key_length = k->length - 1, .version = k->version};
    mob_gcs_kv_row_encode(&kv, query_body_add(q, NULL, MOB_GCS_KV_ROW_HEAD));
    query_body_add(q, k->bytes + 1, k->length - 1);
    q->rows.count++;
}

static void row_key(struct query *q, const struct mob_state_key *k)
{
    struct mob_gcs_kv kv = {
        .key_length = k->length - 1, .value_length = k->value_length, .version = k->version};
    mob_gcs_kv_row_encode(&kv, query_body_add(q, NULL, MOB_GCS_KV_ROW_HEAD));
    query_body_add(q, k->bytes + 1, k->length - 1);
    const struct mob_chain_entry *kept =
        k->value == NULL ? mob_chain_kept(q->shard->chain, mob_chain_version_seq(k->version)) : NULL;
    if (k->value != NULL) {
        query_body_add(q, k->value, k->value_length);
    } else if (kept != NULL && kept->version == k->version) {
        query_body_add(q, kept->body + kept->key_length, k->value_length);
    } else {
        uint8_t key[MOB_REDIS_KEY_MAX];
        key[0] = 'k';
        memcpy(key + 1, k->bytes, k->length);
        struct fetch fetch = {q->body_bytes, k->value_length, sizeof k->version, k->version};
        query_body_add(q, NULL, k->value_length);
        fetch_add(q, key, k->length + 1u, &fetch);
    }
    q->rows.count++;
}

static bool page_full(const struct query *q)
{
    uint32_t limit = q->get.limit == 0 || q->get.limit > MOB_GCS_ROWS_MAX ? MOB_GCS_ROWS_MAX : q->get.limit;
    return q->rows.count >= limit || q->body_bytes >= PAGE_BYTES;
}

/* ---- the queries ---- */

static void pick_get(struct query *q)
{
    struct mob_state_key k;
    bool good = q->argument_bytes > 0 && q->argument_bytes <= MOB_GCS_KEY_MAX;
    q->rows.status = good ? MOB_NOT_FOUND : MOB_INVALID;
    q->rows.kind = MOB_GCS_ROWS_KV;
    if (!good || !mob_state_get(q->shard->state, q->get.table, q->argument, q->argument_bytes, &k))
        return;
    q->rows.status = MOB_OK;
    row_key(q, &k);
}

static void pick_list(struct query *q)
{
    uint32_t prefix = q->get.prefix_length;
    q->rows.kind = MOB_GCS_ROWS_KV;
    if (prefix > q->argument_bytes || prefix > MOB_GCS_KEY_MAX ||
        q->argument_bytes - prefix > MOB_GCS_KEY_MAX) {
        q->rows.status = MOB_INVALID;
        return;
    }
    uint8_t after[MOB_GCS_KEY_MAX];
    uint32_t after_length = q->argument_bytes - prefix;
    memcpy(after, q->argument + prefix, after_length);
    struct mob_state_key k;
    while (mob_state_next(q->shard->state, q->get.table, q->argument, prefix, after, after_length, &k)) {
        if (page_full(q)) {
            q->rows.next = 1;
            return;
        }
        if (q->get.newest_first)
            row_key_alone(q, &k);
        else
            row_key(q, &k);
        after_length = k.length - 1;
        memcpy(after, k.bytes + 1, after_length);
    }
}

uint32_t query_ordinal_before(const struct query *q)
{
    uint32_t above = q->get.position == 0 ? 0 : mob_index_after(q->shard->index, q->get.position);
    return above > 0 ? above - 1 : MOB_INDEX_NONE;
}

static void pick_group(struct query *q)
{
    const struct mob_index *ix = q->shard->index;
    uint32_t ordinals[256], after = query_ordinal_before(q);
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    for (;;) {
        size_t n = mob_index_group(ix, q->get.stream, q->get.group, after, ordinals, 256);
        for (size_t i = 0; i < n; i++) {
            if (page_full(q))
                return;
            const struct mob_index_slot *slot = mob_index_slot(ix, ordinals[i]);
            row_block(q, slot);
            q->rows.next = slot->seq;
            after = ordinals[i];
        }
        if (n < 256)
            break;
    }
    q->rows.next = 0;
}

static int by_ordinal(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Of each group no more than a page takes, since no page has more of any. */
static void pick_groups(struct query *q)
{
    const struct mob_index *ix = q->shard->index;
    uint32_t keys = q->argument_bytes / (uint32_t)sizeof(struct mob_gcs_group_key),
             after = query_ordinal_before(q);
    size_t count = 0;
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    if (q->argument_bytes % sizeof(struct mob_gcs_group_key) != 0 || keys == 0 || keys > MOB_GCS_GROUPS_MAX) {
        q->rows.status = MOB_INVALID;
        return;
    }
    uint32_t *ordinals = malloc(keys * (MOB_GCS_ROWS_MAX + 1) * sizeof *ordinals);
    MOB_ASSERT(ordinals != NULL);
    for (uint32_t i = 0; i < keys; i++) {
        struct mob_gcs_group_key key;
        memcpy(&key, q->argument + i * sizeof key, sizeof key);
        count += mob_index_group(ix, key.stream, key.group, after, ordinals + count, MOB_GCS_ROWS_MAX + 1);
    }
    qsort(ordinals, count, sizeof *ordinals, by_ordinal);
    size_t i = 0;
    for (; i < count && !page_full(q); i++) {
        const struct mob_index_slot *slot = mob_index_slot(ix, ordinals[i]);
        if (i > 0 && ordinals[i] == ordinals[i - 1])
            continue;
        row_block(q, slot);
        q->rows.next = slot->seq;
    }
    while (i > 0 && i < count && ordinals[i] == ordinals[i - 1])
        i++;
    if (i == count)
        q->rows.next = 0;
    free(ordinals);
}

static bool scan_wants(const struct query *q, const struct mob_index_slot *slot)
{
    const struct mob_gcs_get *g = &q->get;
    const struct mob_function_id any_function = {0};
    const struct mob_job_id any_job = {0};
    if (g->failed && slot->failed == 0)
        return false;
    /* The spec of what failed may be in another block. */
    if (!g->failed && memcmp(&g->function, &any_function, sizeof any_function) != 0) {
        uint64_t bits = mob_index_function_bits(g->function);
        if ((slot->functions & bits) != bits)
            return false;
    }
    if ((g->from_wall_ns != 0 || g->to_wall_ns != 0) &&
        (slot->time_max_ns < g->from_wall_ns || slot->time_min_ns >= g->to_wall_ns))
        return false;
    if (memcmp(&g->job, &any_job, sizeof any_job) == 0)
        return true;
    struct mob_job_id job = mob_index_job(q->shard->index, slot);
    return mob_stream_eq(job.root, g->job.root);
}

/* What was dropped is told before a page's first block. */
static void pick_history(struct query *q)
{
    const struct mob_index *ix = q->shard->index;
    struct mob_index_lookout lookout = {.above = q->get.position,
        .flushed = q->shard->flushed.applied > 0,
        .by_job = !mob_stream_eq(q->get.job.root, (struct mob_stream){{0}}),
        .job = q->get.job};
    uint32_t at = q->get.position == 0 ? 0 : mob_index_after(ix, q->get.position), end = mob_index_end(ix);
    bool gone = false;
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    for (; at < end; at++) {
        const struct mob_index_slot *slot = mob_index_slot(ix, at);
        gone |= mob_index_is_gone(ix, at, &lookout);
        if (slot == NULL || !scan_wants(q, slot))
            continue;
        if (page_full(q) || (gone && q->rows.count > 0))
            return;
        q->rows.tie |= gone;
        gone = false;
        row_block(q, slot);
        q->rows.next = lookout.above = slot->seq;
    }
    if (gone && q->rows.count > 0)
        return;
    q->rows.tie |= gone;
    q->rows.next = 0;
}

static void pick_scan(struct query *q)
{
    const struct mob_index *ix = q->shard->index;
    uint32_t end = mob_index_end(ix);
    bool down = q->get.newest_first;
    uint32_t at = q->get.position == 0 ? (down ? end : 0)
        : down                         ? mob_index_after(ix, q->get.position - 1)
                                       : mob_index_after(ix, q->get.position);
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    while (down ? at > 0 : at < end) {
        const struct mob_index_slot *slot = mob_index_slot(ix, down ? --at : at++);
        if (slot == NULL || !scan_wants(q, slot))
            continue;
        if (page_full(q))
            return;
        row_block(q, slot);
        q->rows.next = slot->seq;
    }
    q->rows.next = down ? query_cold_start(q->shard) : 0;
}

/* Behind the blocks: the groups that flushed blocks leave unfinished, which hold what is not here. */
static void pick_cold_groups(struct query *q)
{
    struct mob_shard *sh = q->shard;
    uint64_t at = q->get.position & ~MOB_GCS_COLD_BIT;
    if (at == 0 || sh->cold_groups == NULL) {
        free(sh->cold_groups);
        sh->cold_groups = mob_index_cold_groups(sh->index, true, &sh->cold_group_count);
    }
    q->rows.kind = MOB_GCS_ROWS_GROUPS;
    for (; at < sh->cold_group_count && !page_full(q); at++) {
        query_body_add(q, &sh->cold_groups[at], sizeof sh->cold_groups[at]);
        q->rows.count++;
    }
    q->rows.next = at < sh->cold_group_count ? MOB_GCS_COLD_BIT | at : 0;
}

static void pick_unfinished(struct query *q)
{
    struct mob_shard *sh = q->shard;
    if ((q->get.position & MOB_GCS_COLD_BIT) != 0) {
        pick_cold_groups(q);
        return;
    }
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    if (q->get.position == 0 || sh->unfinished_of != q->get.incarnation || sh->unfinished == NULL) {
        free(sh->unfinished);
        sh->unfinished = mob_index_unfinished(sh->index, q->get.incarnation, &sh->unfinished_count);
        sh->unfinished_of = q->get.incarnation;
    }
    for (size_t i = 0; i < sh->unfinished_count; i++) {
        const struct mob_index_slot *slot = mob_index_slot(sh->index, sh->unfinished[i]);
        if (slot == NULL || slot->seq <= q->get.position)
            continue;
        if (page_full(q))
            return;
        row_block(q, slot);
        q->rows.next = slot->seq;
    }
    q->rows.next = sh->flushed.applied > 0 ? MOB_GCS_COLD_BIT : 0;
    free(sh->unfinished); /* read to its end */
    sh->unfinished = NULL;
}

static void pick_log(struct query *q)
{
    const struct mob_index *ix = q->shard->index;
    uint64_t number = q->get.position;
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    if (mob_state_incarnation(q->shard->state, q->get.incarnation) == NULL)
        q->rows.status = MOB_NOT_FOUND;
    for (;;) {
        uint32_t ordinal = mob_index_log_next(ix, q->get.incarnation, number);
        if (ordinal == MOB_INDEX_NONE)
            break;
        if (page_full(q)) {
            q->rows.next = number;
            return;
        }
        const struct mob_index_slot *slot = mob_index_slot(ix, ordinal);
        row_block(q, slot);
        number = slot->number + 1;
    }
}

static void pick_incarnations(struct query *q)
{
    uint64_t after = q->get.incarnation;
    q->rows.kind = MOB_GCS_ROWS_INCARNATIONS;
    const struct mob_gcs_incarnation *row;
    while ((row = mob_state_incarnation_next(q->shard->state, after)) != NULL) {
        if (page_full(q)) {
            q->rows.next = after;
            return;
        }
        query_body_add(q, row, sizeof *row);
        q->rows.count++;
        after = row->id;
    }
}

static const char *store_trouble(const struct mob_shard *sh)
{
    if (sh->store.refuses)
        return "refuses";
    if (sh->store.link == NULL)
        return "away";
    return sh->durable.cannot_write ? "cannot-write" : "ok";
}

static void pick_heartbeats(const struct mob_shard *sh, struct mob_gcs_stats *s)
{
    if (sh->member.beat == NULL)
        return;
    s->lease_ms = (uint64_t)(sh->options.chain->lease_ns / MOB_MS);
    s->suspicion_ms = (uint64_t)(sh->options.chain->suspicion_ns / MOB_MS);
    s->realtime = mob_beat_realtime(sh->member.beat);
}

static void pick_join(const struct mob_shard *sh, struct mob_gcs_stats *s)
{
    uint64_t lag;
    int64_t now_ns = mob_now(), paced_ns = sh->paced_ns;
    (void)mob_chain_join(sh->chain, &s->joiner, &lag);
    if (sh->paced_since_ns != 0)
        paced_ns += now_ns - sh->paced_since_ns;
    s->paced_ms = (uint64_t)(paced_ns / MOB_MS);
}

static void pick_stats(struct query *q)
{
    struct mob_shard *sh = q->shard;
    struct mob_index_figures f;
    mob_index_figures(sh->index, &f);
    struct mob_state_key k;
    uint64_t losses = 0;
    for (uint8_t key[8] = {0};
         mob_state_next(sh->state, MOB_GCS_LOSSES, NULL, 0, key, losses == 0 ? 0 : 8, &k); losses++)
        memcpy(key, k.bytes + 1, 8);
    struct mob_gcs_stats s = {.epoch = mob_chain_epoch(sh->chain),
        .applied = mob_chain_applied(sh->chain),
        .committed = mob_chain_committed(sh->chain),
        .durable = mob_chain_durable(sh->chain),
        .durability = sh->options.durability,
        .blocks = f.blocks,
        .block_bytes = f.block_bytes,
        .groups = f.groups,
        .incarnations = mob_state_incarnations(sh->state),
        .jobs = f.jobs,
        .keys = mob_state_keys(sh->state),
        .clients = mob_chain_clients(sh->chain),
        .subscribers = sh->sub_count,
        .redis_bytes = sh->store.used_memory,
        .member_bytes = shard_own_bytes(sh),
        .soft_bytes = sh->options.soft_bytes,
        .hard_bytes = sh->options.hard_bytes,
        .appends = sh->appends,
        .append_bytes = sh->append_bytes,
        .puts = sh->puts,
        .reads = sh->reads,
        .duplicates = mob_chain_duplicates(sh->chain),
        .syncs = sh->durable.syncs,
        .rewrites = sh->durable.rewrites,
        .redis_restarts = sh->store.restarts,
        .losses = losses,
        .aof_bytes = sh->durable.aof_bytes,
        .collecting = mob_chain_collecting(sh->chain),
        .flushed = sh->flushed.applied,
        .flushed_blocks = sh->flushed.blocks,
        .cold_groups = f.cold_groups,
        .cold_reads = sh->cold_reads,
        .cold_readers = sh->cold_reader != NULL,
        .history_digest = mob_chain_digest(sh->chain),
        .state_digest = mob_chain_state_digest(sh->chain),
        .self = sh->member.self.id,
        .state_ms = (uint64_t)((mob_now() - sh->state_ns) / MOB_MS),
        .newest_block = mob_index_newest(sh->index),
        .watermark_known = sh->watermark_known,
        .watermark = sh->watermark,
        .marks = mob_chain_marks(sh->chain, NULL),
        .database_known = sh->database_known,
        .database = sh->database};
    if (s.newest_block < s.flushed)
        s.newest_block = s.flushed;
    snprintf(s.state, sizeof s.state, "%s", mob_chain_state_name(mob_chain_state(sh->chain)));
    snprintf(s.store, sizeof s.store, "%s", store_trouble(sh));
    pick_heartbeats(sh, &s);
    pick_join(sh, &s);
    s.tells_index = 1;
    if (MOB_FAILPOINT("gcs.says_it_joins")) {
        snprintf(s.state, sizeof s.state, "%s", mob_chain_state_name(MOB_CHAIN_JOINING));
        s.marks = 0;
    }
    q->rows.kind = MOB_GCS_ROWS_STATS;
    q->rows.count = 1;
    query_body_add(q, &s, sizeof s);
}

static void pick_marks(struct query *q)
{
    static struct mob_gcs_mark marks[MOB_GCS_MARKS_MAX]; /* too large for the stack; the loop's thread */
    _Static_assert(MOB_CHAIN_MARKS_MAX <= MOB_GCS_MARKS_MAX, "they go into one answer");
    size_t count = mob_chain_marks(q->shard->chain, marks);
    q->rows.kind = MOB_GCS_ROWS_MARKS;
    q->rows.count = (uint32_t)count;
    query_body_add(q, marks, count * sizeof marks[0]);
}

void query_pick(struct query *q)
{
    if (q->rows.count > 0) /* flushed ones, and the page may be full of them */
        q->rows.next = q->get.position;
    switch ((enum mob_gcs_query)q->get.query) {
    case MOB_GCS_Q_GET:
        pick_get(q);
        return;
    case MOB_GCS_Q_LIST:
        pick_list(q);
        return;
    case MOB_GCS_Q_GROUP:
        pick_group(q);
        return;
    case MOB_GCS_Q_GROUPS:
        pick_groups(q);
        return;
    case MOB_GCS_Q_SCAN:
        pick_scan(q);
        return;
    case MOB_GCS_Q_HISTORY:
        pick_history(q);
        return;
    case MOB_GCS_Q_UNFINISHED:
        pick_unfinished(q);
        return;
    case MOB_GCS_Q_LOG:
        pick_log(q);
        return;
    case MOB_GCS_Q_INCARNATIONS:
        pick_incarnations(q);
        return;
    case MOB_GCS_Q_STATS:
        pick_stats(q);
        return;
    case MOB_GCS_Q_MARKS:
        pick_marks(q);
        return;
    case MOB_GCS_Q_INDEX:
        query_pick_index(q);
        return;
    case MOB_GCS_QUERIES:
    default:
        q->rows.status = MOB_INVALID;
        return;
    }
}
