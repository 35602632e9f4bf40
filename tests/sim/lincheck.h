/* Is the history of one key linearizable? (Herlihy and Wing 1990; the search of Wing and Gong with Lowe's
 * memory of states.) Knows nothing of the protocol: only calls, returns and the meaning of a versioned
 * register.
 *
 * An operation whose outcome is unknown (return_at LINCHECK_NEVER) may have happened at any time after its
 * call, or never. Versions are what writes returned; that of an unknown write is learned from whoever read
 * its value, else it may be any that no known write claims. Values of writes are unique and not 0.
 */
#ifndef MOB_TESTS_SIM_LINCHECK_H
#define MOB_TESTS_SIM_LINCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINCHECK_NEVER INT64_MAX
#define LINCHECK_OPS_MAX 512u

enum lincheck_type { LINCHECK_PUT, LINCHECK_CAS, LINCHECK_DELETE, LINCHECK_GET };
enum lincheck_outcome {
    LINCHECK_UNKNOWN,
    LINCHECK_DONE, /* PUT, CAS, DELETE happened; GET found `value` at `version` */
    LINCHECK_ABSENT, /* DELETE, GET: nothing there */
    LINCHECK_CONFLICT /* CAS: `version` (0 = nothing) was there instead */
};
struct lincheck_op {
    enum lincheck_type type;
    enum lincheck_outcome outcome;
    uint64_t value, version, expect; /* expect: CAS; 0 = absent */
    int64_t call_at, return_at;
};
enum lincheck_result { LINCHECK_OK, LINCHECK_VIOLATED, LINCHECK_GAVE_UP };
/* Looks at no more than `states_max` states. */
enum lincheck_result lincheck(const struct lincheck_op *ops, size_t count, size_t states_max);

#endif
