/* Unix sockets: addresses from paths, which have a bound of some 107 bytes, and what is bound at a path. Any
 * thread; mob_unix_bind changes the process' umask for a moment, so no other thread makes files then.
 */
#ifndef MOB_COMMON_BASE_UNIX_SOCKET_H
#define MOB_COMMON_BASE_UNIX_SOCKET_H

#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/status.h"

/* MOB_TOO_LARGE: no socket can have that path. */
MOB_MUST_USE enum mob_status mob_unix_address(const char *path, struct sockaddr_un *out);
/* A socket of this type, not blocking and close-on-exec, at the path, in the place of what a killed process
 * left there, and for its user alone from the first moment. `backlog` 0: of datagrams, nobody connects.
 * Logs why not: MOB_TOO_LARGE, MOB_IO. */
MOB_MUST_USE enum mob_status mob_unix_bind(const char *path, int type, int backlog, int *fd_out);

#endif
