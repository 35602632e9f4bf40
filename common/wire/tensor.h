/* Payload of MOB_TYPE_TENSOR: an Arrow IPC Tensor message (metadata as a flatbuffer) ++ body.
 *
 * The metadata is padded so that the body starts at a multiple of 64 bytes; with a 64-byte aligned payload
 * (full values) elements are read in place. Tensors are row-major and contiguous. What Arrow has no type for
 * is marked by the message's custom metadata `mobula.dtype`: BOOL (one byte each) and BF16 are stored as
 * Arrow's unsigned integers of their width, BYTES as Binary with elements of u32 length ++ bytes, in order.
 * Others' Arrow tensors are accepted when they are row-major. Pure, thread-safe.
 *
 *   uint32_t head = mob_tensor_head_encode(buffer, capacity, MOB_DTYPE_F32, shape, 2, bytes);
 *   memcpy(buffer + head, elements, bytes);        // payload = head + bytes
 */
#ifndef MOB_COMMON_WIRE_TENSOR_H
#define MOB_COMMON_WIRE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_TENSOR_DIMS_MAX 8u
#define MOB_TENSOR_HEAD_MAX 1024u /* of those that mob_tensor_head_encode writes */

enum mob_dtype {
    MOB_DTYPE_NONE = 0, /* in signatures: any */
    MOB_DTYPE_BOOL,
    MOB_DTYPE_U8,
    MOB_DTYPE_U16,
    MOB_DTYPE_U32,
    MOB_DTYPE_U64,
    MOB_DTYPE_I8,
    MOB_DTYPE_I16,
    MOB_DTYPE_I32,
    MOB_DTYPE_I64,
    MOB_DTYPE_F16,
    MOB_DTYPE_BF16,
    MOB_DTYPE_F32,
    MOB_DTYPE_F64,
    MOB_DTYPE_BYTES,
    MOB_DTYPE_COUNT
};

struct mob_tensor_view {
    enum mob_dtype dtype;
    uint32_t ndim; /* 0 = a scalar */
    int64_t shape[MOB_TENSOR_DIMS_MAX];
    const uint8_t *data;
    uint64_t data_bytes;
};

/* Bytes of one element; 0 for BYTES and NONE. */
uint32_t mob_dtype_bytes(enum mob_dtype dtype);
/* What so many elements of BYTES take, whose lengths are trusted: they were checked, or are the caller's own.
 */
uint64_t mob_tensor_bytes_size(const void *data, uint64_t elements);
/* Name as in signatures and JSON: "f32", "bf16", "bytes". */
const char *mob_dtype_name(enum mob_dtype dtype);
/* Back from "f32" or the inference protocol's "FP32"; MOB_DTYPE_NONE when unknown. */
enum mob_dtype mob_dtype_from_name(const char *name, size_t length);
/* Name in the inference protocol: "FP32", "INT64", "BOOL", ... */
const char *mob_dtype_v2_name(enum mob_dtype dtype);
/* Product of the dimensions; MOB_INVALID when one is negative or there are too many, MOB_TOO_LARGE on
 * overflow. */
MOB_MUST_USE enum mob_status mob_tensor_elements(const int64_t *shape, uint32_t ndim, uint64_t *elements_out);
/* Writes what stands before the data. Returns its bytes, a multiple of 64; 0 when it does not fit or
 * `data_bytes` is not what the shape needs. */
uint32_t mob_tensor_head_encode(void *out, uint32_t capacity, enum mob_dtype dtype, const int64_t *shape,
    uint32_t ndim, uint64_t data_bytes);
/* Checks every offset and size. MOB_CORRUPT, MOB_TRUNCATED, MOB_VERSION (metadata newer than Arrow's V5),
 * MOB_INVALID (valid Arrow, but not row-major or of a type not known here). Borrows `payload`. */
MOB_MUST_USE enum mob_status mob_tensor_open(
    const void *payload, uint64_t payload_bytes, struct mob_tensor_view *out);

#endif
