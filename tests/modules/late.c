/* Tasks that submit children long after they began. */
#include <mobula/mobula.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LADEN_CHILDREN_MAX = 64, LADEN_BYTES = 1000 }; /* what fits into a spec */

static enum mob_status one(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

/* Sleeps, then runs n children, and gives their sum. */
static enum mob_status parent(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t ms = mob_arg_i64(call, 0), sum = 0;
    size_t n = (size_t)mob_arg_i64(call, 1);
    struct mob_future **results = calloc(n + 1, sizeof(struct mob_future *));
    enum mob_status status = results == NULL ? MOB_NO_MEMORY : MOB_OK;
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    for (size_t i = 0; i < n && status == MOB_OK; i++)
        status = mob_submit(client, "late.one", MOB_ARGS(mob_i64((int64_t)i)), NULL, &results[i]);
    for (size_t i = 0; i < n && status == MOB_OK; i++) {
        int64_t value = 0;
        status = mob_get_i64(results[i], MOB_FOREVER, &value);
        sum += value;
    }
    free(results);
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

/* The same at once: its first argument is what it waits for, its last one makes its spec as large as the test
 * wants. */
static enum mob_status laden(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t sum = 0, n = mob_arg_i64(call, 1);
    struct mob_future *results[LADEN_CHILDREN_MAX];
    enum mob_status status = n >= 0 && n <= LADEN_CHILDREN_MAX ? MOB_OK : MOB_INVALID;
    for (int64_t i = 0; i < n && status == MOB_OK; i++)
        status = mob_submit(client, "late.one", MOB_ARGS(mob_i64(i)), NULL, &results[i]);
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        int64_t value = 0;
        status = mob_get_i64(results[i], MOB_FOREVER, &value);
        sum += value;
    }
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

static enum mob_status borne(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

/* As much text as `like`, and nothing of it: the same text in several specs of a block is there once. */
static void fill(char *out, const char *like, size_t bytes, int64_t child)
{
    uint64_t x = (uint64_t)child + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = (x ^ (unsigned char)like[i]) * 0x9e3779b97f4a7c15u;
        x ^= x >> 29;
        out[i] = "0123456789abcdef"[x >> 60];
    }
}

/* The same whose children are as large as it is. */
static enum mob_status heavy(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t sum = 0, n = mob_arg_i64(call, 1);
    size_t bytes;
    const char *load = mob_arg_utf8(call, 2, &bytes);
    struct mob_future *results[LADEN_CHILDREN_MAX];
    char text[LADEN_BYTES];
    bool fits = n >= 0 && n <= LADEN_CHILDREN_MAX && bytes >= sizeof text;
    enum mob_status status = fits ? MOB_OK : MOB_INVALID;
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        fill(text, load, sizeof text, i);
        status = mob_submit(
            client, "late.borne", MOB_ARGS(mob_i64(i), mob_utf8_of(text, sizeof text)), NULL, &results[i]);
    }
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        int64_t value = 0;
        status = mob_get_i64(results[i], MOB_FOREVER, &value);
        sum += value;
    }
    return status == MOB_OK ? mob_return_i64(call, sum) : status;
}

/* Runs until the file is there. */
static enum mob_status gate(struct mob_call *call)
{
    char path[256];
    size_t bytes;
    const char *text = mob_arg_utf8(call, 0, &bytes);
    if (bytes >= sizeof path)
        return MOB_INVALID;
    memcpy(path, text, bytes);
    path[bytes] = 0;
    while (access(path, F_OK) != 0 && !mob_call_cancelled(call))
        usleep(10000);
    return mob_return_i64(call, 0);
}

MOB_MODULE("late", MOB_FUNCTION("one", one, "i64 value -> i64"),
    MOB_FUNCTION("laden", laden, "i64 after, i64 children, utf8 load -> i64"),
    MOB_FUNCTION("heavy", heavy, "i64 after, i64 children, utf8 load -> i64"),
    MOB_FUNCTION("borne", borne, "i64 value, utf8 load -> i64"),
    MOB_FUNCTION("gate", gate, "utf8 path -> i64"),
    MOB_FUNCTION("parent", parent, "i64 ms, i64 children -> i64"))
