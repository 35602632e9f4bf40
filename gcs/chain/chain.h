/* The replication protocol of a shard (GCS.md; van Renesse and Schneider 2004, section 3), as a pure state
 * machine: events in, actions out.
 *
 * No sockets, clock, threads or store. The owner (gcs/shard, tests/sim) feeds an event, then takes actions
 * until there is none. Writes enter at the head, which gives each its seq and resolves what it does; each
 * member applies it, passes it on and writes it to its own store at the same time; the tail commits it when
 * its own store has it, and replies. An entry is kept until it is committed and on this member's disk, so
 * that a successor, or a store that came back without its newest entries, gets it again. Requests of one
 * (client, number) are applied once.
 *
 *   status = mob_chain_on_put(chain, &put);                    // or _on_message, _on_config, _on_tick
 *   while (mob_chain_next(chain, &action)) ...                 // STORE: write it; SEND, REPLY, ...: send it
 *   mob_chain_on_stored(chain, seq);                           // the store answered for all up to seq
 *   mob_chain_on_durable(chain, seq);                          // it is on disk as configured
 *
 * A member created with `self` 0 is head, tail and the whole chain at once, without a master. Others start
 * IDLE and do what configurations say (mob_chain_on_config). One owner, no locks. Limits below; every table
 * is bounded. Running out of memory is MOB_NO_MEMORY to the request.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_H
#define MOB_GCS_CHAIN_CHAIN_H

#include "common/wire/gcs_link.h"
#include "gcs/chain/chain_entry.h"
#include "gcs/chain/state.h"

#define MOB_CHAIN_CLIENTS_MAX 8192u /* clients of keys and values, and live logs */
#define MOB_CHAIN_ENTRIES_MAX (1u << 19) /* kept: 5 s of 100,000 a second */
#define MOB_CHAIN_DROP_MAX 4096u /* blocks one JOB_DROP takes; the rest is for the next */
#define MOB_CHAIN_LEASE_NS (10 * 1000000ll)
#define MOB_CHAIN_STALL_NS (5 * 1000000000ll)
#define MOB_CHAIN_RESEND_NS (2 * 1000000ll) /* nothing heard for so long: ask, or send, again */
#define MOB_CHAIN_SNAPSHOT_BYTES (64u << 10) /* of rows in one batch: 0.2 ms of work */
#define MOB_CHAIN_SNAPSHOT_MAX \
    (1020u << 10) /* the same with one last large row: the largest value, its key, heads */
/* Between two batches while clients write, at most: a put meets one batch and not several, and the joiner and
 * its store leave a part of the cores. Less, the more of what may be kept for the joiner is kept already. */
#define MOB_CHAIN_JOIN_REST_NS (400 * 1000ll)
/* Entries of the log on their way to a joiner: so few that neither side is long at them while a put waits;
 * twice as many each time that they were too few for the joiner to get nearer to the end (long ways). */
#define MOB_CHAIN_JOIN_WINDOW_MIN 32u
#define MOB_CHAIN_JOIN_WINDOW_MAX 1024u
/* Entries of the log that are kept for a joiner before clients wait, at the very most; half of them when it
 * takes the snapshot for so long (mob_chain_paced). */
#define MOB_CHAIN_JOIN_LOG_MAX (MOB_CHAIN_ENTRIES_MAX / 8 * 6)
#define MOB_CHAIN_JOIN_PACE_NS (3 * 1000000000ll)

struct mob_chain;

/* Legal changes are in chain_config.c. */
enum mob_chain_state {
    MOB_CHAIN_IDLE = 0, /* in no configuration yet */
    MOB_CHAIN_JOINING, /* takes the state of the tail, then its log */
    MOB_CHAIN_SYNCING, /* in the configuration; the predecessor has not said SYNCEND */
    MOB_CHAIN_COLLECTING, /* the only member after everything died: gathers what clients keep */
    MOB_CHAIN_SERVING,
    MOB_CHAIN_EVICTED, /* a newer configuration is without it, or it cannot go on: for ever */
    MOB_CHAIN_STATES
};
const char *mob_chain_state_name(enum mob_chain_state state);
/* Why a member can only be EVICTED. Those from HISTORY on are defects: no fault explains them. */
enum mob_chain_failure {
    MOB_CHAIN_FINE = 0,
    MOB_CHAIN_LEFT_OUT, /* of a newer configuration */
    MOB_CHAIN_NOT_READY, /* made a member before it had the state */
    MOB_CHAIN_TOO_LATE, /* appended, but its predecessor no longer has what it lacks */
    MOB_CHAIN_STALLED, /* nothing of its snapshot, or of the log behind it, came for so long that another life
                          may be luckier */
    MOB_CHAIN_HISTORY, /* another history than its predecessor's */
    MOB_CHAIN_STATE, /* another state at the same seq */
    MOB_CHAIN_SHORT, /* its successor has committed more than it has */
    MOB_CHAIN_UNSYNCED_HEAD,
    MOB_CHAIN_SNAPSHOT, /* rows that do not parse */
    MOB_CHAIN_FAILURES
};
const char *mob_chain_failure_text(enum mob_chain_failure failure);

/* What the member's own rows need to resolve JOB_DROP: up to `max` block seqs of the job that may go,
 * `*more_out` when there are others. Must depend on applied entries only. */
typedef size_t mob_chain_drop_fn(
    void *arg, const struct mob_gcs_request *request, uint64_t *seqs_out, size_t max, bool *more_out);

enum mob_chain_action_type {
    MOB_CHAIN_STORE = 1, /* write the entry (valid until the next event) */
    MOB_CHAIN_SEND, /* `message` to the member message->link.to; entry->hold keeps its body alive */
    MOB_CHAIN_REPLY, /* to the client: committed */
    MOB_CHAIN_NACK, /* to the client: not here, or not in this epoch; the configuration */
    MOB_CHAIN_GAP, /* to the client: requests after reply.request are missing */
    MOB_CHAIN_EXPIRED, /* to the client: nothing is taken any more; reply.status says why, reply.request = the
                          last */
    MOB_CHAIN_RELEASE, /* the memory behind `hold` is not needed any more */
    MOB_CHAIN_READ, /* message->link.client asks message->body, tag link.token: read, and answer when all
                       that was applied is committed */
    MOB_CHAIN_ROWS, /* the joiner wants a batch of the owner's rows: mob_chain_on_rows() when they are there
                     */
    MOB_CHAIN_LOAD, /* joining: rows of the owner's (message->body), for its tables and its store */
    MOB_CHAIN_WIPE /* joining begins: forget all; what the store holds is void until position() is written */
};
struct mob_chain_action {
    enum mob_chain_action_type type;
    const struct mob_chain_entry *entry; /* STORE; SEND of an entry */
    const struct mob_gcs_link_msg *message; /* SEND, READ, LOAD, ROWS (body = the owner's cursor) */
    uint64_t client; /* REPLY, NACK, GAP, EXPIRED; the nonce in a reply to OPEN */
    struct mob_gcs_reply reply;
    void *hold; /* RELEASE */
};

struct mob_chain_options {
    uint64_t self; /* this life of this member; 0: no master, the only member there is */
    struct mob_state *state; /* keeps */
    mob_chain_drop_fn *drop;
    void *drop_arg;
    void (*on_state)(void *arg, enum mob_chain_state from, enum mob_chain_state to); /* or NULL */
    void *state_arg;
    int64_t lease_ns, resend_ns; /* 0: as above */
    int64_t stall_ns; /* of a joiner: 0: as above */
    uint32_t snapshot_bytes; /* 0: as above */
    int64_t join_rest_ns; /* MOB_CHAIN_JOIN_REST_NS; 0: none */
    int64_t join_pace_ns; /* MOB_CHAIN_JOIN_PACE_NS; 0: none */
    uint32_t join_log_max; /* 0: MOB_CHAIN_JOIN_LOG_MAX */
    uint64_t kept_bytes_max; /* of bodies that the owner can hold before clients wait; 0: any number */
    bool commit_on_disk; /* `always`: committed only when it is on the disk of all members */
};
/* NULL when out of memory. Starts at seq 0, nobody known; with self 0 SERVING in epoch 1, else IDLE. */
struct mob_chain *mob_chain_create(const struct mob_chain_options *options);
/* Does not give RELEASE: the owner's chunks are the owner's. */
void mob_chain_destroy(struct mob_chain *c);

enum mob_chain_state mob_chain_state(const struct mob_chain *c);
const struct mob_gcs_config *mob_chain_config(const struct mob_chain *c);
uint64_t mob_chain_epoch(const struct mob_chain *c);
enum mob_chain_failure mob_chain_failure(const struct mob_chain *c);
/* Takes writes, or answers reads and clients, in the present epoch. A tail may lack the lease. */
bool mob_chain_is_head(const struct mob_chain *c);
bool mob_chain_is_tail(const struct mob_chain *c);
/* Holds every entry that was ever committed: may be promoted, and may start the chain again. */
bool mob_chain_synced(const struct mob_chain *c);
uint64_t mob_chain_applied(const struct mob_chain *c);
uint64_t mob_chain_committed(const struct mob_chain *c);
/* On the disk of every member, as far as this one knows. */
uint64_t mob_chain_durable(const struct mob_chain *c);
/* Of the history up to applied: equal on all members at equal seq. */
uint64_t mob_chain_digest(const struct mob_chain *c);
/* Of clients, logs and keys: equal at equal seq, but of a joiner only from its SYNCING on. */
uint64_t mob_chain_state_digest(const struct mob_chain *c);
/* Both digests as they were at some of the newest positions: every one of the last MOB_CHAIN_MARKS_EACH
 * entries, and far back those whose seq is a multiple of MOB_CHAIN_MARKS_STEP. Members that are asked one
 * after the other, while others write, are compared at one that all have. In no order, one may come twice;
 * returns how many. `out`: MOB_CHAIN_MARKS_MAX, or NULL. */
#define MOB_CHAIN_MARKS_EACH 1024u
#define MOB_CHAIN_MARKS_STEP 128u
#define MOB_CHAIN_MARKS_FAR 2048u /* of the latter: 2.6 s of 100,000 entries a second */
#define MOB_CHAIN_MARKS_MAX (MOB_CHAIN_MARKS_EACH + MOB_CHAIN_MARKS_FAR)
size_t mob_chain_marks(const struct mob_chain *c, struct mob_gcs_mark *out);
size_t mob_chain_clients(const struct mob_chain *c);
size_t mob_chain_entries(const struct mob_chain *c); /* kept */
uint64_t mob_chain_duplicates(const struct mob_chain *c);
/* Requests that may be fed before some must become durable. */
size_t mob_chain_room(const struct mob_chain *c);
size_t mob_chain_bytes(const struct mob_chain *c);
/* How much there is of what waits, for tests: requests, losses and seals until collecting ends, the memory of
 * requests that nobody wants, and what clients are told when it is committed. */
struct mob_chain_waiting {
    size_t collected, losses, seals, dropped, notices;
};
struct mob_chain_waiting mob_chain_waiting(const struct mob_chain *c);
/* A version is the position of the write that gave it, and above that the epoch: after a start that lost
 * entries their positions are given out again, and a version of before must not be another write's. Those of
 * later epochs are greater; stores of before have plain positions. */
#define MOB_CHAIN_VERSION_SEQ_BITS 40u
static inline uint64_t mob_chain_version_seq(uint64_t version)
{
    return version & ((1ull << MOB_CHAIN_VERSION_SEQ_BITS) - 1);
}
/* The kept entry with this seq, NULL when there is none. Valid until the next event. */
const struct mob_chain_entry *mob_chain_kept(const struct mob_chain *c, uint64_t seq);
/* The tail's part of a join: who, and how many entries it lacks (UINT64_MAX while it takes the snapshot).
 * False: nobody joins. */
bool mob_chain_join(const struct mob_chain *c, uint64_t *joiner_out, uint64_t *lag_out);
/* Every client in the table, for tests and for collecting: calls back with client and last request. */
void mob_chain_each_client(
    const struct mob_chain *c, void (*visit)(void *arg, uint64_t client, uint64_t last), void *arg);

/* ---- loading, before any event ---- */
/* `epoch`: the newest in which this store was synced; without a master, the chain's. */
void mob_chain_load_position(struct mob_chain *c, uint64_t epoch, uint64_t seq);
MOB_MUST_USE enum mob_status mob_chain_load_client(struct mob_chain *c, uint64_t client, uint64_t last);
/* One remembered reply of a loaded client. */
void mob_chain_load_reply(struct mob_chain *c, uint64_t client, const struct mob_gcs_reply *reply);

/* ---- events of clients ---- */

/* A client that has an id introduces itself to the head. Requests that it had answered as committed and no
 * longer keeps, and that are not in the tables, are named by a LOSS entry; a log with such a hole is sealed
 * at its last block. */
struct mob_chain_stream_base;
struct mob_chain_attach {
    uint64_t client;
    uint64_t answered, kept; /* as in struct mob_gcs_attach */
    int64_t wall_ns; /* now, for the LOSS record */
    /* Where histories ended (chain_stream.h): who was opened in what was lost with one, and comes when
     * collecting is over, is named with all that it was answered. Borrows. */
    const struct mob_chain_stream_base *bases;
    uint32_t base_count;
};
/* MOB_WRONG_EPOCH: not the head. MOB_FINISHED: it is expired or sealed; the action EXPIRED says so when that
 * is certain. */
MOB_MUST_USE enum mob_status mob_chain_on_attach(
    struct mob_chain *c, const struct mob_chain_attach *attach, struct mob_gcs_attached *attached_out);

struct mob_chain_put {
    uint64_t epoch, client; /* OPEN: client = a nonce, which is forgotten with the reply */
    struct mob_gcs_request request;
    const uint8_t *body;
    uint32_t body_bytes;
    uint32_t body_crc;
    void *hold; /* taken when MOB_OK is returned: one RELEASE will follow */
    bool full; /* the owner is at its hard cap: logs are refused (the request is not consumed), others get
                  MOB_GCS_FULL */
};
/* MOB_OK: taken (an entry, or collected). MOB_FINISHED: answered without an entry (duplicate, NACK, GAP,
 * EXPIRED); `hold` stays the caller's. MOB_GCS_FULL: refused, send a REPLY with it. MOB_QUEUE_FULL: no
 * mob_chain_room(). */
MOB_MUST_USE enum mob_status mob_chain_on_put(struct mob_chain *c, const struct mob_chain_put *put);
/* The head's own operations (SEAL, EXPIRE): no client, no reply. MOB_WRONG_EPOCH: not the head. */
MOB_MUST_USE enum mob_status mob_chain_on_internal(struct mob_chain *c, enum mob_gcs_op op, uint64_t target);
/* A read for which the tail has no lease goes through the chain from the head, which passes it on: by then no
 * newer configuration can have committed anything. `body` is copied. MOB_WRONG_EPOCH: not the head. */
struct mob_chain_read {
    uint64_t epoch, client, tag;
    const uint8_t *body;
    uint32_t body_bytes;
};
MOB_MUST_USE enum mob_status mob_chain_on_read(struct mob_chain *c, const struct mob_chain_read *read);
/* May this member answer a read that was made on its own state? Asked after reading, when all that was
 * applied then is committed. MOB_WRONG_EPOCH: not the tail. MOB_AGAIN: no lease, read through the chain. */
MOB_MUST_USE enum mob_status mob_chain_may_answer(const struct mob_chain *c, int64_t now_ns);

/* ---- events of the store ---- */

/* All STOREs up to seq are in the store. */
void mob_chain_on_stored(struct mob_chain *c, uint64_t seq);
/* All up to seq, which is stored, is on disk as configured. */
void mob_chain_on_durable(struct mob_chain *c, uint64_t seq);
/* The store of a sole member came back and ends at seq: STOREs of all above follow. MOB_CORRUPT when it lacks
 * what was durable; MOB_WRONG_EPOCH with other members alive: then this one is new and empty. */
MOB_MUST_USE enum mob_status mob_chain_on_store_back(struct mob_chain *c, uint64_t seq);

/* ---- events of members and master ---- */

/* From the master, or from another member. Older ones are ignored. */
void mob_chain_on_config(struct mob_chain *c, const struct mob_gcs_config *config);
/* A message from another member. MOB_OK: an entry was taken, and with it `hold` (one RELEASE will follow).
 * MOB_FINISHED: done with it. MOB_QUEUE_FULL: no room, stop reading from there until there is.
 * MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_chain_on_message(
    struct mob_chain *c, const struct mob_gcs_link_msg *message, void *hold);
/* The master answered the heartbeat that this member sent at sent_ns of its own clock in `epoch`. */
void mob_chain_on_lease(struct mob_chain *c, uint64_t epoch, int64_t sent_ns);
/* At least every resend_ns / 2, in each turn of an owner that gives join_rest_ns, and when
 * mob_chain_rests_until says: a rest ends here. The clock is the owner's own, monotonic. */
void mob_chain_on_tick(struct mob_chain *c, int64_t now_ns);
/* A joiner waits for a batch until then; INT64_MAX: none does. */
int64_t mob_chain_rests_until(const struct mob_chain *c);
/* Clients' requests are to wait until this says otherwise, in a later turn, so that a joiner gets to the end
 * of a log that has to be kept for it (docs/adr/join-pace.md). Of the head; a request that is fed all the
 * same is taken. */
bool mob_chain_paced(const struct mob_chain *c);
/* This member holds so many bytes. `measured`: who is before it is told at once, and not with the next ACK.
 */
void mob_chain_on_memory(struct mob_chain *c, uint64_t bytes, bool measured);
/* Of the fullest member from this one on, as each said last: what a cap is held against. */
uint64_t mob_chain_memory(const struct mob_chain *c);
/* An IDLE member is to be a new one, says a master whose newest configuration is of `epoch`: it forgets what
 * it has and joins behind the tail. Not obeyed unless that is newer than what its store took part in: a
 * master that knows less may not know that this is all there is. */
void mob_chain_on_join(struct mob_chain *c, uint64_t epoch);
/* Answer to ROWS: rows of the owner's from the cursor on, at most MOB_CHAIN_SNAPSHOT_MAX bytes, read after
 * ROWS was given (so they are at least as new as the beginning of the snapshot), and the cursor behind them;
 * cursor_bytes 0: that was all. `token` and `joiner` as in ROWS. Copies. */
struct mob_chain_rows {
    uint64_t joiner, token;
    const uint8_t *rows;
    uint32_t row_bytes, cursor_bytes;
    const uint8_t *cursor; /* at most MOB_CHAIN_CURSOR_MAX */
};
#define MOB_CHAIN_CURSOR_MAX 520u
void mob_chain_on_rows(struct mob_chain *c, const struct mob_chain_rows *rows);

/* A sole member that restarted: requests are collected, nothing is applied or answered until the end; then
 * they are applied in their old order with their old effects, those never answered last. Holes become LOSS
 * entries. */
void mob_chain_collect_begin(struct mob_chain *c);
bool mob_chain_collecting(const struct mob_chain *c);
/* The master has had this log sealed: it takes nothing above its first `cut` blocks (UINT64_MAX: nobody was
 * told a cut yet, so all that its node sends) and is sealed again at the end. */
MOB_MUST_USE enum mob_status mob_chain_collect_seal(struct mob_chain *c, uint64_t incarnation, uint64_t cut);
/* Newest request of the client that was collected or is in the tables; false: unknown. */
bool mob_chain_collected(const struct mob_chain *c, uint64_t client, uint64_t *last_out);
/* This client, from the tables, has not answered: at the end it is expired, or its log sealed, and what it
 * may have had is named. */
MOB_MUST_USE enum mob_status mob_chain_collect_absent(struct mob_chain *c, uint64_t client, int64_t wall_ns);
/* After collecting: the last seq whose meaning is the same as before the restart. */
uint64_t mob_chain_history(const struct mob_chain *c);
/* What collecting has put back and named is not on this member's disk yet: nothing is committed before it is.
 * A sync is wanted at once. */
bool mob_chain_start_waits(const struct mob_chain *c);
/* Without a master the epoch grows by one, so that nobody speaks of the old history. */
MOB_MUST_USE enum mob_status mob_chain_collect_end(struct mob_chain *c, int64_t wall_ns);

/* ---- actions: drain after each event ---- */
bool mob_chain_next(struct mob_chain *c, struct mob_chain_action *action_out);

#endif
