/* Reading JSON request bodies strictly: duplicates, unknown fields, wrong types and depth over 64 are errors
 * with the pointer of the place. All errors of a body are collected, then answered as one 422.
 *
 *   struct mob_body body;
 *   if (!mob_body_open(&body, request, false)) return;               // it answered
 *   mob_body_fields(&body, body.root, "", "name\0metadata\0");
 *   const char *name = mob_body_string(&body, body.root, "", "name", MOB_BODY_REQUIRED, 256);
 *   if (!mob_body_ok(&body)) return;                                 // it answered
 *   mob_body_close(&body);
 *
 * One thread; strings are borrowed from the tree until close.
 */
#ifndef MOB_SERVER_API_BODY_H
#define MOB_SERVER_API_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/api/engine.h"
#include "server/http/http.h"
#include "server/http/text.h"

#define MOB_BODY_DEPTH_MAX 64
#define MOB_BODY_ERRORS_MAX 32
#define MOB_BODY_MESSAGE_MAX 320 /* of one error: it names each field that there is */

enum mob_body_need { MOB_BODY_OPTIONAL, MOB_BODY_REQUIRED };

struct mob_body {
    struct mob_http_request *request;
    json_t *root;
    struct mob_text errors;
    unsigned error_count;
    char first[MOB_BODY_MESSAGE_MAX + 160]; /* the first of them in words: the answer's detail */
};

/* Parses the request's body, which must be a JSON object. False: answered with 400, 415 or 422. An absent
 * body is an empty object if `may_be_absent`. */
bool mob_body_open(struct mob_body *body, struct mob_http_request *request, bool may_be_absent);
/* The same, and the op that the handler fills from it. NULL: answered, and closed. */
struct mob_engine_op *mob_body_open_op(
    struct mob_body *body, struct mob_http_request *request, bool may_be_absent, enum mob_engine_verb verb);
void mob_body_close(struct mob_body *body);
/* True: no errors. False: answered with 422 and closed. */
bool mob_body_ok(struct mob_body *body);
void mob_body_error(struct mob_body *body, const char *prefix, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Every field of `object` is in `names`: NUL-separated, ended by an empty name. */
void mob_body_fields(struct mob_body *body, const json_t *object, const char *prefix, const char *names);

/* Absent optional fields give NULL, or `absent`. `prefix` is the pointer of `object`. */
const char *mob_body_string(struct mob_body *body, const json_t *object, const char *prefix,
    const char *field, enum mob_body_need need, size_t length_max);
int64_t mob_body_int(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    int64_t min, int64_t max, int64_t absent);
bool mob_body_bool(
    struct mob_body *body, const json_t *object, const char *prefix, const char *field, bool absent);
json_t *mob_body_array(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    enum mob_body_need need, size_t count_max);
json_t *mob_body_object(struct mob_body *body, const json_t *object, const char *prefix, const char *field,
    enum mob_body_need need);

/* Parses any JSON text as strictly. NULL: `message_out` (of capacity) says why. For bodies and their parts.
 * Integers that 64 bits do not hold become numbers with a fraction. */
json_t *mob_json_parse(const char *text, size_t length, char *message_out, size_t capacity);

#endif
