#include "runtime/worker/module_cache.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cstring.h"
#include "common/base/log.h"
#include "common/base/log_value.h"

#define REASON_MAX 256

struct mob_loaded_module {
    struct mob_loaded_module *next;
    struct mob_module_hash hash;
    const struct mob_module *module; /* NULL: refused */
    enum mob_status refused;
    char reason[REASON_MAX];
};

/* ---- one file ---- */

static enum mob_status check_content(int fd, const struct mob_module_hash *hash, char *reason)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size == 0) {
        snprintf(reason, REASON_MAX, "the module file is empty");
        return MOB_CORRUPT;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        snprintf(reason, REASON_MAX, "the module file cannot be read: %s", strerror(errno));
        return MOB_IO;
    }
    struct mob_module_hash found = mob_module_hash(map, (size_t)st.st_size);
    munmap(map, (size_t)st.st_size);
    if (memcmp(&found, hash, sizeof found) == 0)
        return MOB_OK;
    snprintf(reason, REASON_MAX, "the module file's content is not what its name says");
    return MOB_CORRUPT;
}

static enum mob_status check_module(const struct mob_module *module, char *reason)
{
    if (module == NULL) {
        snprintf(reason, REASON_MAX, "the file is no module: it does not say MOB_MODULE(...)");
        return MOB_INVALID;
    }
    if (module->abi != MOB_ABI || module->struct_size < sizeof *module) {
        snprintf(reason, REASON_MAX, "the module was built for ABI %u, this worker has ABI %d", module->abi,
            MOB_ABI);
        return MOB_ABI_MISMATCH;
    }
    if (strcmp(module->machine, MOB_MACHINE) != 0) {
        snprintf(reason, REASON_MAX, "the module was built for %.60s, this machine is " MOB_MACHINE,
            module->machine);
        return MOB_ABI_MISMATCH;
    }
    return MOB_OK;
}

/* A file for another machine does not load at all; its header says so better than the loader. */
static enum mob_status check_elf(int fd, char *reason)
{
    uint8_t head[20];
#if defined(__x86_64__)
    const uint16_t machine = 62;
#else
    const uint16_t machine = 183;
#endif
    if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head, "\177ELF", 4) != 0) {
        snprintf(reason, REASON_MAX, "the file is no ELF shared object");
        return MOB_INVALID;
    }
    /* e_machine is in the byte order that byte 5 names. */
    unsigned low = head[5] == 2 ? head[19] : head[18], high = head[5] == 2 ? head[18] : head[19];
    unsigned found = high << 8 | low;
    if (head[4] == 2 && head[5] == 1 && found == machine)
        return MOB_OK;
    snprintf(reason, REASON_MAX,
        "the module was built for ELF machine %u (%s, class %u), this machine is " MOB_MACHINE " (%u)", found,
        head[5] == 2 ? "big-endian" : "little-endian", head[4], machine);
    return MOB_ABI_MISMATCH;
}

enum mob_status mob_module_open(
    const char *path, const struct mob_module_hash *hash, const struct mob_module **module_out, char *reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(reason, REASON_MAX, "the module file is not there: %s", strerror(errno));
        return MOB_NOT_FOUND;
    }
    enum mob_status status = hash == NULL ? MOB_OK : check_content(fd, hash, reason);
    if (status == MOB_OK)
        status = check_elf(fd, reason);
    if (status == MOB_OK) {
        /* By path, not by descriptor: the loader knows files by name and would give the first one again. Only
         * the node writes in that folder, and only whole files under the hash of their content. */
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const char *error = handle == NULL ? dlerror() : NULL;
        const struct mob_module *module = handle == NULL ? NULL : dlsym(handle, "mob_module_v1");
        if (error != NULL) {
            snprintf(reason, REASON_MAX, "the module does not load: %.200s", error);
            status = MOB_INVALID;
        } else {
            status = check_module(module, reason);
        }
        if (status == MOB_OK)
            *module_out = module;
        else if (handle != NULL)
            dlclose(handle);
    }
    close(fd);
    return status;
}

/* ---- modules by hash ---- */

static struct mob_loaded_module *load(struct mob_module_cache *cache, const struct mob_module_hash *hash)
{
    for (struct mob_loaded_module *m = cache->modules; m != NULL; m = m->next)
        if (memcmp(&m->hash, hash, sizeof *hash) == 0)
            return m;
    struct mob_loaded_module *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    char name[64], path[400];
    mob_base32_encode(hash->b, sizeof hash->b, name);
    snprintf(path, sizeof path, "%s/%s.so", cache->dir, name);
    m->hash = *hash;
    m->refused = mob_module_open(path, hash, &m->module, m->reason);
    m->next = cache->modules;
    cache->modules = m;
    if (m->refused != MOB_OK)
        MOB_LOG_ERROR("worker", "module_refused", "hash=%s status=%s reason=\"%s\"", name,
            mob_status_code(m->refused), MOB_LOG_VALUE(m->reason));
    return m;
}

/* ---- functions by id ---- */

static uint64_t id_mix(struct mob_function_id id)
{
    uint64_t x; /* ids are hashes already */
    memcpy(&x, id.b, sizeof x);
    return x;
}

static struct mob_loaded_function **place_of(struct mob_module_cache *cache, struct mob_function_id id)
{
    uint32_t mask = cache->capacity - 1, i = (uint32_t)id_mix(id) & mask;
    while (cache->functions[i] != NULL && memcmp(&cache->functions[i]->id, &id, sizeof id) != 0)
        i = (i + 1) & mask;
    return &cache->functions[i];
}

static bool grow(struct mob_module_cache *cache)
{
    struct mob_module_cache bigger = *cache;
    bigger.capacity = cache->capacity == 0 ? 64 : cache->capacity * 2;
    bigger.functions = calloc(bigger.capacity, sizeof(struct mob_loaded_function *));
    if (bigger.functions == NULL)
        return false;
    for (uint32_t i = 0; i < cache->capacity; i++)
        if (cache->functions[i] != NULL)
            *place_of(&bigger, cache->functions[i]->id) = cache->functions[i];
    free(cache->functions);
    *cache = bigger;
    return true;
}

enum mob_status mob_module_cache_add(struct mob_module_cache *cache, struct mob_function_id id,
    struct mob_module_hash hash, const char *name, size_t name_bytes)
{
    if (cache->count >= MOB_WORKER_FUNCTIONS_MAX)
        return MOB_QUEUE_FULL;
    if (cache->count * 2 >= cache->capacity && !grow(cache))
        return MOB_NO_MEMORY;
    struct mob_loaded_function **place = place_of(cache, id);
    if (*place != NULL)
        return MOB_OK;
    struct mob_loaded_function *function = calloc(1, sizeof *function);
    if (function == NULL)
        return MOB_NO_MEMORY;
    function->id = id;
    function->hash = hash;
    function->name = mob_cstring_copy(name, name_bytes);
    if (function->name == NULL) {
        free(function);
        return MOB_NO_MEMORY;
    }
    *place = function;
    cache->count++;
    return MOB_OK;
}

static void find_entry(struct mob_loaded_function *function, struct mob_client *client)
{
    const char *dot = strrchr(function->name, '.');
    const char *name = dot == NULL ? function->name : dot + 1;
    const struct mob_function_entry *entry = function->module->functions;
    while (entry->name != NULL && strcmp(entry->name, name) != 0)
        entry++;
    if (entry->name == NULL) {
        function->refused = MOB_NOT_FOUND;
        snprintf(function->reason, REASON_MAX, "module %.60s has no function %.120s", function->module->name,
            name);
        return;
    }
    char full[512];
    snprintf(full, sizeof full, "%s.%s", function->module->name, name);
    function->refused = mob_function_of_entry(client, full, function->hash, entry, &function->info);
    if (function->refused == MOB_OK)
        function->entry = entry;
    else
        snprintf(function->reason, REASON_MAX, "%.200s", mob_client_error(client));
}

struct mob_loaded_function *mob_module_cache_find(
    struct mob_module_cache *cache, struct mob_client *client, struct mob_function_id id)
{
    if (cache->last != NULL && memcmp(&cache->last->id, &id, sizeof id) == 0)
        return cache->last;
    struct mob_loaded_function *function = cache->capacity == 0 ? NULL : *place_of(cache, id);
    if (function == NULL)
        return NULL;
    if (function->entry == NULL && function->refused == MOB_OK) {
        const struct mob_loaded_module *module = load(cache, &function->hash);
        if (module == NULL)
            return NULL;
        function->module = module->module;
        function->refused = module->refused;
        memcpy(function->reason, module->reason, sizeof function->reason);
        if (function->refused == MOB_OK)
            find_entry(function, client);
    }
    if (function->refused == MOB_OK)
        cache->last = function;
    return function;
}

void mob_module_cache_fini(struct mob_module_cache *cache)
{
    for (uint32_t i = 0; i < cache->capacity; i++) {
        if (cache->functions[i] == NULL)
            continue;
        free(cache->functions[i]->name);
        free(cache->functions[i]);
    }
    free(cache->functions);
    while (cache->modules != NULL) {
        struct mob_loaded_module *m = cache->modules;
        cache->modules = m->next;
        free(m);
    }
}
