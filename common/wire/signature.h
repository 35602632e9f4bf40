/* Signatures: the schema of a function, written as text (version 1).
 *
 *   signature = [ param { "," param } ] "->" returns
 *   param     = type [ name ]
 *   returns   = type [ name ] | "(" [ type [ name ] { "," type [ name ] } ] ")" | "stream" type
 *   type      = base [ "?" ] [ "..." ]
 *   base      = "any" | "null" | "bytes" | "utf8" | "json" | "i64" | "f64" | "bool" | "table" | "pickle5" |
 * "actor" | "tensor" [ "<" dtype ">" ] [ "[" [ dim { "," dim } ] "]" ] dtype     = "bool" | "u8" | "u16" |
 * "u32" | "u64" | "i8" | "i16" | "i32" | "i64" | "f16" | "bf16" | "f32" | "f64" | "bytes" dim       = number
 * | name | "*" name      = letter or "_", then letters, digits, "_"; at most 31
 *
 * "i64 a, f64 b -> i64", "tensor<f32>[n,64] x, tensor<f32>[n] w -> (f64, utf8)", "any... -> json", "i64 n ->
 * stream f64". `T?` may be null, and at the end of the list be left out. `T...` (last only) stands for none
 * or more; as a return, as many as the caller asks for. A named dim has one value throughout the arguments.
 * `-> ()` returns nothing. Blanks are free. An object reference fits every type; it is checked where its
 * value is known.
 *
 * Pure, thread-safe; no allocation.
 */
#ifndef MOB_COMMON_WIRE_SIGNATURE_H
#define MOB_COMMON_WIRE_SIGNATURE_H

#include "common/wire/spec.h"
#include "common/wire/tensor.h"

#define MOB_SIGNATURE_VERSION 1
#define MOB_SIGNATURE_BYTES_MAX 1024u
#define MOB_SIGNATURE_PARAMS_MAX 32u
#define MOB_SIGNATURE_RETURNS_MAX 32u
#define MOB_SIGNATURE_NAME_MAX 32u /* with its terminator */
#define MOB_SIGNATURE_DIM_NAMES_MAX 16u

/* What modules, functions, classes and methods are called: 1 to 127 letters, digits, "_" and "-", since it
 * stands in names with dots and hashes, in lines of classes, and in paths. NULL is none. */
#define MOB_CALLABLE_NAME_MAX 127u
bool mob_callable_name_ok(const char *name);

#define MOB_SIG_DIM_ANY INT64_MIN
struct mob_sig_type {
    uint8_t type; /* enum mob_value_type; MOB_TYPE_NONE = any */
    bool optional, variadic;
    uint8_t dtype; /* enum mob_dtype of a tensor; MOB_DTYPE_NONE = any */
    bool has_shape; /* tensor: dims are given */
    uint8_t ndim;
    char name[MOB_SIGNATURE_NAME_MAX]; /* "" = none */
    int64_t dims[MOB_TENSOR_DIMS_MAX]; /* >= 0 fixed, -1 - k the k-th dim name, MOB_SIG_DIM_ANY */
};
struct mob_signature {
    uint32_t param_count, return_count;
    uint32_t required; /* fewest arguments */
    bool variadic; /* the last param is */
    bool variadic_returns;
    bool stream; /* one return type, any number of items */
    uint32_t dim_name_count;
    char dim_names[MOB_SIGNATURE_DIM_NAMES_MAX][MOB_SIGNATURE_NAME_MAX];
    struct mob_sig_type params[MOB_SIGNATURE_PARAMS_MAX];
    struct mob_sig_type returns[MOB_SIGNATURE_RETURNS_MAX];
};

/* What is wrong, for people and machines. */
struct mob_signature_error {
    int32_t position; /* parse: byte in the text; else -1 */
    int32_t index; /* check: number of the argument or return from 0; else -1 */
    char name[MOB_SIGNATURE_NAME_MAX]; /* of that param; "" = it has none */
    char expected[96]; /* "f64", "tensor<f32>[n,64]", "2 arguments" */
    char found[96]; /* "utf8", "3 arguments" */
    char message[320]; /* one sentence with all of it */
};

/* MOB_INVALID with the position and reason in *error_out (may be NULL). */
MOB_MUST_USE enum mob_status mob_signature_parse(
    const char *text, size_t length, struct mob_signature *out, struct mob_signature_error *error_out);
/* Canonical text, NUL-terminated; its length, 0 when it does not fit. */
uint32_t mob_signature_format(const struct mob_signature *s, char *out, uint32_t capacity);
uint32_t mob_sig_type_format(
    const struct mob_signature *s, const struct mob_sig_type *t, char *out, uint32_t capacity);
/* The type of argument `index`; NULL when there is none. */
const struct mob_sig_type *mob_signature_param(const struct mob_signature *s, uint32_t index);
const struct mob_sig_type *mob_signature_return(const struct mob_signature *s, uint32_t index);

/* Checking a list of arguments one by one, in order: begin, next for each, end. Each gives MOB_OK or
 * MOB_TYPE_MISMATCH with *error_out (may be NULL) filled. Reads tensor payloads' heads. */
struct mob_signature_check {
    const struct mob_signature *signature;
    uint32_t count;
    bool dims_seen;
    int64_t dims[MOB_SIGNATURE_DIM_NAMES_MAX];
};
static inline void mob_signature_check_begin(struct mob_signature_check *c, const struct mob_signature *s)
{
    c->signature = s;
    c->count = 0;
    c->dims_seen = false;
}
MOB_MUST_USE enum mob_status mob_signature_check_next(
    struct mob_signature_check *c, const struct mob_arg_view *arg, struct mob_signature_error *error_out);
/* The next one is this tensor, whose payload is not made yet: its data is not looked at. */
MOB_MUST_USE enum mob_status mob_signature_check_tensor(struct mob_signature_check *c,
    const struct mob_tensor_view *tensor, struct mob_signature_error *error_out);
MOB_MUST_USE enum mob_status mob_signature_check_end(
    const struct mob_signature_check *c, struct mob_signature_error *error_out);
MOB_MUST_USE enum mob_status mob_signature_check_args(const struct mob_signature *s,
    const struct mob_arg_view *args, uint32_t count, struct mob_signature_error *error_out);
/* The arguments of a checked tail; `complete` false = more follow in argument pages, so the end is not
 * checked. */
MOB_MUST_USE enum mob_status mob_signature_check_tail(const struct mob_signature *s,
    const uint8_t *checked_tail, bool complete, struct mob_signature_error *error_out);
/* One returned value. num_returns as asked for: with variadic returns any number >= the fixed ones fits. */
MOB_MUST_USE enum mob_status mob_signature_check_return(const struct mob_signature *s, uint32_t index,
    const struct mob_arg_view *value, struct mob_signature_error *error_out);

/* JSON Schema (2020-12) of {"arguments": [...], "returns": [...]}, the first as a request has them,
 * NUL-terminated; its length, 0 when it does not fit (16 KiB hold every signature). */
uint32_t mob_signature_json_schema(const struct mob_signature *s, char *out, uint32_t capacity);

#endif
