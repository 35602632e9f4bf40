/* Unsigned integers of 64 bits out of the JSON text of a request: jansson has no type for them. */
#ifndef MOB_SERVER_SERVE_INFER_U64_H
#define MOB_SERVER_SERVE_INFER_U64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The elements of `data` of that input, in row-major order, to *at, which is behind the last of them then.
 * The text was parsed, so the caller knows that there is such data, and how many elements. False: one does
 * not fit, and *at is its place; or the text is nested deeper than MOB_JSON_DEPTH_MAX, and nothing was read.
 */
bool mob_infer_put_u64s(const char *json, size_t length, size_t input, uint8_t **at);

#endif
