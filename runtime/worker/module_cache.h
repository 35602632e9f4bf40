/* Function modules of a worker: files by content hash, checked and loaded once. One thread. */
#ifndef MOB_RUNTIME_WORKER_MODULE_CACHE_H
#define MOB_RUNTIME_WORKER_MODULE_CACHE_H

#include <mobula/mobula.h>

#include "sdk/c/function.h"

#define MOB_WORKER_FUNCTIONS_MAX 65536u

struct mob_loaded_function {
    struct mob_function_id id;
    struct mob_module_hash hash;
    char *name; /* "module.function" */
    /* Filled at the first use: */
    const struct mob_module *module;
    const struct mob_function_entry *entry;
    const struct mob_function *info;
    enum mob_status refused; /* why it cannot be loaded */
    char reason[256];
};
struct mob_module_cache {
    char dir[300]; /* STATE_DIR/modules */
    struct mob_loaded_function **functions; /* open addressing by id */
    uint32_t capacity, count;
    struct mob_loaded_module *modules;
    struct mob_loaded_function *last; /* found last */
};

/* MOB_IN_FUNCTION. MOB_NO_MEMORY, MOB_QUEUE_FULL at the limit. */
enum mob_status mob_module_cache_add(struct mob_module_cache *cache, struct mob_function_id id,
    struct mob_module_hash hash, const char *name, size_t name_bytes);
/* NULL: never announced. Otherwise look at `refused` and `reason`. Loads the module at the first use. */
struct mob_loaded_function *mob_module_cache_find(
    struct mob_module_cache *cache, struct mob_client *client, struct mob_function_id id);
void mob_module_cache_fini(struct mob_module_cache *cache);

/* Opens a module file and checks ABI, machine and, unless `hash` is NULL, content. MOB_ABI_MISMATCH,
 * MOB_CORRUPT, MOB_NOT_FOUND, MOB_INVALID; `reason` (256 bytes) says why. Runs the file's constructors. */
enum mob_status mob_module_open(
    const char *path, const struct mob_module_hash *hash, const struct mob_module **module_out, char *reason);

#endif
