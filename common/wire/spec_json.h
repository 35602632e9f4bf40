/* What a submission asked for, as JSON: the options of a spec under the names that they have in requests
 * (api/openapi.yaml). For all who show a task or an actor: the gateway from the log, the node from its
 * tables. Pure, thread-safe.
 */
#ifndef MOB_COMMON_WIRE_SPEC_JSON_H
#define MOB_COMMON_WIRE_SPEC_JSON_H

#include "common/wire/spec.h"

/* {"priority":0,"resources":{"CPU":1},...}, NUL-terminated, which the caller frees with free(). Which members
 * it has depends on the kind: a call has no resources, an actor restarts instead of retrying. Times are
 * microseconds since 1970. What was not asked for, and has no default of its own, is left out; there is at
 * least one member. MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_spec_options_json(
    const struct mob_spec_head *head, const uint8_t *checked_tail, char **json_out, uint64_t *length_out);

#endif
