#include "cli/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/system_user.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/process.h"

char *state_path(const char *directory, const char *name, char *out)
{
    snprintf(out, STATE_PATH_MAX, "%s/%s", directory, name);
    return out;
}

enum mob_status state_read_line(const char *path, char *out, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MOB_NOT_FOUND : errno == EACCES ? MOB_DENIED : MOB_IO;
    ssize_t length = read(fd, out, capacity);
    close(fd);
    if (length < 0)
        return MOB_IO;
    char *newline = memchr(out, '\n', (size_t)length);
    if (newline)
        length = newline - out;
    if ((size_t)length >= capacity)
        return MOB_TOO_LARGE;
    out[length] = '\0';
    return MOB_OK;
}

static enum mob_status write_file(const char *path, const void *text, size_t length, bool sync)
{
    char temporary[STATE_PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return MOB_IO;
    bool written = write(fd, text, length) == (ssize_t)length && (!sync || fsync(fd) == 0);
    close(fd);
    if (!written || rename(temporary, path) != 0) {
        unlink(temporary);
        return MOB_IO;
    }
    return MOB_OK;
}

enum mob_status state_write(const char *path, const void *text, size_t length)
{
    return write_file(path, text, length, false);
}

static bool sync_directory(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced;
}

static bool sigkill_is_pending(pid_t pid)
{
    char path[64], line[256];
    unsigned long long own = 0, shared = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "SigPnd: %llx", &own);
        sscanf(line, "ShdPnd: %llx", &shared);
    }
    if (file != NULL)
        fclose(file);
    return ((own | shared) >> (SIGKILL - 1) & 1) != 0;
}

bool state_process_ends(pid_t pid)
{
    struct mob_process process;
    return sigkill_is_pending(pid) || !mob_process_look(pid, &process) || process.exits;
}

/* Makes a directory, with those above it, that only we may look into, or `user` if it is that one's. */
static enum mob_status make_private_dir(const char *path, const char *user, char error[STATE_ERROR_MAX])
{
    char part[STATE_PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            break;
        *slash = '/';
    }
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        snprintf(error, STATE_ERROR_MAX, "cannot make %s: %s", path, strerror(errno));
        return MOB_IO;
    }
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        snprintf(error, STATE_ERROR_MAX, "%s is not a directory", path);
        return MOB_IO;
    }
    struct system_user other;
    bool ours = st.st_uid == geteuid() ||
        (user != NULL && system_user_find(user, &other) == MOB_OK && st.st_uid == other.uid);
    if (!ours) {
        snprintf(error, STATE_ERROR_MAX, "%s belongs to user %u, and we are %u", path, st.st_uid, geteuid());
        return MOB_DENIED;
    }
    if ((st.st_mode & 077) != 0 && chmod(path, 0700) != 0) {
        snprintf(error, STATE_ERROR_MAX, "cannot make %s private: %s", path, strerror(errno));
        return MOB_IO;
    }
    return MOB_OK;
}

/* Random bytes, made once, and on the disk before anything that depends on them is. */
static enum mob_status make_once(
    const char *directory, const char *name, size_t length, char error[STATE_ERROR_MAX])
{
    char path[STATE_PATH_MAX], bytes[STATE_SECRET_BYTES];
    struct stat st;
    state_path(directory, name, path);
    if (stat(path, &st) == 0) {
        if (st.st_size == (off_t)length)
            return MOB_OK;
        snprintf(error, STATE_ERROR_MAX, /* others would make another cluster of it */
            "%s has %lld bytes instead of %zu: put it back from a copy, or begin in another --dir", path,
            (long long)st.st_size, length);
        return MOB_CORRUPT;
    }
    MOB_ASSERT(length <= sizeof bytes);
    if (getrandom(bytes, length, 0) == (ssize_t)length && write_file(path, bytes, length, true) == MOB_OK &&
        sync_directory(directory))
        return MOB_OK;
    snprintf(error, STATE_ERROR_MAX, "cannot make %s: %s", path, strerror(errno));
    return MOB_IO;
}

/* Another layout of the directory is another program's: it is left alone. */
static enum mob_status check_version(const char *directory, char error[STATE_ERROR_MAX])
{
    char path[STATE_PATH_MAX], text[64];
    static const char ours[] = STATE_VERSION_TEXT "\n";
    enum mob_status status = state_read_line(state_path(directory, "version", path), text, sizeof text);
    if (status == MOB_NOT_FOUND && state_write(path, ours, sizeof ours - 1) == MOB_OK)
        return MOB_OK;
    if (status == MOB_OK && strcmp(text, STATE_VERSION_TEXT) == 0)
        return MOB_OK;
    snprintf(error, STATE_ERROR_MAX, "%s holds \"%s\", and this program knows \"%s\"", directory,
        status == MOB_OK ? text : mob_status_text(status), STATE_VERSION_TEXT);
    return status == MOB_OK ? MOB_VERSION : MOB_IO;
}

enum mob_status state_dir_init(const char *directory, char error[STATE_ERROR_MAX])
{
    enum mob_status status = check_version(directory, error);
    if (status == MOB_OK)
        status = make_once(directory, STATE_CLUSTER_ID_NAME, sizeof(struct mob_cluster_id), error);
    return status == MOB_OK ? make_once(directory, STATE_SECRET_NAME, STATE_SECRET_BYTES, error) : status;
}

enum mob_status state_dir_prepare(const char *directory, char error[STATE_ERROR_MAX])
{
    if (strlen(directory) > STATE_DIR_LENGTH_MAX) {
        snprintf(error, STATE_ERROR_MAX, "%s is too long for the sockets inside of it: at most %zu bytes",
            directory, (size_t)STATE_DIR_LENGTH_MAX);
        return MOB_TOO_LARGE;
    }
    static const struct {
        const char *name, *user;
    } folders[] = {{"", NULL}, {"/" STATE_GCS_DIR_NAME, "redis"}, {"/" STATE_LOGS_NAME, NULL}};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[STATE_PATH_MAX];
        snprintf(path, sizeof path, "%s%s", directory, folders[i].name);
        enum mob_status status = make_private_dir(path, folders[i].user, error);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

void state_dir_clean(const char *directory)
{
    static const char *const names[] = {STATE_ADDRESS_NAME, STATE_NODE_SOCKET_NAME, STATE_STATUS_NAME,
        STATE_SETTINGS_NAME, STATE_REPLACE_SOCKET_NAME};
    static const struct {
        const char *kind, *suffix;
        uint32_t replicas;
    } of_shards[] = {{"gcs", ".sock", STATE_REPLICAS_MAX}, {"gcs", "/redis.sock", STATE_REPLICAS_MAX},
        {"master", ".sock", 1}, {"flush", ".ready", 1}};
    char path[STATE_PATH_MAX], name[STATE_NAME_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(state_path(directory, names[i], path));
    for (size_t i = 0; i < sizeof of_shards / sizeof of_shards[0]; i++)
        for (uint32_t k = 0; k < STATE_SHARDS_MAX * of_shards[i].replicas; k++) {
            uint32_t shard = k / of_shards[i].replicas, replica = k % of_shards[i].replicas;
            state_member_name(of_shards[i].kind, shard, replica, of_shards[i].suffix, name);
            unlink(state_path(directory, name, path));
        }
}

/* ---- shards ---- */

char *state_member_name(
    const char *kind, uint32_t shard, uint32_t replica, const char *suffix, char out[STATE_NAME_MAX])
{
    char of_shard[16] = "", of_replica[16] = "";
    if (shard > 0)
        snprintf(of_shard, sizeof of_shard, "-s%u", shard);
    if (replica > 0)
        snprintf(of_replica, sizeof of_replica, "-%u", replica);
    int length = snprintf(out, STATE_NAME_MAX, "%s%s%s%s", kind, of_shard, of_replica, suffix);
    MOB_ASSERT(length < STATE_NAME_MAX);
    return out;
}

/* How many shards the directory has been made for; 0: it has no control store yet. MOB_CORRUPT. */
enum mob_status state_dir_shards(const char *directory, uint32_t *out)
{
    char path[STATE_PATH_MAX], text[16] = "1";
    bool begun = access(state_path(directory, STATE_GCS_DIR_NAME "/appendonlydir", path), F_OK) == 0;
    enum mob_status status =
        state_read_line(state_path(directory, STATE_SHARDS_NAME, path), text, sizeof text);
    bool good = strlen(text) == 1 && text[0] >= '1' && text[0] <= '0' + STATE_SHARDS_MAX;
    if (status != MOB_NOT_FOUND && (status != MOB_OK || !good))
        return MOB_CORRUPT;
    *out = begun ? (uint32_t)(text[0] - '0') : 0;
    return MOB_OK;
}

enum mob_status state_dir_check_shards(const char *directory, uint32_t shards, char error[STATE_ERROR_MAX])
{
    char path[STATE_PATH_MAX];
    uint32_t there;
    enum mob_status status = state_dir_shards(directory, &there);
    if (status != MOB_OK) {
        state_path(directory, STATE_SHARDS_NAME, path);
        snprintf(error, STATE_ERROR_MAX, "%s does not say how many shards the control store has", path);
        return status;
    }
    if (there != 0 && there != shards) {
        snprintf(error, STATE_ERROR_MAX,
            "%s holds a control store of %u shard%s, and gcs-shards is %u: data does not move between "
            "shards, so their number is set when a directory is empty. Use --gcs-shards %u here, or another "
            "--dir",
            directory, there, there == 1 ? "" : "s", shards, there);
        return MOB_CONFLICT;
    }
    if (shards > 1 && strlen(directory) > STATE_DIR_LENGTH_SHARDS_MAX) {
        snprintf(error, STATE_ERROR_MAX,
            "%s is too long for the sockets of several shards: at most %zu bytes", directory,
            (size_t)STATE_DIR_LENGTH_SHARDS_MAX);
        return MOB_TOO_LARGE;
    }
    return MOB_OK;
}

enum mob_status state_dir_set_shards(const char *directory, uint32_t shards, char error[STATE_ERROR_MAX])
{
    char path[STATE_PATH_MAX], text[16];
    uint32_t there;
    enum mob_status status = state_dir_check_shards(directory, shards, error);
    if (status == MOB_OK)
        status = state_dir_shards(directory, &there);
    if (status != MOB_OK || there != 0)
        return status;
    state_path(directory, STATE_SHARDS_NAME, path);
    int length = snprintf(text, sizeof text, "%u\n", shards);
    status = shards > 1                        ? state_write(path, text, (size_t)length)
        : unlink(path) == 0 || errno == ENOENT ? MOB_OK
                                               : MOB_IO;
    if (status != MOB_OK)
        snprintf(error, STATE_ERROR_MAX, "cannot write %s: %s", path, strerror(errno));
    return status;
}

static size_t add_address(
    const char *directory, uint32_t shard, uint32_t replica, const char *separator, char *out, size_t used)
{
    char name[STATE_NAME_MAX], path[STATE_PATH_MAX];
    state_path(directory, state_member_name("gcs", shard, replica, ".sock", name), path);
    used += (size_t)snprintf(out + used, STATE_ADDRESSES_MAX - used, "%s%s", separator, path);
    MOB_ASSERT(used < STATE_ADDRESSES_MAX); /* STATE_DIR_LENGTH_MAX */
    return used;
}

char *state_gcs_addresses(const char *directory, char *out)
{
    char name[STATE_NAME_MAX], path[STATE_PATH_MAX];
    uint32_t shards;
    size_t used = 0;
    if (state_dir_shards(directory, &shards) != MOB_OK || shards == 0)
        shards = 1;
    for (uint32_t shard = 0; shard < shards; shard++) {
        size_t before = used;
        for (uint32_t i = 0; i < STATE_REPLICAS_MAX; i++) {
            state_path(directory, state_member_name("gcs", shard, i, ".sock", name), path);
            const char *separator = used > before ? "," : shard > 0 ? ";" : "";
            if (access(path, F_OK) == 0)
                used = add_address(directory, shard, i, separator, out, used);
        }
        if (used == before)
            used = add_address(directory, shard, 0, shard > 0 ? ";" : "", out, used);
    }
    return out;
}

enum mob_status state_dir_write_pid(const char *directory)
{
    char path[STATE_PATH_MAX], text[64];
    int length =
        snprintf(text, sizeof text, "%d %" PRIu64 "\n", (int)getpid(), mob_process_started(getpid()));
    return state_write(state_path(directory, STATE_PID_NAME, path), text, (size_t)length);
}

enum mob_status state_dir_lock(const char *directory, int *fd_out, char error[STATE_ERROR_MAX])
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(error, STATE_ERROR_MAX, "cannot open %s: %s", directory, strerror(errno));
        return MOB_IO;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        bool held = errno == EWOULDBLOCK;
        if (held)
            snprintf(error, STATE_ERROR_MAX, "a supervisor runs in %s already", directory);
        else
            snprintf(error, STATE_ERROR_MAX, "cannot lock %s: %s", directory, strerror(errno));
        close(fd);
        return held ? MOB_EXISTS : MOB_IO;
    }
    if (state_dir_write_pid(directory) != MOB_OK) {
        snprintf(
            error, STATE_ERROR_MAX, "cannot write %s/%s: %s", directory, STATE_PID_NAME, strerror(errno));
        close(fd);
        return MOB_IO;
    }
    *fd_out = fd;
    return MOB_OK;
}

bool state_dir_is(const char *directory, int lock_fd)
{
    struct stat held, there;
    return fstat(lock_fd, &held) == 0 && stat(directory, &there) == 0 && held.st_dev == there.st_dev &&
        held.st_ino == there.st_ino;
}

static enum mob_status read_bytes(const char *directory, const char *name, void *out, size_t bytes)
{
    char path[STATE_PATH_MAX];
    FILE *file = fopen(state_path(directory, name, path), "re");
    if (file == NULL)
        return MOB_NOT_FOUND;
    size_t length = fread(out, 1, bytes, file);
    fclose(file);
    return length == bytes ? MOB_OK : MOB_CORRUPT;
}

enum mob_status state_dir_cluster(const char *directory, struct mob_cluster_id *out)
{
    struct mob_cluster_id id;
    enum mob_status status = read_bytes(directory, STATE_CLUSTER_ID_NAME, &id, sizeof id);
    if (status == MOB_OK)
        *out = id;
    return status;
}

enum mob_status state_dir_secret(const char *directory, uint8_t out[STATE_SECRET_BYTES])
{
    return read_bytes(directory, STATE_SECRET_NAME, out, STATE_SECRET_BYTES);
}

pid_t state_dir_supervisor(const char *directory)
{
    char path[STATE_PATH_MAX], text[64];
    int pid;
    uint64_t started;
    if (state_read_line(state_path(directory, STATE_PID_NAME, path), text, sizeof text) != MOB_OK)
        return 0;
    if (sscanf(text, "%d %" SCNu64, &pid, &started) != 2 || pid <= 0)
        return 0;
    return started != 0 && mob_process_started(pid) == started ? pid : 0;
}
