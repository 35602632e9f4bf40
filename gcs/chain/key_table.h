/* Rows by their keys' hashes: a linear hash table (Litwin, VLDB 1980), whose owner keeps a key_link in each
 * row.
 *
 * With each row that is added one bucket is split, with each that goes one is joined to its half again: there
 * is never a moment at which all rows are moved, which would stop a chain whose state is large. There are as
 * many buckets as rows, and KEY_TABLE_SEGMENT at the least. Internal to gcs/chain.
 */
#ifndef MOB_GCS_CHAIN_KEY_TABLE_H
#define MOB_GCS_CHAIN_KEY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_TABLE_SEGMENT 256u /* buckets that are allocated at a time */

struct key_link {
    struct key_link *next; /* in its bucket */
    uint32_t hash;
};

struct key_table {
    struct key_link ***segments; /* of KEY_TABLE_SEGMENT heads each */
    size_t segment_count, segment_capacity;
    size_t buckets, rows;
};

/* False: no memory. */
bool key_table_init(struct key_table *t);
/* The rows are their owner's, here and in clear. */
void key_table_fini(struct key_table *t);
void key_table_clear(struct key_table *t);
/* The first row of the hash's bucket, from which `next` leads to the others; rows of other hashes are among
 * them. */
struct key_link *key_table_first(const struct key_table *t, uint32_t hash);
/* Asks memory for what key_table_first reads. */
void key_table_prefetch(const struct key_table *t, uint32_t hash);
/* Takes no memory for the row itself. Where there is none for another bucket, look-ups pass over more rows.
 */
void key_table_add(struct key_table *t, struct key_link *row, uint32_t hash);
/* It must be in the table. */
void key_table_remove(struct key_table *t, struct key_link *row);
/* Of the buckets. */
size_t key_table_bytes(const struct key_table *t);

#endif
