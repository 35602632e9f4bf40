/* A node whose every move is the test's: a real segment, one client in it, records taken and given by hand.
 * Client and node run in the test's thread, so nothing here may block: calls of the client that wait for a
 * reply are not for it.
 */
#ifndef MOB_TESTS_SUPPORT_FAKE_NODE_H
#define MOB_TESTS_SUPPORT_FAKE_NODE_H

#include "runtime/store/store.h"
#include "sdk/c/client.h"

#define FAKE_RECORD_BYTES 131072

struct fake_node {
    struct mob_store *store;
    uint32_t slot;
    struct mob_client *client; /* of a driver; NULL when the test attaches a worker itself */
    uint16_t give_aux; /* of what is given */
    /* The record taken last. */
    struct mob_record record;
    _Alignas(8) uint8_t body[FAKE_RECORD_BYTES];
    uint32_t bytes;
};

/* `ring_bytes` 0 = the default. */
void fake_node_open(struct fake_node *node, enum mob_client_kind kind, uint32_t ring_bytes);
/* A driver's client on it, without a socket. */
struct mob_client *fake_node_driver(struct fake_node *node);
void fake_node_close(struct fake_node *node);

/* Next outbound record into node->record and ->body; false = none. */
bool fake_node_take(struct fake_node *node);
/* Give an inbound record of up to three pieces. Fails the test when there is no room. */
void fake_node_give(struct fake_node *node, uint8_t type, const void *a, size_t a_bytes, const void *b,
    size_t b_bytes, const void *c, size_t c_bytes);
void fake_node_ready(struct fake_node *node, struct mob_object_id id, enum mob_status status,
    enum mob_value_type type, const void *payload, size_t bytes);
void fake_node_ready_i64(struct fake_node *node, struct mob_object_id id, int64_t v);

/* A function of a table entry, as if the node had been asked. */
const struct mob_function *fake_function(struct mob_client *client, const char *name, const char *signature);
/* An actor of a class with these methods, whose constructor takes nothing. */
struct mob_actor *fake_actor(struct mob_client *client, const struct mob_method_entry *methods);

#endif
