/* Reading blocks of the control store page by page for one request, newest or oldest first, within a bound of
 * blocks: what lists and the timeline have in common. With several shards one after the other, newest first
 * the last of them first; the order of times is that of each shard's logs.
 *
 *   struct scan *scan = scan_create(flight, &methods, context);
 *   scan->request = ...; scan_start(scan);
 *
 * `entry` sees every entry, oldest first within a block; `block_end` comes after each block and may say
 * scan->full; `page_end` comes when a page was read and before `finish`, and may work on: then it returns
 * false, and calls scan_go_on later. `finish` answers the flight; the scan is freed after it, and `destroy`
 * frees the context. Functions whose names are not known yet are learned before `finish`, and the whole scan
 * begins again with `restart`. The engine's thread only.
 */
#ifndef MOB_SERVER_API_ENGINE_SCAN_H
#define MOB_SERVER_API_ENGINE_SCAN_H

#include "server/api/engine_inner.h"

/* Blocks that one request reads. */
#define SCAN_BLOCKS_MAX 1024u

#define PLACE_SUB_BITS 16
/* Where an entry stands: block in commit order, entry in the block. What was read back from PostgreSQL comes
 * batch by batch, and inside of a batch in the order in which it lies there, which never changes: there an
 * entry is known by its block's name, and by the position at which the reading of that page began. */
struct place {
    uint64_t seq; /* mob_gcs_shard_position: in the order in which blocks are read, or its opposite */
    uint32_t index; /* entry << PLACE_SUB_BITS | which row of it, for an entry that makes several */
    bool recut;
    uint64_t page, incarnation, number; /* when recut */
};

/* What is known of a task so far: newest first a completion comes before its spec, oldest first after it. */
struct seen {
    struct seen *next;
    struct mob_task_id id;
    struct mob_function_id function;
    uint16_t status, method;
    uint8_t kind;
    bool final;
    uint32_t worker, attempt;
    int64_t started_us, finished_us;
};

struct scan;
struct scan_methods {
    void (*entry)(struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header,
        struct place place);
    void (*block_end)(struct scan *scan); /* may be NULL */
    bool (*page_end)(struct scan *scan); /* may be NULL */
    void (*finish)(struct scan *scan);
    void (*restart)(struct scan *scan);
    void (*destroy)(struct scan *scan);
};

struct scan {
    struct flight *flight;
    const struct scan_methods *methods;
    void *context;
    struct mob_gcs_scan request;
    bool placed; /* a cursor says where to begin */
    bool shard_done; /* the next page is another shard's */
    struct mob_gcs_scan begin; /* the request at the start */
    /* Blocks are passed over until this one has come; with index 0 it is passed over, too. */
    bool skipping;
    struct place skip, begin_skip;
    bool recut; /* the block that is read is */
    struct seen **seen;
    uint32_t blocks; /* read so far */
    bool full; /* enough */
    bool more; /* there is something behind what was read */
    bool names_missing, names_read;
};

struct scan *scan_create(struct flight *flight, const struct scan_methods *methods, void *context);
void scan_start(struct scan *scan);
/* After a page_end that returned false. Not MOB_OK: the flight fails. */
void scan_go_on(struct scan *scan, enum mob_status status);
/* Ends the flight with an error and frees the scan; before scan_start only. */
void scan_refuse(struct scan *scan, enum mob_status status, const char *why);
struct seen *scan_seen(struct scan *scan, struct mob_task_id id, bool make);
/* NULL: no such name yet, the scan will find out. */
const char *scan_function_name(struct scan *scan, struct mob_function_id id);
/* "module.function", or "module.Class.method" for a call. */
void scan_full_name(
    struct scan *scan, struct mob_function_id id, uint8_t kind, uint16_t method, char *out, size_t capacity);
/* Where the next page goes on in what was flushed: behind `last`, or (NULL) where the scan is. free(). NULL:
 * nowhere. */
char *scan_cursor(const struct scan *scan, const struct place *last);
/* Before scan_start. False: it is none of those. */
bool scan_read_cursor(struct scan *scan, const char *cursor);
/* Before scan_start: only blocks before (newest first) the place `seq`; `with_it`, and the first `entries` of
 * that block. False: there is no such shard. */
bool scan_begin_before(struct scan *scan, uint64_t seq, bool with_it, uint32_t entries);
/* An entry of a block that was flushed: not given before, as far as the cursor says? */
bool scan_is_behind(const struct scan *scan, struct place place);
int64_t scan_wall_us(const struct mob_block_header *header, int64_t mono_ns);

#endif
