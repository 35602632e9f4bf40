/* A failure as JSON, in the one form in which it is told anywhere: by the C API, in answers of the gateway,
 * in events and in the timeline.
 *
 *   {"code":"dependency-failed","message":"...","retryable":false,"task":"task_...","signal":0,"log":"",
 *    "cause":{"code":"worker-died",...}}
 *
 * `task` is null when no task is known, `signal` 0 unless a worker died of one, `log` what was written last,
 * and `cause` is there when another failure led to this one: the chain of them, newest first.
 */
#ifndef MOB_COMMON_WIRE_FAILURE_JSON_H
#define MOB_COMMON_WIRE_FAILURE_JSON_H

#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/completion.h"

struct json_out;
/* At least one link. */
void json_add_failure(struct json_out *o, const struct mob_error_link *links, int count);

/* NUL-terminated text that the caller frees with free(). MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_failure_json(
    const struct mob_error_link *links, int count, char **json_out, uint64_t *length_out);
/* Of an error value's payload; of one that cannot be read, or of none (NULL), `status` and its words. */
MOB_MUST_USE enum mob_status mob_failure_json_of(const void *payload, uint64_t bytes, enum mob_status status,
    struct mob_task_id task, char **json_out, uint64_t *length_out);

#endif
