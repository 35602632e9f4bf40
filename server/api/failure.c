#include "server/api/failure.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/failure_json.h"

static void write_text(struct mob_text *t, enum mob_status status, char *json, uint64_t length)
{
    if (status == MOB_OK) {
        mob_text_put(t, json, length);
        free(json);
    } else {
        t->failed = true;
    }
}

void mob_failure_write_completion(struct mob_text *t, const struct mob_completion *completion)
{
    struct mob_return_view ret;
    uint32_t at = 0;
    bool has_error = mob_completion_next(completion, &at, &ret) && ret.type == MOB_TYPE_ERROR;
    char *json = NULL;
    uint64_t length = 0;
    enum mob_status status = mob_failure_json_of(has_error ? ret.payload : NULL, has_error ? ret.size : 0,
        (enum mob_status)completion->head.status, completion->head.task, &json, &length);
    write_text(t, status, json, length);
}

void mob_failure_write_error(
    struct mob_text *t, const struct mob_engine_error *error, struct mob_task_id task)
{
    if (error->failure_json) {
        mob_text_puts(t, error->failure_json);
        return;
    }
    const char *words = error->detail ? error->detail : mob_status_text(error->status);
    struct mob_error_link link = {
        .status = error->status, .task = task, .message = words, .message_bytes = (uint32_t)strlen(words)};
    char *json = NULL;
    uint64_t length = 0;
    enum mob_status status = mob_failure_json(&link, 1, &json, &length);
    write_text(t, status, json, length);
}
