/* The settings that the running cluster was started with: DIR/settings.json, written by its supervisor when
 * it starts, read by `mobula config`. It is there as long as the supervisor lives, and what a killed one left
 * is removed before the next begins.
 *
 *   [{"name": "slots", "value": "4", "source": "file", "line": 3}, ...]
 */
#ifndef MOB_CLI_RUNNING_SETTINGS_H
#define MOB_CLI_RUNNING_SETTINGS_H

#include "common/settings/settings.h"

/* MOB_IO. */
MOB_MUST_USE enum mob_status running_settings_write(const struct mob_settings *settings);
/* Those of the cluster in `directory`; `known_out` says which of them the running program knew, if it is of
 * another version. MOB_NOT_FOUND: nothing runs there, or it has not come so far; MOB_CORRUPT. */
MOB_MUST_USE enum mob_status running_settings_read(
    const char *directory, struct mob_settings *out, bool known_out[MOB_SETTINGS_COUNT]);

#endif
