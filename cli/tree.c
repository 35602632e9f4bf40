#include "cli/tree.h"

#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/table.h"

enum { CELL_MAX = 256 };

struct boxes {
    const char *tee, *corner, *bar;
};

static struct boxes boxes_of_locale(void)
{
    setlocale(LC_CTYPE, "");
    /* A bare machine has the C locale and a terminal that knows UTF-8 all the same; only another charset is
     * believed. */
    const char *charset = nl_langinfo(CODESET);
    if (strcmp(charset, "UTF-8") == 0 || strcmp(charset, "ANSI_X3.4-1968") == 0)
        return (struct boxes){"├─ ", "└─ ", "│  "};
    return (struct boxes){"|- ", "`- ", "|  "};
}

static const char *text_of(const json_t *node, const char *key)
{
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : "";
}

/* What it is, how it stands, and its id, in one line. */
static void print_line(const json_t *node)
{
    const char *function = text_of(node, "function"), *kind = text_of(node, "kind");
    long long further = json_integer_value(json_object_get(node, "further"));
    if (further > 0) {
        printf("... %lld further back\n", further);
        return;
    }
    if (*text_of(node, "edge"))
        printf("(state) ");
    printf("%s", *function ? function : kind);
    if (*function && *kind && strcmp(kind, "task") != 0)
        printf("  %s", kind);
    const json_t *position = json_object_get(node, "position");
    if (json_integer_value(position) > 0)
        printf(" %lld", (long long)json_integer_value(position));
    if (*text_of(node, "state") && strcmp(text_of(node, "state"), "finished") != 0)
        printf("  %s", text_of(node, "state"));
    printf("%s%s", *function || *kind ? "  " : "", text_of(node, "task"));
    if (json_is_true(json_object_get(node, "above")))
        printf("  (above)");
    putchar('\n');
}

static void print_below(const json_t *node, const struct boxes *boxes, char *prefix, size_t length, int depth)
{
    const json_t *children = json_object_get(node, "children");
    size_t count = json_array_size(children), bar = strlen(boxes->bar);
    if (depth >= TREE_DEPTH_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        const json_t *child = json_array_get(children, i);
        bool last = i + 1 == count;
        printf("%s%s", prefix, last ? boxes->corner : boxes->tee);
        print_line(child);
        const char *step = last ? "   " : boxes->bar;
        size_t step_length = last ? 3 : bar;
        memcpy(prefix + length, step, step_length + 1);
        print_below(child, boxes, prefix, length + step_length, depth + 1);
        prefix[length] = '\0';
    }
}

void tree_print_lineage(const json_t *root)
{
    struct boxes boxes = boxes_of_locale();
    char prefix[TREE_DEPTH_MAX * 8 + 8] = "";
    print_line(root);
    print_below(root, &boxes, prefix, 0, 0);
}

void tree_print_fields(const json_t *object, int depth)
{
    const char *key;
    json_t *value;
    size_t index;
    json_t *item;
    if (depth > TREE_DEPTH_MAX)
        return;
    json_object_foreach((json_t *)object, key, value)
    {
        char cell[CELL_MAX];
        if (json_is_object(value)) {
            printf("%*s%s\n", depth * 2, "", key);
            tree_print_fields(value, depth + 1);
        } else if (json_is_array(value)) {
            printf("%*s%s%s\n", depth * 2, "", key, json_array_size(value) == 0 ? "  none" : "");
            json_array_foreach(value, index, item)
            {
                if (json_is_object(item)) {
                    printf("%*s-\n", depth * 2 + 2, "");
                    tree_print_fields(item, depth + 2);
                    continue;
                }
                table_cell(key, item, cell, sizeof cell);
                printf("%*s- %s\n", depth * 2 + 2, "", cell);
            }
        } else {
            table_cell(key, value, cell, sizeof cell);
            printf("%*s%-*s  %s\n", depth * 2, "", 14 - depth * 2 > 0 ? 14 - depth * 2 : 0, key, cell);
        }
    }
}
