/* Reading flushed lineage back from PostgreSQL: what a member asks its cold reader (struct mob_gcs_cold_get).
 *
 * Groups go through the table of streams to the day's partition and its ranges of ids; scans go along the
 * batches; scans for failures go along the index of failures, and give of each task only its own entries. One
 * thread; blocks. A page takes about a millisecond for a group, and is given up (with the position to go on
 * from) after COLD_SCAN_NS for a scan that finds little.
 */
#ifndef MOB_GCS_FLUSH_COLD_H
#define MOB_GCS_FLUSH_COLD_H

#include "gcs/client/client.h"
#include "gcs/flush/database.h"

struct mob_cold;
/* NULL when out of memory. */
struct mob_cold *mob_cold_create(uint32_t shard);
void mob_cold_destroy(struct mob_cold *c);
/* Always fills in an answer, with blocks that are valid until the next read. What it returns is why the
 * status in it is what it is: MOB_UNAVAILABLE = connect again. */
enum mob_status mob_cold_read(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *query, struct mob_gcs_cold_answer *answer_out);
/* The same for MOB_GCS_Q_GROUPS, which is of these groups (copied; at most MOB_GCS_GROUPS_MAX). */
MOB_MUST_USE enum mob_status mob_cold_read_groups(struct mob_cold *c, struct mob_database *db,
    const struct mob_gcs_cold_get *query, const struct mob_gcs_group_key *groups, uint32_t count,
    struct mob_gcs_cold_answer *answer_out);
/* The function of a task whose spec was flushed. MOB_NOT_FOUND. Inside of a transaction it sees what that has
 * inserted. */
MOB_MUST_USE enum mob_status mob_cold_function(
    struct mob_cold *c, struct mob_database *db, struct mob_task_id task, struct mob_function_id *out);
/* No day: what living actors need of days that are gone (kept.h). Scans and history stop before it. */
#define MOB_COLD_DAY_KEPT 2000000
/* The name of a day's partition, as "bucket_d20000". */
#define MOB_COLD_TABLE_MAX 48
const char *mob_cold_table(char out[MOB_COLD_TABLE_MAX], const char *parent, int32_t day);

#endif
