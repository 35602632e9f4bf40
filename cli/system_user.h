/* Under which user the programs of others run, and the directories that are theirs.
 *
 * As root the supervisor starts Redis and PostgreSQL under the system users that their packages made, so that
 * neither can touch more than its own directory (PostgreSQL refuses root anyway); otherwise they are ours.
 * Their directories may lie below some that they may not enter: they get theirs as an open descriptor and
 * name it /proc/self/fd/N. Nothing here follows a symbolic link that the owner of such a directory could have
 * planted. One thread.
 */
#ifndef MOB_CLI_SYSTEM_USER_H
#define MOB_CLI_SYSTEM_USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/status.h"

struct system_user {
    bool other; /* we are root, and this is not us */
    uid_t uid;
    gid_t gid;
};

/* MOB_NOT_FOUND: we are root, and there is no such user. */
MOB_MUST_USE enum mob_status system_user_find(const char *name, struct system_user *out);
/* The name of the user that we are; false when our number has none. */
bool system_user_own_name(char *out, size_t capacity);
/* For the child before exec: becomes that user for ever. Only async-signal-safe calls. */
bool system_user_become(const struct system_user *user);
/* Makes directory/name, mode 0700, if it is not there, and gives it with all that is in it to `user`. MOB_IO.
 */
MOB_MUST_USE enum mob_status system_user_own_tree(
    const char *directory, const char *name, const struct system_user *user);
/* Gives one file or directory/name to `user`. MOB_IO. */
MOB_MUST_USE enum mob_status system_user_give(
    const char *directory, const char *name, const struct system_user *user);
/* Removes directory/name with all that is in it. Nothing there: MOB_OK. MOB_IO. */
MOB_MUST_USE enum mob_status system_user_remove_tree(const char *directory, const char *name);

#endif
