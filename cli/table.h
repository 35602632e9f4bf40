/* A table of text on stdout: widths from what is in it, as JSON objects with the same keys. Shows what is
 * there. */
#ifndef MOB_CLI_TABLE_H
#define MOB_CLI_TABLE_H

#include <jansson.h>

#define TABLE_COLUMNS_MAX 16

/* `items`: an array of objects. `preferred`: keys that come first, in this order, ended by NULL; other keys
 * with plain values follow in the order in which they appear. */
void table_print(const json_t *items, const char *const *preferred);
/* One cell: strings as they are, times (*_us of today's size) in UTC, other values as JSON. */
void table_cell(const char *key, const json_t *value, char *out, size_t capacity);

#endif
