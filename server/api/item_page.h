/* Pages of lists that are whole in memory: functions, actors, jobs, nodes, endpoints. Pure, on JSON objects.
 *
 * Their order is total: the field that is sorted by, then what tells the item from all others (`id`, or the
 * name of what has none). A cursor says where the page before it ended in that order, not how many items
 * there were. So an item that is there from the first page to the last is given exactly once, whatever comes
 * and goes meanwhile, on whatever node, in whatever order that has them, unless the field itself changes:
 * then the item moves with it. Without a field: jobs by their beginning, newest first, functions by name, the
 * others by what tells them apart.
 */
#ifndef MOB_SERVER_API_ITEM_PAGE_H
#define MOB_SERVER_API_ITEM_PAGE_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/status.h"
#include "server/api/engine.h"
#include "server/api/filter.h"

struct item_page {
    json_t *items; /* the caller's */
    size_t total; /* of all pages, as the list is now */
    char *next; /* cursor of the next page, the caller's; NULL: this is the last one */
};

/* The items of `rows` (an array of objects; borrows) that the filter lets through and that come behind
 * `cursor` (NULL: all), at most `limit`, in the order of `sort` ("field" or "-field", NULL or "": the kind's
 * own). MOB_INVALID: not a cursor that this function gave. */
MOB_MUST_USE enum mob_status item_page_cut(const json_t *rows, enum mob_engine_kind kind,
    const struct mob_filter *filter, const char *sort, const char *cursor, uint32_t limit,
    struct item_page *out);

#endif
