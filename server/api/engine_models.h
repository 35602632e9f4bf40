/* Endpoints and the batches of calls that run on them: shared by engine_models.c and engine_batches.c. */
#ifndef MOB_SERVER_API_ENGINE_MODELS_H
#define MOB_SERVER_API_ENGINE_MODELS_H

#include "server/api/engine_inner.h"

struct endpoint {
    struct endpoint *next;
    char *name, *class_name;
    json_t *arguments;
    uint32_t max_batch_size, max_queue_delay_us;
    struct engine *engine;
    struct mob_client *client;
    struct mob_actor *actor;
    struct mob_future *created;
    const struct mob_function *class;
    struct mob_model *model;
    struct mob_batcher batcher;
    char error[256];
    uint64_t
        generation; /* tells its actor from those of other endpoints of that name; 0: loaded without one */
    bool ready, removed;
    bool candidate; /* of a PUT that is not through: nobody sees it */
    unsigned running;
    struct flight *put; /* of a candidate */
};

struct engine_models {
    struct endpoint *all;
    bool loaded;
};

void endpoint_free(struct endpoint *e);
/* No candidate. */
struct endpoint *endpoint_named(struct engine *engine, const char *name);
/* The operation whose entry waits in a batcher. */
struct mob_engine_op *engine_op_of(struct mob_batch_entry *entry);

#endif
