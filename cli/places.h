/* Whether the directories that settings name can be, asked before anything is made or started: a daemon that
 * cannot make its own would die again and again, and not say which setting it was.
 *
 * Blocks on the file system only. One thread.
 */
#ifndef MOB_CLI_PLACES_H
#define MOB_CLI_PLACES_H

#include "cli/state_dir.h"
#include "common/settings/settings.h"

/* Looks, and makes nothing. Each directory is there and may be written, or the nearest one above it may be.
 * MOB_TOO_LARGE: the path is too long for the sockets in it; MOB_IO, MOB_DENIED. The error names the setting.
 */
MOB_MUST_USE enum mob_status places_check(const struct mob_settings *settings, char error[STATE_ERROR_MAX]);
/* Makes the state directory (state_dir_prepare) and what lies elsewhere, with all above it. After a check. */
MOB_MUST_USE enum mob_status places_make(const struct mob_settings *settings, char error[STATE_ERROR_MAX]);

#endif
