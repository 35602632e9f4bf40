/* Tensors as JSON, for json_value.c. */
#ifndef MOB_COMMON_WIRE_JSON_TENSOR_H
#define MOB_COMMON_WIRE_JSON_TENSOR_H

#include "common/wire/json_text.h"
#include "common/wire/json_value.h"

/* From a checked array or object. The payload is allocated into out->heap. On a mismatch *found_out says what
 * is wrong. */
MOB_MUST_USE enum mob_status json_to_tensor(struct json_slice text, enum json_kind kind,
    const struct mob_sig_type *type, uint64_t payload_bytes_max, struct mob_json_value *out,
    const char **found_out);
void json_add_tensor(struct json_out *o, const void *payload, uint64_t payload_bytes);

#endif
