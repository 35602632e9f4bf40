/* Bodies of several parts: multipart/form-data and its kin (RFC 2046, 7578).
 *
 *   struct mob_multipart parts;
 *   if (mob_multipart_open(&parts, content_type, body, length) == MOB_OK)
 *       while ((status = mob_multipart_next(&parts, &part)) == MOB_OK) use(part.bytes, part.length);
 *   // MOB_NOT_FOUND: that was the last; MOB_INVALID: malformed
 *
 * Nothing is copied but names and types. Pure; the body must outlive the parts.
 */
#ifndef MOB_SERVER_HTTP_MULTIPART_H
#define MOB_SERVER_HTTP_MULTIPART_H

#include <stddef.h>

#include "common/base/status.h"

#define MOB_MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 */
#define MOB_MULTIPART_TEXT_MAX 128

struct mob_multipart {
    const char *at, *end; /* at: behind a delimiter */
    char delimiter[MOB_MULTIPART_BOUNDARY_MAX + 5]; /* CRLF "--" boundary */
    size_t delimiter_length;
};

struct mob_part {
    char name[MOB_MULTIPART_TEXT_MAX]; /* of the form field, "" when it has none or a longer one */
    char media_type[MOB_MULTIPART_TEXT_MAX]; /* text/plain when it has none */
    const char *bytes;
    size_t length;
};

/* MOB_INVALID: no boundary in the type, or none in the body. */
MOB_MUST_USE enum mob_status mob_multipart_open(
    struct mob_multipart *parts, const char *content_type, const char *body, size_t length);
MOB_MUST_USE enum mob_status mob_multipart_next(struct mob_multipart *parts, struct mob_part *part_out);

#endif
