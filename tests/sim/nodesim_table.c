/* The table where the masters of nodesim agree: each shard has its row {term, beat} and its logs of nodes in
 * it, and all share the homes. */
#include "tests/sim/nodesim.h"

static struct mob_node_log *row_in(struct shard *s, uint64_t incarnation)
{
    for (uint32_t i = 0; i < s->table_count; i++)
        if (s->table[i].incarnation == incarnation)
            return &s->table[i];
    return NULL;
}

struct mob_node_log *nodesim_table_row(uint64_t incarnation)
{
    struct mob_node_log *row = NULL;
    for (uint32_t i = 0; i < world.shards && row == NULL; i++)
        row = row_in(&world.shard[i], incarnation);
    return row;
}

/* The table has an index that keeps two incarnations of a node from being live: an insert that comes late, of
 * a start that was given up since, meets the next one's there. */
static bool another_lives(const struct shard *s, const struct mob_node_log *log)
{
    for (uint32_t i = 0; i < s->table_count && world.without != NODESIM_RULE_INDEX; i++)
        if (s->table[i].state != MOB_NODE_LOG_SEALED && strcmp(s->table[i].node, log->node) == 0)
            return true;
    return false;
}

static void check_noted(const struct event *e, const struct mob_node_log *row)
{
    uint32_t home = nodesim_home(row->incarnation);
    struct shard *s = &world.shard[home];
    const struct chain_log *log = s->up ? nodesim_chain_log(&s->chain, row->incarnation) : NULL;
    /* Fewer: blocks were lost with everything, and named. */
    if (row->state == MOB_NODE_LOG_SEALED && log != NULL && (log->live || log->blocks > row->cut))
        nodesim_fail("the cut of log %llu is recorded as %llu, and it has %llu blocks and is %s",
            (unsigned long long)row->incarnation, (unsigned long long)row->cut,
            (unsigned long long)log->blocks, log->live ? "live" : "sealed");
    if (row->state == MOB_NODE_LOG_SEALED && e->shard != home)
        nodesim_fail("a master of shard %u has log %llu, whose home is shard %u, recorded as sealed",
            e->shard, (unsigned long long)row->incarnation, home);
}

static enum mob_status note(const struct event *e)
{
    struct shard *s = &world.shard[e->shard];
    bool any = world.without == NODESIM_RULE_HOME_WATCH;
    struct mob_node_log *row = any ? nodesim_table_row(e->log.incarnation) : row_in(s, e->log.incarnation);
    uint32_t state = row == NULL ? MOB_NODE_LOG_NONE : row->state;
    bool mine = e->row.term == s->row.term && state == e->old_state;
    if (!mine || (row == NULL && another_lives(s, &e->log))) {
        nodesim_count(NODESIM_NOTES_REFUSED);
        if (mine)
            nodesim_count(NODESIM_NOTES_ANOTHER);
        return MOB_CONFLICT;
    }
    nodesim_count((enum nodesim_cover)(NODESIM_NONE_LIVE + state));
    if (row == NULL)
        row = &s->table[s->table_count++];
    *row = e->log;
    TRACE("table: incarnation %llu of %s is in state %u, cut %llu, says shard %u",
        (unsigned long long)row->incarnation, row->node, row->state, (unsigned long long)row->cut, e->shard);
    check_noted(e, row);
    return MOB_OK;
}

/* Where a node is at home; a new one where the fewest are. */
static enum mob_status home_of(const struct event *e, uint64_t *home_out)
{
    uint32_t *home = &world.homes[e->log.node[0] - 'a'];
    uint64_t counts[SHARDS_MAX] = {0};
    if (*home == 0 || world.without == NODESIM_RULE_HOME_KEPT) {
        if (e->row.term != world.shard[e->shard].row.term)
            return MOB_CONFLICT;
        for (uint32_t i = 0; i < world.nodes; i++)
            if (world.homes[i] != 0)
                counts[world.homes[i] - 1]++;
        *home = mob_home_with_fewest(counts, world.shards) + 1;
        nodesim_count(NODESIM_HOMES_MADE);
    }
    *home_out = *home - 1;
    return MOB_OK;
}

static void read_logs(const struct event *e, struct event *answer)
{
    struct event all = {.count = 0};
    struct mob_node_log rows[SHARDS_MAX * LOGS_MAX];
    bool any = world.without == NODESIM_RULE_HOME_WATCH;
    for (uint32_t i = 0; i < world.shards; i++)
        for (uint32_t k = 0; k < world.shard[i].table_count && (any || i == e->shard); k++)
            rows[all.count++] = world.shard[i].table[k];
    all.logs = rows;
    answer->count = all.count;
    answer->logs = nodesim_copy_of(&all);
}

void nodesim_at_table(struct event *e)
{
    struct shard *s = &world.shard[e->shard];
    struct event answer = {.what = AT_MASTER_TABLE,
        .shard = e->shard,
        .to = e->from,
        .op = e->op,
        .tag = e->tag,
        .status = MOB_OK};
    nodesim_count((enum nodesim_cover)(NODESIM_ASKED_ROW + (e->op - TABLE_ROW)));
    if (e->op == TABLE_SET_ROW) {
        if (memcmp(&s->row, &e->old_row, sizeof s->row) == 0)
            s->row = e->row;
        else
            answer.status = MOB_CONFLICT;
    } else if (e->op == TABLE_LOGS) {
        read_logs(e, &answer);
    } else if (e->op == TABLE_NOTE) {
        answer.status = note(e);
    } else if (e->op == TABLE_HOME) {
        answer.status = home_of(e, &answer.b);
    }
    answer.row = s->row;
    nodesim_send_event(answer, true);
} // NOLINT(clang-analyzer-unix.Malloc): the queue owns the copies now
