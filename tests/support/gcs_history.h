/* What clients of the control store asked and heard, key by key, and whether one register a key could have
 * answered so (tests/sim/lincheck.h). As a file: one JSON object a line,
 *
 *   {"client":3,"op":"put","key":"h000012","value":12884901889,"call_ns":17,"return_ns":90,"ok":true}
 *
 * ok: true = it happened (a get with value null found nothing), false = it did not, null = nobody knows, and
 * return_ns is null. Values of puts are unique and not 0. Times are of one monotonic clock. One thread.
 */
#ifndef MOB_TESTS_SUPPORT_GCS_HISTORY_H
#define MOB_TESTS_SUPPORT_GCS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gcs_op_outcome { GCS_OP_UNKNOWN, GCS_OP_DONE, GCS_OP_REFUSED };
struct gcs_op {
    uint32_t client, key;
    bool put;
    enum gcs_op_outcome outcome;
    uint64_t value; /* a get: 0 = nothing there */
    int64_t call_ns, return_ns;
};
struct gcs_history {
    struct gcs_op *ops;
    size_t count, capacity;
};

/* The name of a key in the store and in the file; into 16 bytes. */
void gcs_history_key(uint32_t key, char out[16]);
/* Begins an operation, as one whose outcome is unknown; returns its place. */
size_t gcs_history_call(struct gcs_history *h, const struct gcs_op *op);
/* `value` of a get that found something, else 0. */
void gcs_history_return(struct gcs_history *h, size_t at, enum gcs_op_outcome outcome, uint64_t value);
bool gcs_history_write(const struct gcs_history *h, const char *path);
/* False: the file cannot be read, or a line is none of these; says which on standard error. */
bool gcs_history_read(struct gcs_history *h, const char *path);

struct gcs_history_verdict {
    size_t keys, done, unknown, given_up; /* given_up: keys that were too long to decide */
    bool violated;
    uint32_t key; /* the first that is */
};
void gcs_history_check(const struct gcs_history *h, struct gcs_history_verdict *out);
void gcs_history_fini(struct gcs_history *h);

#endif
