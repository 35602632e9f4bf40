/* Cursors of lists that are read from the log: for each shard where its reading goes on, as one text.
 *
 * A cursor is "CHECK.-MARK-MARK...", a mark for each shard: "SEQ.INDEX.TIME" (a block in memory), or
 * "cPOSITION.INCARNATION.NUMBER.INDEX.CUT_SEQ.CUT_ENTRIES.TIME" (what was flushed), or "e" (its end). CHECK
 * is a hash of the rest and of the list that it was given for, so that neither another list nor a slip of the
 * pen is taken for a place; it is no secret. Pure functions, any thread.
 */
#ifndef MOB_SERVER_API_SCAN_CURSOR_H
#define MOB_SERVER_API_SCAN_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gcs/client/client.h"

enum scan_mark_kind {
    SCAN_MARK_BEGIN, /* nothing was read yet; not in a cursor */
    SCAN_MARK_BLOCK, /* the first `index` of the block at `position`, and what is before it */
    SCAN_MARK_FLUSHED, /* a page of blocks before `position`, from the block of that name on */
    SCAN_MARK_END
};
#define SCAN_MARK_WHOLE UINT32_MAX /* as index: all of the block */
struct scan_mark {
    enum scan_mark_kind kind;
    uint64_t position;
    uint32_t index; /* FLUSHED: 0 = the block itself was given, too */
    uint64_t incarnation, number; /* FLUSHED: of the block; 0, 0 = the page's beginning */
    uint64_t cut_seq; /* FLUSHED: struct mob_gcs_scan */
    uint32_t cut_entries;
    int64_t time_ns; /* of the shard's next row, or of one before it: whose turn it is among the shards */
};

/* The longest text with its end. */
#define SCAN_CURSOR_MAX (32u + MOB_GCS_SHARDS_MAX * 136u)

/* `list` names the list: cursors of one are refused by another. */
void scan_cursor_write(
    const struct scan_mark *marks, uint32_t count, uint64_t list, char out[SCAN_CURSOR_MAX]);
/* False: it is not one that this list gave. */
bool scan_cursor_read(const char *text, uint64_t list, struct scan_mark *marks, uint32_t count);

#endif
