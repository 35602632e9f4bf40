/* What a request head may look like: stricter than the libraries behind us, because two parsers that read one
 * head differently are how one user's bytes become another user's request (GATEWAY.md, "What the libraries
 * let through").
 *
 * mob_http_head_check() judges raw bytes, before any library sees them. mob_http_head_field() and _finish()
 * judge the same rules field by field, for later requests of a connection, which a library has split already.
 * Pure.
 */
#ifndef MOB_SERVER_HTTP_HEAD_H
#define MOB_SERVER_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_HTTP_HEAD_BYTES_MAX 8192

/* Counted while fields are read. Start from zero. */
struct mob_http_head_facts {
    unsigned fields, hosts, lengths, encodings;
    uint32_t seen; /* of the fields that we read, by their place in head.c's table */
    bool chunked;
    bool lists; /* a field that is a list has several lines */
    uint64_t content_length;
};

struct mob_http_refusal {
    int status; /* HTTP */
    const char *why; /* static text */
};

/* One header field. False: refuse the request, `out` says how. */
bool mob_http_head_field(struct mob_http_head_facts *facts, const char *name, size_t name_length,
    const char *value, size_t value_length, struct mob_http_refusal *out);
/* Is this one that we read and that is a list, which may be spread over several lines (RFC 9110, section
 * 5.3)? Of others that we read a second line is refused: who stands before us may have looked at either. */
bool mob_http_head_is_list(const char *name, size_t name_length);
/* After the last field. */
bool mob_http_head_finish(
    const struct mob_http_head_facts *facts, bool http_1_1, struct mob_http_refusal *out);
/* Raw bytes from the start of a request. MOB_OK: complete and acceptable, length_out is its length;
 * MOB_AGAIN: more bytes are needed; MOB_BAD_REQUEST: refuse, refusal_out says how. Outputs are written only
 * for their result. */
MOB_MUST_USE enum mob_status mob_http_head_check(
    const char *bytes, size_t length, size_t *length_out, struct mob_http_refusal *refusal_out);
/* A request target as we take it: origin form, visible ASCII, no fragment. */
bool mob_http_target_ok(const char *target, size_t length);
/* At most MOB_HTTP_QUERY_PARAMETERS_MAX. Each takes room for its record from the connection's pool in the
 * library, which says nothing to the client when there is none left. */
bool mob_http_query_ok(const char *target, size_t length);

#endif
