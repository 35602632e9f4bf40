/* The parts of a running member. Internal to gcs/shard; everything here belongs to the loop's thread.
 *
 *   conn.c        sockets of clients: frames in, frames out
 *   ahead.h       the keys of what was received, asked for before they are needed
 *   serve.c       what a frame does; what the chain's actions do
 *   attach.c      who the clients are; collecting after a restart; expiry
 *   callers.c     without masters: which processes connected, for the next life
 *   noted.c       without masters: what the store had, for one that comes back empty
 *   store.c       passes of writes to Redis
 *   journal.c     what of a pass is appended to the store's journal
 *   journal_touched.h  which of its rows are still the newest
 *   store_link.c  the connection to Redis, and going on after its death
 *   durable.c     syncing and rewriting the append-only file
 *   load.c        tables and index from Redis after a start
 *   query*.c      reads
 *   idle.c        how the loop waits between two passes
 *   subscribe.c   streams of blocks
 *   flushed.c     what PostgreSQL has and this member has no more
 *   member.c      with masters: configurations, who serves, what clients and masters are told
 *   life.c        with masters: the store's name, and whether it holds all
 *   peers.c       with masters: links between members
 *   beat.c        with masters: the heartbeat's thread
 *   snapshot.c    with masters: this member's state for a joiner; snapshot_load.c: a joiner's taking it
 */
#ifndef MOB_GCS_SHARD_SHARD_INTERNAL_H
#define MOB_GCS_SHARD_SHARD_INTERNAL_H

#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_peer.h"
#include "gcs/chain/chain.h"
#include "gcs/chain/chain_stream.h"
#include "gcs/link/link.h"
#include "gcs/shard/aof_sync.h"
#include "gcs/shard/beat.h"
#include "gcs/shard/callers.h"
#include "gcs/link/chunk.h"
#include "gcs/shard/index.h"
#include "gcs/shard/journal_rows.h"
#include "gcs/shard/journal_touched.h"
#include "gcs/shard/noted.h"
#include "gcs/shard/redis_keys.h"
#include "gcs/shard/redis_link.h"
#include "gcs/shard/shard.h"

#define CONN_OUT_MAX (8u << 20) /* a client that does not read gets nothing more to read */
/* Connections that have not proved themselves; one more takes the place of the one that is silent for
 * longest, so that strangers keep nobody out. */
#define CONN_OPENING_MAX 256u
#define CONN_QUERIES_MAX 64u /* unanswered reads of one connection */
#define SUB_OUT_BYTES (512u << 10) /* a stream fills a connection's buffer up to this */
#define SUBS_MAX 256u
/* Answers from PostgreSQL under way, from the question until the answer is in its connection's buffer: two,
 * as its reader has threads, and two behind them. Each is 3 MiB at most (COLD_PAGE_BYTES_MAX), and mostly
 * 1 MiB; with the frame that it came in and the copy that goes out, three times that for a moment. What is
 * asked beyond that waits here, as a question. */
#define COLD_ANSWERS_MAX 4u
#define COLD_OUT_BYTES (1u << 20) /* a connection that has more to read first reads that */
/* Of one batch of writes. What Redis gathers of a command for its file it copies again for each MiB of it. */
#define PASS_BYTES_MAX (1u << 20)
#define PASSES_MAX 4u /* batches of writes unanswered by Redis */
/* Above the soft cap memory is measured, and everysec syncs, so often: only what is durable can be flushed.
 */
#define PRESSURE_PAUSE_NS (50 * MOB_MS)
#define SYNC_BYTES (32u << 20) /* everysec: earlier than a second when so much is not durable */
#define FLUSH_NOTES_MAX 64u /* then they become one sum */
#define FLUSH_NOTES_KEPT 256u
#define PAGE_BYTES (1u << 20) /* of rows in one answer, before the last row */

/* What a log's run of acknowledged blocks has grown to in this pass. */
struct reply_run {
    uint64_t client;
    struct mob_gcs_reply reply; /* count 0 = none */
};

/* First what each pass looks at in all of them: with sixty connections the rest would push it out of the
 * cache. */
struct conn {
    struct conn *next, *next_touched;
    struct mob_shard *shard;
    int fd;
    bool open; /* it has proved itself, and WELCOME was sent */
    bool closing; /* freed at the end of the pass */
    bool stalled; /* frames wait: is among the shard's stalled ones */
    bool for_room; /* stalled, and the first of its frames waits for room */
    bool want_write;
    bool touched; /* is among the shard's touched ones */
    bool drained; /* conn_receive has read all that was there */
    bool ends; /* its other end sends no more: there is an end to be read */
    bool durable_owed; /* it did not read; told when it has */
    uint64_t durable_sent;
    size_t out_begin, out_end, out_capacity;
    uint8_t *out;
    struct reply_run run;
    struct mob_chunk *in;
    uint32_t parsed; /* of in->bytes */
    uint32_t queries;
    uint64_t cold_turn; /* when a question of it was last given to who reads PostgreSQL; 0: never */
    int32_t pid;
    uint64_t pid_start; /* mob_process.started: tells it from a later one with the same pid; 0 = not known */
    int64_t heard_ns; /* when its opening last went on */
    struct mob_opening opening;
    TAILQ_ENTRY(conn) among_stalled;
};

/* A client or log that the member knows of. */
struct attached {
    uint64_t client;
    struct conn *conn; /* NULL: gone since `since_ns` */
    int64_t since_ns;
    struct mob_redis_identity identity;
    bool answered; /* collecting: has sent all it keeps, or was told that it is over */
    bool awaited; /* collecting: from the tables; who has not answered at the end is named */
    bool nonce; /* no client yet: its OPEN is under way */
    bool leaves; /* has said so, and is to be expired as soon as that can be ordered */
};

struct subscription {
    struct conn *conn;
    uint64_t tag, after;
    bool fetching;
    uint32_t misses; /* of the block behind `after`, which Redis does not give */
    int64_t again_ns; /* then it is asked for it again */
};

struct pass_queue {
    struct mob_redis_batch *first, *last; /* closed, not submitted */
};

/* Segments are values of Redis; see journal.c. */
struct mob_journal {
    uint8_t *open; /* of the open pass, behind room for its head; NULL: nothing yet */
    size_t open_length, open_capacity; /* length 0: nothing */
    size_t open_usual; /* how long the last one was */
    struct mob_touched touched; /* of its segments */
    uint64_t bytes;
    bool named; /* this Redis knows the number of the first */
    struct mob_redis_position position; /* as found */
    uint8_t *loaded; /* all of it, until the tables have it */
    size_t loaded_length, loaded_capacity;
};

struct mob_store {
    struct mob_redis_link *link; /* NULL: down */
    struct mob_redis_batch *open;
    int64_t open_ns; /* since when */
    struct pass_queue closed;
    struct mob_redis_batch *kept_reads; /* wait for the next connection */
    uint32_t open_pairs, open_deletes;
    uint64_t open_seq, open_epoch;
    uint64_t closed_passes; /* that were closed, and that Redis answered, since the start */
    uint64_t stored_passes;
    uint64_t void_passes; /* up to this one: their positions are of before a wipe */
    struct mob_gcs_incarnation open_log[16];
    uint32_t open_logs;
    uint8_t *deletes; /* length-prefixed keys of the open batch */
    size_t delete_bytes, delete_capacity;
    uint32_t passes; /* submitted and unanswered */
    uint64_t stored; /* newest seq that Redis answered */
    bool want_write;
    bool unwatched; /* answers are not waited for, but looked for in each pass */
    bool hold; /* no new pass: a rewrite is about to begin */
    bool broken; /* Redis refused a pass: connect again */
    bool refuses; /* and has taken none since */
    int64_t retry_ns, retry_pause_ns;
    struct mob_redis_meta meta;
    char run_id[MOB_REDIS_RUN_ID_BYTES]; /* of the Redis that it is connected to */
    struct mob_journal journal;
    uint64_t used_memory, restarts;
};

struct mob_durable {
    struct mob_aof_sync *sync;
    bool busy; /* a sync, or the question before it, is under way */
    bool file_is_whole;
    bool cannot_write; /* so Redis last said of its file */
    uint64_t synced, unsynced_bytes, aof_bytes;
    uint64_t asked_passes, synced_passes; /* the sync under way covers; are on disk */
    bool void_sync; /* the sync under way was asked for before a wipe */
    int64_t last_ns;
    enum { REWRITE_NONE, REWRITE_DRAIN, REWRITE_SYNC, REWRITE_ASK } rewrite;
    int64_t rewrite_check_ns;
    bool wiped; /* the file still has what is no more: looked at as soon as its size is told */
    uint64_t syncs, rewrites;
};

/* Blocks up to here are in PostgreSQL only. */
struct mob_flushed {
    uint64_t applied, stored; /* in the index; in Redis */
    uint64_t blocks; /* that went since the start */
    uint64_t notes[FLUSH_NOTES_KEPT]; /* keys of Redis */
    uint32_t note_count;
    uint64_t sum_parts, sum_upto;
};

#define PEERS_MAX 16u
/* Another member: where it is, and the link on which messages go to it. Its own come on a link that it made.
 */
struct peer {
    uint64_t member; /* 0: none */
    struct mob_gcs_place place; /* empty: not known */
    struct mob_link *link;
    int64_t dial_ns, used_ns;
    bool want_write;
    bool urgent; /* what is unsent must not wait */
    struct mob_gcs_link_msg ack; /* not given to the link yet; to 0: none */
    int64_t ack_ns; /* since when */
};
struct incoming {
    struct mob_link *link;
    bool want_write;
};
/* A joiner's question for rows that are not in the chain's tables. */
struct mob_rows_ask {
    uint64_t joiner, token; /* joiner 0: none */
    uint64_t gate; /* applied when it came: Redis must have that first */
    int64_t again_ns; /* not before: a row was lost */
    bool fetching;
    uint8_t cursor[MOB_CHAIN_CURSOR_MAX];
    uint32_t cursor_bytes;
};
/* What a member of a chain with masters has besides. */
struct mob_member {
    struct mob_link_self self; /* id 0: no masters */
    struct mob_redis_life life;
    uint64_t life_pass; /* the pass with the newest life in it */
    bool told_synced;
    bool begins_anew; /* its store is made, and may not be on the disk yet */
    bool disowned; /* its store lacks what it had: the next life is to start without it */
    uint64_t stored_epoch, stored_seq, stored_synced; /* as found */
    struct mob_beat *beat;
    int64_t asked_ns; /* a client, or the chain, last wanted something of this member */
    struct mob_listener listener;
    struct peer peers[PEERS_MAX];
    struct incoming incoming[PEERS_MAX];
    struct mob_gcs_book book; /* the newest whose places are all known; epoch 0: none */
    uint64_t moved_to, moved_epoch; /* how far it is on its way to serving, since moved_ns */
    int64_t moved_ns;
    bool told_stuck;
    uint64_t book_epoch; /* of the newest book from a master */
    uint64_t told_epoch; /* clients know */
    bool was_head, was_collecting;
    struct mob_rows_ask rows;
    struct mob_gcs_flush_group *cold; /* of the snapshot under way: one moment's */
    uint64_t cold_joiner, cold_token; /* whose attempt; 0: none is there */
    size_t cold_count;
    uint64_t cold_upto;
    uint64_t loaded_blocks; /* joining: newest seq of a block in the snapshot */
};

struct mob_idle {
    bool lively; /* something had come before this pass */
    struct mob_yielder yielder;
};

struct query;
struct mob_shard {
    struct mob_shard_options options;
    int epoll_fd;
    struct mob_listener listener;
    int64_t now_ns;
    struct mob_chunk_pool chunks;
    struct mob_state *state;
    struct mob_chain *chain;
    int64_t state_ns; /* when the chain's machine came to its state */
    struct mob_index *index;
    struct mob_store store;
    struct mob_durable durable;
    struct mob_flushed flushed;
    struct mob_member member;
    struct mob_idle idle;
    struct conn *conns;
    struct conn *touched; /* have something to send, or may have */
    TAILQ_HEAD(conns_stalled, conn) stalled; /* who came to wait first is first */
    uint32_t conn_count, conns_closing;
    int64_t paced_since_ns,
        paced_ns; /* some wait for a member that joins (0: none does); all such times before */
    struct mob_link_self client_end; /* who this end of clients' links is */
    struct attached *attached;
    size_t attached_count, attached_capacity;
    struct subscription *subs[SUBS_MAX];
    uint32_t sub_count;
    struct query *queries; /* unanswered */
    struct {
        uint64_t incarnation, seq, cut;
    } seals[16]; /* told to the log's client once committed */
    uint32_t seal_count;
    uint64_t indexed; /* newest seq in the index */
    uint64_t taken; /* newest seq whose STORE was served; the index may be ahead of it (drop_blocks) */
    uint64_t told_committed, told_durable;
    uint64_t dropped_since_sweep;
    /* The block that was checked last: it is indexed without another look. */
    const uint8_t *peeked;
    struct mob_block_header peeked_header;
    struct mob_zone_map peeked_zone;
    uint32_t *unfinished; /* of the last mob_gcs_unfinished */
    size_t unfinished_count;
    uint64_t unfinished_of;
    struct mob_gcs_flush_group *cold_groups; /* of the same, behind its blocks */
    size_t cold_group_count;
    struct conn *cold_reader; /* who reads PostgreSQL; NULL: nobody now */
    uint64_t next_cold_tag, cold_reads, next_cold_order;
    uint32_t cold_waiting, cold_places; /* queries: without a place; with one, COLD_ANSWERS_MAX at most */
    bool
        watermark_known; /* told by who reads PostgreSQL, for who asks for figures; nothing follows from it */
    bool database_known; /* the same */
    uint64_t watermark;
    struct mob_gcs_database database;
    struct mob_callers
        *callers; /* NULL: a chain with masters, which others than this one's callers write to */
    struct mob_noted noted;
    uint32_t life, clean_before; /* mob_redis_meta.clean: of this life until it stops, and as found */
    int64_t collect_until_ns, collect_late_ns, second_ns;
    uint64_t appends, append_bytes, puts, reads;
    uint64_t own_bytes; /* this member's memory, when it was last measured and what has come since */
    uint64_t memory_bytes; /* of the fullest member from this one on: what the caps are held against */
    bool pressure, full, stopping;
    enum mob_status failure; /* not MOB_OK: the loop ends */
};

/* A chain with masters: this one may be any member of it. */
static inline bool shard_has_masters(const struct mob_shard *sh)
{
    return sh->options.chain != NULL;
}

/* Where histories ended; how many there are. */
static inline uint32_t shard_bases(
    const struct mob_shard *sh, struct mob_chain_stream_base out[MOB_REDIS_BASES_MAX])
{
    const struct mob_redis_meta *m = &sh->store.meta;
    for (uint32_t i = 0; i < m->base_count; i++)
        out[i] = (struct mob_chain_stream_base){m->bases[i].epoch, m->bases[i].seq};
    return m->base_count;
}

/* shard.c: chain, state and index, empty */
MOB_MUST_USE enum mob_status shard_tables_create(struct mob_shard *sh);

/* conn.c */
MOB_MUST_USE enum mob_status shard_listen(struct mob_shard *sh);
void shard_accept(struct mob_shard *sh);
void conn_readable(struct conn *c);
/* Before its turn, so that what several have sent is there before the first is served: reads once, and serves
 * nothing. */
void conn_receive(struct conn *c);
void conn_flush(struct conn *c);
/* The pass looks at it once more before it ends. */
void conn_touch(struct conn *c);
/* At the end of the pass: what the touched ones have to send, one send each. */
void conns_flush(struct mob_shard *sh);
void conn_close(struct conn *c, enum mob_status why);
void conns_reap(struct mob_shard *sh);
void conns_tick(struct mob_shard *sh); /* each second: gives up those that prove nothing */
/* A frame of one that is not open. */
void conn_opening(struct conn *c, const struct mob_gcs_frame *frame);
/* Space for a frame of at most these bytes behind head; conn_frame_end writes its header. NULL: closing. */
uint8_t *conn_frame_begin(struct conn *c, uint32_t head_bytes, uint32_t body_bytes_max);
void conn_frame_end(struct conn *c, uint8_t type, uint64_t from, uint32_t head_bytes, uint32_t body_bytes);
void conn_send(struct conn *c, uint8_t type, uint64_t from, const void *head, uint32_t head_bytes);
void conn_send_body(struct conn *c, uint8_t type, const void *head, uint32_t head_bytes, const void *body,
    uint32_t body_bytes);
size_t conn_out_bytes(const struct conn *c);
void conns_resume(struct mob_shard *sh); /* those that were stalled */

/* serve.c */

enum serve_result { SERVE_OK, SERVE_STALL, SERVE_NO_ROOM }; /* the last two: not now, ask again */
enum serve_result serve_frame(struct conn *c, const struct mob_gcs_frame *frame, struct mob_chunk *chunk);
void serve_actions(struct mob_shard *sh);
/* All that the chain has applied is in the index, served or not. */
void serve_index_applied(struct mob_shard *sh);
void serve_committed(struct mob_shard *sh); /* after the chain's committed or durable grew */
/* What durable_owed promises, when all that was before it has left. */
void serve_owed(struct conn *c);
void serve_memory(struct mob_shard *sh);

/* store.c */
void store_entry(struct mob_shard *sh, const struct mob_chain_entry *entry);
void store_identity(struct mob_shard *sh, const struct attached *a);
void store_forget(struct mob_shard *sh, uint64_t client);
void store_meta(struct mob_shard *sh);
/* The next pass says that the store ends at `seq`. Without entries: after a wipe, and when a snapshot is
 * complete. */
void store_position(struct mob_shard *sh, uint64_t epoch, uint64_t seq);
void store_wipe(struct mob_shard *sh); /* forgets all that is in Redis */
void store_client_rows(
    struct mob_shard *sh, uint64_t client, const struct mob_gcs_reply *replies, uint32_t count);
uint64_t store_open_pass(const struct mob_shard *sh); /* number of the pass that is being made */
void store_flush(struct mob_shard *sh); /* the loop's pass ends: submit */
bool store_idle(const struct mob_shard *sh);
void store_drop_unsent(struct mob_shard *sh); /* Redis is gone: the chain will give them again */

/* What is set next begins a new pass if the open one is full (PASS_BYTES_MAX), or deletes. */
void store_before_set(struct mob_shard *sh);
/* For effects: into the open pass. */
void store_set(struct mob_shard *sh, const void *key, size_t key_length, const void *value, size_t length);
void store_delete(struct mob_shard *sh, const void *key, size_t length);
size_t store_open_bytes(const struct mob_shard *sh); /* of the open pass */

/* journal.c */
/* Into the open pass; the row's value is `head`, then what the row says. */
void journal_add(
    struct mob_shard *sh, const struct mob_journal_row *row, const void *head, size_t head_length);
/* As the pass closes: what must be set with it; the command itself. */
void journal_name(struct mob_shard *sh);
void journal_close(
    struct mob_shard *sh, struct mob_redis_batch *batch, const struct mob_redis_position *position);
/* The open pass may take the oldest segment away. */
void journal_trim(struct mob_shard *sh);
/* Forgets all of it but what is in Redis. */
void journal_reset(struct mob_shard *sh);
/* What this Redis has, into `loaded`; blocks. MOB_UNAVAILABLE, MOB_CORRUPT. */
MOB_MUST_USE enum mob_status journal_read(struct mob_shard *sh, redisContext *context);
/* Before anything is served: these keys (each a u16 length and its bytes) are gone. */
MOB_MUST_USE enum mob_status journal_write_gone(
    struct mob_shard *sh, redisContext *context, const uint8_t *keys, size_t length);
void journal_loaded(struct mob_shard *sh); /* `loaded` is needed no more */

/* flushed.c */
MOB_MUST_USE enum mob_status flushed_check(
    const struct mob_shard *sh, const struct mob_gcs_request *r, uint32_t body_bytes);
void flushed_apply(struct mob_shard *sh, const struct mob_chain_entry *entry); /* the first time */
void flushed_store(struct mob_shard *sh, const struct mob_chain_entry *entry);
void flushed_load_position(struct mob_shard *sh, uint64_t upto);
/* A joiner has its source's groups: all as one sum into the open pass, and blocks up to there go. */
void flushed_join(struct mob_shard *sh, uint64_t upto);
MOB_MUST_USE enum mob_status flushed_load_sum(
    struct mob_shard *sh, uint64_t part, const uint8_t *value, size_t length);
MOB_MUST_USE enum mob_status flushed_load_note(
    struct mob_shard *sh, uint64_t number, const uint8_t *value, size_t length);

/* shard.c */
/* This process's part of the memory that the caps hold and figures tell: heap, and the buffers of links. */
uint64_t shard_own_bytes(const struct mob_shard *sh);
/* Once Redis has said what it uses: is a cap passed? */
void shard_measure(struct mob_shard *sh);
/* member.c */
MOB_MUST_USE enum mob_status member_open(struct mob_shard *sh); /* listens, and begins to report */
void member_close(struct mob_shard *sh);
void member_on_state(struct mob_shard *sh, enum mob_chain_state from, enum mob_chain_state to);
void member_wake(struct mob_shard *sh); /* something has come from a master */
void member_tick(struct mob_shard *sh); /* each pass, before the writes */
void member_publish(struct mob_shard *sh); /* each pass, at its end */
int64_t member_next_ns(const struct mob_shard *sh, int64_t now_ns); /* when to tick again at the latest */
/* The configuration, or that there is none: NACK to one client. */
void member_tell(struct conn *c, uint64_t client);
/* The same as the answer to a frame that only the tail, or the head, can serve: it is to come again. */
void member_refuse(struct conn *c, const struct mob_gcs_frame *frame);
/* Others have all that this member has, so it may end and come back as another one. The only member of a
 * chain goes on. */
bool member_is_spare(const struct mob_shard *sh);
bool member_is_tail(const struct mob_shard *sh); /* reads and streams are served here */
/* MOB_OK: what was read when all committed, may be answered. */
MOB_MUST_USE enum mob_status member_may_answer(struct mob_shard *sh);
/* life.c */
/* Who this store is, from the connection that just came up; blocks. */
MOB_MUST_USE enum mob_status life_begin(
    struct mob_shard *sh, redisContext *context, const struct mob_redis_position *position, bool found);
void life_set_synced(struct mob_shard *sh, bool synced);
void life_set_whole(struct mob_shard *sh, uint64_t epoch); /* no other store has more, up to there */
/* Its newest state is on this member's disk. */
bool life_on_disk(const struct mob_shard *sh);
/* anew.c */
void anew_begin(struct mob_shard *sh, const struct mob_gcs_begin_anew *beginning);
void anew_tick(struct mob_shard *sh); /* ends this life when the new store is on the disk */
/* peers.c */
void peers_learn(struct mob_shard *sh, uint64_t member, const struct mob_gcs_place *place);
bool peers_place(const struct mob_shard *sh, uint64_t member, struct mob_gcs_place *place_out);
/* Whether links with it are open: for sending, and for hearing. */
void peers_links(const struct mob_shard *sh, uint64_t member, bool *to_out, bool *from_out);
void peers_send(struct mob_shard *sh, const struct mob_gcs_link_msg *m, const struct mob_chain_entry *entry);
void peers_accept(struct mob_shard *sh);
void peers_event(struct mob_shard *sh, void *ptr, uint32_t events); /* `ptr` as peers_owns says */
bool peers_owns(const struct mob_shard *sh, const void *ptr);
/* Acknowledgements alone leave only when `acks_in_time`, and their time has come. */
void peers_flush(struct mob_shard *sh, bool acks_in_time);
int64_t peers_next_ns(const struct mob_shard *sh); /* when to flush again at the latest */
bool peers_crowded(const struct mob_shard *sh); /* the successor's link is behind: take no more */
void peers_tick(struct mob_shard *sh); /* dials neighbours, forgets others */
void peers_fini(struct mob_shard *sh);
/* snapshot.c, snapshot_load.c */
void snapshot_ask(struct mob_shard *sh, const struct mob_gcs_link_msg *m); /* ROWS */
void snapshot_step(struct mob_shard *sh);
void snapshot_fini(struct mob_shard *sh);
/* Redis lacks a row that it had. Others of the chain have it: with them a joiner may begin anew, and so does
 * this member, whose store is nothing to start from. The only one keeps what there is, and answers what it
 * can; its chain stays alone until the row is written again, or gone. */
void snapshot_disown(struct mob_shard *sh);
void snapshot_load(struct mob_shard *sh, const struct mob_gcs_link_msg *m); /* LOAD */
void snapshot_wipe(struct mob_shard *sh); /* WIPE */

/* store_link.c */
MOB_MUST_USE enum mob_status store_connect(struct mob_shard *sh, bool first);
void store_io(struct mob_shard *sh, bool readable); /* writes; reads only when there is something */
/* Answers of Redis that nobody is woken for: to be looked for in each pass, and each millisecond. */
bool store_answers_wait(const struct mob_shard *sh);
/* The open pass may take more in until then; 0: it is to leave now, or there is none. */
int64_t store_gathers_until(const struct mob_shard *sh);
/* ... or until another has been answered. */
bool store_pass_waits(const struct mob_shard *sh);
void store_tick(struct mob_shard *sh);
void store_read(struct mob_shard *sh, struct mob_redis_batch *batch);
void store_fini(struct mob_shard *sh);

/* load.c */
MOB_MUST_USE enum mob_status load_all(struct mob_shard *sh, redisContext *context);

/* durable.c */
MOB_MUST_USE enum mob_status durable_open(struct mob_shard *sh);
/* What Redis holds is on disk when this returns MOB_OK. A Redis that was started may have read from its file
 * what is only in the kernel's memory yet, and clients take it for durable. Blocks. MOB_UNAVAILABLE: its last
 * write failed, or it is gone. */
MOB_MUST_USE enum mob_status durable_before_serving(struct mob_shard *sh, redisContext *context);
void durable_stored(struct mob_shard *sh, size_t bytes);
void durable_step(struct mob_shard *sh);
int64_t durable_pause(const struct mob_shard *sh); /* between syncs of everysec */
void durable_result(struct mob_shard *sh);
void durable_fini(struct mob_shard *sh);

/* attach.c */
void attach_welcome(struct conn *c); /* it has proved itself */
void attach_client(struct conn *c, const struct mob_gcs_frame *frame);
void attach_resent(struct conn *c, const struct mob_gcs_frame *frame);
void attach_listen(struct conn *c, const struct mob_gcs_frame *frame);
void attach_all(struct mob_shard *sh); /* it became the head: all in the tables count as gone since now */
void attach_bye(struct conn *c, const struct mob_gcs_frame *frame);
void attach_gone(struct conn *c);
struct conn *attach_conn(struct mob_shard *sh, uint64_t client);
/* Is there a live log of this node name, linked from another process than the one behind `c`? */
bool attach_name_is_held(struct mob_shard *sh, const struct conn *c, const uint8_t *name, uint32_t length);
/* `nonce` is this connection's until its OPEN is answered. */
MOB_MUST_USE enum mob_status attach_nonce(struct conn *c, uint64_t nonce);
/* The OPEN of `nonce` made `client`; its identity, zero when the connection is gone. */
struct mob_redis_identity attach_opened(struct mob_shard *sh, uint64_t nonce, uint64_t client);
MOB_MUST_USE enum mob_status attach_load(
    struct mob_shard *sh, uint64_t client, const struct mob_redis_identity *identity);
void attach_collect_begin(struct mob_shard *sh);
void attach_tick(struct mob_shard *sh);
void attach_forget(struct mob_shard *sh, uint64_t client);
void attach_fini(struct mob_shard *sh);

/* query.c */
void query_serve(struct conn *c, const struct mob_gcs_frame *frame);
void query_chain_read(struct mob_shard *sh, const struct mob_gcs_link_msg *m); /* READ */
void query_gone(struct conn *c);
void queries_committed(struct mob_shard *sh);
/* query_cold.c */
/* It reads what was flushed, from now on. */
void query_cold_serve(struct conn *c, const struct mob_gcs_frame *frame);
void query_cold_rows(struct conn *c, const struct mob_gcs_frame *frame);
void query_cold_gone(struct conn *c);
void query_cold_tick(struct mob_shard *sh); /* each second */
/* Each pass, once answers have left: places that are free go to who waits. True: there were some. */
bool query_cold_step(struct mob_shard *sh);
void queries_fini(struct mob_shard *sh);

/* idle.c */
/* As epoll_wait on the loop's set, for as long as nothing else has to be done. */
struct epoll_event;
int idle_wait(struct mob_shard *sh, struct epoll_event *events, int max);

/* subscribe.c */
void subscribe_serve(struct conn *c, const struct mob_gcs_frame *frame);
void unsubscribe_serve(struct conn *c, const struct mob_gcs_frame *frame);
void subscribe_gone(struct conn *c);
void subscribe_feed(struct mob_shard *sh);
void subscribe_fini(struct mob_shard *sh);

#endif
