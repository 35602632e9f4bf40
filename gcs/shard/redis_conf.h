/* The redis.conf and ACL file of a member's private Redis: what the supervisor writes before it starts
 * redis-server, and what mobula-gcs relies on.
 *
 *   redis-server DIR/redis.conf      (listens on DIR/redis.sock, 0600, no TCP; data in DIR/appendonlydir)
 *   mobula-gcs --socket S --redis-dir DIR     (finds DIR/redis.sock and DIR/redis.pass)
 *
 * Programs that may not include this run `mobula-gcs --redis-conf DIR`, which is mob_redis_conf_write().
 *
 * The append-only file is written by Redis before it answers (appendfsync no) and synced by the member
 * itself, which is how the member knows what is durable. Automatic rewrites are off: the member asks for
 * them, at a moment at which everything is synced. Pure text; thread-safe.
 */
#ifndef MOB_GCS_SHARD_REDIS_CONF_H
#define MOB_GCS_SHARD_REDIS_CONF_H

#include <stddef.h>

#include "common/base/status.h"

#define MOB_REDIS_USER "mobula"
#define MOB_REDIS_CONF_NAME "redis.conf"
#define MOB_REDIS_ACL_NAME "redis.acl"
#define MOB_REDIS_SOCKET_NAME "redis.sock"
#define MOB_REDIS_PASSWORD_NAME "redis.pass"
#define MOB_REDIS_AOF_DIR_NAME "appendonlydir"

struct mob_redis_conf {
    const char
        *directory; /* absolute; of sockets, conf, ACL and data; its socket path must fit in 107 bytes */
    const char *password; /* 32 to 128 characters of [A-Za-z0-9] */
};
/* Write redis.conf text / ACL text with NUL into `out`. MOB_TOO_LARGE when they do not fit (2 KiB and 1 KiB
 * do), MOB_INVALID for a path or password with other characters. */
MOB_MUST_USE enum mob_status mob_redis_conf_text(
    const struct mob_redis_conf *conf, char *out, size_t capacity);
MOB_MUST_USE enum mob_status mob_redis_acl_text(
    const struct mob_redis_conf *conf, char *out, size_t capacity);
/* Writes redis.conf, redis.acl and redis.pass (all 0600) into the directory, making a random password unless
 * redis.pass is there already. `conf->password` is ignored. Call it while Redis does not run: removes what a
 * killed one left of an unfinished rewrite. MOB_IO. */
MOB_MUST_USE enum mob_status mob_redis_conf_write(const char *directory);
/* The same for a Redis that reaches its directory by another path, `seen_as`, as under a user that may not
 * enter those above it. */
MOB_MUST_USE enum mob_status mob_redis_conf_write_seen_as(const char *directory, const char *seen_as);
/* First line of a password file. MOB_NOT_FOUND, MOB_IO, MOB_INVALID (empty). */
MOB_MUST_USE enum mob_status mob_redis_password_read(const char *path, char *out, size_t capacity);

#endif
