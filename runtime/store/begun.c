/* What a client has begun of what its inbound ring gave it, and how the node takes back the rest.
 *
 * The client stores the number of what it is about to begin, then looks whether it is to read on first; the
 * node stores that it is to read on, then looks at the number (Dekker). Both stores must be there before the
 * looks: then the client sees that it is to read on, or the node sees that it began, or both. A client begins
 * millions of things a second, and the node asks a few times, so the node pays for both fences: membarrier(2)
 * makes every thread of the processes that registered pass one. A client that cannot register fences itself.
 *
 * When both see each other the node's word counts: it has read the number, so that what was about to begin is
 * the client's.
 */
#include "runtime/store/store_internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* ---- client side ---- */

void mob_begun_open(struct mob_store_client *client)
{
    client->begun = MOB_SEG_LOAD(&client->seg_client->in_begun);
    client->fences =
        client->kind == MOB_CLIENT_WORKER && membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0;
}

bool mob_store_in_has_urgent(const struct mob_store_client *client)
{
    return MOB_SEG_LOAD(&client->seg_client->in_urgent) > client->in.taken;
}

bool mob_store_in_begin(struct mob_store_client *client)
{
    struct mob_seg_client *shared = client->seg_client;
    if (__builtin_expect(client->fences, 0))
        MOB_SEG_XCHG(&shared->in_begun, client->begun + 1);
    else
        MOB_SEG_STORE(&shared->in_begun, client->begun + 1);
    atomic_signal_fence(memory_order_seq_cst); /* of the compiler; the processor's is the node's */
    if (__builtin_expect(mob_store_in_has_urgent(client), 0)) {
        MOB_SEG_STORE(&shared->in_begun, client->begun);
        return false;
    }
    client->begun++;
    return true;
}

/* ---- node side ---- */

/* Clients of a kernel that knows no membarrier(2) could not register, and fence. */
static bool fence_clients(void)
{
    return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0 || errno == ENOSYS || errno == EINVAL;
}

void *mob_store_in_halt(
    struct mob_store *store, uint32_t slot, uint8_t type, uint32_t body_bytes, uint64_t *begun_out)
{
    MOB_ASSERT(slot < store->view.clients_max);
    struct mob_node_client *client = &store->clients[slot];
    MOB_ASSERT(body_bytes <= MOB_HALT_BYTES_MAX); /* small enough never to go in parts */
    void *body = mob_store_in_reserve(store, slot, type, 0, 0, body_bytes);
    if (!body)
        return NULL;
    MOB_SEG_STORE(&client->seg_client->in_urgent, client->in.head);
    *begun_out = fence_clients() ? MOB_SEG_LOAD(&client->seg_client->in_begun) : UINT64_MAX;
    return body;
}
