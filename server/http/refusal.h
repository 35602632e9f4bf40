/* How a request that breaks HTTP itself is turned away: one problem document, then the end of the connection.
 *
 * For fronts, when the router has not seen the request: its bytes cannot be trusted to say where the next one
 * begins. Threads: any; the socket must be the caller's. Nothing blocks.
 */
#ifndef MOB_SERVER_HTTP_REFUSAL_H
#define MOB_SERVER_HTTP_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http/head.h"

#define MOB_HTTP_REFUSAL_BYTES_MAX 640

/* The problem document, as the router's are but for `instance`; its length. */
size_t mob_http_refusal_body(
    struct mob_http_refusal refusal, const char *request_id, char out[MOB_HTTP_REFUSAL_BYTES_MAX]);
/* The whole answer, under a name of its own, in one write into the socket's buffer, which has room; a client
 * that does not read gets less. No more is sent on the socket then. */
void mob_http_refusal_send(int fd, struct mob_http_refusal refusal);
/* Takes what the client still sends, so that closing does not reset the connection under the answer. True: at
 * its end, or it sends too much. */
bool mob_http_drain(int fd);

#endif
