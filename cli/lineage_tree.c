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

struct placing {
    const json_t *known; /* task -> its node */
    json_t *placed; /* task -> true once it stands somewhere */
    json_t *children; /* of the node at hand */
    json_int_t further; /* children that are not in the list */
};

static void add_child(struct placing *placing, const char *task, bool stateful)
{
    json_t *node = json_object_get(placing->known, task);
    if (!node) {
        placing->further++;
    } else if (json_object_get(placing->placed, task)) {
        json_array_append_new(placing->children, json_pack("{s:s, s:b}", "task", task, "above", 1));
    } else {
        json_object_set_new(placing->placed, task, json_true());
        if (stateful)
            json_object_set_new(node, "edge", json_string("state"));
        json_array_append(placing->children, node);
    }
}

static json_t *children_of(const json_t *node, const json_t *known, json_t *placed)
{
    struct placing placing = {known, placed, json_array(), 0};
    char task[MOB_ID_TEXT_MAX];
    size_t index;
    json_t *input;
    json_array_foreach(json_object_get(node, "inputs"), index, input)
    {
        if (task_of(json_string_value(input), task))
            add_child(&placing, task, false);
    }
    const char *parent = json_string_value(json_object_get(node, "stateful_parent"));
    if (parent)
        add_child(&placing, parent, true);
    if (placing.further > 0)
        json_array_append_new(placing.children, json_pack("{s:I}", "further", placing.further));
    return placing.children;
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
