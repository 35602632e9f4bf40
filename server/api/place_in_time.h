/* The order of lists of failures: (time of the end, task), newest first. Both stay what they are when a block
 * is flushed, so a cursor is a place in it. */
#ifndef MOB_SERVER_API_PLACE_IN_TIME_H
#define MOB_SERVER_API_PLACE_IN_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct place_in_time {
    int64_t finished_us;
    struct mob_task_id task;
};

bool place_is_before(struct place_in_time a, struct place_in_time b);
/* NULL without memory; gives (free()). */
char *place_cursor(struct place_in_time place);
/* False: it is not one of these. */
bool place_of_cursor(const char *text, struct place_in_time *out);

#endif
