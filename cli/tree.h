/* Trees on stdout, with box characters (plain ASCII when the locale is not UTF-8). */
#ifndef MOB_CLI_TREE_H
#define MOB_CLI_TREE_H

#include <jansson.h>

#define TREE_DEPTH_MAX 64

/* A task with what it was made from in `children` (lineage_tree.h). */
void tree_print_lineage(const json_t *root);
/* Any JSON object: one line a value, indented. */
void tree_print_fields(const json_t *object, int depth);

#endif
