/* `mobula gcs`: what its parts share. One thread. */
#ifndef MOB_CLI_CMD_GCS_H
#define MOB_CLI_CMD_GCS_H

#include <stdint.h>

#include "cli/cli.h"
#include "cli/state_dir.h"
#include "gcs/client/client_sync.h"
#include "gcs/flush/database.h"

#define GCS_ANSWER_NS (20000000000ll) /* one read */

struct gcs_call {
    struct cli_call *call;
    struct mob_gcs *gcs; /* of one shard; `dump`: of all */
    uint32_t shard, shards; /* which, and how many there are */
    bool gone; /* it did not answer in time; its answer may still come, so nothing is asked any more */
    struct mob_database *db; /* NULL: no PostgreSQL runs there */
};
/* Waits for the operation that was just submitted with mob_gcs_sync_done and a zeroed `sync`. NULL after a
 * message; else destroy it. */
struct mob_gcs_result *gcs_wait(struct gcs_call *g, enum mob_status submitted, struct mob_gcs_sync *sync);
bool gcs_stats(struct gcs_call *g, struct mob_gcs_stats *out);
/* First column of the first row; 0 when there is none. */
int64_t gcs_number(struct gcs_call *g, const char *sql);
int64_t gcs_shard_number(struct gcs_call *g, const char *sql); /* the same; $1 is the shard */

enum cli_exit gcs_status(struct gcs_call *g);
enum cli_exit gcs_verify(struct gcs_call *g);
enum cli_exit gcs_dump(struct gcs_call *g, const char *id);

#endif
