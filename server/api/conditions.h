/* Conditions of requests that change something (RFC 9110, section 13): If-Match and If-None-Match of PUT and
 * DELETE. The only tags are those of objects, which GET /objects/{id}/data gives; "*" stands for whatever is
 * there. (GET of an object's data looks at its own conditions, which may also be answered with 304.)
 */
#ifndef MOB_SERVER_API_CONDITIONS_H
#define MOB_SERVER_API_CONDITIONS_H

#include "common/base/id.h"
#include "server/api/api.h"

#define MOB_OBJECT_TAG_MAX 40

/* An id stands for its content, so the tag is made of it. Returns out. */
const char *mob_object_tag(struct mob_object_id id, char out[MOB_OBJECT_TAG_MAX]);
/* Whether what the head says can hold; whether there is anything under that name, the handler finds out.
 * Front's thread, with the path's parameters. False: answered with 412. */
bool mob_conditions_check(struct mob_http_request *request, const struct mob_route *route);
/* If-Match: * and If-None-Match: *, for a handler that makes or replaces. */
bool mob_condition_is_any(const struct mob_http_request *request, const char *name);
/* Builds the answer 412; the caller sends it. */
void mob_condition_reply(struct mob_http_request *request, const char *detail);

#endif
