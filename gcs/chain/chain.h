/* The replication protocol of a shard (GCS.md), as a pure state machine: events in, actions out.
 *
 * No sockets, clock, threads or store. The owner (gcs/shard, later tests/sim) feeds an event, then takes
 * actions until there is none. This member is head, tail and the whole chain at once: an entry is applied
 * when its request is accepted, committed when the owner's store has it, and kept until it is durable, so
 * that a store that came back without its newest entries gets them again. Requests of one (client, number)
 * are applied once.
 *
 *   status = mob_chain_on_put(chain, &put);
 *   while (mob_chain_next(chain, &action)) ...      // STORE: write it; REPLY, NACK, GAP, EXPIRED: send it
 *   mob_chain_on_stored(chain, seq);                // the store answered for all up to seq
 *   mob_chain_on_durable(chain, seq);               // it is on disk as configured -> RELEASE
 *
 * One owner, no locks. Limits below; every table is bounded. Running out of memory is MOB_NO_MEMORY to the
 * request.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_H
#define MOB_GCS_CHAIN_CHAIN_H

#include "gcs/chain/state.h"

#define MOB_CHAIN_CLIENTS_MAX 8192u /* clients of keys and values, and live logs */
#define MOB_CHAIN_ENTRIES_MAX (1u << 17) /* above durable: 6 s of 20,000 a second */
#define MOB_CHAIN_DROP_MAX 4096u /* blocks one JOB_DROP takes; the rest is for the next */

struct mob_chain;

/* What the member's own rows need to resolve JOB_DROP: up to `max` block seqs of the job that may go,
 * `*more_out` when there are others. Must depend on applied entries only. */
typedef size_t mob_chain_drop_fn(
    void *arg, const struct mob_gcs_request *request, uint64_t *seqs_out, size_t max, bool *more_out);

/* One applied operation with its resolved effect. `status` other than MOB_OK: no effect, only a consumed
 * request. */
struct mob_chain_entry {
    uint64_t seq, client, request; /* client 0: made by the member itself */
    uint8_t op; /* enum mob_gcs_op */
    uint8_t table;
    uint16_t zero;
    uint32_t status; /* enum mob_status of the reply */
    const uint8_t *body; /* block, or key then value, or node name */
    uint32_t body_bytes, key_length;
    uint64_t target; /* SEAL, RECOVERED: incarnation; EXPIRE: client */
    uint64_t version; /* reply; SEAL: 1 = recovered already */
    uint64_t number; /* reply; REGISTER: the new incarnation; SEAL: the cut; JOB_DROP: blocks dropped */
    uint64_t next; /* reply of JOB_DROP: 1 = there is more to drop */
    uint64_t *drops; /* JOB_DROP: seqs of the blocks that go */
    size_t drop_count;
    void *hold; /* the owner's handle of the memory under `body`; given back by RELEASE */
    bool own_body; /* body is the chain's own memory (hold is NULL) */
};

enum mob_chain_action_type {
    MOB_CHAIN_STORE = 1, /* write the entry (valid until the next event) */
    MOB_CHAIN_REPLY, /* to the client: committed */
    MOB_CHAIN_NACK, /* to the client: the epoch is another */
    MOB_CHAIN_GAP, /* to the client: requests after reply.request are missing */
    MOB_CHAIN_EXPIRED, /* to the client: nothing is taken any more; reply.status says why, reply.request = the
                          last */
    MOB_CHAIN_RELEASE /* the memory behind `hold` is not needed any more */
};
struct mob_chain_action {
    enum mob_chain_action_type type;
    const struct mob_chain_entry *entry; /* STORE */
    uint64_t client; /* REPLY, NACK, GAP, EXPIRED */
    struct mob_gcs_reply reply;
    void *hold; /* RELEASE */
};

struct mob_chain_options {
    struct mob_state *state; /* keeps */
    mob_chain_drop_fn *drop;
    void *drop_arg;
};
/* NULL when out of memory. Starts at epoch 1, seq 0, nobody known. */
struct mob_chain *mob_chain_create(const struct mob_chain_options *options);
/* Does not give RELEASE: mob_chain_each_hold() first, if the owner needs them. */
void mob_chain_destroy(struct mob_chain *c);

uint64_t mob_chain_epoch(const struct mob_chain *c);
uint64_t mob_chain_applied(const struct mob_chain *c);
uint64_t mob_chain_committed(const struct mob_chain *c);
uint64_t mob_chain_durable(const struct mob_chain *c);
size_t mob_chain_clients(const struct mob_chain *c);
size_t mob_chain_entries(const struct mob_chain *c); /* kept, above durable */
uint64_t mob_chain_duplicates(const struct mob_chain *c);
/* Requests that may be fed before some must become durable. */
size_t mob_chain_room(const struct mob_chain *c);
size_t mob_chain_bytes(const struct mob_chain *c);
/* The kept entry with this seq, NULL when there is none. Valid until the next event. */
const struct mob_chain_entry *mob_chain_kept(const struct mob_chain *c, uint64_t seq);

/* ---- loading, before any event ---- */
void mob_chain_load_position(struct mob_chain *c, uint64_t epoch, uint64_t seq);
MOB_MUST_USE enum mob_status mob_chain_load_client(struct mob_chain *c, uint64_t client, uint64_t last);
/* One remembered reply of a loaded client. */
void mob_chain_load_reply(struct mob_chain *c, uint64_t client, const struct mob_gcs_reply *reply);

/* ---- events ---- */

/* A client introduces itself. `known`: it was attached before, so an absent entry means it was expired.
 * Requests that it had answered as committed and no longer keeps, and that are not in the tables, are named
 * by a LOSS entry; a log with such a hole is sealed at its last block. */
struct mob_chain_attach {
    uint64_t client;
    uint64_t answered, kept; /* as in struct mob_gcs_attach */
    bool known;
    int64_t wall_ns; /* now, for the LOSS record */
};
MOB_MUST_USE enum mob_status mob_chain_on_attach(
    struct mob_chain *c, const struct mob_chain_attach *attach, struct mob_gcs_attached *attached_out);

struct mob_chain_put {
    uint64_t epoch, client;
    struct mob_gcs_request request;
    const uint8_t *body;
    uint32_t body_bytes;
    void *hold; /* taken when MOB_OK is returned: one RELEASE will follow */
    bool full; /* the owner is at its hard cap: logs are refused (the request is not consumed), others get
                  MOB_GCS_FULL */
};
/* MOB_OK: taken (an entry, or collected). MOB_FINISHED: answered without an entry (duplicate, NACK, GAP,
 * EXPIRED); `hold` stays the caller's. MOB_GCS_FULL: refused, send a REPLY with it. MOB_QUEUE_FULL: no
 * mob_chain_room(). */
MOB_MUST_USE enum mob_status mob_chain_on_put(struct mob_chain *c, const struct mob_chain_put *put);
/* The member's own operations (SEAL, EXPIRE): no client, no reply. */
MOB_MUST_USE enum mob_status mob_chain_on_internal(struct mob_chain *c, enum mob_gcs_op op, uint64_t target);
/* All STOREs up to seq are in the store. */
void mob_chain_on_stored(struct mob_chain *c, uint64_t seq);
/* All up to seq, which is stored, is durable. */
void mob_chain_on_durable(struct mob_chain *c, uint64_t seq);
/* The store came back and ends at seq: STOREs of all above follow. MOB_CORRUPT when it lacks what was
 * durable. */
MOB_MUST_USE enum mob_status mob_chain_on_store_back(struct mob_chain *c, uint64_t seq);

/* A sole member that restarted: requests are collected, nothing is applied or answered until the end; then
 * they are applied in their old order with their old effects, those never answered last. Holes become LOSS
 * entries. */
void mob_chain_collect_begin(struct mob_chain *c);
bool mob_chain_collecting(const struct mob_chain *c);
/* After collecting: the last seq whose meaning is the same as before the restart. */
uint64_t mob_chain_history(const struct mob_chain *c);
/* The epoch grows by one when anything may have been lost, so that nobody speaks of the old history. */
MOB_MUST_USE enum mob_status mob_chain_collect_end(struct mob_chain *c, int64_t wall_ns);

/* ---- actions: drain after each event ---- */
bool mob_chain_next(struct mob_chain *c, struct mob_chain_action *action_out);

/* Every log in the client table, for tests and for collecting: calls back with client and last request. */
void mob_chain_each_client(
    const struct mob_chain *c, void (*visit)(void *arg, uint64_t client, uint64_t last), void *arg);

#endif
