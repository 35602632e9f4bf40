#include "gcs/shard/redis_scan.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "gcs/shard/redis_conf.h"
#include "gcs/shard/redis_keys.h"

#define SILENCE_S 20

static redisContext *open_redis(const char *directory)
{
    char path[512], password[160];
    snprintf(path, sizeof path, "%s/" MOB_REDIS_PASSWORD_NAME, directory);
    if (mob_redis_password_read(path, password, sizeof password) != MOB_OK)
        return NULL;
    snprintf(path, sizeof path, "%s/" MOB_REDIS_SOCKET_NAME, directory);
    redisContext *redis = redisConnectUnixWithTimeout(path, (struct timeval){.tv_sec = SILENCE_S});
    redisReply *reply =
        redis == NULL || redis->err != 0 ? NULL : redisCommand(redis, "AUTH " MOB_REDIS_USER " %s", password);
    bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (good)
        return redis;
    redisFree(redis);
    return NULL;
}

static void tell_keys(const redisReply *keys, void (*block)(void *arg, uint64_t seq), void *arg)
{
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        if (key->type == REDIS_REPLY_STRING && key->len == 9 && key->str[0] == 'b')
            block(arg, mob_redis_key_to_number((const uint8_t *)key->str + 1));
    }
}

enum mob_status mob_redis_each_block(const char *directory, void (*block)(void *arg, uint64_t seq), void *arg)
{
    redisContext *redis = open_redis(directory);
    char cursor[32] = "0";
    bool good = redis != NULL;
    do {
        redisReply *reply = good ? redisCommand(redis, "SCAN %s MATCH b* COUNT 4096", cursor) : NULL;
        good = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
            reply->element[0]->type == REDIS_REPLY_STRING;
        if (good) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            tell_keys(reply->element[1], block, arg);
        }
        freeReplyObject(reply);
    } while (good && strcmp(cursor, "0") != 0);
    redisFree(redis);
    return good ? MOB_OK : MOB_UNAVAILABLE;
}
