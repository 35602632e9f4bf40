/* A stand-in for the cluster: the part of <mobula/mobula.h> that modules use, in this process, one task after
 * the other.
 *
 *   struct mob_client *client = double_create();
 *   double_load(client, "train_policy");          // <build>/modules/train_policy.so
 *   mob_submit(client, "train_policy.train_policy", MOB_ARGS(mob_i64(1), mob_null()), NULL, futures);
 *
 * A submitted task has run when mob_submit returns. It keeps what a cluster would keep of actors: the newest
 * checkpoint and the calls since then, and can kill them: with `kill_every` = n each n-th call finds its
 * actor dead, made again from these. A header with bodies, since the module that is loaded must find them in
 * the program: include it once, in the test's own file. Then nothing of the real API is linked. Everything
 * lives until double_destroy.
 */
#ifndef TESTS_UNIT_EXAMPLES_MODULE_DOUBLE_H
#define TESTS_UNIT_EXAMPLES_MODULE_DOUBLE_H

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mobula/mobula.h>

#define DOUBLE_MODULES_MAX 8
#define DOUBLE_EVENTS_MAX 4096
#define DOUBLE_RETURNS_MAX 4096

enum double_kind {
    DOUBLE_NULL = 1,
    DOUBLE_I64,
    DOUBLE_F64,
    DOUBLE_BOOL,
    DOUBLE_UTF8,
    DOUBLE_JSON,
    DOUBLE_BYTES,
    DOUBLE_TENSOR,
    DOUBLE_FUTURE,
    DOUBLE_ACTOR
};
struct mob_value {
    struct mob_arg arg; /* its data is the value's own */
};
struct mob_future {
    struct mob_client *client;
    struct mob_value *value;
    enum mob_status status;
    char error[300];
    uint64_t task;
    uint32_t index;
};
struct double_args {
    struct mob_value *values;
    size_t count;
};
struct double_logged_call {
    const struct mob_method_entry *method;
    struct double_args args;
    struct double_logged_call *next;
};
struct mob_actor {
    struct mob_client *client;
    const struct mob_function_entry *entry;
    struct double_args args;
    void *instance;
    int checkpoint_every;
    uint64_t id, calls;
    struct mob_value *checkpoint;
    struct double_logged_call *since, **since_end;
    struct mob_actor *next;
};
struct double_event {
    char type[32], json[256];
};
struct mob_client {
    const struct mob_module *modules[DOUBLE_MODULES_MAX];
    size_t module_count;
    uint64_t tasks, actor_calls, actors, kills, ended;
    uint64_t kill_every; /* set by a test; 0 = never */
    char error[256];
    struct double_event events[DOUBLE_EVENTS_MAX];
    size_t event_count;
    struct mob_actor *first_actor;
    double progress;
};
struct mob_call {
    struct mob_client *client;
    struct double_args args;
    void *self;
    struct mob_value **returns;
    size_t return_count;
    struct mob_future *tail;
    char error[256];
    uint64_t task;
    bool accessor_failed;
};

/* ------------------------------------------------------------------------------------------------ memory */

/* All that the double has allocated, freed at once: handles may be used for as long as a test likes. */
struct double_block {
    struct double_block *next;
    max_align_t data[];
};
static struct double_block *double_blocks;
static int double_clients;

static void *double_alloc(size_t size)
{
    struct double_block *block = calloc(1, sizeof *block + size);
    assert(block != NULL);
    block->next = double_blocks;
    double_blocks = block;
    return block->data;
}

static struct mob_client *double_create(void)
{
    double_clients++;
    return double_alloc(sizeof(struct mob_client));
}

/* Ends the client's actors; with the last client all memory goes. */
static void double_destroy(struct mob_client *client)
{
    for (struct mob_actor *actor = client->first_actor; actor != NULL; actor = actor->next) {
        if (actor->entry->destroy != NULL)
            actor->entry->destroy(actor->instance);
    }
    if (--double_clients > 0)
        return;
    while (double_blocks != NULL) {
        struct double_block *block = double_blocks;
        double_blocks = block->next;
        free(block);
    }
}

#include "tests/unit/examples/module_double_values.h"

/* ------------------------------------------------------------------------------------------------ running */

static void double_load(struct mob_client *client, const char *name)
{
    char path[4096];
    const char *folder = getenv("MOBULA_MODULE_DIR");
    snprintf(path, sizeof path, "%s/%s.so", folder != NULL ? folder : "build/modules", name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    const struct mob_module *module = dlsym(library, "mob_module_v1");
    assert(module != NULL && module->abi == MOB_ABI && client->module_count < DOUBLE_MODULES_MAX);
    client->modules[client->module_count++] = module;
}

static const struct mob_function_entry *double_find(struct mob_client *client, const char *name)
{
    for (size_t m = 0; m < client->module_count; m++) {
        const struct mob_module *module = client->modules[m];
        const size_t length = strlen(module->name);
        if (strncmp(name, module->name, length) != 0 || name[length] != '.')
            continue;
        for (const struct mob_function_entry *f = module->functions; f->name != NULL; f++) {
            if (strcmp(f->name, name + length + 1) == 0)
                return f;
        }
    }
    snprintf(client->error, sizeof client->error, "no function %s", name);
    return NULL;
}

static size_t double_count_returns(const char *signature)
{
    const char *at = strstr(signature, "->");
    assert(at != NULL);
    at += 2 + strspn(at + 2, " ");
    if (strncmp(at, "()", 2) == 0)
        return 0;
    if (strstr(at, "...") != NULL)
        return DOUBLE_RETURNS_MAX;
    size_t count = 1;
    int depth = 0; /* inside of the list's parentheses it is 1 */
    for (; *at != '\0'; at++) {
        depth += (strchr("([<", *at) != NULL) - (strchr(")]>", *at) != NULL);
        count += *at == ',' && depth == 1 && strchr(at, ')') != NULL;
    }
    return count;
}

/* Runs a function; its returns (when wanted) become futures. */
static enum mob_status double_run(struct mob_client *client, mob_function_main main, const char *signature,
    struct double_args args, void **self, struct mob_future **futures_out)
{
    struct mob_call call = {.client = client, .args = args, .self = self != NULL ? *self : NULL};
    call.task = ++client->tasks;
    call.return_count = signature != NULL ? double_count_returns(signature) : 1;
    call.returns = double_alloc((call.return_count + 1) * sizeof(struct mob_value *));
    enum mob_status status = main(&call);
    if (status == MOB_OK && call.accessor_failed)
        status = MOB_TYPE_MISMATCH;
    if (self != NULL)
        *self = call.self;
    if (call.tail != NULL)
        call.returns[0] = call.tail->value;
    for (size_t i = 0; futures_out != NULL && i < call.return_count && (i == 0 || call.returns[i] != NULL);
         i++) {
        struct mob_future *future = double_alloc(sizeof *future);
        assert(status != MOB_OK || call.returns[i] != NULL);
        *future = (struct mob_future){client, call.returns[i], status, "", call.task, (uint32_t)i};
        snprintf(future->error, sizeof future->error, "{\"message\":\"%s\"}", call.error);
        futures_out[i] = future;
    }
    return status;
}

enum mob_status mob_put(struct mob_client *client, struct mob_arg value, struct mob_future **future_out)
{
    struct mob_future *future = double_alloc(sizeof *future);
    *future = (struct mob_future){.client = client, .value = double_alloc(sizeof(struct mob_value))};
    *future->value = double_value(value);
    *future_out = future;
    return MOB_OK;
}

enum mob_status mob_submit(struct mob_client *client, const char *function, struct mob_args args,
    const struct mob_submit_options *options, struct mob_future **futures_out)
{
    (void)options;
    const struct mob_function_entry *f = double_find(client, function);
    if (f == NULL)
        return MOB_NOT_FOUND;
    (void)double_run(client, f->main, f->signature, double_take_args(args), NULL, futures_out);
    return MOB_OK;
}

enum mob_status mob_function_find(
    struct mob_client *client, const char *function, const struct mob_function **function_out)
{
    const struct mob_function_entry *f = double_find(client, function);
    if (f == NULL)
        return MOB_NOT_FOUND;
    *function_out = (const struct mob_function *)(const void *)f;
    return MOB_OK;
}

enum mob_status mob_submit_function(struct mob_client *client, const struct mob_function *function,
    struct mob_args args, const struct mob_submit_options *options, struct mob_future **futures_out)
{
    (void)options;
    const struct mob_function_entry *f = (const void *)function;
    (void)double_run(client, f->main, f->signature, double_take_args(args), NULL, futures_out);
    return MOB_OK;
}

/* ------------------------------------------------------------------------------------------------ actors */

static void double_restart(struct mob_actor *actor)
{
    actor->client->kills++;
    if (actor->entry->destroy != NULL)
        actor->entry->destroy(actor->instance);
    actor->instance = NULL;
    struct double_args args = actor->args;
    mob_function_main begin = actor->entry->main;
    if (actor->checkpoint != NULL) {
        args = (struct double_args){actor->checkpoint, 1};
        begin = actor->entry->restore;
    }
    enum mob_status status = double_run(actor->client, begin, NULL, args, &actor->instance, NULL);
    assert(status == MOB_OK);
    for (struct double_logged_call *c = actor->since; c != NULL; c = c->next)
        (void)double_run(
            actor->client, c->method->main, c->method->signature, c->args, &actor->instance, NULL);
}

static void double_checkpoint(struct mob_actor *actor)
{
    struct mob_future *future = NULL;
    enum mob_status status = double_run(actor->client, actor->entry->checkpoint, NULL,
        (struct double_args){NULL, 0}, &actor->instance, &future);
    assert(status == MOB_OK && future != NULL);
    actor->checkpoint = future->value;
    actor->since = NULL;
    actor->since_end = &actor->since;
}

enum mob_status mob_actor_create(struct mob_client *client, const char *cls, struct mob_args args,
    const struct mob_actor_options *options, struct mob_actor **actor_out)
{
    const struct mob_function_entry *entry = double_find(client, cls);
    if (entry == NULL)
        return MOB_NOT_FOUND;
    struct mob_actor *actor = double_alloc(sizeof *actor);
    *actor = (struct mob_actor){.client = client,
        .entry = entry,
        .args = double_take_args(args),
        .checkpoint_every = options != NULL ? options->checkpoint_every : 0,
        .id = ++client->actors,
        .next = client->first_actor};
    client->first_actor = actor;
    actor->since_end = &actor->since;
    enum mob_status status =
        double_run(client, entry->main, entry->signature, actor->args, &actor->instance, NULL);
    *actor_out = actor;
    return status;
}

enum mob_status mob_actor_call(struct mob_actor *actor, const char *method, struct mob_args args,
    const struct mob_submit_options *options, struct mob_future **futures_out)
{
    (void)options;
    assert(actor != NULL);
    const struct mob_method_entry *m = actor->entry->methods;
    while (m->name != NULL && strcmp(m->name, method) != 0)
        m++;
    if (m->name == NULL)
        return MOB_NOT_FOUND;
    if (actor->client->kill_every > 0 && ++actor->client->actor_calls % actor->client->kill_every == 0)
        double_restart(actor);
    struct double_logged_call *logged = double_alloc(sizeof *logged);
    *logged = (struct double_logged_call){m, double_take_args(args), NULL};
    *actor->since_end = logged;
    actor->since_end = &logged->next;
    (void)double_run(actor->client, m->main, m->signature, logged->args, &actor->instance, futures_out);
    actor->calls++;
    if (actor->checkpoint_every > 0 && actor->calls % (uint64_t)actor->checkpoint_every == 0)
        double_checkpoint(actor);
    return MOB_OK;
}

enum mob_status mob_actor_kill(struct mob_actor *actor, bool no_restart)
{
    (void)no_restart;
    if (actor->entry->destroy != NULL)
        actor->entry->destroy(actor->instance);
    actor->instance = NULL;
    actor->client->ended++;
    return MOB_OK;
}

void mob_actor_id(const struct mob_actor *actor, char text_out[MOB_TEXT_ID_MAX])
{
    snprintf(text_out, MOB_TEXT_ID_MAX, "actor_%" PRIu64, actor->id);
}

enum mob_status mob_actor_from_id(
    struct mob_client *client, const char *actor_id, struct mob_actor **actor_out)
{
    for (struct mob_actor *actor = client->first_actor; actor != NULL; actor = actor->next) {
        char id[MOB_TEXT_ID_MAX];
        mob_actor_id(actor, id);
        if (strcmp(id, actor_id) == 0) {
            *actor_out = actor;
            return MOB_OK;
        }
    }
    return MOB_NOT_FOUND;
}

void mob_actor_release(struct mob_actor *actor)
{
    (void)actor;
}

#endif
