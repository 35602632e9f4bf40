/* Sorted lists: the best rows behind the page before, and their cursors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "server/api/engine_list.h"

/* Rows beside those of the page, before they are sorted and the rest goes: as many as the page has, at least
 * these. */
#define TRIM_ROWS_MIN 256u

bool list_comes_after(const struct mob_engine_query *query, const struct list_after *after, const json_t *row)
{
    struct mob_sort_key end = {after->value, after->id};
    return !after->set || mob_sort_compare(mob_sort_key_of(row, query->sort), end, query->sort) > 0;
}

static size_t rows_of_page(const struct mob_engine_query *query)
{
    return query->limit + 1u; /* one more says that there are more */
}

static void trim(const struct mob_engine_query *query, json_t *items)
{
    mob_json_sort(items, query->sort);
    while (json_array_size(items) > rows_of_page(query))
        json_array_remove(items, json_array_size(items) - 1);
}

bool list_trim_sorted(const struct mob_engine_query *query, json_t *items)
{
    size_t most = rows_of_page(query), excess = most > TRIM_ROWS_MIN ? most : TRIM_ROWS_MIN;
    if (json_array_size(items) < most + excess)
        return false;
    trim(query, items);
    return true;
}

bool list_page_of_sorted(const struct mob_engine_query *query, json_t *items)
{
    trim(query, items);
    return json_array_size(items) > query->limit && json_array_remove(items, query->limit) == 0;
}

/* ---- values that are known before there is a row ---- */

static enum list_value value_of_field(const char *field)
{
    static const struct {
        const char *field;
        enum list_value value;
    } known[] = {{"submitted_us", LIST_SUBMITTED}, {"started_us", LIST_STARTED},
        {"finished_us", LIST_FINISHED}, {"size", LIST_SIZE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(field, known[i].field) == 0)
            return known[i].value;
    return LIST_OTHER;
}

static void bound(struct list_order *order, const json_t *value, bool *has, double *out)
{
    *has = order->by != LIST_OTHER && json_is_number(value);
    *out = *has ? (order->down ? -1 : 1) * json_number_value(value) : 0;
}

void list_order_begin(struct list *list, const struct mob_engine_query *query)
{
    struct list_order *order = &list->order;
    *order = (struct list_order){.down = *query->sort == '-', .most = (uint32_t)rows_of_page(query)};
    order->by = value_of_field(query->sort + order->down);
    bound(order, list->after.value, &order->has_first, &order->first);
    order->counts = !list->late_terms && (!list->after.set || order->has_first);
}

void list_order_note(struct list_order *order, const struct mob_engine_query *query, const json_t *items)
{
    const json_t *last = json_array_get(items, rows_of_page(query) - 1);
    bound(order, mob_sort_key_of(last, query->sort).value, &order->has_last, &order->last);
}

static double place_of(const struct list_order *order, int64_t value)
{
    return order->down ? -(double)value : (double)value;
}

bool list_order_lacks(const struct list_order *order, int64_t value)
{
    double at = place_of(order, value);
    return (order->has_first && at < order->first) || (order->has_last && at > order->last) ||
        (order->block_rows >= order->most && at > order->block_last);
}

void list_order_count(struct list_order *order, int64_t value)
{
    double at = place_of(order, value);
    if (!order->counts || (order->has_first && at <= order->first))
        return;
    if (order->block_rows++ == 0 || at > order->block_last)
        order->block_last = at;
}

#define SORTED_PART "--" /* before "VALUE.ID", both in hexadecimal digits, the value as JSON */

static void write_hex(struct mob_text *out, const char *text)
{
    for (const char *c = text; *c; c++)
        mob_text_printf(out, "%02x", (unsigned char)*c);
}

/* NULL: they are none. */
static char *read_hex(const char *text, size_t length)
{
    char *out = malloc(length / 2 + 1);
    MOB_ASSERT(out != NULL);
    size_t n = 0;
    unsigned byte;
    while (2 * n + 1 < length && sscanf(text + 2 * n, "%2x", &byte) == 1)
        out[n++] = (char)byte;
    out[n] = '\0';
    if (2 * n == length)
        return out;
    free(out);
    return NULL;
}

char *list_sorted_cursor(const struct mob_engine_query *query, const struct scan_mark *marks, uint32_t count,
    uint64_t name, const json_t *items)
{
    struct mob_sort_key end = mob_sort_key_of(json_array_get(items, json_array_size(items) - 1), query->sort);
    char *value = end.value ? json_dumps(end.value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    struct mob_text part = {0}, whole = {0};
    char places[SCAN_CURSOR_MAX];
    size_t length;
    mob_text_puts(&part, SORTED_PART);
    write_hex(&part, value ? value : "");
    mob_text_puts(&part, ".");
    write_hex(&part, end.id);
    free(value);
    char *behind = mob_text_take(&part, &length);
    MOB_ASSERT(behind != NULL);
    scan_cursor_write(marks, count, name ^ mob_hash64(behind, length), places);
    mob_text_printf(&whole, "%s%s", places, behind);
    free(behind);
    char *cursor = mob_text_take(&whole, &length);
    MOB_ASSERT(cursor != NULL);
    return cursor;
}

/* What stands behind the places. */
static bool read_after(const char *text, struct list_after *out)
{
    const char *dot = strchr(text, '.');
    char *value = dot ? read_hex(text, (size_t)(dot - text)) : NULL,
         *id = dot ? read_hex(dot + 1, strlen(dot + 1)) : NULL;
    bool good = value && id && strlen(id) < sizeof out->id;
    if (good) {
        out->value = *value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
        memcpy(out->id, id, strlen(id) + 1);
        out->set = true;
    }
    free(value);
    free(id);
    return good;
}

bool list_sorted_cursor_read(
    const char *text, struct scan_mark *marks, uint32_t count, uint64_t name, struct list_after *after_out)
{
    char places[SCAN_CURSOR_MAX];
    const char *behind = strstr(text, SORTED_PART);
    *after_out = (struct list_after){0};
    if (!behind || (size_t)(behind - text) >= sizeof places)
        return false;
    snprintf(places, sizeof places, "%.*s", (int)(behind - text), text);
    return scan_cursor_read(places, name ^ mob_hash64(behind, strlen(behind)), marks, count) &&
        read_after(behind + strlen(SORTED_PART), after_out);
}

void list_after_fini(struct list_after *after)
{
    json_decref(after->value);
    after->value = NULL;
}
