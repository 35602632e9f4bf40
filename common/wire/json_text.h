/* Reading and writing JSON text, for json_value.c. Strict RFC 8259: UTF-8 is checked, escapes are checked,
 * nesting is bounded, nothing may follow. A cursor never passes its end.
 */
#ifndef MOB_COMMON_WIRE_JSON_TEXT_H
#define MOB_COMMON_WIRE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/utf8.h"

struct json_slice {
    const char *at, *end;
};
enum json_kind {
    JSON_NONE,
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

void json_skip_blanks(struct json_slice *s);
/* Takes one value from the front of `s`, checked; its text without blanks around. JSON_NONE when it is not
 * JSON. */
enum json_kind json_take(struct json_slice *s, struct json_slice *value_out);
/* The whole of `s` is one value. */
enum json_kind json_whole(struct json_slice s, struct json_slice *value_out);

/* Members of a checked array or object: iterate over its text. `key` (with quotes) is empty for arrays. */
struct json_iter {
    struct json_slice rest;
    bool is_object, started;
};
struct json_iter json_members(struct json_slice checked);
/* JSON_NONE: there are no more. */
enum json_kind json_next(struct json_iter *it, struct json_slice *key_out, struct json_slice *value_out);
/* The first member of a checked object with this key; JSON_NONE without one. Keys with escapes are compared
 * decoded. */
enum json_kind json_find(struct json_slice object, const char *key, struct json_slice *value_out);

/* Length of a checked string when decoded. */
size_t json_slice_length(struct json_slice string);
/* Decodes a checked string; `out` has json_slice_length bytes. */
void json_string_decode(struct json_slice string, char *out);
/* `string` is checked, and compared decoded. */
bool json_string_equals(struct json_slice string, const char *text);
/* A checked number as an integer, by its value: 1e3 and 2.50e1 are, as in JSON Schema. Exact. */
enum json_integer { JSON_INTEGER, JSON_OUT_OF_RANGE, JSON_FRACTION };
enum json_integer json_number_integer(struct json_slice number, int64_t *out);
bool json_number_i64(struct json_slice number, int64_t *out); /* false: none, or out of range */
/* By its text: it has neither fraction nor exponent. */
bool json_number_is_integer(struct json_slice number);
double json_number_f64(struct json_slice number); /* the nearest; NaN when out of memory */

/* Standard base64 with padding. Decoded length, -1 when it is not base64. `out` may be NULL to only measure.
 */
int64_t json_base64_decode(struct json_slice string, uint8_t *out);

/* Text that grows, up to `most` bytes. */
struct json_out {
    char *bytes;
    uint64_t used, capacity, most;
    enum mob_status status; /* MOB_TOO_LARGE or MOB_NO_MEMORY once it failed */
};
/* Once it failed these do nothing, so who adds looks at `status` at the end. A NUL stands behind the text. */
void json_add(struct json_out *o, const char *text, uint64_t length); /* as it is */
void json_add_text(struct json_out *o, const char *text);
/* In quotes, escaped; bytes that are not UTF-8 become U+FFFD. */
void json_add_string(struct json_out *o, const void *bytes, uint64_t length);
void json_add_base64(struct json_out *o, const void *bytes, uint64_t length); /* in quotes, padded */
void json_add_i64(struct json_out *o, int64_t v);
/* The shortest text that reads back as the same; "NaN", "Infinity" and "-Infinity" as strings. */
void json_add_f64(struct json_out *o, double v);

#endif
