#include "server/api/filter.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/decimal.h"
#include "common/base/id.h"

enum mob_status mob_filter_parse(const char *text, struct mob_filter *out)
{
    struct mob_filter filter = {0};
    const char *at = text ? text : "";
    while (*(at += strspn(at, " "))) {
        size_t length = strcspn(at, " ");
        if (filter.count > 0 && length == 3 && strncasecmp(at, "AND", 3) == 0) {
            at += 3;
            at += strspn(at, " ");
            length = strcspn(at, " ");
        } else if (filter.count > 0) {
            return MOB_INVALID;
        }
        const char *colon = memchr(at, ':', length);
        size_t field = colon ? (size_t)(colon - at) : 0, value = colon ? length - field - 1 : 0;
        if (field == 0 || value == 0 || filter.count == MOB_FILTER_TERMS_MAX ||
            field >= sizeof filter.terms[0].field || value >= sizeof filter.terms[0].value)
            return MOB_INVALID;
        memcpy(filter.terms[filter.count].field, at, field);
        memcpy(filter.terms[filter.count++].value, colon + 1, value);
        at += length;
    }
    *out = filter;
    return MOB_OK;
}

bool mob_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *back = NULL;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            back = text;
        } else if (*text && tolower((unsigned char)*pattern) == tolower((unsigned char)*text)) {
            pattern++;
            text++;
        } else if (!*text && !*pattern) {
            return true;
        } else if (star && *back) {
            pattern = star;
            text = ++back;
        } else {
            return false;
        }
    }
}

/* ">5", ">=5", "<5", "<=5" of a number; anything else is a pattern. */
bool mob_filter_is_comparison(const char *pattern)
{
    if (pattern[0] != '<' && pattern[0] != '>')
        return false;
    const char *number = pattern + (pattern[1] == '=' ? 2 : 1);
    double bound;
    number += *number == '-';
    size_t length = mob_decimal_fraction(number, &bound);
    return length > 0 && number[length] == '\0';
}

static bool compares(const char *pattern, double value)
{
    bool or_equal = pattern[1] == '=';
    double bound = strtod(pattern + 1 + or_equal, NULL);
    return (or_equal && value == bound) || (pattern[0] == '<' ? value < bound : value > bound);
}

bool mob_filter_bounds(const struct mob_filter *filter, const char *field, int64_t *from, int64_t *to)
{
    bool any = false;
    for (size_t i = 0; i < filter->count; i++) {
        const char *value = filter->terms[i].value;
        if (strcmp(filter->terms[i].field, field) != 0 || !mob_filter_is_comparison(value))
            continue;
        bool or_equal = value[1] == '=';
        int64_t bound = strtoll(value + 1 + or_equal, NULL, 10);
        if (value[0] == '>' && bound > *from)
            *from = bound;
        if (value[0] == '<' && bound < *to)
            *to = bound;
        any = true;
    }
    return any;
}

static bool term_matches(const char *pattern, const json_t *value)
{
    char text[64];
    if (json_is_number(value) && mob_filter_is_comparison(pattern))
        return compares(pattern, json_number_value(value));
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        return mob_glob(pattern, json_string_value(value));
    case JSON_INTEGER:
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        return mob_glob(pattern, text);
    case JSON_REAL:
        snprintf(text, sizeof text, "%g", json_real_value(value));
        return mob_glob(pattern, text);
    case JSON_TRUE:
        return mob_glob(pattern, "true");
    case JSON_FALSE:
        return mob_glob(pattern, "false");
    case JSON_OBJECT:
    case JSON_ARRAY:
    case JSON_NULL:
        break;
    }
    return false;
}

bool mob_filter_matches(const struct mob_filter *filter, const json_t *item)
{
    for (size_t i = 0; i < filter->count; i++)
        if (!term_matches(filter->terms[i].value, json_object_get(item, filter->terms[i].field)))
            return false;
    return true;
}

/* --- order --- */

/* By kind first, so that any two values have an order, and any three a consistent one. */
static int kind_rank(const json_t *x)
{
    if (!x || json_is_null(x))
        return 0;
    return json_is_boolean(x) ? 1 : json_is_number(x) ? 2 : json_is_string(x) ? 3 : 4;
}

static int compare_values(const json_t *x, const json_t *y)
{
    int kinds = kind_rank(x) - kind_rank(y);
    if (kinds)
        return kinds;
    if (json_is_number(x)) {
        double u = json_number_value(x), v = json_number_value(y);
        return (u > v) - (u < v);
    }
    if (json_is_string(x))
        return strcmp(json_string_value(x), json_string_value(y));
    return json_is_true(x) - json_is_true(y);
}

/* The newest of a stream first, as in lists without an order. */
static int compare_ids(const char *x, const char *y)
{
    struct mob_object_id a, b;
    bool tasks = mob_task_id_parse(x, &a.task) == MOB_OK && mob_task_id_parse(y, &b.task) == MOB_OK;
    bool objects = !tasks && mob_object_id_parse(x, &a) == MOB_OK && mob_object_id_parse(y, &b) == MOB_OK;
    if ((tasks || objects) && a.task.index != b.task.index)
        return a.task.index < b.task.index ? 1 : -1;
    return strcmp(x, y);
}

struct mob_sort_key mob_sort_key_of(const json_t *item, const char *order)
{
    const char *id = json_string_value(json_object_get(item, "id"));
    return (struct mob_sort_key){json_object_get(item, order + (*order == '-')), id ? id : ""};
}

int mob_sort_compare(struct mob_sort_key a, struct mob_sort_key b, const char *order)
{
    int values = compare_values(a.value, b.value);
    return values == 0 ? compare_ids(a.id, b.id) : *order == '-' ? -values : values;
}

struct sortable {
    json_t *item;
    struct mob_sort_key key;
    const char *order;
};

static int in_order(const void *a, const void *b)
{
    const struct sortable *x = a, *y = b;
    return mob_sort_compare(x->key, y->key, x->order);
}

void mob_json_sort(json_t *array, const char *order)
{
    if (!order || !*order)
        return;
    size_t n = json_array_size(array);
    struct sortable *items = calloc(n + 1, sizeof *items);
    if (!items)
        return;
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_array_get(array, i);
        items[i] = (struct sortable){json_incref(item), mob_sort_key_of(item, order), order};
    }
    qsort(items, n, sizeof *items, in_order);
    json_array_clear(array);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, items[i].item);
    free(items);
}
