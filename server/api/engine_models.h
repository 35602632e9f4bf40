/* Endpoints, the actors behind them and the batches of calls that run on them: shared by engine_models.c,
 * engine_replicas.c and engine_batches.c. */
#ifndef MOB_SERVER_API_ENGINE_MODELS_H
#define MOB_SERVER_API_ENGINE_MODELS_H

#include "server/api/engine_inner.h"

#define ENDPOINT_ACTOR_PREFIX "endpoint/"
#define ENDPOINT_ACTOR_NAME_BYTES (MOB_MODEL_NAME_MAX + 40)
#define ENDPOINT_WAITS_BYTES 160

struct endpoint {
    struct endpoint *next;
    char *name, *class_name;
    json_t *arguments;
    uint32_t max_batch_size, max_queue_delay_us;
    uint32_t timeout_ms; /* a call is not answered behind that, counted from when it was sent */
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
    bool retired; /* replaced: what it has taken runs to its end, and nobody else sees it, */
    int64_t drained_ns; /* until then at most */
    unsigned running; /* batches: */
    struct batch *sent; /* the newest of those that are with the node */
    struct flight *put; /* of a candidate */
    struct flight *maker; /* of its actor, until it is published or found */
    int64_t look_ns; /* when to ask why nothing comes; 0: nobody waits */
    int64_t
        put_patience_ns; /* of a candidate: how long it may wait for its turn; 0: it was not looked at yet */
    bool looking; /* the node has been asked, */
    char waits[ENDPOINT_WAITS_BYTES]; /* and said what the actor waits for; "": it does not wait */
};

/* To calls that an endpoint had when it was removed: trying again finds the next one, or none. */
#define ENDPOINT_IS_GONE "the model has been replaced or deleted"

struct engine_models {
    struct endpoint *all;
    bool asked; /* the control store for the endpoints, and it has not answered */
    bool loaded; /* what it knew of is in `all` */
    bool complete; /* and each of these has a model, or says why it has none */
    uint64_t newest_generation; /* that this gateway gave */
    int64_t orphans_ns; /* when to look for actors of endpoints that are no more; 0: no reason to */
};

/* Frees it when it is removed and nothing of it is on its way any more. */
void endpoint_let_go(struct endpoint *e);
void endpoint_actor_name(const struct endpoint *e, char out[ENDPOINT_ACTOR_NAME_BYTES]);
/* A candidate goes without a trace, its PUT is refused; an endpoint that was there shows why it does not
 * work. `e` may be gone. */
void endpoint_broken(struct endpoint *e, enum mob_status status, const char *pointer, const char *why);
/* Its class is known: makes the model. False: the maker has failed, and `e` may be gone. */
bool endpoint_take_class(struct endpoint *e, struct flight *maker);
/* Of one that was replaced: ends it when nothing runs there any more, or its time is over. When to call
 * again; `e` may be gone. */
int64_t endpoint_drain(struct endpoint *e, int64_t now);
/* Its actor lives. */
void endpoint_made(struct endpoint *e);

/* engine_orphans.c: actors of endpoints that are no more are looked for so many ns from now, or when it was
 * to be done sooner, then. `later`: when none is young enough any more to be of a PUT that goes on. */
void engine_orphans_look_in(struct engine *engine, int64_t delay_ns);
void engine_orphans_look_later(struct engine *engine);

/* engine_replicas.c */
void endpoint_make_actor(struct endpoint *e);
/* Asks why nothing comes, if it is time; when to call again. */
int64_t endpoint_look(struct endpoint *e, int64_t now);

/* engine_batches.c */
/* Calls that have not been sent; `retry_after_s` 0: the default. */
void endpoint_fail_waiting(
    struct endpoint *e, enum mob_status status, unsigned retry_after_s, const char *why);
/* And those that have, which are taken back from the node. */
void endpoint_fail_calls(struct endpoint *e, enum mob_status status, unsigned retry_after_s, const char *why);
/* No candidate, and none that was replaced. */
struct endpoint *endpoint_named(struct engine *engine, const char *name);
/* The operation whose entry waits in a batcher. */
struct mob_engine_op *engine_op_of(struct mob_batch_entry *entry);

#endif
