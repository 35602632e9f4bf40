/* Range requests for one part (RFC 9110, 14): pure parsers.
 */
#ifndef MOB_SERVER_API_RANGE_H
#define MOB_SERVER_API_RANGE_H

#include <stdbool.h>
#include <stddef.h>

struct mob_range {
    size_t first, length;
};

enum mob_range_result {
    MOB_RANGE_WHOLE, /* malformed, or several parts: the field is ignored, as the standard allows */
    MOB_RANGE_PART,
    MOB_RANGE_OUTSIDE /* 416 */
};

/* `out` is written for MOB_RANGE_PART only. */
enum mob_range_result mob_range_parse(const char *text, size_t size, struct mob_range *out);
/* Whether a list of If-Match (`strong`: a weak tag is none of ours) or If-None-Match holds this strong tag,
 * or is "*". `etag` NULL: there is no tag. */
bool mob_etag_listed(const char *list, const char *etag, bool strong);

#endif
