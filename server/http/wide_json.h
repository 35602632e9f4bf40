/* Reading JSON with integers of any length. JSON has one kind of number, and whoever writes 1e19 may write
 * its digits as well: what no integer of 64 bits holds is a number with a fraction. Pure.
 */
#ifndef MOB_SERVER_HTTP_WIDE_JSON_H
#define MOB_SERVER_HTTP_WIDE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* As json_loadb. `wide_out` (may be NULL): there is such an integer. */
json_t *mob_json_load(const char *text, size_t length, size_t flags, bool *wide_out, json_error_t *error);

#endif
