#include "runtime/node/recovery_tidy.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/wire/recover_row.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/recovery.h"

/* Asked behind the list of records: a log that it names and that is not there was lost. */
static enum mob_status log_needs_record(
    struct node *node, uint64_t incarnation, int64_t deadline, bool *needs_out)
{
    struct mob_gcs_call *call = mob_gcs_call_create();
    struct mob_gcs_result *result = NULL;
    enum mob_status status = mob_gcs_incarnations(node->gcs, incarnation - 1, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(node->gcs, call, status, deadline, &result);
    *needs_out = false;
    for (uint32_t i = 0; status == MOB_OK && i < mob_gcs_result_answer(result)->incarnation_count; i++) {
        const struct mob_gcs_incarnation *in = &mob_gcs_result_answer(result)->incarnations[i];
        if (in->id == incarnation)
            *needs_out = in->state != MOB_GCS_RECOVERED;
    }
    mob_gcs_result_destroy(result);
    return status;
}

/* As it was listed: whoever writes it meanwhile has one that is of use, or finds out that it is over. */
static enum mob_status remove_record(struct node *node, const struct mob_gcs_kv *kv, int64_t deadline)
{
    struct mob_gcs_call *call = mob_gcs_call_create();
    struct mob_gcs_result *result = NULL;
    struct mob_gcs_put put = {
        .table = MOB_GCS_NODES, .key = kv->key, .key_length = kv->key_length, .if_version = kv->version};
    enum mob_status status = mob_gcs_delete(node->gcs, &put, mob_gcs_call_done, call);
    status = mob_gcs_call_wait(node->gcs, call, status, deadline, &result);
    mob_gcs_result_destroy(result);
    return status == MOB_CONFLICT ? MOB_OK : status;
}

static enum mob_status look_at(struct node *node, const struct mob_gcs_kv *kv, int64_t deadline)
{
    uint64_t incarnation = mob_recover_of_key(kv->key, kv->key_length);
    if (incarnation == 0 || !mob_recover_is_earlier(incarnation, node->incarnation) ||
        recovery_has(node, incarnation))
        return MOB_OK;
    bool needs;
    enum mob_status status = log_needs_record(node, incarnation, deadline, &needs);
    if (status != MOB_OK || needs)
        return status;
    status = remove_record(node, kv, deadline);
    MOB_LOG_INFO("recover", "record_tidied", "incarnation=%" PRIu64 " status=%s", incarnation,
        mob_status_code(status));
    return status;
}

enum mob_status recovery_tidy(struct node *node, int64_t deadline)
{
    uint8_t after[MOB_GCS_KEY_MAX];
    struct mob_gcs_list list = {.table = MOB_GCS_NODES,
        .prefix = MOB_RECOVER_PREFIX,
        .prefix_length = sizeof MOB_RECOVER_PREFIX - 1,
        .after = after,
        .keys_only = true};
    enum mob_status status = MOB_OK;
    for (bool more = true; more && status == MOB_OK;) {
        struct mob_gcs_call *call = mob_gcs_call_create();
        struct mob_gcs_result *result = NULL;
        status = mob_gcs_list(node->gcs, &list, mob_gcs_call_done, call);
        status = mob_gcs_call_wait(node->gcs, call, status, deadline, &result);
        const struct mob_gcs_answer *answer = status == MOB_OK ? mob_gcs_result_answer(result) : NULL;
        for (uint32_t i = 0; status == MOB_OK && i < answer->kv_count; i++)
            status = look_at(node, &answer->kvs[i], deadline);
        more = status == MOB_OK && answer->next != 0 && answer->kv_count > 0;
        if (more) {
            const struct mob_gcs_kv *last = &answer->kvs[answer->kv_count - 1];
            list.after_length = last->key_length;
            memcpy(after, last->key, last->key_length);
        }
        mob_gcs_result_destroy(result);
    }
    if (status != MOB_OK)
        MOB_LOG_ERROR("recover", "not_tidied", "status=%s", mob_status_code(status));
    return status;
}
