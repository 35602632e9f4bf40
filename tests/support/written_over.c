#include "tests/support/written_over.h"

#include "runtime/store/store_internal.h"

void inbound_ring_written_over(struct mob_store_client *client)
{
    MOB_SEG_STORE(&client->seg_client->in_head, 0x123456789abcdefull);
}
