/* Where masters agree: one row {term, beat}, the configurations of each shard, the homes of nodes and the
 * logs of their incarnations. All change by compare-and-set only. In PostgreSQL (migrations/0002_chain.sql,
 * 0004_nodes.sql), or, for one machine without it, in files that are locked for each change.
 *
 * Calls may block for as long as the database does, so they are made by a thread of their own: one question
 * at a time, asked by the owner, answered when mob_table_fd() is readable. One owner.
 */
#ifndef MOB_GCS_MASTER_TABLE_H
#define MOB_GCS_MASTER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "gcs/chain/membership.h"
#include "gcs/chain/node_watch.h"

enum mob_table_op {
    MOB_TABLE_ROW = 1, /* read {term, beat} */
    MOB_TABLE_SET_ROW, /* `old_row` becomes `row` */
    MOB_TABLE_NEWEST, /* read the newest configuration */
    MOB_TABLE_INSERT, /* `config`, if its epoch is above all others and its term is the row's */
    MOB_TABLE_LOGS, /* read the logs of nodes whose home is this shard: the newest, and all that live */
    MOB_TABLE_SET_LOG, /* `log`, where its state is `old_state` (0: it is not there), if row.term is the row's
                        */
    MOB_TABLE_WATERMARK, /* read how far the database has the chain's blocks */
    MOB_TABLE_HOME /* where the node `log.node` has its home; a new one where the fewest have theirs */
};
struct mob_table_question {
    enum mob_table_op op;
    uint64_t tag; /* comes back */
    struct mob_master_row old_row, row;
    struct mob_gcs_config config;
    struct mob_node_log log;
    uint32_t old_state;
    uint32_t shards; /* HOME: how many there are */
};
/* MOB_OK; MOB_CONFLICT: somebody else was first; anything else: unknown. */
struct mob_table_answer {
    enum mob_table_op op;
    uint64_t tag;
    enum mob_status status;
    struct mob_master_row row;
    struct mob_gcs_config config; /* epoch 0: there is none */
    uint64_t watermark; /* 0: there is no database, or nothing in it */
    uint32_t home;
    uint32_t log_count;
    struct mob_node_log *logs; /* LOGS: the taker's, free() it; else NULL */
};

struct mob_table_options {
    uint32_t shard;
    const char *postgres; /* folder of the server's socket; or NULL */
    const char *file; /* path; or NULL */
};
struct mob_table;
/* Keeps the strings. Gives (destroy). MOB_IO, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_table_create(
    const struct mob_table_options *options, struct mob_table **table_out);
/* Waits for the question under way, but no longer than MOB_TABLE_STOP_NS: PostgreSQL may hang. Then its
 * thread, the table and the strings live until the process ends. */
#define MOB_TABLE_STOP_NS (300 * 1000000ll)
void mob_table_destroy(struct mob_table *table);
int mob_table_fd(const struct mob_table *table);
/* Up to MOB_TABLE_QUESTIONS_MAX wait behind each other; false: that many do. */
#define MOB_TABLE_QUESTIONS_MAX 8u
bool mob_table_ask(struct mob_table *table, const struct mob_table_question *question);
/* False: none yet. */
bool mob_table_answer(struct mob_table *table, struct mob_table_answer *answer_out);

#endif
