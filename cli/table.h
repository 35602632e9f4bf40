/* A table of text on stdout: widths from what is in it, as JSON objects with the same keys. Shows what is
 * there. */
#ifndef MOB_CLI_TABLE_H
#define MOB_CLI_TABLE_H

#include <jansson.h>

#define TABLE_COLUMNS_MAX 16

/* `items`: an array of objects. `shown`: the keys that make columns, in this order, ended by NULL; those that
 * no item has are left out. Without any of them: every key with a plain value. */
void table_print(const json_t *items, const char *const *shown);
/* One cell: strings as they are, times (*_us of today's size) in UTC, other values as JSON. */
void table_cell(const char *key, const json_t *value, char *out, size_t capacity);

#endif
