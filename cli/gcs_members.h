/* The members of a chain of the cluster, each asked by itself: `mobula gcs status` and `verify`. One thread.
 */
#ifndef MOB_CLI_GCS_MEMBERS_H
#define MOB_CLI_GCS_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd_gcs.h"
#include "gcs/client/member_link.h"

/* Of g->shard; how many there are. The names point into `out`. */
uint32_t gcs_member_places(const struct gcs_call *g, struct mob_member_place out[STATE_REPLICAS_MAX]);
/* All but the path. `secret` must outlive the options. False after a message. */
bool gcs_member_options(
    const struct gcs_call *g, uint8_t secret[STATE_SECRET_BYTES], struct mob_member_options *out);
/* Lone members that do not serve, because their Redis has lost what it had or the note of that is of another
 * version: says of each what there was and what to do. False when there is none. */
bool gcs_say_refusals(const struct cli_call *call);

#endif
