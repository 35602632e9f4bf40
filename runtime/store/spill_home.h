/* The folder of one store's files inside the spill directory, `run-XXXXXX`, under a lock of its process: so
 * several stores may share a directory, and what a dead one left is known by its free lock. Thousands of such
 * files may take a slow disk a minute to remove; a thread of the home does it, while the store works already.
 *
 *   mob_spill_home_open("/var/spill", &home); ... mob_spill_home_path(home) ...; mob_spill_home_close(home);
 *
 * Owner: spill.c, on the node's thread.
 */
#ifndef MOB_RUNTIME_STORE_SPILL_HOME_H
#define MOB_RUNTIME_STORE_SPILL_HOME_H

#include <stddef.h>

#include "common/base/status.h"

#define MOB_SPILL_SUFFIX ".spill" /* of the files in it */
#define MOB_SPILL_HOME_NAME_MAX 16 /* "/run-XXXXXX", and its end */

struct mob_spill_home;

/* Makes `directory` (0700) unless it is there, and a folder in it; begins to remove those of the dead.
 * `directory` has at most `PATH_MAX` - 256 bytes: MOB_INVALID. MOB_IO, MOB_NO_MEMORY. Does not wait for the
 * disk longer than a mkdir. */
MOB_MUST_USE enum mob_status mob_spill_home_open(const char *directory, struct mob_spill_home **home_out);
/* Lives as long as the home. */
const char *mob_spill_home_path(const struct mob_spill_home *home);
/* Ends the thread after the file in its hands, and removes the folder with what is in it: for half a second
 * at most, so that a stop is not held up; the next store in this directory removes the rest. NULL is fine. */
void mob_spill_home_close(struct mob_spill_home *home);

#endif
