/* The command line of a daemon: the settings of the table that concern it, from <dir>/mobula.conf, the
 * environment and flags, and its links: flags of its own by which its supervisor tells it where its
 * neighbours are. Links are no settings: they stand in no file, and have no bounds.
 *
 *   static const struct mob_daemon_link links[] = {{.name = "gcs-socket", .text_out = &socket, .help =
 * "..."}, {0}}; if (mob_settings_read_daemon(&settings, links, argc, argv, environ) != MOB_OK)
 *       fprintf(stderr, "%s\n", settings.error);
 *
 * What is neither is an error. Any thread, once; links borrow from argv.
 */
#ifndef MOB_COMMON_SETTINGS_SETTINGS_DAEMON_H
#define MOB_COMMON_SETTINGS_SETTINGS_DAEMON_H

#include <stdio.h>

#include "common/settings/settings.h"

struct mob_daemon_link {
    const char *name; /* without --; NULL ends the array */
    const char **text_out; /* its value; NULL: it has none, and `given_out` says that it stood there */
    bool *given_out;
    unsigned *count_out; /* not NULL: it may come several times, up to texts_max, into text_out[] */
    unsigned texts_max;
    const char *help;
};

/* Inits `settings` for `user`, reads everything, finishes. MOB_NOT_FOUND, MOB_INVALID, MOB_IO:
 * settings->error says what. */
MOB_MUST_USE enum mob_status mob_settings_read_daemon(struct mob_settings *settings, unsigned user,
    const struct mob_daemon_link *links, int argc, char *const *argv, char *const *environment);
/* One line for each link and each setting. */
void mob_settings_daemon_help(
    const char *program, unsigned user, const struct mob_daemon_link *links, FILE *to);

#endif
