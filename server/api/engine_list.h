/* Between the files of the lists of tasks and objects: what makes rows of entries (engine_list_rows.c), what
 * finds out in which state they are (engine_list_states.c), what takes them in order, page by page
 * (engine_lists.c), and what is sorted lists' own (engine_list_sorted.c). The engine's thread only. */
#ifndef MOB_SERVER_API_ENGINE_LIST_H
#define MOB_SERVER_API_ENGINE_LIST_H

#include "server/api/engine_scan.h"
#include "server/api/filter.h"

struct row {
    struct row *next; /* older */
    struct place place;
    struct mob_task_id task;
    uint32_t slot; /* of an object */
    struct mob_live_task live; /* of a task whose end was not seen, the node's word */
    bool looked; /* for its end, from its own block on */
    json_t *json;
};

/* An object that a newer block says is deleted. */
struct deleted {
    struct deleted *next;
    struct mob_object_id id;
};
#define DELETED_BUCKETS 4096u
#define DELETED_MAX (256u << 10) /* of a sorted list, 16 MiB: what it forgets is looked for */

/* Where the page before ended in a sorted list, by value (NULL: that row had none) and id; `set` false: this
 * is the first page. */
struct list_after {
    json_t *value;
    char id[MOB_ID_TEXT_MAX];
    bool set;
};

/* What of a row is known before there is one. */
enum list_value { LIST_OTHER, LIST_SUBMITTED, LIST_STARTED, LIST_FINISHED, LIST_SIZE };
/* Of a sorted list by such a value: where its page begins, and the last of as many rows as it may have, so
 * that what lies outside is passed over. */
struct list_order {
    enum list_value by; /* LIST_OTHER: by none of them */
    bool down, has_first, has_last;
    double first, last; /* negative when `down` */
    bool counts; /* rows are of the page, as far as what is read so far says */
    uint32_t most, block_rows; /* most: of a page; block_rows: of the block that is read, */
    double block_last; /* of which none is behind this */
};

struct list {
    struct mob_filter early, all; /* what can be tested on a row without its state; everything */
    bool late_terms, sorted, resumed;
    bool asks_node; /* rows of tasks: those without an end are asked for at the node */
    uint64_t name; /* of this list among lists: what its cursors are bound to */
    struct list_after after; /* of a sorted list, as is the rest down to `passed` */
    struct list_order order;
    struct mob_task_id passed[MOB_BLOCK_ENTRIES_MAX]; /* in the block that is read: no rows */
    uint32_t passed_count;
    struct row *block; /* rows of the block that is read, newest first */
    struct row *held[MOB_GCS_SHARDS_MAX]; /* of each shard's last block, newest first: not their turn yet */
    struct row *waiting, **waiting_end; /* for their states, newest first */
    size_t waiting_count;
    struct row *sought; /* of those: the ends of the ones before it are known, or in no log */
    struct row *unended; /* of those: the first whose end the group that is read has not shown */
    struct deleted *deleted[DELETED_BUCKETS];
    uint32_t deleted_count;
    json_t *items;
    struct place last; /* of the last row that was looked at */
    struct place left[MOB_GCS_SHARDS_MAX]; /* the newest row that was not, where has_left says so */
    bool has_left[MOB_GCS_SHARDS_MAX];
};

/* ---- engine_list_rows.c ---- */

void list_row_free(struct row *row);
void list_rows_free(struct row *rows);
/* Of scan_methods: makes rows of an entry, into list->block. */
void list_entry(struct scan *scan, const struct mob_entry *entry, const struct mob_block_header *header,
    struct place place);
/* A block was read. A sorted list remembers the ends of tasks only until it comes to their specs. */
void list_block_end(struct scan *scan);
struct deleted *list_find_deleted(const struct list *list, struct mob_object_id id);
void list_note_deleted(struct list *list, struct mob_object_id id);
void list_deleted_free(struct list *list);

/* ---- engine_list_states.c ---- */

/* A task's row gets what is known of its state. */
void list_fill_state(struct scan *scan, const struct row *row);
/* Of scan_methods: finds out what newer blocks and the node know of the rows that wait, then gives them to
 * list_take_waiting. */
bool list_page_end(struct scan *scan);

/* ---- engine_list_sorted.c ---- */

/* A sorted list is read whole for each page, of which the best rows stay that come behind the page before: as
 * many as the page has and one more. So it has no end before its last row, whatever it holds. */
bool list_comes_after(
    const struct mob_engine_query *query, const struct list_after *after, const json_t *row);
/* When they have become many the rest goes. True: it went, and they are in order. */
bool list_trim_sorted(const struct mob_engine_query *query, json_t *items);
/* Sorts, and leaves the rows of the page. True: there are more. */
bool list_page_of_sorted(const struct mob_engine_query *query, json_t *items);
/* The cursor behind the last of `items`, allocated: the places where the list begins, and that row's value
 * and id. */
char *list_sorted_cursor(const struct mob_engine_query *query, const struct scan_mark *marks, uint32_t count,
    uint64_t name, const json_t *items);
/* False: this list gave no such cursor. list_after_fini() whatever comes of it. */
bool list_sorted_cursor_read(
    const char *text, struct scan_mark *marks, uint32_t count, uint64_t name, struct list_after *after_out);
void list_after_fini(struct list_after *after);
void list_order_begin(struct list *list, const struct mob_engine_query *query);
/* The items were trimmed just now. */
void list_order_note(struct list_order *order, const struct mob_engine_query *query, const json_t *items);
/* A row with this value is none of the page. */
bool list_order_lacks(const struct list_order *order, int64_t value);
/* There is a row with this value in the block that is read. */
void list_order_count(struct list_order *order, int64_t value);

/* ---- engine_lists.c ---- */

/* Of kind, filter and sort: another list has other places. */
uint64_t list_name_of(const struct mob_engine_query *query);

/* All that is to be known of the rows that wait is known. */
void list_take_waiting(struct scan *scan);

#endif
