#include "common/wire/failure_json.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/json_text.h"

/* Each byte of an error value makes six at most, and the names of fields are few. */
#define FAILURE_JSON_MAX (6u * MOB_ERROR_BYTES_MAX + 256u * MOB_ERROR_LINKS_MAX)

static void open_link(struct json_out *o, const struct mob_error_link *link)
{
    char id[MOB_ID_TEXT_MAX];
    json_add_text(o, "{\"code\":\"");
    json_add_text(o, mob_status_code(link->status));
    json_add_text(o, "\",\"message\":");
    json_add_string(o, link->message, link->message_bytes);
    json_add_text(o, mob_status_retryable(link->status) ? ",\"retryable\":true" : ",\"retryable\":false");
    if (mob_task_id_is_zero(link->task)) {
        json_add_text(o, ",\"task\":null");
    } else {
        json_add_text(o, ",\"task\":\"");
        json_add_text(o, mob_task_id_format(link->task, id));
        json_add_text(o, "\"");
    }
    json_add_text(o, ",\"signal\":");
    json_add_i64(o, link->signal);
    json_add_text(o, ",\"log\":");
    json_add_string(o, link->detail, link->detail_bytes);
}

void json_add_failure(struct json_out *o, const struct mob_error_link *links, int count)
{
    MOB_ASSERT(count >= 1 && count <= MOB_ERROR_LINKS_MAX);
    for (int i = 0; i < count; i++) {
        if (i > 0)
            json_add_text(o, ",\"cause\":");
        open_link(o, &links[i]);
    }
    for (int i = 0; i < count; i++)
        json_add_text(o, "}");
}

enum mob_status mob_failure_json(
    const struct mob_error_link *links, int count, char **json_out, uint64_t *length_out)
{
    struct json_out o = {.most = FAILURE_JSON_MAX};
    json_add_failure(&o, links, count);
    if (o.status != MOB_OK) {
        free(o.bytes);
        return o.status;
    }
    *json_out = o.bytes;
    *length_out = o.used;
    return MOB_OK;
}

enum mob_status mob_failure_json_of(const void *payload, uint64_t bytes, enum mob_status status,
    struct mob_task_id task, char **json_out, uint64_t *length_out)
{
    struct mob_error_link links[MOB_ERROR_LINKS_MAX];
    int count = payload ? mob_error_decode(payload, bytes, links, MOB_ERROR_LINKS_MAX) : 0;
    if (count < 1) {
        const char *words = mob_status_text(status);
        links[0] = (struct mob_error_link){
            .status = status, .task = task, .message = words, .message_bytes = (uint32_t)strlen(words)};
        count = 1;
    }
    return mob_failure_json(links, count, json_out, length_out);
}
