/* What single submissions (engine_tasks.c) and many at once (engine_bulk.c) share. The engine's thread. */
#ifndef MOB_SERVER_API_ENGINE_SUBMIT_H
#define MOB_SERVER_API_ENGINE_SUBMIT_H

#include "common/wire/option_bounds.h"
#include "server/api/engine_inner.h"

/* engine_options.c: a request's options as the C API takes them; they borrow from `in` and from each other.
 */
struct native_options {
    struct mob_submit_options task;
    struct mob_actor_options actor;
    struct mob_resource resources[MOB_TASK_RESOURCES_MAX];
    bool plain; /* all default */
};
void engine_native_options(const struct mob_engine_options *in, struct native_options *out);

/* engine_tasks.c */
/* The job's session becomes the flight's. False: `again` is called when there is one, or the flight ends. */
bool engine_use_session(
    struct flight *flight, const struct mob_engine_options *options, void (*again)(struct flight *flight));
/* How many futures a submission gives; MOB_RETURNS_STREAM: one. */
uint32_t engine_returns_of(struct mob_callable callable, const struct mob_submit_options *options);

/* engine_tasks.c: what the flight's future has become. True: READY, with its JSON (NULL: it has none, or is
 * too large) and, unless `value` is NULL, type and size. False: it failed, and the operation has the error.
 */
bool engine_return_read(struct flight *flight, char **json_out, struct mob_engine_value *value);

/* The node refused the task at the memory cap: known when what came before its acknowledgement was read. */
#define ENGINE_REFUSED_WORDS "the control store is full: end jobs and delete them, or raise gcs-soft-bytes"
bool engine_was_refused(const struct mob_future *future);
void engine_fail_refused(struct flight *flight);
/* engine_bulk.c: all that came before the acknowledgement was read. */
void engine_batch_acked(struct flight *flight);

/* engine_returns.c */
/* Takes the futures behind the first. */
void engine_returns_keep(struct flight *flight, struct mob_future **futures, uint32_t count);
/* The first is there: waits for the others, then ends the flight. */
void engine_returns_follow(struct flight *flight);
void engine_returns_drop(struct flight *flight);

/* engine_tasks.c */
void engine_submit_known(struct flight *flight);
/* With flight->actor: waits for its creation as the operation says. */
void engine_follow_creation(struct flight *flight);

/* engine_names.c: creations under a name */
void engine_name_ask(struct flight *flight);
bool engine_name_is_claimed(const struct flight *flight);
/* The creation is acknowledged: whose is the name? Answers accordingly. */
void engine_name_check(struct flight *flight);
/* It has failed, since the name was another's. */
void engine_name_lost(struct flight *flight);

#endif
