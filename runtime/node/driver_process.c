#include "runtime/node/driver_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/base/process.h"

struct driver_process driver_process_of(int socket)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    struct mob_process process;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
        return (struct driver_process){0};
    (void)mob_process_look(peer.pid, &process);
    return (struct driver_process){peer.pid, process.started};
}

bool driver_process_gone(struct driver_process process)
{
    if (process.pid <= 0)
        return false;
    if (kill(process.pid, 0) != 0 && errno == ESRCH)
        return true;
    struct mob_process now;
    if (!mob_process_look(process.pid, &now))
        return false; /* nobody can tell */
    bool ended = now.state == 'Z' || now.state == 'X'; /* and only its parent has not asked for it */
    return ended || (process.started != 0 && now.started != process.started);
}
