/* A segment as another client left it that wrote where it should not. In a file of its own, because what a
 * client looks like inside and what a store looks like do not go together in one. */
#ifndef MOB_TESTS_SUPPORT_WRITTEN_OVER_H
#define MOB_TESTS_SUPPORT_WRITTEN_OVER_H

#include "runtime/store/store.h"

/* Where the node says how far it has filled the client's inbound ring. */
void inbound_ring_written_over(struct mob_store_client *client);

#endif
