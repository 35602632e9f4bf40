#include "cli/table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELL_MAX = 72 };
#define YEAR_2001_US 978307200000000ll /* smaller numbers are durations */
#define CUT "..." /* the end of a cell that had no room */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* What has no room ends in dots, behind a whole character. */
static void fill(char *out, size_t capacity, const char *text)
{
    size_t length = strlen(text);
    if (length < capacity) {
        memcpy(out, text, length + 1);
        return;
    }
    size_t kept = capacity - sizeof CUT;
    while (kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80)
        kept--;
    memcpy(out, text, kept);
    memcpy(out + kept, CUT, sizeof CUT);
}

static void fill_time(char *out, size_t capacity, json_int_t us)
{
    char text[32];
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    if (us > YEAR_2001_US) {
        gmtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &tm);
    } else if (us < 1000) {
        snprintf(text, sizeof text, "%lld us", (long long)us);
    } else if (us < 1000000) {
        snprintf(text, sizeof text, "%.1f ms", (double)us / 1e3);
    } else {
        snprintf(text, sizeof text, "%.1f s", (double)us / 1e6);
    }
    fill(out, capacity, text);
}

void table_cell(const char *key, const json_t *value, char *out, size_t capacity)
{
    if (!value || json_is_null(value)) {
        fill(out, capacity, "-");
    } else if (json_is_string(value)) {
        fill(out, capacity, *json_string_value(value) ? json_string_value(value) : "-");
        bool of_class = strcmp(key, "signature") == 0; /* a line for each method */
        for (char *c = out; *c; c++) /* one cell, one line */
            *c = *c == '\n' && of_class ? ';' : (unsigned char)*c < ' ' ? ' ' : *c;
    } else if (json_is_integer(value) && ends_with(key, "_us")) {
        fill_time(out, capacity, json_integer_value(value));
    } else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        fill(out, capacity, text ? text : "?");
        free(text);
    }
}

struct columns {
    const char *keys[TABLE_COLUMNS_MAX];
    int widths[TABLE_COLUMNS_MAX];
    int count;
};

static bool has_column(const struct columns *columns, const char *key)
{
    for (int i = 0; i < columns->count; i++)
        if (strcmp(columns->keys[i], key) == 0)
            return true;
    return false;
}

static void add_column(struct columns *columns, const char *key)
{
    if (columns->count < TABLE_COLUMNS_MAX && !has_column(columns, key)) {
        columns->keys[columns->count] = key;
        columns->widths[columns->count++] = (int)strlen(key);
    }
}

static void find_columns(const json_t *items, const char *const *shown, struct columns *columns)
{
    size_t index;
    json_t *item, *value;
    const char *key;
    for (int i = 0; shown && shown[i]; i++) {
        json_array_foreach(items, index, item)
        {
            if (json_object_get(item, shown[i]))
                add_column(columns, shown[i]);
        }
    }
    if (columns->count > 0)
        return;
    json_array_foreach(items, index, item)
    {
        json_object_foreach(item, key, value)
        {
            if (!json_is_object(value) && !json_is_array(value))
                add_column(columns, key);
        }
    }
}

/* "started_us" is headed STARTED: its cells are dates. */
static void heading(const char *key, char out[CELL_MAX])
{
    int length = (int)strlen(key);
    if (ends_with(key, "_us"))
        length -= 3;
    snprintf(out, CELL_MAX, "%.*s", length, key);
    for (char *c = out; *c; c++)
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c == '_' ? ' ' : *c);
}

/* The last column is not padded. */
static void print_cell(const struct columns *columns, int i, const char *cell)
{
    if (i + 1 < columns->count)
        printf("%-*s  ", columns->widths[i], cell);
    else
        puts(cell);
}

void table_print(const json_t *items, const char *const *shown)
{
    struct columns columns = {.count = 0};
    size_t index;
    json_t *item;
    char cell[CELL_MAX];
    find_columns(items, shown, &columns);
    json_array_foreach(items, index, item)
    {
        for (int i = 0; i < columns.count; i++) {
            table_cell(columns.keys[i], json_object_get(item, columns.keys[i]), cell, sizeof cell);
            if ((int)strlen(cell) > columns.widths[i])
                columns.widths[i] = (int)strlen(cell);
        }
    }
    for (int i = 0; i < columns.count; i++) {
        heading(columns.keys[i], cell);
        print_cell(&columns, i, cell);
    }
    json_array_foreach(items, index, item)
    {
        for (int i = 0; i < columns.count; i++) {
            table_cell(columns.keys[i], json_object_get(item, columns.keys[i]), cell, sizeof cell);
            print_cell(&columns, i, cell);
        }
    }
}
