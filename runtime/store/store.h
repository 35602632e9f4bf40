/* The node's shared segment: clients, rings, doorbells, object table, arena (ARCHITECTURE "The node's shared
 * segment").
 *
 * One memfd per node. The node creates it (mob_store_create) and is the only one that evicts, spills, frees
 * and cleans up; clients (workers, drivers, the gateway) map it (mob_store_attach) and create, seal, get and
 * release local objects themselves, without a message to anyone. A client may die at any instruction and may
 * write any bytes anywhere: the node copies, range-checks, then uses, and never waits for a client.
 *
 * Thread rules: a `struct mob_store` (node side) and a `struct mob_store_client` belong to one thread each.
 */
#ifndef MOB_RUNTIME_STORE_STORE_H
#define MOB_RUNTIME_STORE_STORE_H

#include "common/wire/record.h"

#define MOB_SEGMENT_VERSION 7
#define MOB_STORE_CLIENTS_MAX 4094u
#define MOB_OBJECT_INLINE_MAX 24u /* values up to this size live inside the 64-byte table entry */

struct mob_store; /* node side */
struct mob_store_client; /* client side */

struct mob_store_options {
    size_t struct_size;
    uint64_t segment_bytes; /* 0 = 30 % of memory */
    uint32_t object_entries; /* table capacity, power of two; 0 = derived from segment_bytes */
    const char *spill_dir; /* NULL = no spilling */
    uint64_t spill_quota_bytes;
    uint64_t incarnation;
    struct mob_cluster_id cluster;
    bool prefault; /* background thread that touches pages; warm ones are handed out first */
    /* Whether something that is going to run needs this object: then it counts as used, as long as others can
     * go in its place. Called by the node's thread, for objects about to be swept. NULL = none is. */
    bool (*needed)(void *arg, struct mob_object_id id);
    bool (*needs_any)(void *arg); /* false: it would say no of each */
    void *arg;
};

/* ---- node side: life ---- */
MOB_MUST_USE enum mob_status mob_store_create(
    const struct mob_store_options *options, struct mob_store **store_out);
void mob_store_destroy(struct mob_store *store);
int mob_store_memfd(
    const struct mob_store *store); /* pass to clients (SCM_RIGHTS); sealed against shrinking */
int mob_store_eventfd(
    const struct mob_store *store); /* clients write it only after the node announced sleep */

/* ---- node side: clients ---- */
enum mob_client_kind { MOB_CLIENT_WORKER = 1, MOB_CLIENT_DRIVER = 2, MOB_CLIENT_GATEWAY = 3 };
struct mob_client_options {
    enum mob_client_kind kind;
    /* Powers of two. 0 = as the segment's size allows: for a worker from 16 KiB out and 32 KiB in (with its
     * pins one unit of 64 KiB) to 256 and 128 KiB, so that the rings of 2,048 workers take at most half of
     * the segment if they can; for others 256 KiB to 4 MiB. A record that is larger than half of its ring, so
     * that it would not fit at any position, travels in parts; outbound only a worker's does, others' rings
     * must hold it. */
    uint32_t out_ring_bytes, in_ring_bytes;
    uint32_t pins_max; /* 0 = 256 for workers, 4096 for others */
};
/* Reserve a slot and its rings; `slot_out` goes to the client, which attaches with it. MOB_QUEUE_FULL,
 * MOB_STORE_FULL. */
MOB_MUST_USE enum mob_status mob_store_client_open(
    struct mob_store *store, const struct mob_client_options *options, uint32_t *slot_out);
/* The client's process has ended: its ring joins the next pass whether or not it got to say so. */
void mob_store_client_ended(struct mob_store *store, uint32_t slot);
/* After the client's process has ended (mob_store_client_ended) and its outbound ring was drained by
 * mob_store_next: abort its unsealed objects, drop its pins, take back its slabs and rings. Objects named in
 * published completions must have been sealed before (mob_store_seal_published). Idempotent per slot. */
void mob_store_client_close(struct mob_store *store, uint32_t slot);

/* ---- node side: the pass (tickets) ---- */
/* Start a pass: reads the ticket counter, then notices which rings have news. */
void mob_store_pass_begin(struct mob_store *store);
/* Next outbound record with a ticket at or below the pass' counter, in ticket order over all rings. The
 * record is copied or range-checked; `record_out` (header) and `body_out` stay valid until the next call.
 * false = none left. A ring whose bytes do not parse is reported once through *damaged_slot_out (else
 * UINT32_MAX), with true or false as the other rings have it: end that client. */
bool mob_store_next(struct mob_store *store, uint32_t *slot_out, struct mob_record *record_out,
    const uint8_t **body_out, uint32_t *damaged_slot_out);
/* The same for records that follow each other in one ring and have the same header, but for their tickets: as
 * many as have their turn before any other ring's, at most `max` <= MOB_STORE_RUN_MAX. */
#define MOB_STORE_RUN_MAX 32u
struct mob_store_run {
    uint32_t slot, count;
    struct mob_record record; /* of the first; all have its size */
    const uint8_t *bodies; /* of record.bytes - 16 each, one behind the other; valid until the next call */
    uint64_t from; /* where the first stood; the next one record.bytes behind it */
};
bool mob_store_next_run(
    struct mob_store *store, struct mob_store_run *run_out, uint32_t max, uint32_t *damaged_slot_out);
/* Release ring space up to the last record taken from it. Workers: at once, at the end of a pass. Drivers:
 * their slots stay until the log position that holds them is acknowledged; the node then calls mob_store_ack.
 */
void mob_store_pass_end(struct mob_store *store);
/* Ring position behind the last record taken from `slot`; note it per log block, give it to mob_store_ack. */
uint64_t mob_store_taken(const struct mob_store *store, uint32_t slot);
void mob_store_ack(struct mob_store *store, uint32_t slot, uint64_t position);
/* Is there anything unread? Cheap. Used for the sleep protocol: announce, check again, sleep on the eventfd.
 */
bool mob_store_has_news(struct mob_store *store);
void mob_store_announce_sleep(struct mob_store *store);
void mob_store_announce_awake(struct mob_store *store);

/* ---- node side: inbound rings ---- */
/* Would a body of this size go at once, or its first parts? */
bool mob_store_in_room(struct mob_store *store, uint32_t slot, uint32_t body_bytes);
/* Reserve, fill `body` in place, then flush publishes everything reserved and wakes the client if it sleeps.
 * NULL = no room now (the node keeps the notice; a driver that does not read stops being served, nobody
 * else). */
void *mob_store_in_reserve(
    struct mob_store *store, uint32_t slot, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes);
/* The same for *count records alike, without flags, whose bodies are a multiple of 8 bytes; *count becomes
 * how many have room in one piece. Gives the first body, each of the others stands body_bytes + 16 behind the
 * one before it. */
uint8_t *mob_store_in_reserve_run(
    struct mob_store *store, uint32_t slot, uint8_t type, uint16_t aux, uint32_t body_bytes, uint32_t *count);
/* The same for what must arrive, in this place: when the ring is full it waits, and all that follows it finds
 * the ring full. NULL = 192 KiB wait already, or the client is gone. */
void *mob_store_in_append(
    struct mob_store *store, uint32_t slot, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes);
void mob_store_in_flush(struct mob_store *store, uint32_t slot);
/* The client is to read what was appended so far before it begins anything else that the ring holds
 * (mob_store_in_has_urgent); with the next flush. */
void mob_store_in_urgent(struct mob_store *store, uint32_t slot);
/* How far has this client got? Reserves a record as mob_store_in_reserve does, and gives the number of things
 * that the client had begun (mob_store_in_begin), UINT64_MAX = the system does not let us know; it begins
 * none beyond those before it has read the record. Fill and flush it at once: the client waits for it. Costs
 * a system call. NULL: no room now, nothing has changed. */
#define MOB_HALT_BYTES_MAX 64u
void *mob_store_in_halt(
    struct mob_store *store, uint32_t slot, uint8_t type, uint32_t body_bytes, uint64_t *begun_out);
/* Does a record wait for its client to read? The end of each pass goes on with it: do not sleep for long. */
bool mob_store_in_backlog(const struct mob_store *store);
/* The client wrote an impossible cursor; its rings are no longer served. End it. */
bool mob_store_client_damaged(const struct mob_store *store, uint32_t slot);
/* Words that only the node writes, or that only grow, were changed by a client: end all clients, start a
 * fresh segment. */
bool mob_store_damaged(const struct mob_store *store);
/* Looks whether it was: at the header's constants, and at the next `entries` of the object table. False: it
 * is damaged, as mob_store_damaged says from now on. */
bool mob_store_audit(struct mob_store *store, uint32_t entries);

/* ---- node side: objects ---- */
struct mob_object_info {
    enum mob_value_type type;
    uint64_t size; /* of the payload when inline, of the full value else */
    bool inline_value, sealed, committed, spilled;
    struct mob_hash128 hash;
    uint32_t slot_owner; /* client slot that made it */
};
bool mob_store_object_info(
    struct mob_store *store, struct mob_object_id id, struct mob_object_info *info_out);
/* Borrow the bytes of a sealed object for as long as the pass lasts (node thread is the only evictor).
 * Restores from spill if needed only when `restore`. MOB_NOT_FOUND, MOB_NOT_READY. */
MOB_MUST_USE enum mob_status mob_store_object_bytes(struct mob_store *store, struct mob_object_id id,
    bool restore, enum mob_value_type *type_out, const uint8_t **bytes_out, uint64_t *size_out);
/* The node makes an object itself (results restored from the GCS, error values, HTTP puts through it). EXISTS
 * if there. */
MOB_MUST_USE enum mob_status mob_store_object_put(struct mob_store *store, struct mob_object_id id,
    enum mob_value_type type, bool small, const void *bytes, uint64_t size);
/* Seal what this client, dead or slow, published in a record (either side may; compare-and-set). What another
 * client is making under that id stays as it is. MOB_NOT_FOUND. */
enum mob_status mob_store_seal_published(struct mob_store *store, struct mob_object_id id, uint32_t slot);
/* The same object, of a client that leaves the seal to the node, is not to be read by anybody: gone. False:
 * it is not there, is sealed, or another client's. */
bool mob_store_drop_published(struct mob_store *store, struct mob_object_id id, uint32_t slot);
/* A hint that the object is looked at soon. */
void mob_store_object_fetch(const struct mob_store *store, struct mob_object_id id);
/* The object's lineage is acknowledged: may now be evicted (small: dropped; large: spilled before it is
 * dropped unless `remakeable`). Cheap hint per object; called for each acknowledged result. */
void mob_store_object_committed(struct mob_store *store, struct mob_object_id id, bool remakeable);
/* The same for return 0 of `count` tasks of one stream, from `first` on; all can be made again. */
void mob_store_results_committed(struct mob_store *store, struct mob_task_id first, uint32_t count);
void mob_store_object_keep(
    struct mob_store *store, struct mob_object_id id, bool keep); /* no eviction while kept */
/* A hint (MOB_OUT_RELEASE): the last handle of its maker is gone. A committed, remakeable, unpinned full
 * object is dropped now, an uncommitted one when it is committed, so that its warm memory serves the next;
 * others become the first to go. */
void mob_store_object_unwanted(struct mob_store *store, struct mob_object_id id);
/* Nobody can ask for its bytes any more: an object that is not pinned goes now, committed or not, with
 * its spill file; a pinned one goes first when room is needed, and never to disk. Not one that is kept. */
void mob_store_object_free(struct mob_store *store, struct mob_object_id id);
enum mob_status mob_store_object_delete(struct mob_store *store, struct mob_object_id id); /* when unpinned */
/* Make room for an object of `bytes`, and for an entry of `id` (NULL = of none): what was used least recently
 * goes, dropped when the lineage or a file has it, else spilled. Never goes what is pinned or kept, nor a
 * small object that is not committed. *free_out = bytes that can be allocated in one piece now. Typed
 * MOB_STORE_FULL or MOB_DISK_FULL. */
MOB_MUST_USE enum mob_status mob_store_make_room(
    struct mob_store *store, const struct mob_object_id *id, uint64_t bytes, uint64_t *free_out);
/* Hash the content of a sealed full object later, in steps of mob_store_maintain (values over 1 MiB, whose
 * creator did not). mob_store_object_info then gives the hash; the value stays as it was sealed, its header
 * too. MOB_NOT_FOUND, MOB_NOT_READY, MOB_QUEUE_FULL. */
MOB_MUST_USE enum mob_status mob_store_hash_later(struct mob_store *store, struct mob_object_id id);
/* Ends of the above, each once; *there_out false: the bytes went before they were hashed. false = none now.
 */
bool mob_store_next_hash(
    struct mob_store *store, struct mob_object_id *id_out, bool *there_out, struct mob_hash128 *hash_out);
/* Background work in small steps (sweep of committed released entries when the table passes its fill mark,
 * spill writes, hashes of large objects); call when a pass has time. Returns whether more is left. */
bool mob_store_maintain(struct mob_store *store, int64_t budget_ns);
/* The same without the hashes. */
bool mob_store_sweep(struct mob_store *store, int64_t budget_ns);

struct mob_store_stats {
    uint64_t segment_bytes, warm_bytes, arena_used_bytes, arena_free_bytes, object_entries, objects,
        objects_inline;
    uint64_t spilled_objects, spilled_bytes, spill_quota_bytes, evictions, restores, pins;
    uint32_t clients;
};
void mob_store_stats(struct mob_store *store, struct mob_store_stats *stats_out);
/* The numbers behind the last MOB_STORE_FULL or MOB_DISK_FULL, for the error's text. */
struct mob_store_full {
    uint64_t needed_bytes, arena_bytes, free_bytes, largest_free_bytes, pinned_bytes, spilled_bytes,
        spill_quota_bytes;
    uint32_t entries, entries_used;
};
void mob_store_full_details(struct mob_store *store, struct mob_store_full *details_out);
/* Invariants over the whole segment, while its clients rest (tests, and after a client died): no leaked pin,
 * block, entry, ring slot. Returns NULL or a description of the first violation (static buffer). */
const char *mob_store_check(struct mob_store *store);

/* ---- client side ---- */
/* Map the segment. `slot` from the node. MOB_VERSION names both versions. */
MOB_MUST_USE enum mob_status mob_store_attach(
    int memfd, int eventfd, uint32_t slot, struct mob_store_client **out);
void mob_store_detach(struct mob_store_client *client);
uint64_t mob_store_client_incarnation(const struct mob_store_client *client);

/* Publish one outbound record (ticket taken inside, eventfd written if the node announced sleep). The body
 * may be given in up to three pieces. MOB_AGAIN = ring full: wait on the doorbell, try again. */
struct mob_piece {
    const void *bytes;
    uint32_t length;
};
MOB_MUST_USE enum mob_status mob_store_publish(struct mob_store_client *client, uint8_t type, uint8_t flags,
    uint16_t aux, const struct mob_piece *pieces, int piece_count);
/* Faster form: reserve in place, then commit. Exactly one reservation at a time. NULL: ring full. */
void *mob_store_out_reserve(struct mob_store_client *client, uint32_t body_bytes);
void mob_store_out_commit(
    struct mob_store_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t body_bytes);
/* Ring positions of what was published and what the node has acknowledged (drivers resend the rest
 * elsewhere). */
uint64_t mob_store_out_published(const struct mob_store_client *client);
uint64_t mob_store_out_acked(const struct mob_store_client *client);
/* Somebody wrote over this client's cursors or rings: neither side can go on with them. A driver begins a new
 * session, a worker ends. Found when a ring is read or room is looked for; any thread may ask. */
bool mob_store_rings_damaged(const struct mob_store_client *client);
/* Walk own unacknowledged records (after the node died); *at starts at mob_store_out_acked(). */
bool mob_store_out_unacked(
    struct mob_store_client *client, uint64_t *at, struct mob_record *record_out, const uint8_t **body_out);

/* Next inbound record; the body stays valid until mob_store_in_pop. NULL = none now. */
const uint8_t *mob_store_in_peek(struct mob_store_client *client, struct mob_record *record_out);
void mob_store_in_pop(struct mob_store_client *client);
/* Is there a record further on that is to be read before what stands in front of it is begun? It may be on
 * its way: then it is there soon. */
bool mob_store_in_has_urgent(const struct mob_store_client *client);
/* Before each thing of the inbound ring that is to be done only once: the node may take back what has not
 * begun (mob_store_in_halt). True: it has begun now. False: not yet, for there is an urgent record; read it
 * first. */
bool mob_store_in_begin(struct mob_store_client *client);
/* Release consumed space later than pop: pop advances a private cursor, release publishes it to the node. A
 * worker releases a task's record only after its completion is published. */
void mob_store_in_release(struct mob_store_client *client);
/* Poll, about 20 sched_yield, announce, futex on the doorbell; until an inbound record or ring space comes or
 * the monotonic deadline passes. MOB_OK, MOB_TIMEOUT. `node_alive` is polled each 100 ms at most while asleep
 * (NULL ok); when it gives false: MOB_UNAVAILABLE. */
enum mob_status mob_store_sleep(
    struct mob_store_client *client, int64_t deadline_ns, bool (*node_alive)(void *), void *arg);
/* The same from one other thread of the client's process, while the owner uses the rings but does not sleep:
 * until there is an inbound record that the owner has not released, or space in the ring that it found full.
 * MOB_OK, or MOB_UNAVAILABLE when go_on, which is asked each 100 ms, gave false, or at once when `stop` was
 * set and then the client poked. */
enum mob_status mob_store_watch(
    struct mob_store_client *client, const _Atomic bool *stop, bool (*go_on)(void *), void *arg);
/* For a loop that waits for other things as well: announces, looks once at the ring and at `other_news`,
 * sleeps once; until a record, ring space, a poke or the deadline. Does not say which: the caller looks. */
void mob_store_sleep_or(
    struct mob_store_client *client, int64_t deadline_ns, bool (*other_news)(void *), void *arg);
/* Any thread of the client's process: ends mob_store_sleep_or, and mob_store_watch that is to stop. What
 * `other_news` then sees was stored before, sequentially consistent. */
void mob_store_poke(struct mob_store_client *client);

/* Objects. create -> fill -> publish what explains it -> seal. Small values (<= MOB_OBJECT_INLINE_MAX) go
 * into the entry: put_small does create + fill, still unsealed. MOB_EXISTS: someone made it already (fine for
 * replays). MOB_STORE_FULL: ask the node (MOB_REQ_SPACE), then try again. */
struct mob_object_ref {
    uint32_t entry;
    uint32_t generation;
    uint32_t journal; /* of a pin: its slot in the client's journal */
};
MOB_MUST_USE enum mob_status mob_store_put_small(struct mob_store_client *client, struct mob_object_id id,
    enum mob_value_type type, const void *payload, uint32_t bytes, struct mob_object_ref *ref_out);
/* `size` bytes for a full value (header included), 64-byte aligned. */
MOB_MUST_USE enum mob_status mob_store_object_create(struct mob_store_client *client, struct mob_object_id id,
    uint64_t size, struct mob_object_ref *ref_out, void **bytes_out);
void mob_store_object_abort(struct mob_store_client *client, struct mob_object_ref ref);
/* A worker may leave it to the node, which knows the object from a record (mob_store_seal_published); what
 * the node has not sealed goes when the client is closed. */
enum mob_status mob_store_object_seal(struct mob_store_client *client, struct mob_object_ref ref);
/* Small: copied into `small` (MOB_OBJECT_INLINE_MAX bytes), pin_out->entry = UINT32_MAX. Full: pinned;
 * `*bytes_out` is valid until mob_store_object_release. MOB_NOT_FOUND (never made here, evicted or spilled:
 * MOB_REQ_FETCH), MOB_NOT_READY (exists, not sealed), MOB_QUEUE_FULL (too many pins). With `committed_only`
 * an uncommitted object is MOB_NOT_READY. */
MOB_MUST_USE enum mob_status mob_store_object_get(struct mob_store_client *client, struct mob_object_id id,
    bool committed_only, enum mob_value_type *type_out, void *small, const void **bytes_out,
    uint64_t *size_out, struct mob_object_ref *pin_out);
void mob_store_object_release(struct mob_store_client *client, struct mob_object_ref pin);
/* The content hash of a full object that is pinned: of its payload, and of its table when it refers to
 * others. False: it is not known yet (a value over 1 MiB). */
bool mob_store_object_hash(
    const struct mob_store_client *client, struct mob_object_ref pin, struct mob_hash128 *hash_out);
/* Before it waits for long: gives back its slabs that hold nothing. Little work, whatever it holds. */
void mob_store_rest(struct mob_store_client *client);

#endif
