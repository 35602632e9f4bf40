/* Which fields the items of a list have, and what values: what `filter` and `sort` may name. Pure.
 */
#ifndef MOB_SERVER_API_ITEM_FIELDS_H
#define MOB_SERVER_API_ITEM_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/api/engine.h"
#include "server/api/filter.h"

#define MOB_ITEM_FIELDS_MESSAGE_MAX 768

/* True: each term of the filter, and the order ("-field" or "field"; NULL or "": none), names a field of the
 * kind, and a value that such a field may have: one of its words, an id, a number, true or false. False:
 * `message` names the first that is wrong, and what would be right. */
bool mob_item_fields_check(enum mob_engine_kind kind, const struct mob_filter *filter, const char *sort,
    char message[MOB_ITEM_FIELDS_MESSAGE_MAX]);

#endif
