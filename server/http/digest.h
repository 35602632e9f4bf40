/* Digests of what is sent: the fields Content-Digest and Repr-Digest of RFC 9530, with sha-256 and sha-512.
 *
 * Pure. A value is a list of `name=:base64:`; algorithms that are not known are passed over, as the RFC says.
 */
#ifndef MOB_SERVER_HTTP_DIGEST_H
#define MOB_SERVER_HTTP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

enum mob_digest_result {
    MOB_DIGEST_NONE, /* no algorithm that is known */
    MOB_DIGEST_RIGHT,
    MOB_DIGEST_WRONG,
    MOB_DIGEST_MALFORMED
};

#define MOB_DIGEST_TEXT_MAX 64 /* of sha-256, with its NUL */

enum mob_digest_result mob_digest_check(const char *field, const void *bytes, size_t length);
/* Does a Want-Content-Digest or Want-Repr-Digest ask for sha-256? */
bool mob_digest_wanted(const char *field);
/* sha-256=:...: */
void mob_digest_write(const void *bytes, size_t length, char out[MOB_DIGEST_TEXT_MAX]);

#endif
