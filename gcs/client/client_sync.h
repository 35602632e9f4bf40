/* Blocking calls on a client of the control store, for tools, tests and start-up code.
 *
 * Each submits one operation and steps the client until it is answered or the deadline passes; callbacks of
 * other operations of the same client run meanwhile. Same thread rule as client.h. MOB_TIMEOUT leaves the
 * operation in flight: a write may still happen. Returned rows are copies: free with mob_gcs_result_destroy.
 */
#ifndef MOB_GCS_CLIENT_CLIENT_SYNC_H
#define MOB_GCS_CLIENT_CLIENT_SYNC_H

#include "gcs/client/client.h"

/* A copy of an answer with all it points to. */
struct mob_gcs_result;
const struct mob_gcs_answer *mob_gcs_result_answer(const struct mob_gcs_result *result);
void mob_gcs_result_destroy(struct mob_gcs_result *result);

/* Submit with `mob_gcs_sync_done` as callback and the address of a zeroed struct mob_gcs_sync as its
 * argument:
 *
 *   struct mob_gcs_sync sync = {0};
 *   mob_gcs_get(gcs, MOB_GCS_JOBS, key, length, mob_gcs_sync_done, &sync);
 *   status = mob_gcs_sync_wait(gcs, &sync, deadline, &result);
 */
struct mob_gcs_sync {
    bool done;
    struct mob_gcs_result *result;
};
void mob_gcs_sync_done(void *arg, const struct mob_gcs_answer *answer);
/* The answer's status, or MOB_TIMEOUT, MOB_NO_MEMORY. `result_out` (may be NULL) is written whenever there
 * was an answer, error or not. After MOB_TIMEOUT `sync` is still referenced: destroy the client, or wait
 * again. */
MOB_MUST_USE enum mob_status mob_gcs_sync_wait(
    struct mob_gcs *gcs, struct mob_gcs_sync *sync, int64_t deadline_ns, struct mob_gcs_result **result_out);

/* The same for who does not wait again and keeps the client: a call lives until it is answered, however late.
 *
 *   struct mob_gcs_call *call = mob_gcs_call_create();
 *   status = mob_gcs_get(gcs, MOB_GCS_JOBS, key, length, mob_gcs_call_done, call);
 *   status = mob_gcs_call_wait(gcs, call, status, deadline, &result);
 */
struct mob_gcs_call;
/* Ends the process when there is no memory. */
struct mob_gcs_call *mob_gcs_call_create(void);
void mob_gcs_call_done(void *arg, const struct mob_gcs_answer *answer);
/* Takes the call over. `submitted` if that is not MOB_OK, else as mob_gcs_sync_wait. */
MOB_MUST_USE enum mob_status mob_gcs_call_wait(struct mob_gcs *gcs, struct mob_gcs_call *call,
    enum mob_status submitted, int64_t deadline_ns, struct mob_gcs_result **result_out);

/* Until it is connected (MOB_OK). MOB_TIMEOUT; or why the link was refused, at once, since it will be again:
 * mob_gcs_refusal says it in words. */
MOB_MUST_USE enum mob_status mob_gcs_connect_wait(struct mob_gcs *gcs, int64_t deadline_ns);

/* Until this client may be destroyed without leaving a place in the members' tables behind: linked, attached,
 * and nothing that was sent is unanswered. Who destroys one whose link is down and lives on is waited for by
 * a member that restarts, until another client of this process says good-bye for it. MOB_TIMEOUT: without
 * such a one the place stays until it expires. */
MOB_MUST_USE enum mob_status mob_gcs_leave_wait(struct mob_gcs *gcs, int64_t deadline_ns);

/* The common ones. */
MOB_MUST_USE enum mob_status mob_gcs_put_wait(
    struct mob_gcs *gcs, const struct mob_gcs_put *put, int64_t deadline_ns, uint64_t *version_out);
MOB_MUST_USE enum mob_status mob_gcs_get_wait(struct mob_gcs *gcs, enum mob_gcs_table table, const void *key,
    uint32_t key_length, int64_t deadline_ns, struct mob_gcs_result **result_out);
/* Each row of a table, page by page, in the order of the keys; `row` borrows its bytes. Not one snapshot:
 * what is written meanwhile may be there or not. */
typedef void mob_gcs_row_fn(void *arg, const struct mob_gcs_kv *kv);
MOB_MUST_USE enum mob_status mob_gcs_each_row_wait(
    struct mob_gcs *gcs, enum mob_gcs_table table, int64_t deadline_ns, mob_gcs_row_fn *row, void *arg);
MOB_MUST_USE enum mob_status mob_gcs_node_register_wait(
    struct mob_gcs *gcs, const char *name, int64_t deadline_ns, uint64_t *incarnation_out);
MOB_MUST_USE enum mob_status mob_gcs_log_seal_wait(
    struct mob_gcs *gcs, uint64_t incarnation, int64_t deadline_ns, uint64_t *cut_out);

#endif
