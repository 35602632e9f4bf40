/* The bounds of what a submission may ask for, for everybody who checks it: drivers before they publish
 * (sdk/c/options.c), the gateway before it asks (server/api/options.c), the node when it takes the record.
 * Numbers that a spec's layout fixes (returns, names of resources) stand in spec.h. api/openapi.yaml repeats
 * them for clients, and a test compares.
 */
#ifndef MOB_COMMON_WIRE_OPTION_BOUNDS_H
#define MOB_COMMON_WIRE_OPTION_BOUNDS_H

#include "common/wire/spec.h"

/* Names, in bytes of UTF-8. */
#define MOB_TASK_NAME_BYTES_MAX 256u /* shown, looked for by filters */
#define MOB_ACTOR_NAME_BYTES_MAX 127u /* registered: the node keeps them in records of 128 with a NUL */
#define MOB_LABEL_BYTES_MAX 511u /* key=value; as long as a filter may be */
#define MOB_LABELS_MAX 16u /* over HTTP; drivers are bounded by the bytes of all options only */

/* Resources: amounts are counted in 1/MOB_AMOUNT_UNITS. */
#define MOB_AMOUNT_UNITS 10000
#define MOB_AMOUNT_MIN (1.0 / MOB_AMOUNT_UNITS) /* less would round to nothing; 0 is nothing */
#define MOB_AMOUNT_MAX 900000000000000ll /* 900 TB, when it is memory; times units below 2^63 */
#define MOB_CPUS_MAX (UINT32_MAX / (double)MOB_AMOUNT_UNITS) /* the spec's head has 32 bits for them */
#define MOB_TASK_RESOURCES_MAX 8u /* of one task or actor, its CPUs among them: a demand of the scheduler */

#define MOB_ARGUMENTS_MAX 65534
#define MOB_RETRIES_MAX 1000000 /* and restarts of an actor */
#define MOB_CHECKPOINT_EVERY_MAX 1000000000 /* calls */
#define MOB_PRIORITY_MIN INT16_MIN
#define MOB_PRIORITY_MAX INT16_MAX

_Static_assert(MOB_AMOUNT_MAX <= INT64_MAX / MOB_AMOUNT_UNITS, "amounts fit in 63 bits");

#endif
