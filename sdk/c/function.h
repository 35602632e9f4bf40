/* Functions and classes as a client knows them. Lives as long as its client. */
#ifndef MOB_SDK_C_FUNCTION_H
#define MOB_SDK_C_FUNCTION_H

#include <mobula/mobula.h>

#include "common/wire/record.h"
#include "common/wire/signature.h"

#define MOB_METHODS_MAX 1024u
/* A name means its newest hash; a client asks again when its knowledge is older than this. */
#define MOB_NAME_FRESH_NS 1000000000ll

struct mob_signature_info {
    char *text;
    struct mob_signature parsed;
    uint16_t num_returns; /* MOB_RETURNS_STREAM for a stream */
    uint8_t scalar_count; /* > 0: exactly so many arguments, each of `scalars` in order; the quick check */
    uint8_t scalars[8];
};
struct mob_method_info {
    char *name;
    bool read_only;
    struct mob_signature_info signature;
};
struct mob_function {
    struct mob_function *next, *hash_next;
    struct mob_client *client;
    char *name; /* as it was asked for */
    uint32_t name_hash;
    int64_t asked_ns; /* when the node said that this is the newest of its name; 0 = it did not */
    uint64_t call_epoch; /* the task in which its name has been resolved (and that was logged) */
    struct mob_function_id id;
    struct mob_module_hash module;
    enum mob_task_kind kind;
    uint16_t flags; /* enum mob_spec_flag that every task of it has */
    struct mob_signature_info signature;
    struct mob_method_info *methods;
    uint16_t method_count;
};

/* Find by name: in the client's table, in the running task's own module, or by asking the node. */
enum mob_status mob_function_resolve(
    struct mob_client *client, const char *name, const struct mob_function **function_out);
const struct mob_method_info *mob_function_method(
    const struct mob_function *function, const char *name, uint16_t *index_out);
/* A function of a module that is loaded in this process (workers). */
enum mob_status mob_function_of_entry(struct mob_client *client, const char *name,
    struct mob_module_hash module, const struct mob_function_entry *entry,
    const struct mob_function **function_out);
void mob_functions_free(struct mob_client *client);

#endif
