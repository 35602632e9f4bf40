#include "common/base/unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

enum mob_status mob_unix_address(const char *path, struct sockaddr_un *out)
{
    size_t bytes = strlen(path) + 1;
    if (bytes > sizeof out->sun_path)
        return MOB_TOO_LARGE;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path, path, bytes);
    return MOB_OK;
}

enum mob_status mob_unix_bind(const char *path, int type, int backlog, int *fd_out)
{
    struct sockaddr_un address;
    enum mob_status status = mob_unix_address(path, &address);
    if (status != MOB_OK) {
        MOB_LOG_ERROR("socket", "bind_failed", "why=\"path too long for a unix socket\" path=%s", path);
        return status;
    }
    unlink(path);
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return MOB_IO;
    mode_t mask = umask(0177);
    int bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (bound != 0 || (backlog > 0 && listen(fd, backlog) != 0)) {
        MOB_LOG_ERROR("socket", "bind_failed", "path=%s errno=%d", path, errno);
        close(fd);
        return MOB_IO;
    }
    *fd_out = fd;
    return MOB_OK;
}
