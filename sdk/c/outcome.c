/* Logged nondeterminism of the API inside a task: what a replay must see again. The position is the sequence
 * number. */
#include "sdk/c/call.h"

#include <stdlib.h>

bool mob_outcome_replay(
    struct mob_client *client, enum mob_outcome_kind kind, void *payload, uint32_t bytes, uint32_t *bytes_out)
{
    struct mob_call *call = client->call;
    if (call == NULL || call->outcomes == NULL)
        return false;
    struct mob_logged_outcome *logged = call->outcomes;
    if (logged->head.sequence != call->sequence || logged->head.kind != kind) {
        mob_call_fail(call, MOB_REPLAY_DIVERGED,
            "the first run asked for outcome %u of kind %u here, this run for %u of kind %u",
            logged->head.sequence, logged->head.kind, call->sequence, (unsigned)kind);
        return false;
    }
    *bytes_out = logged->head.payload_bytes < bytes ? logged->head.payload_bytes : bytes;
    memcpy(payload, logged->payload, *bytes_out);
    call->outcomes = logged->next;
    call->sequence++;
    free(logged);
    return true;
}

void mob_outcome_log(
    struct mob_client *client, enum mob_outcome_kind kind, const void *payload, uint32_t bytes)
{
    struct mob_call *call = client->call;
    struct mob_out_outcome head = {.task = call->head.task,
        .generation = call->head.generation,
        .sequence = call->sequence++,
        .kind = (uint16_t)kind,
        .payload_bytes = bytes};
    enum mob_status status =
        mob_client_publish(client, MOB_OUT_OUTCOME, 0, &head, sizeof head, payload, bytes);
    if (status != MOB_OK) /* an outcome that is not logged must not be used */
        mob_call_fail(call, status, "an outcome could not be logged: %s", mob_status_text(status));
}
