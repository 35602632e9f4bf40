/* Failures of tasks in answers, all in the one form of common/wire/failure_json.h. What a request itself did
 * wrong is a problem (problem.h), which has the failure that it tells of as its `cause`.
 */
#ifndef MOB_SERVER_API_FAILURE_H
#define MOB_SERVER_API_FAILURE_H

#include "common/wire/completion.h"
#include "server/api/engine.h"
#include "server/http/text.h"

/* Why a completion is not one of success. */
void mob_failure_write_completion(struct mob_text *t, const struct mob_completion *completion);
/* Of an operation that ended with the failure of `task`, or of what it returned. */
void mob_failure_write_error(
    struct mob_text *t, const struct mob_engine_error *error, struct mob_task_id task);

#endif
