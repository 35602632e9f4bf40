/* mobula-flush between a gcs_box and a pg_box, to be killed at will. One thread. */
#ifndef MOB_TESTS_SUPPORT_FLUSH_BOX_H
#define MOB_TESTS_SUPPORT_FLUSH_BOX_H

#include "tests/support/gcs_box.h"
#include "tests/support/pg_box.h"

#define FLUSH_BOX_CLUSTER "00000000000000000000000000000000"

struct flush_box {
    const struct gcs_box *gcs;
    const struct pg_box *pg;
    const char *sockets, *cluster; /* of a chain; NULL: of `gcs`, FLUSH_BOX_CLUSTER */
    const char *batch_bytes, *delay_ms, *hot_percent, *retention_s,
        *maintain_ms; /* NULL = the default, of maintain_ms 100 */
};
/* Returns at once; `failpoints` as MOBULA_FAILPOINTS, NULL = none. Its log is flush.log in the gcs_box. */
pid_t flush_box_spawn(const struct flush_box *box, const char *failpoints);

#endif
