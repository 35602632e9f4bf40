/* How JSON maps to values and back, for the gateway and the CLI. Works on JSON text; strict (RFC 8259, UTF-8
 * checked, nesting at most MOB_JSON_DEPTH_MAX), every length checked. Pure, thread-safe.
 *
 * From JSON, by the declared type (signature.h):
 *   i64      a number that is an integer in range, as 1000 or 1e3       f64   any number; "NaN", "Infinity",
 * "-Infinity" utf8     string        bool  true, false        null  null          json  anything, kept as
 * text bytes, table, pickle5  string with standard base64                  actor "actor_..." tensor   nested
 * arrays of numbers, or {"dtype","shape","data"} with data in base64 or as arrays; the dtype of plain arrays
 * is the declared one, else i64 when all are integers, bool when all are booleans, else f64 T?       also
 * null     every type also {"$ref":"obj_..."}: a reference to that object any      null, bool, integer by its
 * text -> i64, other number -> f64, string -> utf8, {"$actor":"actor_..."} -> actor,
 *            {"$bytes":"<base64>"} -> bytes, other objects and arrays -> json
 * Object ids inside a json value ({"$ref":"obj_..."} as a member at any depth) are listed in `contains`.
 *
 * To JSON, by the value's type: the same forms; tensors as {"dtype","shape","data":"<base64>"}, actors as
 * text, errors as {"error":{"code","message","task","signal","detail","causes":[...]}}, bytes, tables and
 * pickles as base64 text.
 */
#ifndef MOB_COMMON_WIRE_JSON_VALUE_H
#define MOB_COMMON_WIRE_JSON_VALUE_H

#include "common/wire/signature.h"

#define MOB_JSON_DEPTH_MAX 64u
#define MOB_JSON_CONTAINS_MAX 1024u

/* A value made from JSON. Zero it before the first use; fini frees what it gave. */
struct mob_json_value {
    struct mob_arg_view
        arg; /* reference, or type and payload; the payload is in `small`, `heap` or the JSON text */
    uint8_t small[20];
    uint8_t *heap;
    struct mob_object_id *contains; /* ids inside a json value */
    uint32_t contains_count;
};

/* `type` NULL = any. `signature` gives the dim names for messages (may be NULL). The payload may borrow
 * `json`. MOB_BAD_REQUEST (not JSON), MOB_TYPE_MISMATCH (error_out: expected, found, message), MOB_TOO_LARGE
 * (payload over `payload_bytes_max`), MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_value_from_json(const char *json, size_t length,
    const struct mob_signature *signature, const struct mob_sig_type *type, uint64_t payload_bytes_max,
    struct mob_json_value *out, struct mob_signature_error *error_out);
void mob_json_value_fini(struct mob_json_value *v);

/* JSON text of a value, NUL-terminated, which the caller frees with free(). MOB_TOO_LARGE over `bytes_max`.
 */
MOB_MUST_USE enum mob_status mob_value_to_json(enum mob_value_type type, const void *payload,
    uint64_t payload_bytes, uint64_t bytes_max, char **json_out, uint64_t *length_out);

#endif
