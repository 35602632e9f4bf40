/* A reader that stays with one member: a proved link to its socket and nothing else. It hears of no other
 * configuration, asks nobody else, and believes what it is told, unlike gcs/client, which leaves a member as
 * soon as any other tells it to. Blocks; one thread.
 */
#ifndef MOB_TESTS_SUPPORT_RAW_READER_H
#define MOB_TESTS_SUPPORT_RAW_READER_H

#include <stdint.h>

#include "common/base/status.h"

#define RAW_READER_VALUE_MAX 63u

struct raw_reader;
/* The secret is that of all boxes (gcs_box.h), the cluster's id zero. MOB_UNAVAILABLE. Gives (close). */
MOB_MUST_USE enum mob_status raw_reader_open(const char *socket, struct raw_reader **reader_out);
void raw_reader_close(struct raw_reader *reader); /* NULL is fine */
/* A key of MOB_GCS_KV; its value, terminated. MOB_NOT_FOUND. MOB_AGAIN: a tail without a lease.
 * MOB_WRONG_EPOCH: it serves no readers, and says where the chain is. MOB_UNAVAILABLE: the link ended, or 20
 * s of silence. */
MOB_MUST_USE enum mob_status raw_reader_get(
    struct raw_reader *reader, const char *key, char value_out[RAW_READER_VALUE_MAX + 1u]);
/* As a client that is to hear its answers here; returns when the member has taken it. MOB_UNAVAILABLE. */
MOB_MUST_USE enum mob_status raw_reader_listen(struct raw_reader *reader, uint64_t client);

#endif
