#include "cli/lineage_tree.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/id.h"

/* The task that made the object. */
static bool task_of(const char *object, char out[MOB_ID_TEXT_MAX])
{
    struct mob_object_id id;
    if (!object || mob_object_id_parse(object, &id) != MOB_OK)
        return false;
    mob_task_id_format(id.task, out);
    return true;
}

/* `known`: task -> its node; `placed`: task -> true once it stands somewhere. */
static void add_child(json_t *children, const char *task, const json_t *known, json_t *placed, bool stateful)
{
    json_t *node = json_object_get(known, task);
    if (node && !json_object_get(placed, task)) {
        json_object_set_new(placed, task, json_true());
        if (stateful)
            json_object_set_new(node, "edge", json_string("state"));
        json_array_append(children, node);
        return;
    }
    json_array_append_new(children, json_pack("{s:s, s:b}", "task", task, node ? "above" : "further", 1));
}

static json_t *children_of(const json_t *node, const json_t *known, json_t *placed)
{
    json_t *children = json_array();
    char task[MOB_ID_TEXT_MAX];
    size_t index;
    json_t *input;
    json_array_foreach(json_object_get(node, "inputs"), index, input)
    {
        if (task_of(json_string_value(input), task))
            add_child(children, task, known, placed, false);
    }
    const char *parent = json_string_value(json_object_get(node, "stateful_parent"));
    if (parent)
        add_child(children, parent, known, placed, true);
    return children;
}

json_t *lineage_tree(const json_t *nodes)
{
    json_t *known = json_object(), *placed = json_object(), *root = NULL;
    size_t index;
    json_t *node;
    json_array_foreach(nodes, index, node)
    {
        const char *task = json_string_value(json_object_get(node, "task"));
        if (!task || json_object_get(known, task))
            continue;
        json_t *copy = json_copy(node);
        json_object_set_new(known, task, copy);
        if (!root) {
            root = json_incref(copy);
            json_object_set_new(placed, task, json_true());
        }
    }
    /* In the list's order, so that each stands as near to the root as it can. */
    json_array_foreach(nodes, index, node)
    {
        const char *task = json_string_value(json_object_get(node, "task"));
        json_t *copy = task ? json_object_get(known, task) : NULL;
        if (copy && !json_object_get(copy, "children"))
            json_object_set_new(copy, "children", children_of(node, known, placed));
    }
    json_decref(known);
    json_decref(placed);
    return root;
}
