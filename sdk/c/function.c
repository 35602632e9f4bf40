/* Functions by name. Look-ups are answered from the client's table; the first one of a name asks the node.
 *
 * Inside a task, a name of the running function's own module means that very module: no question, and the
 * same answer in every replay. Any other name is an input, so its first answer in a task is logged.
 */
#include "sdk/c/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/cstring.h"
#include "sdk/c/call.h"

static uint32_t name_hash_of(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name != 0; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

/* ---- signatures ---- */

static void find_quick_check(struct mob_signature_info *info)
{
    const struct mob_signature *s = &info->parsed;
    if (s->variadic || s->required != s->param_count || s->param_count > sizeof info->scalars)
        return;
    for (uint32_t i = 0; i < s->param_count; i++) {
        uint8_t type = s->params[i].type;
        if (s->params[i].optional || (type != MOB_TYPE_I64 && type != MOB_TYPE_F64 && type != MOB_TYPE_BOOL))
            return;
        info->scalars[i] = type;
    }
    info->scalar_count = (uint8_t)s->param_count;
}

/* Parse a signature into `out` (takes a copy of the text). MOB_INVALID with a sentence in the client's error.
 */
static enum mob_status mob_signature_info_init(
    struct mob_client *client, const char *text, size_t length, struct mob_signature_info *out)
{
    struct mob_signature_error error;
    *out = (struct mob_signature_info){0};
    enum mob_status status = mob_signature_parse(text, length, &out->parsed, &error);
    if (status != MOB_OK)
        return mob_client_fail(client, status, "%s", error.message);
    out->text = mob_cstring_copy(text, length);
    if (out->text == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    /* A task without a declared return still has a future: null, when it has ended. */
    uint32_t returns = out->parsed.return_count == 0 ? 1 : out->parsed.return_count;
    out->num_returns = out->parsed.stream ? MOB_RETURNS_STREAM : (uint16_t)returns;
    find_quick_check(out);
    return MOB_OK;
}

/* ---- the table ---- */

static void function_free(struct mob_function *function)
{
    if (function == NULL)
        return;
    for (uint16_t i = 0; function->methods != NULL && i < function->method_count; i++) {
        free(function->methods[i].name);
        free(function->methods[i].signature.text);
    }
    free(function->methods);
    free(function->signature.text);
    free(function->name);
    free(function);
}

void mob_functions_free(struct mob_client *client)
{
    while (client->functions != NULL) {
        struct mob_function *function = client->functions;
        client->functions = function->next;
        function_free(function);
    }
    memset(client->function_hash, 0, sizeof client->function_hash);
    client->plain_epoch++;
}

static struct mob_function *function_new(struct mob_client *client, const char *name)
{
    struct mob_function *function = calloc(1, sizeof *function);
    if (function == NULL)
        return NULL;
    function->client = client;
    function->name = strdup(name);
    function->name_hash = name_hash_of(name);
    function->kind = MOB_KIND_TASK;
    if (function->name == NULL) {
        free(function);
        return NULL;
    }
    return function;
}

static void function_enter(struct mob_client *client, struct mob_function *function)
{
    struct mob_function **place = &client->function_hash[function->name_hash & 255];
    function->next = client->functions;
    client->functions = function;
    function->hash_next = *place;
    *place = function;
}

static struct mob_function *table_find(
    struct mob_client *client, const char *name, const struct mob_module_hash *module)
{
    uint32_t hash = name_hash_of(name);
    struct mob_function *f = client->function_hash[hash & 255];
    for (; f != NULL; f = f->hash_next)
        if (f->name_hash == hash && strcmp(f->name, name) == 0 &&
            (module == NULL || memcmp(&f->module, module, sizeof *module) == 0))
            return f;
    return NULL;
}

/* ---- a class' lines: the constructor's signature, then "name signature" of each method ---- */

static enum mob_status method_add(struct mob_client *client, struct mob_function *function, const char *name,
    size_t name_bytes, const char *signature, size_t signature_bytes)
{
    struct mob_method_info *method = &function->methods[function->method_count];
    enum mob_status status = mob_signature_info_init(client, signature, signature_bytes, &method->signature);
    if (status != MOB_OK)
        return status;
    method->name = mob_cstring_copy(name, name_bytes);
    function->method_count++;
    return method->name == NULL ? mob_client_fail(client, MOB_NO_MEMORY, "out of memory") : MOB_OK;
}

static const char *line_end_of(const char *text, const char *end)
{
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    return newline == NULL ? end : newline;
}

static enum mob_status read_class(
    struct mob_client *client, struct mob_function *function, uint16_t count, const char *text, size_t bytes)
{
    const char *end = text + bytes, *line_end = line_end_of(text, end);
    if (count > MOB_METHODS_MAX)
        return mob_client_fail(client, MOB_TOO_LARGE, "%s has %u methods", function->name, count);
    function->methods = calloc((size_t)count + 1, sizeof *function->methods);
    if (function->methods == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory for %u methods", count);
    enum mob_status status =
        mob_signature_info_init(client, text, (size_t)(line_end - text), &function->signature);
    while (status == MOB_OK && line_end < end && function->method_count < count) {
        text = line_end + 1;
        line_end = line_end_of(text, end);
        const char *blank = memchr(text, ' ', (size_t)(line_end - text));
        if (blank == NULL)
            return mob_client_fail(
                client, MOB_CORRUPT, "the node's description of %s is damaged", function->name);
        status = method_add(
            client, function, text, (size_t)(blank - text), blank + 1, (size_t)(line_end - blank - 1));
    }
    return status;
}

static uint16_t spec_flags_of(unsigned entry_flags)
{
    return entry_flags & MOB_FUNCTION_DETERMINISTIC ? MOB_SPEC_DETERMINISTIC : 0;
}

static enum mob_status read_info(
    struct mob_client *client, struct mob_function *function, const uint8_t *reply, uint32_t bytes)
{
    struct mob_function_info info;
    if (bytes < sizeof info)
        return mob_client_fail(client, MOB_CORRUPT, "the node's description of %s is cut", function->name);
    memcpy(&info, reply, sizeof info);
    if (info.signature_bytes > bytes - sizeof info)
        return mob_client_fail(client, MOB_CORRUPT, "the node's description of %s is cut", function->name);
    const char *text = (const char *)reply + sizeof info;
    uint32_t flags = 0;
    if (bytes - sizeof info - info.signature_bytes >= sizeof flags)
        memcpy(&flags, text + info.signature_bytes, sizeof flags);
    function->flags = spec_flags_of(flags);
    function->id = info.function;
    function->module = info.module;
    function->kind = (enum mob_task_kind)info.kind;
    if (function->kind == MOB_KIND_ACTOR_CREATE)
        return read_class(client, function, info.method_count, text, info.signature_bytes);
    return mob_signature_info_init(client, text, info.signature_bytes, &function->signature);
}

/* An answer of the node about `name`; `newest`: it was asked for by that very name. */
static enum mob_status take_answer(struct mob_client *client, const char *name, bool newest,
    const uint8_t *reply, uint32_t reply_bytes, struct mob_function **function_out)
{
    struct mob_function *function = function_new(client, name);
    enum mob_status status = function == NULL ? mob_client_fail(client, MOB_NO_MEMORY, "out of memory")
                                              : read_info(client, function, reply, reply_bytes);
    if (status != MOB_OK) {
        function_free(function);
        return status;
    }
    struct mob_function *known = table_find(client, name, &function->module);
    if (known != NULL)
        function_free(function); /* not redeployed: pointers to the known one stay the ones in use */
    else
        function_enter(client, known = function);
    known->asked_ns = newest ? mob_client_now(client) : 0;
    *function_out = known;
    return MOB_OK;
}

static bool fresh(struct mob_client *client, const struct mob_function *function)
{
    /* also a pinned one, which may have been deleted */
    return function->asked_ns != 0 && mob_client_now(client) - function->asked_ns < MOB_NAME_FRESH_NS;
}

/* `asked` is the text of the question (perhaps pinned by a hash), `name` the one under which the answer is
 * kept. */
static enum mob_status ask_node(
    struct mob_client *client, const char *asked, const char *name, struct mob_function **function_out)
{
    uint8_t *reply;
    uint32_t reply_bytes;
    enum mob_status status = mob_request(
        client, MOB_REQ_FUNCTION, asked, (uint32_t)strlen(asked), MOB_FOREVER, &reply, &reply_bytes);
    if (status == MOB_NOT_FOUND)
        return mob_client_fail(client, status, "no function \"%s\" is deployed", asked);
    if (status != MOB_OK)
        return status;
    status = take_answer(client, name, asked == name, reply, reply_bytes, function_out);
    free(reply);
    return status;
}

bool mob_function_is_fresh(struct mob_client *client, const char *name)
{
    struct mob_function *function = table_find(client, name, NULL);
    return function != NULL && fresh(client, function);
}

enum mob_status mob_function_learn(
    struct mob_client *client, const char *name, const uint8_t *reply, uint32_t bytes)
{
    struct mob_function *function;
    return take_answer(client, name, true, reply, bytes, &function);
}

/* ---- of the running module ---- */

enum mob_status mob_function_of_entry(struct mob_client *client, const char *name,
    struct mob_module_hash module, const struct mob_function_entry *entry,
    const struct mob_function **function_out)
{
    const struct mob_function *known = table_find(client, name, &module);
    if (known != NULL) {
        *function_out = known;
        return MOB_OK;
    }
    struct mob_function *function = function_new(client, name);
    if (function == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    function->id = mob_function_id(module, entry->name);
    function->module = module;
    function->flags = spec_flags_of(entry->flags);
    enum mob_status status =
        mob_signature_info_init(client, entry->signature, strlen(entry->signature), &function->signature);
    uint16_t count = 0;
    if (entry->methods != NULL) {
        function->kind = MOB_KIND_ACTOR_CREATE;
        while (entry->methods[count].name != NULL && count < MOB_METHODS_MAX)
            count++;
        function->methods = calloc((size_t)count + 1, sizeof *function->methods);
        if (function->methods == NULL)
            status = mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    }
    for (uint16_t i = 0; i < count && status == MOB_OK; i++) {
        status = method_add(client, function, entry->methods[i].name, strlen(entry->methods[i].name),
            entry->methods[i].signature, strlen(entry->methods[i].signature));
        function->methods[i].read_only = (entry->methods[i].flags & MOB_METHOD_READ_ONLY) != 0;
    }
    if (status != MOB_OK) {
        function_free(function);
        return status;
    }
    function_enter(client, function);
    *function_out = function;
    return MOB_OK;
}

static const struct mob_function_entry *own_entry(const struct mob_call *call, const char *name)
{
    if (call == NULL || call->module == NULL)
        return NULL;
    size_t length = strlen(call->module->name);
    if (strncmp(name, call->module->name, length) != 0 || name[length] != '.')
        return NULL;
    for (const struct mob_function_entry *e = call->module->functions; e->name != NULL; e++)
        if (strcmp(e->name, name + length + 1) == 0)
            return e;
    return NULL;
}

static enum mob_status resolve(
    struct mob_client *client, const char *name, struct mob_function **function_out)
{
    struct mob_function *function = table_find(client, name, NULL);
    if (function == NULL || !fresh(client, function))
        return ask_node(client, name, name, function_out);
    *function_out = function;
    return MOB_OK;
}

/* A name of another module, in a task. */
static enum mob_status resolve_logged(
    struct mob_client *client, const char *name, struct mob_function **function_out)
{
    struct mob_function *function = table_find(client, name, NULL);
    if (function != NULL && function->call_epoch == client->call_epoch) {
        *function_out = function;
        return MOB_OK;
    }
    struct mob_module_hash module;
    uint32_t bytes;
    enum mob_status status;
    if (mob_outcome_replay(client, MOB_OUTCOME_NAME, &module, sizeof module, &bytes)) {
        char pinned[512], hash[64];
        mob_base32_encode(module.b, sizeof module.b, hash);
        if ((size_t)snprintf(pinned, sizeof pinned, "%s@%s", name, hash) >= sizeof pinned)
            return mob_client_fail(client, MOB_TOO_LARGE, "the name \"%.60s...\" is too long", name);
        function = table_find(client, name, &module);
        status = function != NULL ? MOB_OK : ask_node(client, pinned, name, &function);
    } else {
        status = resolve(client, name, &function);
        if (status == MOB_OK)
            mob_outcome_log(client, MOB_OUTCOME_NAME, &function->module, sizeof function->module);
    }
    if (status != MOB_OK)
        return status;
    function->call_epoch = client->call_epoch;
    *function_out = function;
    return MOB_OK;
}

enum mob_status mob_function_resolve(
    struct mob_client *client, const char *name, const struct mob_function **function_out)
{
    if (name == NULL)
        return mob_say_null(client, "the function's name");
    struct mob_function *function;
    enum mob_status status;
    if (!mob_in_task(client)) {
        status = resolve(client, name, &function);
    } else {
        const struct mob_function_entry *entry = own_entry(client->call, name);
        if (entry != NULL)
            return mob_function_of_entry(client, name, client->call->module_hash, entry, function_out);
        status = strchr(name, '@') != NULL ? resolve(client, name, &function)
                                           : resolve_logged(client, name, &function);
    }
    if (status == MOB_OK)
        *function_out = function;
    return status;
}

const struct mob_method_info *mob_function_method(
    const struct mob_function *function, const char *name, uint16_t *index_out)
{
    for (uint16_t i = 0; i < function->method_count; i++)
        if (strcmp(function->methods[i].name, name) == 0) {
            *index_out = i;
            return &function->methods[i];
        }
    return NULL;
}

enum mob_status mob_function_find(
    struct mob_client *client, const char *function, const struct mob_function **function_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, function_out);
    return mob_function_resolve(client, function, function_out);
}

const char *mob_function_signature(const struct mob_function *function)
{
    return function == NULL ? "" : function->signature.text;
}
