/* Content codings: answers with gzip, request bodies with gzip or deflate; and digests of answers.
 *
 * Threads: the front's that has the request; neither waits for anybody, and both are bounded, since other
 * connections of that thread wait meanwhile.
 */
#ifndef MOB_SERVER_HTTP_CODING_H
#define MOB_SERVER_HTTP_CODING_H

#include "server/http/http.h"

/* Smaller answers gain nothing; larger ones would hold up the thread (a megabyte takes about 10 ms). */
#define MOB_HTTP_GZIP_BYTES_MIN 1024
#define MOB_HTTP_GZIP_BYTES_MAX (1u << 20)
/* Of larger answers no digest is given. */
#define MOB_HTTP_DIGEST_BYTES_MAX (4u << 20)

/* The last step before a front sends an answer that is complete (not a stream): codes it when the client
 * takes that and it is text, then adds the digests that the client wants. Without memory it stays as it is.
 */
void mob_http_code_reply(struct mob_http_request *request);

/* Replaces the request's coded body. `coding` is its Content-Encoding. MOB_INVALID: it does not decode;
 * MOB_TOO_LARGE: to more than `bytes_max`; MOB_UNSUPPORTED_MEDIA: another coding; MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_http_decode_body(
    struct mob_http_request *request, const char *coding, size_t bytes_max);

#endif
