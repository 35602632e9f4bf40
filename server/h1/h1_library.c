/* Two functions that stand before the library: it calls them through the dynamic linker like anybody.
 *
 * MHD_queue_response: what the library answers by itself becomes a problem document.
 *
 * A request whose head the library cannot split, a malformed length and a malformed chunk never reach the
 * handler: the library queues an answer of its own, in HTML, and of some the head twice. It tells its user so
 * only in its log, and not on which connection. But it queues that answer by its own public function, which
 * it calls through the dynamic linker like anybody, so the function of that name here stands before it and
 * sees connection and status. Our answer goes first and ends the sending half, so that the library's is not
 * sent. A library that is linked so that it finds its own function never comes by: then its own words are
 * sent, which integration/http_layer tells.
 *
 * epoll_wait: the library's loop has room for 128 events. When a batch fills it, it asks for more before it
 * looks at any, and with the same time-out, mostly none: where these were all, that thread and whoever is on
 * it stand still until something else happens there (integration/http_parked). So a batch is never full.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/base/log.h"
#include "server/h1/h1_inner.h"
#include "server/http/head.h"
#include "server/http/refusal.h"

typedef enum MHD_Result queue_fn(struct MHD_Connection *, unsigned, struct MHD_Response *);

static queue_fn *library_queue;

static void find_library(void)
{
    void *found = dlsym(RTLD_NEXT, "MHD_queue_response");
    MOB_ASSERT(found != NULL);
    memcpy(&library_queue, &found, sizeof found); /* ISO C has no cast for it */
}

enum MHD_Result h1_library_queue(struct MHD_Connection *mhd, unsigned status, struct MHD_Response *response)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library);
    return library_queue(mhd, status, response);
}

struct fault {
    struct mob_http_head_facts facts;
    struct mob_http_refusal refusal;
};

/* Header by header as before the handler, of what the library could take apart. */
static enum MHD_Result find_fault(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_length,
    const char *value, size_t value_length)
{
    (void)kind;
    struct fault *fault = cls;
    bool ok = mob_http_head_field(
        &fault->facts, name, name_length, value ? value : "", value ? value_length : 0, &fault->refusal);
    return ok ? MHD_YES : MHD_NO;
}

static bool reads_chunks(const struct connection *c)
{
    return c->exchange && c->exchange->begun && c->exchange->request->content_length == UINT64_MAX &&
        atomic_load_explicit(&c->phase, memory_order_relaxed) == H1_READING;
}

static void refuse(struct connection *c, unsigned status)
{
    bool ours = status >= 500 && status != MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED;
    struct fault fault = {
        .refusal = {ours ? 503 : (int)status, ours ? "out of room" : "malformed request head"}};
    if (reads_chunks(c))
        fault.refusal.why = "malformed chunk";
    else
        MHD_get_connection_values_n(c->mhd, MHD_HEADER_KIND, find_fault, &fault);
    mob_http_refusal_send(c->fd, fault.refusal);
    mob_http_drain(c->fd);
}

/* The library's name; only the library calls it here. */
__attribute__((visibility("default"))) enum MHD_Result MHD_queue_response(
    struct MHD_Connection *mhd, unsigned status, struct MHD_Response *response)
{
    struct connection *c = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (!c->exchange || !c->exchange->refused) /* else it has been answered already */
        refuse(c, status);
    return h1_library_queue(mhd, status, response);
}

/* For the library; to all others in the process it is what it always was, with room for one event less. */
__attribute__((visibility("default"))) int epoll_wait(
    int fd, struct epoll_event *events, int max, int timeout_ms)
{
    return epoll_pwait(fd, events, max > 1 ? max - 1 : max, timeout_ms, NULL);
}
