/* Reading blocks of the control store page by page for one request, newest or oldest first, within a bound of
 * blocks, or all of them within a bound of time: what lists and the timeline have in common. Of several
 * shards a page each is read at once, and the next block is the one with the newest (oldest) time of theirs;
 * a shard whose blocks go back in time does not overtake itself, so what is in one shard stays in the order
 * that it has there. What makes rows of blocks may hold those of each shard's last block, so that rows are
 * merged and not blocks: while `held`, the lane's time is that of the next of them, no more is read of that
 * shard, and `take` is called when their turn has come.
 *
 *   struct scan *scan = scan_create(flight, &methods, context);
 *   scan->request = ...; scan_start(scan);
 *
 * `entry` sees every entry, oldest first within a block; `block_end` comes after each block and may say
 * scan->full; `page_end` comes before more is read and before `finish`, and may work on: then it returns
 * false, and calls scan_go_on later. `over` comes when all is read, works on in the same way, and may start
 * over. `finish` answers the flight; the scan is freed after it, and `destroy` frees the context. Functions
 * whose names are not known yet are learned before `finish`, and the whole scan begins again with `restart`,
 * with no newer blocks than the first time. The engine's thread only.
 */
#ifndef MOB_SERVER_API_ENGINE_SCAN_H
#define MOB_SERVER_API_ENGINE_SCAN_H

#include "gcs/client/client_sync.h"
#include "server/api/engine_inner.h"
#include "server/api/engine_whole.h"
#include "server/api/scan_cursor.h"

/* Blocks that one request reads, unless it says how many, or reads all there is. */
#define SCAN_BLOCKS_MAX 1024u
/* What a scan of all there is remembers: struct seen, 40 MiB of them, and twice as many ids as MET_MAX, 16
 * MiB. */
#define SEEN_MAX (512u << 10)
#define MET_MAX (256u << 10)

#define PLACE_SUB_BITS 16
/* Where an entry stands: block in commit order, entry in the block. What was read back from PostgreSQL comes
 * batch by batch, and inside of a batch in the order in which it lies there, which never changes: there an
 * entry is known by its block's name, and by the position at which the reading of that page began. */
struct place {
    uint32_t shard;
    uint64_t seq; /* of the shard */
    uint32_t index; /* entry << PLACE_SUB_BITS | which row of it, for an entry that makes several */
    bool recut;
    uint64_t page, incarnation, number; /* when recut */
    int64_t turn_ns; /* of a row, among several shards: the lane's time when it is next */
};

/* What is known of a task so far: newest first a completion comes before its spec, oldest first after it. */
struct seen {
    struct seen *next;
    struct mob_task_id id;
    struct mob_function_id function;
    uint16_t status, method;
    uint8_t kind;
    bool final;
    bool listed; /* its row was made, or stands on an earlier page */
    uint32_t worker, attempt;
    int64_t started_us, finished_us;
};

struct met_ids {
    struct mob_task_id *ids; /* open addressing; zero: free */
    uint32_t slots, count;
};

struct scan;
struct scan_lane;
struct scan_methods {
    void (*entry)(struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header,
        struct place place);
    void (*block_end)(struct scan *scan, struct scan_lane *lane); /* may be NULL */
    void (*take)(struct scan *scan, struct scan_lane *lane); /* NULL: holds nothing */
    bool (*page_end)(struct scan *scan); /* may be NULL */
    bool (*over)(struct scan *scan); /* may be NULL */
    void (*finish)(struct scan *scan);
    void (*restart)(struct scan *scan);
    void (*destroy)(struct scan *scan);
};

/* One shard's part of a scan. */
struct scan_lane {
    struct scan *scan;
    struct scan_mark begin; /* of this request, from when its first page was there on */
    struct mob_gcs_scan request; /* for the page behind the one that is there */
    uint64_t page_position; /* at which that one began */
    struct mob_gcs_sync page;
    uint32_t at; /* its blocks that were read */
    bool skipping; /* blocks are passed over until `begin`'s has come */
    bool ended; /* no page is behind this one */
    bool held; /* by the context: rows of this shard */
    int64_t time_ns; /* of the next block or row held, or of one before it */
};

struct scan {
    struct flight *flight;
    const struct scan_methods *methods;
    void *context;
    struct mob_gcs_scan request; /* what is asked of each shard; its places are the lanes' */
    struct scan_lane lanes[MOB_GCS_SHARDS_MAX];
    uint32_t lane_count, awaited; /* pages */
    enum mob_status status;
    bool runs, resumed;
    bool recut; /* the block that is read is */
    struct whole whole; /* is_whole: its turn */
    bool is_whole;
    struct seen **seen;
    uint32_t seen_count;
    struct met_ids met[2]; /* the newest, and those before them */
    uint32_t blocks, blocks_max; /* read so far; where it ends */
    bool full; /* enough */
    bool more; /* a method's word: of a block that was read something is left */
    bool names_missing, names_read;
};

struct scan *scan_create(struct flight *flight, const struct scan_methods *methods, void *context);
void scan_start(struct scan *scan);
/* Instead of it: reads all blocks, when it is its turn, in slices. The flight fails with MOB_TOO_MUCH when
 * that takes too long. Names are learned as soon as one is missing. */
void scan_start_whole(struct scan *scan);
/* From `over`: reads from the beginning of scan->request, as it is now. Cursors have no part in it. */
void scan_start_over(struct scan *scan);
/* After a page_end, or an over, that returned false. Not MOB_OK: the flight fails. */
void scan_go_on(struct scan *scan, enum mob_status status);
/* Ends the flight with an error and frees the scan; before scan_start only. */
void scan_refuse(struct scan *scan, enum mob_status status, const char *why);
struct seen *scan_seen(struct scan *scan, struct mob_task_id id, bool make);
void scan_seen_drop(struct scan *scan, struct mob_task_id id);
void scan_seen_clear(struct scan *scan);
/* Was this id given before? As long as it is one of the last MET_MAX ids. */
bool scan_met(struct scan *scan, struct mob_task_id id);
void scan_met_clear(struct scan *scan);
void scan_seen_init(struct scan *scan);
void scan_seen_fini(struct scan *scan);
/* "module.function", or "module.Class.method" for a call. */
void scan_full_name(
    struct scan *scan, struct mob_function_id id, uint8_t kind, uint16_t method, char *out, size_t capacity);
/* When among the shards something is due that happened at `wall_ns` and stands in that block. */
int64_t scan_turn_ns(const struct mob_block_header *header, int64_t wall_ns);
/* The next block or row has this time: the lane's goes there, or stays when it is there already. */
void scan_lane_move(struct scan_lane *lane, int64_t time_ns);
/* Of what is read from now on, only what is not older than this is wanted. */
void scan_lane_narrow(struct scan_lane *lane, int64_t from_wall_ns);
/* False: another shard's is before what this one has next; or it is not known. */
bool scan_is_turn_of(struct scan *scan, const struct scan_lane *lane);
/* Is there anything behind what was given? */
bool scan_has_more(const struct scan *scan);
/* Where a shard's reading goes on, for a cursor. */
struct scan_mark scan_mark_now(const struct scan *scan, uint32_t shard);
/* The same, with what was read from this place on. */
struct scan_mark scan_mark_at(const struct scan *scan, struct place place);
/* Before scan_start: begins where the marks say, one for each shard. */
void scan_begin_at(struct scan *scan, const struct scan_mark *marks);
/* An entry of a block: not given before, as far as the marks say? */
bool scan_is_behind(const struct scan *scan, struct place place);
/* Each entry of a block, oldest first, as far as it can be read. */
typedef void scan_entry_fn(void *arg, const struct mob_entry *entry, const struct mob_block_header *header);
void scan_each_entry(
    struct engine *engine, const struct mob_gcs_block_row *row, scan_entry_fn *fn, void *arg);
int64_t scan_wall_us(const struct mob_block_header *header, int64_t mono_ns);

#endif
