/* Idempotency-Key: one outcome for each (principal, method, path, key) for as long as keys are kept (24
 * hours).
 *
 * The first request with a key runs; while it runs, others get 409 + Retry-After; afterwards they get the
 * same answer again with `Idempotent-Replayed: true`. Answers that say "try again" are not kept. This table
 * is one gateway's memory; what outlives it is in the control store, where the engine claims each key before
 * it makes anything (engine_keys.c). Which body a key stands for is decided there alone: another one is told
 * 422 only when this gateway has heard that decision, and until then to come again, since another gateway's
 * request may be the one that gets the key. An answer from before the decision (a body that is refused at
 * once, for which nothing was claimed) is not kept. Limits: entries_max keys,
 * MOB_IDEMPOTENCY_BODY_MAX bytes of an answer, MOB_IDEMPOTENCY_BYTES_MAX in all; of a full table the oldest
 * that have ended go, and are asked of the control store if they come again; one that is full of running
 * requests refuses new keys (429). Answers over MOB_IDEMPOTENCY_ROW_MAX are not
 * kept in the control store: the request runs again, under the same ids. Thread-safe.
 */
#ifndef MOB_SERVER_API_IDEMPOTENCY_H
#define MOB_SERVER_API_IDEMPOTENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "server/http/http.h"

#define MOB_IDEMPOTENCY_ENTRIES_DEFAULT 65536
#define MOB_IDEMPOTENCY_BODY_MAX (256u << 10)
#define MOB_IDEMPOTENCY_BYTES_MAX (64u << 20)
#define MOB_IDEMPOTENCY_KEY_MAX 255
#define MOB_IDEMPOTENCY_ROW_MAX (16u << 10)
#define MOB_IDEMPOTENCY_LIFE_S (24 * 3600)

struct mob_idempotency;
MOB_MUST_USE enum mob_status mob_idempotency_create(
    size_t entries_max, int64_t life_ns, struct mob_idempotency **table_out);
void mob_idempotency_destroy(struct mob_idempotency *table);
/* Before the handler, with the whole body there. True: run it (and the request holds the key until _finish).
 * False: the reply has been built: replayed, or 409, 422, 429. `now_ns` monotonic. */
bool mob_idempotency_begin(
    struct mob_idempotency *table, struct mob_http_request *request, const char *principal, int64_t now_ns);
/* With the reply built. Does nothing for a request that holds no key. */
void mob_idempotency_finish(struct mob_idempotency *table, struct mob_http_request *request, int64_t now_ns);

/* What the request's key stands for. False: it holds none. */
bool mob_idempotency_key(const struct mob_http_request *request, struct mob_module_hash *scope_out,
    struct mob_module_hash *body_out);
/* The control store has decided that this key stands for this body. Any thread. */
void mob_idempotency_decided(
    struct mob_idempotency *table, const struct mob_module_hash *scope, const struct mob_module_hash *body);
/* The key stands for another request, as the control store knows: nothing is remembered of this one. */
void mob_idempotency_forget(struct mob_idempotency *table, struct mob_http_request *request);
/* The reply that was built, for the control store; malloc'ed. NULL: it is not one to keep, or too large. */
uint8_t *mob_idempotency_encode(const struct mob_http_request *request, size_t *length_out);
/* The reply repeats what an earlier run made: `finish` marks it as a replay. */
void mob_idempotency_mark(struct mob_http_request *request);
/* Builds the reply that was encoded. False: it does not parse. */
bool mob_idempotency_restore(struct mob_http_request *request, const uint8_t *bytes, size_t length);

#endif
