/* One sequence of requests, of a client or of a node log: sim_stream.c. Part of the simulator (sim_world.h).
 */
#ifndef MOB_TESTS_SIM_SIM_STREAM_H
#define MOB_TESTS_SIM_SIM_STREAM_H

#include "tests/sim/sim_net.h"

struct sim_client;

enum sim_stream_state { SIM_STREAM_NEW, SIM_STREAM_ATTACHING, SIM_STREAM_READY };
struct sim_request {
    struct mob_gcs_request head;
    uint8_t *body;
    uint32_t body_bytes;
    bool answered, sent;
    int64_t sent_at;
    uint64_t seq;
    size_t history; /* index + 1, or 0 */
};
struct sim_stream {
    uint8_t node;
    bool is_log;
    enum sim_stream_state state;
    uint64_t client; /* 0: none yet */
    uint64_t nonce; /* of its OPEN; the same until it is answered */
    bool asked_again;
    struct sim_request *kept; /* oldest first */
    size_t count, capacity;
    uint64_t next; /* request number */
    uint64_t answered; /* all up to here */
    int64_t attach_at, gap_at;
    uint64_t attach_tag, attach_answered; /* of the last ATTACH */
    uint64_t cut; /* log: sealed there; UINT64_MAX while it lives */
};
void sim_stream_reset(struct sim *s, struct sim_stream *st);
void sim_stream_opened(struct sim *s, struct sim_client *c, struct sim_stream *st); /* it has its id */
void sim_stream_fini(struct sim_stream *st);
struct sim_request *sim_stream_add(
    struct sim_stream *st, const struct mob_gcs_request *head, const void *body, uint32_t body_bytes);
struct sim_request *sim_stream_find(struct sim_stream *st, uint64_t request);
size_t sim_stream_unanswered(const struct sim_stream *st);
void sim_stream_tick(struct sim *s, struct sim_client *c, struct sim_stream *st);
void sim_stream_config(struct sim *s, struct sim_stream *st);
void sim_stream_attached(
    struct sim *s, struct sim_client *c, struct sim_stream *st, const struct sim_msg *msg);
void sim_stream_gap(struct sim *s, struct sim_client *c, struct sim_stream *st, uint64_t last);
void sim_stream_durable(struct sim_stream *st, uint64_t durable);
void sim_stream_push(struct sim *s, struct sim_client *c, struct sim_stream *st);

#endif
