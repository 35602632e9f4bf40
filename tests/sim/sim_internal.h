/* What the files of the simulator share beyond sim_world.h. */
#ifndef MOB_TESTS_SIM_SIM_INTERNAL_H
#define MOB_TESTS_SIM_SIM_INTERNAL_H

#include <setjmp.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/sim/sim_world.h"

void sim_seed(struct sim *s, uint64_t seed);
bool sim_pop(struct sim *s, struct sim_event *out);
void sim_defer(struct sim *s, const struct sim_event *event, int64_t until);
jmp_buf *sim_end(void);

/* Grows `array` (a field) by one and points at the new element. */
#define SIM_GROW(array, count, capacity) \
    ((count) == (capacity) \
            ? ((capacity) = (capacity) == 0 ? 16 : (capacity)*2, \
                  (array) = realloc((array), (capacity) * sizeof *(array)), &(array)[(count)++]) \
            : &(array)[(count)++])

#endif
