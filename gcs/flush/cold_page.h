/* A page of blocks that are read back from buckets, bounded as an answer of a member is. Some blocks of a
 * bucket go in as they are, of others only the entries that are asked for. One owner, no locks.
 */
#ifndef MOB_GCS_FLUSH_COLD_PAGE_H
#define MOB_GCS_FLUSH_COLD_PAGE_H

#include "common/wire/bucket.h"
#include "common/wire/gcs_msg.h"

#define COLD_PAGE_BYTES (1u << 20) /* a page that has so much ends with the bucket */
#define COLD_PAGE_BYTES_MAX (3u << 20)

/* Some tasks; found with their specs or without. */
struct cold_task {
    struct mob_task_id id;
    bool has_spec;
};

/* What is wanted of a bucket's blocks; zero = anything. */
struct cold_wanted {
    uint64_t above, upto; /* entries from the positions (above, upto] only */
    uint64_t cut_seq; /* and of the block here only the first cut_entries, unless that is 0 */
    uint32_t cut_entries;
    bool by_group, failed;
    struct mob_stream stream; /* by_group */
    uint32_t group;
    const struct mob_gcs_group_key *groups; /* of any of these; cold_by_group is their order */
    uint32_t group_count; /* 0 = of any at all */
    struct cold_task *tasks; /* entries of these only; which specs were taken is noted */
    uint32_t task_count; /* few */
    bool specs_only; /* of those tasks */
    bool down; /* a bucket's blocks from the newest to the oldest, by their newest times */
    bool by_job, by_function;
    struct mob_job_id job;
    struct mob_function_id function;
    int64_t from_wall_ns, to_wall_ns; /* 0, 0 = any */
    /* Jobs of which nothing is given (deleted ones); NULL = none. */
    bool (*gone)(void *arg, struct mob_job_id job);
    void *gone_arg;
};

struct cold_page {
    struct mob_gcs_block_row rows[MOB_GCS_ROWS_MAX]; /* bytes: NULL until cold_page_end */
    size_t offsets[MOB_GCS_ROWS_MAX];
    int64_t times_ns[MOB_GCS_ROWS_MAX]; /* newest, of the block that the row is of */
    uint32_t count;
    int64_t time_ns; /* for the next one */
    uint8_t *bytes;
    size_t used, capacity;
    struct mob_bucket_reader *reader;
    struct mob_block_decoder *decoder;
    struct mob_block_encoder *encoder;
    struct mob_zone_map zone;
    struct mob_entry entry;
    uint8_t block[MOB_BLOCK_BYTES_MAX];
};

/* An order of groups, for qsort. */
int cold_by_group(const void *a, const void *b);

/* NULL when out of memory. About 1.5 MiB. */
struct cold_page *cold_page_create(void);
void cold_page_destroy(struct cold_page *p);
void cold_page_begin(struct cold_page *p);
/* Adds what is wanted of a bucket. MOB_QUEUE_FULL: the page is full without it (never when it is empty).
 * MOB_CORRUPT, MOB_VERSION, MOB_NO_MEMORY: nothing was added. */
MOB_MUST_USE enum mob_status cold_page_add(
    struct cold_page *p, const uint8_t *payload, size_t length, const struct cold_wanted *wanted);
/* Adds a block as it is. MOB_QUEUE_FULL, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status cold_page_put(struct cold_page *p, uint64_t seq,
    const struct mob_block_header *header, const uint8_t *bytes, uint32_t length);
/* Adds a decoded entry to a block: the encoder's answer. */
MOB_MUST_USE enum mob_status cold_page_encode(struct mob_block_encoder *to, const struct mob_entry *e);
bool cold_page_full(const struct cold_page *p, uint32_t limit);
/* Makes the rows' pointers. */
void cold_page_end(struct cold_page *p);

#endif
