/* Failpoints: named places where a test can make the process die, stop, fail or wait.
 *
 *   if (MOB_FAILPOINT("shard.before_exec")) return MOB_IO;      // true only for action "error"
 *
 * Set from the environment: MOBULA_FAILPOINTS="name=action[@n][,...]" where action is kill (SIGKILL itself),
 * stop (SIGSTOP itself), error, or delay:<ms>; @n = only the n-th passage (1 = first; default every one).
 * Unset: one predictable branch. Thread-safe after start.
 */
#ifndef MOB_COMMON_BASE_FAILPOINT_H
#define MOB_COMMON_BASE_FAILPOINT_H

#include <stdbool.h>

extern bool mob_failpoints_armed;
bool mob_failpoint_hit(const char *name);
/* Replaces the set at run time (tests); NULL or "" disarms. Returns false on a syntax error, changing
 * nothing. */
bool mob_failpoints_configure(const char *text);

#define MOB_FAILPOINT(name) (__builtin_expect(mob_failpoints_armed, 0) && mob_failpoint_hit(name))

#endif
