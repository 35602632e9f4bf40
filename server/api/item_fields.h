/* Which fields the items of a list have: what `filter` and `sort` may name. Pure.
 */
#ifndef MOB_SERVER_API_ITEM_FIELDS_H
#define MOB_SERVER_API_ITEM_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/api/engine.h"
#include "server/api/filter.h"

/* True: each term of the filter, and the order ("-field" or "field"; NULL or "": none), names a field of the
 * kind. False: `message` (of capacity) names the first that does not, and those that would. */
bool mob_item_fields_check(enum mob_engine_kind kind, const struct mob_filter *filter, const char *sort,
    char *message, size_t capacity);

#endif
