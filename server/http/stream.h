/* An endless body: a bounded queue between a publisher and the front that sends it.
 *
 * The publisher writes whole messages from any thread; one that does not fit is refused (MOB_QUEUE_FULL), and
 * the publisher tells the reader later what it missed. An empty queue takes one of any size. The front reads
 * in its own thread; when the queue is empty the connection is suspended and the next write resumes it.
 * Reference-counted: publisher and front hold one each.
 */
#ifndef MOB_SERVER_HTTP_STREAM_H
#define MOB_SERVER_HTTP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"
#include "server/http/http.h"

#define MOB_HTTP_STREAM_BYTES_MAX (256 * 1024)

/* Makes the stream that is the reply's body: the reply holds one reference, the caller gets one. The request
 * must not be parked or must be claimed. NULL when out of memory. */
struct mob_http_stream *mob_http_stream_create(
    struct mob_http_request *request, int status, const char *type);
void mob_http_stream_release(struct mob_http_stream *stream);
/* All of it or nothing. MOB_CLOSED: the reader has left; stop. */
MOB_MUST_USE enum mob_status mob_http_stream_write(
    struct mob_http_stream *stream, const void *bytes, size_t length);
/* No more will come; the reader gets the rest, then the end. */
void mob_http_stream_end(struct mob_http_stream *stream);

/* The front. Read returns the bytes taken, 0 after suspending the connection, -1 at the end. */
long mob_http_stream_read(struct mob_http_stream *stream, char *out, size_t capacity);
void mob_http_stream_detach(struct mob_http_stream *stream);

#endif
