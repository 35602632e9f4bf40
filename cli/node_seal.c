#include "cli/node_seal.h"

bool node_seal_start(
    struct node_seal *seal, uv_loop_t *loop, const char *gcs_socket, void (*done)(struct node_seal *))
{
    (void)loop;
    (void)gcs_socket;
    done(seal);
    return true;
}

void node_seal_stop(struct node_seal *seal)
{
    (void)seal;
}
