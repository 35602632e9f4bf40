/* Functions that put, pass, drop and keep values, in a store that is smaller than what they put. The byte at
 * place i of value n is n + i / 4096, so that a wrong or a torn one is seen. */
#include <mobula/mobula.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDLES_MAX 512

static void fill(uint8_t *bytes, size_t size, int64_t n)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((uint64_t)n + i / 4096);
}

static bool is_value(const uint8_t *bytes, size_t size, int64_t n)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (uint8_t)((uint64_t)n + i / 4096))
            return false;
    return true;
}

static enum mob_status put_value(
    struct mob_call *call, int64_t n, size_t size, struct mob_future **future_out)
{
    uint8_t *bytes = malloc(size);
    if (bytes == NULL)
        return MOB_NO_MEMORY;
    fill(bytes, size, n);
    enum mob_status status = mob_put(mob_call_client(call), mob_bytes(bytes, size), future_out);
    free(bytes);
    return status;
}

static enum mob_status check_value(struct mob_call *call, struct mob_future *future, int64_t n)
{
    struct mob_value *value;
    const void *bytes;
    size_t size;
    enum mob_status status = mob_get(future, MOB_FOREVER, &value);
    if (status == MOB_OK)
        status = mob_value_data(value, &bytes, &size);
    if (status != MOB_OK)
        return status;
    bool good = is_value(bytes, size, n);
    mob_value_release(value);
    return good ? MOB_OK : mob_fail(call, "value %lld has other bytes", (long long)n);
}

/* ---- what tasks do with their values ---- */

/* Puts `count` values, then reads all of them. */
static enum mob_status keeps(struct mob_call *call)
{
    struct mob_future *held[HANDLES_MAX];
    const int64_t count = mob_arg_i64(call, 0);
    enum mob_status status = count > HANDLES_MAX ? MOB_INVALID : MOB_OK;
    for (int64_t i = 0; i < count && status == MOB_OK; i++)
        status = put_value(call, i, (size_t)mob_arg_i64(call, 1), &held[i]);
    for (int64_t i = 0; i < count && status == MOB_OK; i++)
        status = check_value(call, held[i], i);
    return status == MOB_OK ? mob_return_i64(call, count) : status;
}

static enum mob_status matches(struct mob_call *call)
{
    size_t size;
    const uint8_t *bytes = mob_arg_bytes(call, 0, &size);
    return mob_return_i64(call, is_value(bytes, size, mob_arg_i64(call, 1)));
}

static enum mob_status makes(struct mob_call *call)
{
    const size_t size = (size_t)mob_arg_i64(call, 1);
    uint8_t *bytes = mob_return_buffer(call, 0, size);
    if (bytes != NULL)
        fill(bytes, size, mob_arg_i64(call, 0));
    return MOB_OK;
}

static enum mob_status take_ones(struct mob_call *call, struct mob_future **asked, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t good;
        enum mob_status status = mob_get_i64(asked[i], MOB_FOREVER, &good);
        if (status == MOB_OK && good != 1)
            return mob_fail(call, "task %lld got other bytes", (long long)i);
        if (status != MOB_OK)
            return status;
        mob_release(asked[i]);
    }
    return MOB_OK;
}

/* Puts values, passes each to a task and drops it at once: `window` tasks wait at a time. */
static enum mob_status passes(struct mob_call *call)
{
    const int64_t count = mob_arg_i64(call, 0), window = mob_arg_i64(call, 2);
    struct mob_future *asked[HANDLES_MAX];
    enum mob_status status = window > HANDLES_MAX ? MOB_INVALID : MOB_OK;
    for (int64_t i = 0; i < count && status == MOB_OK; i += window) {
        for (int64_t k = 0; k < window && status == MOB_OK; k++) {
            struct mob_future *value;
            status = put_value(call, i + k, (size_t)mob_arg_i64(call, 1), &value);
            if (status != MOB_OK)
                break;
            status = mob_submit(mob_call_client(call), "holder.matches",
                MOB_ARGS(mob_ref(value), mob_i64(i + k)), NULL, &asked[k]);
            mob_release(value);
        }
        if (status == MOB_OK)
            status = take_ones(call, asked, window);
    }
    return status == MOB_OK ? mob_return_i64(call, count) : status;
}

/* Large results of children and of an actor: read, then dropped. */
static enum mob_status reads(struct mob_call *call)
{
    const int64_t count = mob_arg_i64(call, 1);
    struct mob_actor *actor = mob_arg_actor(call, 0);
    for (int64_t i = 0; i < count; i++) {
        struct mob_future *futures[2];
        enum mob_status status = mob_submit(mob_call_client(call), "holder.makes",
            MOB_ARGS(mob_i64(i), mob_i64(mob_arg_i64(call, 2))), NULL, &futures[0]);
        if (status == MOB_OK)
            status = mob_actor_call(
                actor, "makes", MOB_ARGS(mob_i64(i + 7), mob_i64(mob_arg_i64(call, 2))), NULL, &futures[1]);
        for (int k = 0; k < 2 && status == MOB_OK; k++) {
            status = check_value(call, futures[k], i + 7 * k);
            mob_release(futures[k]);
        }
        if (status != MOB_OK)
            return status;
    }
    return mob_return_i64(call, count);
}

/* ---- values that outlive their handle ---- */

/* Drops a value whose id it gives away. */
static enum mob_status gives_id(struct mob_call *call)
{
    char id[MOB_TEXT_ID_MAX];
    struct mob_future *value;
    enum mob_status status = put_value(call, mob_arg_i64(call, 0), (size_t)mob_arg_i64(call, 1), &value);
    if (status != MOB_OK)
        return status;
    mob_future_id(value, id);
    mob_release(value);
    return mob_return(call, mob_utf8(id));
}

/* Drops the future that it returns, which was ready before. */
static enum mob_status returns_dropped(struct mob_call *call)
{
    struct mob_future *child;
    enum mob_status status = mob_submit(mob_call_client(call), "holder.makes",
        MOB_ARGS(mob_i64(mob_arg_i64(call, 0)), mob_i64(mob_arg_i64(call, 1))), NULL, &child);
    if (status == MOB_OK)
        status = check_value(call, child, mob_arg_i64(call, 0));
    if (status == MOB_OK)
        status = mob_return_future(call, child);
    if (status == MOB_OK)
        mob_release(child);
    return status;
}

/* Puts a value, has an actor take it, drops it; the actor's replay needs it again. */
static enum mob_status teaches(struct mob_call *call)
{
    struct mob_future *value, *taken;
    int64_t count;
    enum mob_status status = put_value(call, mob_arg_i64(call, 1), (size_t)mob_arg_i64(call, 2), &value);
    if (status == MOB_OK)
        status = mob_actor_call(mob_arg_actor(call, 0), "take",
            MOB_ARGS(mob_ref(value), mob_i64(mob_arg_i64(call, 1))), NULL, &taken);
    if (status == MOB_OK)
        status = mob_get_i64(taken, MOB_FOREVER, &count);
    if (status != MOB_OK)
        return status;
    mob_release(value);
    mob_release(taken);
    return mob_return_i64(call, count);
}

/* ---- an actor ---- */

static enum mob_status keeper_open(struct mob_call *call)
{
    mob_call_set_self(call, calloc(1, sizeof(int64_t)));
    return MOB_OK;
}

static enum mob_status keeper_take(struct mob_call *call)
{
    size_t size;
    const uint8_t *bytes = mob_arg_bytes(call, 0, &size);
    int64_t *taken = mob_call_self(call);
    if (!is_value(bytes, size, mob_arg_i64(call, 1)))
        return mob_fail(call, "other bytes");
    return mob_return_i64(call, ++*taken);
}

/* The first time; the replay finds the file. */
static enum mob_status keeper_crash_once(struct mob_call *call)
{
    size_t length;
    int fd = open(mob_arg_utf8(call, 0, &length), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        abort();
    return mob_return_i64(call, *(int64_t *)mob_call_self(call));
}

/* Each run leaves a byte there. */
static enum mob_status marks(struct mob_call *call)
{
    size_t length;
    int fd = open(mob_arg_utf8(call, 0, &length), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, "x", 1) == 1;
    if (fd >= 0)
        close(fd);
    return written ? mob_return_i64(call, 1) : mob_fail(call, "no mark");
}

/* Has `n` children leave their marks. */
static enum mob_status keeper_asks(struct mob_call *call)
{
    size_t length;
    const char *path = mob_arg_utf8(call, 0, &length);
    const int64_t n = mob_arg_i64(call, 1);
    struct mob_future *asked[HANDLES_MAX];
    enum mob_status status = n > HANDLES_MAX ? MOB_INVALID : MOB_OK;
    for (int64_t i = 0; i < n && status == MOB_OK; i++)
        status = mob_submit(mob_call_client(call), "holder.marks", MOB_ARGS(mob_utf8(path)), NULL, &asked[i]);
    if (status == MOB_OK)
        status = take_ones(call, asked, n);
    *(int64_t *)mob_call_self(call) += n;
    return status == MOB_OK ? mob_return_i64(call, *(int64_t *)mob_call_self(call)) : status;
}

static const struct mob_method_entry keeper_methods[] = {
    MOB_METHOD("take", keeper_take, "bytes v, i64 n -> i64"),
    {.name = "makes", .main = makes, .signature = "i64 n, i64 size -> bytes", .flags = MOB_METHOD_READ_ONLY},
    MOB_METHOD("asks", keeper_asks, "utf8 path, i64 n -> i64"),
    MOB_METHOD("crash_once", keeper_crash_once, "utf8 path -> i64"), {.name = NULL}};

MOB_MODULE("holder", MOB_FUNCTION("keeps", keeps, "i64 count, i64 size -> i64"),
    MOB_FUNCTION("matches", matches, "bytes v, i64 n -> i64"),
    MOB_FUNCTION("makes", makes, "i64 n, i64 size -> bytes"),
    MOB_FUNCTION("marks", marks, "utf8 path -> i64"),
    MOB_FUNCTION("passes", passes, "i64 count, i64 size, i64 window -> i64"),
    MOB_FUNCTION("reads", reads, "actor a, i64 count, i64 size -> i64"),
    MOB_FUNCTION("gives_id", gives_id, "i64 n, i64 size -> utf8"),
    MOB_FUNCTION("returns_dropped", returns_dropped, "i64 n, i64 size -> bytes"),
    MOB_FUNCTION("teaches", teaches, "actor a, i64 n, i64 size -> i64"),
    {.name = "Keeper", .main = keeper_open, .signature = "-> ()", .methods = keeper_methods, .destroy = free})
