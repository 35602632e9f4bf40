/* W3C Trace Context (https://www.w3.org/TR/trace-context/), the `traceparent` header. Any thread. */
#ifndef MOB_SERVER_HTTP_TRACE_CONTEXT_H
#define MOB_SERVER_HTTP_TRACE_CONTEXT_H

#include <stdbool.h>

#define MOB_TRACEPARENT_BYTES 55 /* of version 00, without its end */

/* What to carry on for a header that came in, in version 00, which is the one that is known here. False: it
 * is malformed, or names no trace; then it counts as if it had not come. */
bool mob_traceparent_take(const char *header, char out[static MOB_TRACEPARENT_BYTES + 1]);

#endif
