#include "server/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/api/api.h"
#include "server/auth/auth.h"
#include "server/edge/edge.h"
#include "server/events/events.h"
#include "server/h1/h1.h"

#define CONNECTIONS_MAX 16384
/* Kept for links to node and control store, sessions of jobs and the log: half of them where there are few.
 */
#define OWN_DESCRIPTORS 256u
#define PER_ADDRESS_MAX 256
/* Threads that read and write HTTP: half of the cores, since engine, node and workers need the rest; with one
 * for each, two cores spend more on switching between them than on requests. */
#define THREADS_DEFAULT_MAX 4

struct mob_gateway {
    struct mob_auth *auth;
    struct mob_events *events;
    struct mob_serve *serve;
    struct mob_engine *engine;
    struct mob_api *api;
    struct mob_h1 *h1;
    struct mob_edge *edge;
};

static void events_want(void *cls)
{
    struct mob_gateway *gateway = cls;
    gateway->engine->ops->events_want(gateway->engine);
}

static void events_behind(void *cls)
{
    struct mob_gateway *gateway = cls;
    gateway->engine->ops->events_behind(gateway->engine);
}

static void events_stop(void *cls)
{
    struct mob_gateway *gateway = cls;
    gateway->engine->ops->events_stop(gateway->engine);
}

static void on_closed(void *cls, const struct sockaddr *address)
{
    struct mob_gateway *gateway = cls;
    mob_edge_connection_closed(gateway->edge, address);
}

static size_t parked(void *cls)
{
    struct mob_gateway *gateway = cls;
    return gateway->h1 ? mob_h1_parked(gateway->h1) : 0;
}

static unsigned connections(void *cls)
{
    struct mob_gateway *gateway = cls;
    return gateway->edge ? mob_edge_connections(gateway->edge) : 0;
}

static void totals(void *cls, uint64_t *accepted_out, uint64_t *refused_out)
{
    struct mob_gateway *gateway = cls;
    *accepted_out = gateway->edge ? mob_edge_accepted_total(gateway->edge) : 0;
    *refused_out = gateway->edge ? mob_edge_refused_total(gateway->edge) : 0;
}

static enum mob_status open_auth(struct mob_gateway *gateway, const struct mob_gateway_options *options)
{
    enum mob_status status = mob_auth_open(options->token_file, &gateway->auth);
    if (status == MOB_OK)
        status = mob_auth_allow_host(gateway->auth, options->host);
    for (unsigned i = 0; i < options->extra_host_count && status == MOB_OK; i++)
        status = mob_auth_allow_host(gateway->auth, options->extra_hosts[i]);
    return status;
}

static enum mob_status open_api(struct mob_gateway *gateway, const struct mob_gateway_options *options,
    mob_engine_maker *make, void *make_cls)
{
    struct mob_events_source source = {
        gateway, options->shards > 0 ? options->shards : 1, events_want, events_stop, events_behind};
    enum mob_status status = mob_events_create(&source, &gateway->events);
    if (status == MOB_OK)
        status = mob_serve_create(&gateway->serve);
    struct mob_engine_context context = {gateway->events, gateway->serve};
    if (status == MOB_OK)
        status = make(make_cls, &context, &gateway->engine);
    if (status != MOB_OK)
        return status;
    struct mob_api_parts parts = {.engine = gateway->engine,
        .auth = gateway->auth,
        .events = gateway->events,
        .serve = gateway->serve,
        .parked = parked,
        .connections = connections,
        .totals = totals,
        .front_cls = gateway,
        .away_ns = options->away_ns,
        .idempotency_ns = options->idempotency_ns,
        .rate_limit = options->rate_limit,
        .rate_burst = options->rate_burst};
    return mob_api_create(&parts, &gateway->api);
}

/* Who is over it is told so. Without descriptors nobody would be, and links that end could not come back. */
static unsigned connections_max(const struct mob_gateway_options *options)
{
    unsigned wanted = options->connections_max ? options->connections_max : CONNECTIONS_MAX;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted + OWN_DESCRIPTORS)
        return wanted;
    unsigned all = (unsigned)files.rlim_cur, own = all / 2 < OWN_DESCRIPTORS ? all / 2 : OWN_DESCRIPTORS;
    return all - own;
}

/* When the kernel's table of a process with threads is full, it is made twice as large, and whoever opened
 * the descriptor waits for a grace period of RCU, tens of milliseconds and more on a busy machine: long
 * enough for thousands to connect meanwhile, and for those behind them to find the listener's queue full and
 * try again a second later. So it gets its size while there is one thread. */
static void size_descriptor_table(unsigned most)
{
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)(most + OWN_DESCRIPTORS) - 1);
    if (last >= 0)
        close(last);
}

static enum mob_status open_fronts(struct mob_gateway *gateway, const struct mob_gateway_options *options)
{
    const unsigned most = connections_max(options);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned threads = options->threads   ? options->threads
        : cores < 2                       ? 1
        : cores / 2 > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX
                                          : (unsigned)(cores + 1) / 2;
    struct mob_h1_options h1 = {.threads = threads,
        .connections_max = most,
        .head_timeout_ms = options->head_timeout_ms,
        .service = mob_api_service(gateway->api),
        .on_closed = on_closed,
        .on_closed_cls = gateway};
    enum mob_status status = mob_h1_start(&h1, &gateway->h1);
    if (status != MOB_OK)
        return status;
    struct mob_edge_options edge = {.host = options->host,
        .port = options->port,
        .connections_max = most,
        .per_address_max = options->per_address_max ? options->per_address_max : PER_ADDRESS_MAX,
        .sniff_timeout_ms = options->head_timeout_ms};
    struct mob_edge_front front = {gateway->h1, mob_h1_adopt};
    status = mob_edge_open(&edge, front, &gateway->edge);
    return status == MOB_OK ? mob_edge_start(gateway->edge) : status;
}

enum mob_status mob_gateway_open(const struct mob_gateway_options *options, mob_engine_maker *make,
    void *make_cls, struct mob_gateway **gateway_out)
{
    struct mob_gateway *gateway = calloc(1, sizeof *gateway);
    if (!gateway)
        return MOB_NO_MEMORY;
    size_descriptor_table(connections_max(options));
    enum mob_status status = open_auth(gateway, options);
    if (status == MOB_OK)
        status = open_api(gateway, options, make, make_cls);
    if (status == MOB_OK)
        status = open_fronts(gateway, options);
    if (status != MOB_OK) {
        int why = errno;
        mob_gateway_close(gateway);
        errno = why;
        return status;
    }
    *gateway_out = gateway;
    return MOB_OK;
}

uint16_t mob_gateway_port(const struct mob_gateway *gateway)
{
    return mob_edge_port(gateway->edge);
}

/* The order matters: nobody may park behind the flush, and no engine callback may find a stopped front. */
void mob_gateway_close(struct mob_gateway *gateway)
{
    if (!gateway)
        return;
    if (gateway->api)
        mob_api_drain(gateway->api);
    if (gateway->edge)
        mob_edge_stop(gateway->edge);
    if (gateway->events)
        mob_events_close(gateway->events);
    mob_h1_stop(gateway->h1);
    if (gateway->engine)
        gateway->engine->ops->stop(gateway->engine);
    mob_edge_destroy(gateway->edge);
    mob_api_destroy(gateway->api);
    mob_events_destroy(gateway->events);
    mob_serve_destroy(gateway->serve);
    mob_auth_close(gateway->auth);
    free(gateway);
}
