/* The functions and actor classes that tasks may name: the node's table of them (functions.c), modules on
 * their way into it (deploy.c) and out of it (undeploy.c). Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_FUNCTIONS_H
#define MOB_RUNTIME_NODE_FUNCTIONS_H

#include "runtime/node/node.h"

#define FUNCTION_RECORD_VERSION 1

/* Value of a row in the control store (table FUNCTIONS), then the signature text. When there is more to say,
 * a NUL ends the text, where nodes that know of nothing more stop, and extensions follow: u16 tag | u16 zero
 * | u32 bytes | payload. */
struct function_record {
    uint16_t version;
    uint16_t kind;
    uint16_t method_count;
    uint16_t flags; /* as its module gives them: MOB_FUNCTION_DETERMINISTIC */
    struct mob_function_id id;
    struct mob_module_hash module;
};

enum function_row_ext {
    FUNCTION_ROW_READ_ONLY = 1, /* bit i of byte i / 8: method i is declared MOB_METHOD_READ_ONLY */
    /* u64: the deployment that wrote it; a later one's is larger. Versions of rows do not say it: two rows
     * may lie on different shards, whose versions have nothing to do with each other. */
    FUNCTION_ROW_DEPLOYMENT = 2
};
#define FUNCTION_ROW_EXT_HEAD 8u
/* A class with more cannot be called: sdk/c/function.h. */
#define FUNCTION_METHODS_MAX 1024u

/* functions.c */
struct function_table *function_table_create(void);
void function_table_destroy(struct function_table *table);
enum mob_status node_functions_load(struct node *node); /* from the control store, at start; blocks */
/* NULL = none. By id: also what is leaving or gone. By name: "module.function" (the newest) or with "@hash".
 */
struct node_function *node_function_by_id(struct node *node, struct mob_function_id id);
struct node_function *node_function_by_name(struct node *node, const char *name);
/* In the table from now on; copies. `text`: what stands behind the record in its row. `newest`: what its name
 * means. NULL = the table is full. */
struct node_function *node_function_add(struct node *node, const char *name, size_t name_length,
    const struct function_record *record, const char *text, size_t text_length, bool newest);
/* Is this method of the class declared so? Not known of rows that nodes wrote before there was that
 * extension: then it is not. */
bool node_function_reads(const struct node_function *class, uint16_t method);
/* How many more it takes. */
uint32_t node_functions_room(const struct node *node);
/* The number of a deployment that begins: larger than all in the table, and no smaller than the time, so that
 * it is larger than those of other nodes as well. A module that is deployed again is the newest again. */
uint64_t node_deployment_number(struct node *node);
/* By which deployment this row is; 0: by a node that had no numbers for them, before all that have one. */
uint64_t node_function_row_deployment(const struct mob_gcs_kv *row);
/* A row of the function table is what its name means from now on. */
void node_function_is_newest(struct node *node, const struct mob_gcs_kv *row);
bool node_module_is_known(const struct node *node, struct mob_module_hash module);
/* Functions of the module with this hash (or at least eight characters of it, or "name@hash"); gives the
 * array. MOB_NOT_FOUND; MOB_INVALID: of several modules. */
MOB_MUST_USE enum mob_status node_module_find(struct node *node, const char *text,
    struct mob_module_hash *module_out, struct node_function ***functions_out, uint32_t *count_out);
char *node_functions_json(struct node *node); /* gives */

/* deploy.c: the payload is the id of the object that has the module's bytes. The reply comes when its rows
 * are in the control store. */
void node_deploy(
    struct node *node, struct node_client *client, uint32_t request, const uint8_t *payload, uint32_t bytes);
/* Output of a describing process arrived, or its end. */
void node_describe_readable(struct node *node, int fd);
/* A module whose loading never ends (a constructor that loops) is killed. */
void node_deployments_tick(struct node *node);
/* Those on their way, at the node's own end. */
void node_deployments_drop(struct node *node);

/* undeploy.c */
void node_undeploy(
    struct node *node, struct node_client *client, uint32_t request, const uint8_t *payload, uint32_t bytes);

#endif
