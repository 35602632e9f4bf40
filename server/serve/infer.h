/* The inference protocol's request and answer bodies: JSON tensors, and the binary tensor extension both
 * ways.
 *
 * A request is parsed in the front's thread against its model: names, element types and shapes fit when it
 * leaves here. Binary tensors stay in the request's body (borrowed until the answer), JSON ones are converted
 * into memory of the request's own. Answers are JSON, or JSON ++ blobs with Inference-Header-Content-Length.
 * Little-endian, row-major. Pure apart from allocation. Limits: MOB_MODEL_TENSORS_MAX tensors, the body's
 * limit is the route's.
 */
#ifndef MOB_SERVER_SERVE_INFER_H
#define MOB_SERVER_SERVE_INFER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/text.h"
#include "server/serve/model.h"

#define MOB_INFER_ID_MAX 128
#define MOB_INFER_JSON_MAX (16u << 20)
#define MOB_INFER_TIMEOUT_US_MAX (86400ll * 1000000)

struct mob_infer_tensor {
    enum mob_dtype dtype;
    uint32_t ndim;
    int64_t shape[MOB_TENSOR_DIMS_MAX];
    const uint8_t *data;
    uint64_t bytes;
};

struct mob_infer_request {
    char id[MOB_INFER_ID_MAX];
    struct mob_infer_tensor inputs[MOB_MODEL_TENSORS_MAX]; /* in the model's order */
    uint8_t *owned[MOB_MODEL_TENSORS_MAX]; /* memory of converted ones */
    bool wanted[MOB_MODEL_TENSORS_MAX],
        binary[MOB_MODEL_TENSORS_MAX]; /* of the outputs, in the model's order */
    uint64_t rows; /* first dimension of every input; 1 when the model does not batch */
    uint64_t shape_hash; /* equal: can be stacked */
    int64_t started_ns;
    int64_t timeout_ns; /* `parameters.timeout`, which is in microseconds; 0: none */
};

/* The values of one batch, shared by its calls. */
struct mob_infer_result {
    _Atomic int references;
    void (*destroy)(struct mob_infer_result *result);
};
void mob_infer_result_hold(struct mob_infer_result *result);
void mob_infer_result_release(struct mob_infer_result *result);

/* `header_length` is Inference-Header-Content-Length, SIZE_MAX when absent. MOB_BAD_REQUEST or MOB_INVALID:
 * `why_out` (256 bytes) says what. Gives (free with mob_infer_request_destroy). */
MOB_MUST_USE enum mob_status mob_infer_parse(const struct mob_model *model, const char *body, size_t length,
    size_t header_length, struct mob_infer_request **request_out, char *why_out);
void mob_infer_request_destroy(struct mob_infer_request *request);
/* Appends the answer. *header_length_out is the JSON part's length, 0 when there is no binary part. */
void mob_infer_write(const struct mob_model *model, const struct mob_infer_request *request,
    const struct mob_infer_tensor *outputs, struct mob_text *out, size_t *header_length_out);

#endif
