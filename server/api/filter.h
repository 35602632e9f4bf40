/* Filters and order of lists: `state:FAILED AND name:train*`, `-started_us`. Pure, on JSON objects.
 */
#ifndef MOB_SERVER_API_FILTER_H
#define MOB_SERVER_API_FILTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_FILTER_TERMS_MAX 8

struct mob_filter {
    struct {
        char field[32], value[128];
    } terms[MOB_FILTER_TERMS_MAX];
    size_t count;
};

/* NULL or empty text: everything. MOB_INVALID: not `field:value [AND field:value]...`. */
MOB_MUST_USE enum mob_status mob_filter_parse(const char *text, struct mob_filter *out);
/* Case does not matter; '*' stands for anything; a number may also be compared, as in `finished_us:>=17`. A
 * field that the item lacks matches nothing. */
bool mob_filter_matches(const struct mob_filter *filter, const json_t *item);
/* What comparisons say of a whole number: moves `from` and `to` together; it is in [from, to]. False: there
 * are none. */
bool mob_filter_bounds(const struct mob_filter *filter, const char *field, int64_t *from, int64_t *to);
/* Is a value of a term one of ">5", ">=5", "<5", "<=5", with any decimal number? */
bool mob_filter_is_comparison(const char *value);
bool mob_glob(const char *pattern, const char *text);
/* Where an item stands in a list that is sorted by a field, descending with '-': by its value, and among
 * equal ones by its id, the newest of a stream first. Borrowed from the item; value NULL: it has none. */
struct mob_sort_key {
    const json_t *value;
    const char *id;
};
struct mob_sort_key mob_sort_key_of(const json_t *item, const char *order);
/* Below 0: `a` comes first. */
int mob_sort_compare(struct mob_sort_key a, struct mob_sort_key b, const char *order);
/* Sorts an array of objects so. */
void mob_json_sort(json_t *array, const char *order);

#endif
