/* The gateway's parts put together: keys, engine, events, models, router, edge and HTTP/1.1 front.
 *
 *   mob_gateway_open(&options, make_engine, cls, &gateway);   // listening; mob_gateway_port() tells the port
 *   mob_gateway_close(gateway);                               // not ready, no new connections, 503 to the
 * parked, end
 *
 * The engine is made by a function, so that tests run the whole HTTP layer on an engine of their own. One
 * thread opens and closes.
 */
#ifndef MOB_SERVER_GATEWAY_H
#define MOB_SERVER_GATEWAY_H

#include <stdint.h>

#include "server/api/engine.h"

struct mob_events;

struct mob_gateway_options {
    const char *host; /* numeric address */
    uint16_t port; /* 0: any free one */
    const char *token_file;
    unsigned threads; /* of the HTTP/1.1 front; 0: one a core, at most 4 */
    unsigned connections_max, per_address_max;
    const char *const *extra_hosts; /* more names under which we may be addressed */
    unsigned extra_host_count;
    int head_timeout_ms; /* for the head of a request; 0: the default */
    uint32_t shards; /* of the control store, which positions of events name; 0: one */
    uint32_t rate_limit, rate_burst; /* requests a second and at once, of each key; limit 0: none */
    int64_t away_ns; /* that a request waits for a control store that does not answer; 0: the default */
    int64_t idempotency_ns; /* how long an Idempotency-Key stands for its request; 0: the default */
};

/* What an engine gets to work with; it outlives the engine. */
struct mob_engine_context {
    struct mob_events *events; /* publish here what `want` asks for */
    struct mob_serve *serve; /* models of the endpoints */
};
/* Makes and starts an engine. `events_want` and `events_stop` are called through its ops. */
typedef enum mob_status mob_engine_maker(
    void *cls, const struct mob_engine_context *context, struct mob_engine **engine_out);

struct mob_gateway;
MOB_MUST_USE enum mob_status mob_gateway_open(const struct mob_gateway_options *options,
    mob_engine_maker *make, void *make_cls, struct mob_gateway **gateway_out);
uint16_t mob_gateway_port(const struct mob_gateway *gateway);
void mob_gateway_close(struct mob_gateway *gateway);

#endif
