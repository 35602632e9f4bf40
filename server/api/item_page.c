#include "server/api/item_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/log.h"
#include "server/api/scan_cursor.h"
#include "server/serve/model.h"

/* What of a text counts for the order. Longer ones with the same beginning are told apart by their ids. */
#define KEY_TEXT_BYTES 120u
#define KEY_ID_BYTES 144u /* more than any id or name of an endpoint has */
_Static_assert(KEY_ID_BYTES > MOB_ID_TEXT_MAX && KEY_ID_BYTES > MOB_MODEL_NAME_MAX, "all of it counts");

enum key_kind { KEY_ABSENT = 0, KEY_NUMBER, KEY_TEXT };

struct key {
    enum key_kind kind;
    double number; /* below 2^53, or a measure */
    const char *text;
    const char *id;
};

/* In a cursor: kind "." the value's bytes "." the id's bytes, both as hexadecimal digits. */
struct cursor_key {
    struct key key;
    char text[KEY_TEXT_BYTES + 1], id[KEY_ID_BYTES + 1];
};
#define CURSOR_BYTES (1 + 1 + 2 * KEY_TEXT_BYTES + 1 + 2 * KEY_ID_BYTES + 1)
_Static_assert(CURSOR_BYTES <= SCAN_CURSOR_MAX, "routes take no longer ones");

struct ranked {
    struct key key;
    json_t *item;
};

static const char *own_order(enum mob_engine_kind kind)
{
    return kind == MOB_ITEM_JOB ? "-started_us" : kind == MOB_ITEM_FUNCTION ? "name" : "id";
}

static struct key key_of(const json_t *item, const char *field)
{
    const json_t *value = json_object_get(item, field);
    const char *id = json_string_value(json_object_get(item, "id"));
    const char *name = json_string_value(json_object_get(item, "name"));
    struct key key = {.kind = KEY_ABSENT, .text = "", .id = id ? id : name ? name : ""};
    if (json_is_string(value)) {
        key.kind = KEY_TEXT;
        key.text = json_string_value(value);
    } else if (json_is_number(value) || json_is_boolean(value)) {
        key.kind = KEY_NUMBER;
        key.number = json_is_number(value) ? json_number_value(value) : json_is_true(value);
    }
    return key;
}

static int compare_keys(const struct key *a, const struct key *b)
{
    if (a->kind != b->kind)
        return (a->kind > b->kind) - (a->kind < b->kind);
    int order = a->kind == KEY_TEXT ? strncmp(a->text, b->text, KEY_TEXT_BYTES)
                                    : (a->number > b->number) - (a->number < b->number);
    return order != 0 ? order : strncmp(a->id, b->id, KEY_ID_BYTES);
}

static int upwards(const void *a, const void *b)
{
    return compare_keys(&((const struct ranked *)a)->key, &((const struct ranked *)b)->key);
}

static int downwards(const void *a, const void *b)
{
    return upwards(b, a);
}

/* ---- cursors ---- */

static void put_hex(const void *bytes, size_t length, char **at)
{
    for (size_t i = 0; i < length; i++, *at += 2)
        snprintf(*at, 3, "%02x", ((const uint8_t *)bytes)[i]);
}

static char *cursor_text(const struct key *key)
{
    char *text = malloc(CURSOR_BYTES), *at = text;
    MOB_ASSERT(text != NULL);
    *at++ = (char)('0' + key->kind);
    *at++ = '.';
    if (key->kind == KEY_NUMBER)
        put_hex(&key->number, sizeof key->number, &at);
    else
        put_hex(key->text, strnlen(key->text, KEY_TEXT_BYTES), &at);
    *at++ = '.';
    put_hex(key->id, strnlen(key->id, KEY_ID_BYTES), &at);
    *at = '\0';
    return text;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Digits up to `end`, which is behind them; -1: they are none, or too many bytes. */
static int take_hex(const char **at, char end, void *out, size_t most)
{
    uint8_t *bytes = out;
    size_t n = 0;
    for (; **at != end; *at += 2) {
        int high = digit_of((*at)[0]), low = high < 0 ? -1 : digit_of((*at)[1]);
        if (low < 0 || n == most)
            return -1;
        bytes[n++] = (uint8_t)(high << 4 | low);
    }
    *at += end != '\0';
    return (int)n;
}

static bool read_cursor(const char *text, struct cursor_key *out)
{
    *out = (struct cursor_key){.key = {.text = out->text, .id = out->id}};
    if (text[0] < '0' || text[0] > '0' + KEY_TEXT || text[1] != '.')
        return false;
    out->key.kind = (enum key_kind)(text[0] - '0');
    const char *at = text + 2;
    int length = out->key.kind == KEY_NUMBER ? take_hex(&at, '.', &out->key.number, sizeof out->key.number)
                                             : take_hex(&at, '.', out->text, KEY_TEXT_BYTES);
    bool whole = out->key.kind == KEY_NUMBER ? length == (int)sizeof out->key.number
        : out->key.kind == KEY_ABSENT        ? length == 0
                                             : length >= 0;
    /* Not a number is behind nothing and before nothing. */
    return whole && out->key.number == out->key.number && take_hex(&at, '\0', out->id, KEY_ID_BYTES) > 0;
}

/* ---- the page ---- */

enum mob_status item_page_cut(const json_t *rows, enum mob_engine_kind kind, const struct mob_filter *filter,
    const char *sort, const char *cursor, uint32_t limit, struct item_page *out)
{
    struct cursor_key after;
    if (cursor && !read_cursor(cursor, &after))
        return MOB_INVALID;
    const char *order = sort && *sort ? sort : own_order(kind);
    bool down = *order == '-';
    size_t count = 0, at = 0, all = json_array_size(rows);
    MOB_ASSERT(limit > 0);
    struct ranked *ranked = calloc(all + 1, sizeof *ranked);
    MOB_ASSERT(ranked != NULL);
    for (size_t i = 0; i < all; i++) {
        json_t *item = json_array_get(rows, i);
        if (mob_filter_matches(filter, item))
            ranked[count++] = (struct ranked){key_of(item, order + down), item};
    }
    qsort(ranked, count, sizeof *ranked, down ? downwards : upwards);
    for (; cursor && at < count; at++) {
        int side = compare_keys(&ranked[at].key, &after.key);
        if (down ? side < 0 : side > 0)
            break;
    }
    *out = (struct item_page){.items = json_array(), .total = count};
    for (; at < count && json_array_size(out->items) < limit; at++)
        json_array_append(out->items, ranked[at].item);
    if (at < count)
        out->next = cursor_text(&ranked[at - 1].key);
    free(ranked);
    return MOB_OK;
}
