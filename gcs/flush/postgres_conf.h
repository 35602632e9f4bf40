/* The configuration of the private PostgreSQL of a cluster: what the supervisor writes before it starts
 * `postgres`, and what gcs/flush relies on.
 *
 * One unix socket (mode 0600) in the data directory and no TCP; one database role, which only the operating
 * system's user of the cluster may be; small memory; every commit on disk, because the control store forgets
 * what is committed here. The data directory is named by a path of /proc/self/fd, so no file holds its own
 * place. Pure text but for the writing; thread-safe.
 */
#ifndef MOB_GCS_FLUSH_POSTGRES_CONF_H
#define MOB_GCS_FLUSH_POSTGRES_CONF_H

#include <stddef.h>

#include "common/base/status.h"

#define MOB_POSTGRES_ROLE "mobula"
#define MOB_POSTGRES_DATABASE "postgres" /* the one that every new cluster has */
/* Part of the socket's name only; short, because a socket's path has 107 bytes. */
#define MOB_POSTGRES_PORT "1"
#define MOB_POSTGRES_SOCKET_NAME ".s.PGSQL." MOB_POSTGRES_PORT
#define MOB_POSTGRES_CONF_NAME "mobula.conf"
#define MOB_POSTGRES_HBA_NAME "pg_hba.conf"
#define MOB_POSTGRES_IDENT_NAME "pg_ident.conf"

struct mob_postgres_conf {
    const char *title; /* shown by ps; at most 63 bytes are; what is not plain becomes a dot */
    const char *user; /* the operating system's name of whoever may be the role */
};
/* Text with NUL into `out` (2 KiB do). MOB_TOO_LARGE. */
MOB_MUST_USE enum mob_status mob_postgres_conf_text(
    const struct mob_postgres_conf *conf, char *out, size_t capacity);
/* The map from the operating system's user to the role. MOB_INVALID: a name with other characters than
 * [A-Za-z0-9._-]. */
MOB_MUST_USE enum mob_status mob_postgres_ident_text(
    const struct mob_postgres_conf *conf, char *out, size_t capacity);
/* Writes the three files (0600) into a data directory, by rename, so that nothing that its owner has put
 * there is written through. They belong to the caller, who gives them away. MOB_INVALID, MOB_IO. */
MOB_MUST_USE enum mob_status mob_postgres_conf_write(
    const char *directory, const struct mob_postgres_conf *conf);

#endif
