/* A task's row in a list, as JSON: what its spec says, and what its end adds. Pure.
 */
#ifndef MOB_SERVER_API_TASK_ROW_H
#define MOB_SERVER_API_TASK_ROW_H

#include <jansson.h>

#include "common/wire/record.h"
#include "common/wire/spec.h"

/* `function` is the full name, "" when it is not known; `checked_tail` the spec's, as decoded. Gives. */
json_t *task_row(const char *function, const struct mob_spec_head *head, const uint8_t *checked_tail,
    struct mob_job_id job, int64_t submitted_us);

struct task_row_end {
    enum mob_status status;
    uint32_t worker, attempt;
    int64_t started_us, finished_us; /* since 1970 */
};
/* Of a task without an end; `live` is the node's word. */
void task_row_live(json_t *row, const struct mob_live_task *live);
void task_row_end(json_t *row, const struct task_row_end *end);

#endif
