/* What a client takes: the lists of Accept and Accept-Encoding (RFC 9110, section 12.5).
 *
 * The most specific entry of a list decides, and q=0 refuses. Pure.
 */
#ifndef MOB_SERVER_HTTP_ACCEPT_H
#define MOB_SERVER_HTTP_ACCEPT_H

#include <stdbool.h>

/* `type` as "application/json". An absent list (NULL) takes everything. */
bool mob_http_accepts(const char *accept, const char *type);
/* An absent list takes only what is not coded. */
bool mob_http_accepts_gzip(const char *accept_encoding);

#endif
