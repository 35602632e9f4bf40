/* Functions for tests that kill: what they return depends on their arguments only, and chaos_model.h says
 * what it is. Some leave a line in a file, so that a test can count how often they ran. */
#include <mobula/mobula.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/modules/chaos_model.h"

/* ---- plain ---- */

static enum mob_status mix(struct mob_call *call)
{
    int64_t result = mob_arg_i64(call, 0);
    for (size_t i = 1; i < mob_arg_count(call); i++)
        result = chaos_mix(result, mob_arg_i64(call, i));
    return mob_return_i64(call, chaos_mix(result, 1));
}

static enum mob_status slow(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 1) && !mob_call_cancelled(call); i++)
        usleep(1000);
    return mob_call_cancelled(call) ? MOB_CANCELLED
                                    : mob_return_i64(call, chaos_mix(mob_arg_i64(call, 0), 1));
}

static enum mob_status blob(struct mob_call *call)
{
    size_t size = (size_t)mob_arg_i64(call, 1);
    uint8_t *bytes = mob_return_buffer(call, 0, size);
    if (bytes != NULL)
        chaos_fill(mob_arg_i64(call, 0), bytes, size);
    return MOB_OK;
}

static enum mob_status stash(struct mob_call *call)
{
    struct mob_future *future;
    size_t size = (size_t)mob_arg_i64(call, 1);
    uint8_t *bytes = malloc(size);
    chaos_fill(mob_arg_i64(call, 0), bytes, size);
    enum mob_status status = mob_put(mob_call_client(call), mob_bytes(bytes, size), &future);
    free(bytes);
    return status == MOB_OK ? mob_return_future(call, future) : status;
}

static enum mob_status digest(struct mob_call *call)
{
    size_t size;
    const void *bytes = mob_arg_bytes(call, 0, &size);
    return mob_return_i64(call, chaos_digest(bytes, size, mob_arg_i64(call, 1)));
}

static enum mob_status trip(struct mob_call *call)
{
    return mob_fail(call, "tripped at %lld", (long long)mob_arg_i64(call, 0));
}

/* ---- nested ---- */

static enum mob_status get_all(struct mob_future **futures, int64_t n, int64_t *result)
{
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < n && status == MOB_OK; i++) {
        int64_t v = 0;
        status = mob_get_i64(futures[i], MOB_FOREVER, &v);
        *result = chaos_mix(*result, v);
    }
    return status;
}

/* Kills at random may hit one task more often than the default of three. */
static const struct mob_submit_options outlives_kills = {
    .struct_size = sizeof outlives_kills, .max_retries = 20};

/* Children, one wait whose outcome is logged, and a child whose argument is drawn: a replay that draws
 * another one diverges. */
static enum mob_status nest(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    int64_t seed = mob_arg_i64(call, 0), width = mob_arg_i64(call, 1), depth = mob_arg_i64(call, 2);
    struct mob_future *futures[64], *drawn;
    bool ready[64];
    size_t count;
    enum mob_status status = MOB_OK;
    if (width > 64)
        return mob_fail(call, "too wide");
    for (int64_t i = 0; i < width && status == MOB_OK; i++)
        status = depth > 0 ? mob_submit(client, "chaos.nest",
                                 MOB_ARGS(mob_i64(chaos_mix(seed, i)), mob_i64(width), mob_i64(depth - 1)),
                                 &outlives_kills, &futures[i])
                           : mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(chaos_mix(seed, i))),
                                 &outlives_kills, &futures[i]);
    if (status == MOB_OK)
        status = mob_wait(futures, (size_t)width, 1, MOB_FOREVER, ready, &count);
    int64_t draw = (int64_t)(mob_random(call) >> 1), got = 0, result = chaos_mix(seed, depth);
    for (int64_t i = 0; i < width;
         i++) /* which were ready shapes what follows, so a replay must see the same */
        draw += status == MOB_OK && ready[i] ? i + 1 : 0;
    if (status == MOB_OK)
        status = mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(draw)), &outlives_kills, &drawn);
    if (status == MOB_OK)
        status = get_all(futures, width, &result);
    if (status == MOB_OK)
        status = mob_get_i64(drawn, MOB_FOREVER, &got);
    if (status == MOB_OK && got != chaos_mix(draw, 1))
        return mob_fail(call, "a child answered another question");
    return status == MOB_OK ? mob_return_i64(call, result) : status;
}

/* ---- leaving traces ---- */

enum { PATH_MAX_BYTES = 512 };

/* The i-th argument as a string with its end. */
static void text_arg(struct mob_call *call, size_t i, char *out, size_t room)
{
    size_t size;
    const char *text = mob_arg_utf8(call, i, &size);
    snprintf(out, room, "%.*s", (int)size, text);
}

static void leave_line(struct mob_call *call, const char *path, const char *what)
{
    char id[MOB_TEXT_ID_MAX], line[640];
    mob_call_task_id(call, id);
    int n = snprintf(line, sizeof line, "%s %s\n", what, id);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ssize_t written = write(fd, line, (size_t)n);
    (void)written;
    close(fd);
}

/* A line, then the value. */
static enum mob_status traced(struct mob_call *call)
{
    char path[PATH_MAX_BYTES];
    text_arg(call, 0, path, sizeof path);
    leave_line(call, path, "ran");
    return mob_return_i64(call, chaos_mix(mob_arg_i64(call, 1), 1));
}

/* The same with a result too large for the lineage; the second argument is the input's bytes or null. */
static enum mob_status traced_blob(struct mob_call *call)
{
    char path[PATH_MAX_BYTES];
    text_arg(call, 0, path, sizeof path);
    leave_line(call, path, "made");
    size_t bytes = (size_t)mob_arg_i64(call, 2);
    int64_t seed = mob_arg_i64(call, 1);
    if (mob_arg_count(call) > 3) {
        size_t before_size;
        const uint8_t *before = mob_arg_bytes(call, 3, &before_size);
        seed = before == NULL ? -1 : chaos_mix(before[0] + before[before_size - 1], seed);
    }
    uint8_t *out = mob_return_buffer(call, 0, bytes);
    if (out != NULL)
        chaos_fill(seed, out, bytes);
    return MOB_OK;
}

/* Other bytes each time: those of the number of lines that the file had. */
static enum mob_status fickle_blob(struct mob_call *call)
{
    char path[PATH_MAX_BYTES];
    struct stat st = {0};
    text_arg(call, 0, path, sizeof path);
    (void)stat(path, &st);
    leave_line(call, path, "made");
    size_t bytes = (size_t)mob_arg_i64(call, 1);
    uint8_t *out = mob_return_buffer(call, 0, bytes);
    if (out != NULL)
        chaos_fill((int64_t)st.st_size, out, bytes);
    return MOB_OK;
}

/* A put of such bytes, or (steady) of the same each time, which it reads back. */
static enum mob_status fickle_put(struct mob_call *call)
{
    size_t bytes = (size_t)mob_arg_i64(call, 1);
    struct stat st = {0};
    char path[PATH_MAX_BYTES];
    struct mob_put_buffer *buffer;
    struct mob_future *future;
    struct mob_value *value;
    void *data;
    text_arg(call, 0, path, sizeof path);
    (void)stat(path, &st);
    leave_line(call, path, "put");
    enum mob_status status = mob_put_begin(mob_call_client(call), bytes, &data, &buffer);
    if (status != MOB_OK)
        return status;
    chaos_fill(mob_arg_i64(call, 2) ? 7 : (int64_t)st.st_size, data, bytes);
    status = mob_put_finish(buffer, &future);
    if (status != MOB_OK)
        return status;
    if (mob_get(future, MOB_FOREVER, &value) == MOB_OK)
        mob_value_release(value);
    else
        leave_line(call, path, "unread");
    return mob_return_future(call, future);
}

/* Which generation of its task this is, from 1 on, by the id of a child: the file has a line for each. */
static int64_t generation_of(const char *path, struct mob_future *child)
{
    char id[MOB_TEXT_ID_MAX], line[256];
    int64_t at = 1;
    bool found = false;
    mob_future_id(child, id);
    FILE *file = fopen(path, "a+");
    if (file == NULL)
        return 0;
    while (!found && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "generation ", 11) == 0) {
            found = strncmp(line + 11, id, strlen(id)) == 0;
            at += !found;
        }
    if (!found)
        fprintf(file, "generation %s\n", id);
    fclose(file);
    return at;
}

/* Fails but for its n-th generation, and in each has other bytes, which it puts, and gives to a child as a
 * large argument: what that and a reader of the put see. The put's id is left in the file. */
static enum mob_status flaky_put(struct mob_call *call)
{
    enum { BYTES = 100000 };
    static uint8_t data[BYTES];
    char path[PATH_MAX_BYTES], id[MOB_TEXT_ID_MAX], line[80];
    struct mob_client *client = mob_call_client(call);
    struct mob_future *child, *put, *seen[2] = {NULL, NULL};
    int64_t result = 0, which;
    text_arg(call, 0, path, sizeof path);
    enum mob_status status = mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(1)), NULL, &child);
    if (status != MOB_OK)
        return status;
    which = generation_of(path, child);
    chaos_fill(which, data, sizeof data);
    status = mob_put(client, mob_bytes(data, sizeof data), &put);
    if (status != MOB_OK)
        return status;
    mob_future_id(put, id);
    snprintf(line, sizeof line, "put%lld %s", (long long)which, id);
    leave_line(call, path, line);
    status = mob_submit(client, "chaos.digest", MOB_ARGS(mob_ref(put), mob_i64(1)), NULL, &seen[0]);
    if (status == MOB_OK)
        status = mob_submit(
            client, "chaos.digest", MOB_ARGS(mob_bytes(data, sizeof data), mob_i64(1)), NULL, &seen[1]);
    if (status == MOB_OK)
        status = get_all(seen, 2, &result);
    if (status != MOB_OK)
        return status;
    return which < mob_arg_i64(call, 1) ? mob_fail(call, "generation %lld", (long long)which)
                                        : mob_return_i64(call, result);
}

static bool wait_for_file(struct mob_call *call, const char *path)
{
    struct stat st;
    while (stat(path, &st) != 0 && !mob_call_cancelled(call))
        usleep(1000);
    return !mob_call_cancelled(call);
}

/* n traced children, all got; then a line "waits", then it goes on when `gate` exists: a place to be killed
 * at. Ends with the clock, a draw and a time-out that it read before the gate. */
static enum mob_status parent(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    char path[PATH_MAX_BYTES], gate[PATH_MAX_BYTES];
    text_arg(call, 0, path, sizeof path);
    text_arg(call, 1, gate, sizeof gate);
    int64_t n = mob_arg_i64(call, 2), result = 0, never;
    struct mob_future *futures[64], *late;
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < n && i < 64 && status == MOB_OK; i++)
        status = mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(path), mob_i64(i)), NULL, &futures[i]);
    if (status == MOB_OK)
        status = get_all(futures, n < 64 ? n : 64, &result);
    if (status == MOB_OK)
        status = mob_submit(client, "chaos.gated", MOB_ARGS(mob_utf8(gate)), NULL, &late);
    if (status != MOB_OK)
        return status;
    enum mob_status timed_out = mob_get_i64(late, 20 * 1000000, &never);
    int64_t clock = mob_clock_ns(call);
    uint64_t draw = mob_random(call);
    char line[128];
    snprintf(line, sizeof line, "waits clock=%lld draw=%llu get=%s", (long long)clock,
        (unsigned long long)draw, mob_status_code(timed_out));
    leave_line(call, path, line);
    if (!wait_for_file(call, gate))
        return MOB_CANCELLED;
    return mob_return_i64(call, result);
}

/* Runs until the file is there. */
static enum mob_status gated(struct mob_call *call)
{
    char text[PATH_MAX_BYTES];
    text_arg(call, 0, text, sizeof text);
    return wait_for_file(call, text) ? mob_return_i64(call, 7) : MOB_CANCELLED;
}

/* Becomes a child that runs until the file is there. */
static enum mob_status defers(struct mob_call *call)
{
    char text[PATH_MAX_BYTES];
    struct mob_future *child;
    text_arg(call, 0, text, sizeof text);
    enum mob_status status =
        mob_submit(mob_call_client(call), "chaos.gated", MOB_ARGS(mob_utf8(text)), NULL, &child);
    return status == MOB_OK ? mob_return_future(call, child) : status;
}

/* Each level submits the next one and ends, by a value or (tails: 1 = all, 2 = every other one) as that one.
 * The last leaves its id and runs until the file is there. */
static enum mob_status descends(struct mob_call *call)
{
    char path[PATH_MAX_BYTES], gate[PATH_MAX_BYTES], line[MOB_TEXT_ID_MAX + 8] = "leaf ";
    int64_t levels = mob_arg_i64(call, 2), tails = mob_arg_i64(call, 3);
    struct mob_future *next;
    text_arg(call, 0, path, sizeof path);
    text_arg(call, 1, gate, sizeof gate);
    if (levels == 0) {
        mob_call_task_id(call, line + strlen(line));
        leave_line(call, path, line);
        return wait_for_file(call, gate) ? mob_return_i64(call, 7) : MOB_CANCELLED;
    }
    enum mob_status status = mob_submit(mob_call_client(call), "chaos.descends",
        MOB_ARGS(mob_utf8(path), mob_utf8(gate), mob_i64(levels - 1), mob_i64(tails)), NULL, &next);
    if (status == MOB_OK && (tails == 1 || (tails == 2 && levels % 2 == 0)))
        return mob_return_future(call, next);
    return status == MOB_OK ? mob_return_i64(call, levels) : status;
}

/* Becomes what the object of this id becomes. */
static enum mob_status becomes(struct mob_call *call)
{
    char text[MOB_TEXT_ID_MAX];
    struct mob_future *other;
    text_arg(call, 0, text, sizeof text);
    enum mob_status status = mob_future_from_id(mob_call_client(call), text, &other);
    return status == MOB_OK ? mob_return_future(call, other) : status;
}

/* Fails until the n-th line is in the file; each run has a child, which is another one in each generation. */
static enum mob_status flaky(struct mob_call *call)
{
    char text[PATH_MAX_BYTES], line[256];
    text_arg(call, 0, text, sizeof text);
    struct mob_future *child;
    int64_t v = 0;
    enum mob_status status =
        mob_submit(mob_call_client(call), "chaos.traced", MOB_ARGS(mob_utf8(text), mob_i64(1)), NULL, &child);
    if (status == MOB_OK)
        status = mob_get_i64(child, MOB_FOREVER, &v);
    if (status != MOB_OK)
        return status;
    leave_line(call, text, "tried");
    int64_t tries = 0;
    FILE *file = fopen(text, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        tries += strncmp(line, "tried", 5) == 0;
    if (file != NULL)
        fclose(file);
    return tries < mob_arg_i64(call, 1) ? mob_fail(call, "try %lld", (long long)tries)
                                        : mob_return_i64(call, tries);
}

/* Each run asks for another child: what a function must not do. */
static enum mob_status diverges(struct mob_call *call)
{
    char text[PATH_MAX_BYTES];
    struct stat st = {0};
    text_arg(call, 0, text, sizeof text);
    (void)stat(text, &st);
    struct mob_future *child;
    int64_t v = 0;
    leave_line(call, text, "diverges");
    enum mob_status status =
        mob_submit(mob_call_client(call), "chaos.mix", MOB_ARGS(mob_i64((int64_t)st.st_size)), NULL, &child);
    if (status == MOB_OK)
        status = mob_get_i64(child, MOB_FOREVER, &v);
    if (status != MOB_OK)
        return status;
    if (st.st_size == 0) {
        (void)!mob_flush(mob_call_client(call), MOB_FOREVER);
        raise(SIGKILL);
    }
    return mob_return_i64(call, v);
}

/* The same, and it does not look at what its child says. Returns how much was in the file before. */
static enum mob_status shrugs(struct mob_call *call)
{
    char text[PATH_MAX_BYTES];
    struct stat st = {0};
    text_arg(call, 0, text, sizeof text);
    (void)stat(text, &st);
    struct mob_future *child;
    leave_line(call, text, "shrugs");
    enum mob_status status =
        mob_submit(mob_call_client(call), "chaos.mix", MOB_ARGS(mob_i64((int64_t)st.st_size)), NULL, &child);
    if (status != MOB_OK)
        return status;
    if (st.st_size == 0) {
        (void)!mob_flush(mob_call_client(call), MOB_FOREVER);
        raise(SIGKILL);
    }
    return mob_return_i64(call, st.st_size);
}

/* ---- dying ---- */

static enum mob_status dies(struct mob_call *call)
{
    char path[PATH_MAX_BYTES];
    text_arg(call, 0, path, sizeof path);
    leave_line(call, path, "dies");
    printf("the last words of a task\n");
    fflush(stdout);
    switch (mob_arg_i64(call, 1)) {
    case 0:
        raise(SIGSEGV);
        break;
    case 1:
        abort();
    case 2:
        exit(3);
    case 3:
        raise(SIGKILL);
        break;
    case 4:
        _exit(0);
    default:
        break;
    }
    return MOB_OK;
}

static enum mob_status hoards(struct mob_call *call)
{
    (void)call;
    printf("taking all there is\n");
    fflush(stdout);
    for (;;) {
        char *bytes = malloc(64 << 20);
        if (bytes == NULL)
            abort();
        memset(bytes, 1, 64 << 20);
    }
}

static enum mob_status stops(struct mob_call *call)
{
    raise(SIGSTOP);
    return mob_return_i64(call, 1);
}

/* ---- actors ---- */

struct chain {
    int64_t state;
};

static enum mob_status chain_open(struct mob_call *call)
{
    struct chain *chain = calloc(1, sizeof *chain);
    chain->state = chaos_mix(mob_arg_i64(call, 0), 0);
    mob_call_set_self(call, chain);
    return MOB_OK;
}

static enum mob_status chain_step(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    chain->state = chaos_mix(chain->state, mob_arg_i64(call, 0));
    return mob_return_i64(call, chain->state);
}

/* Order of one caller: its numbers come one after the other, or this fails. */
static enum mob_status chain_expect(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    if (mob_arg_i64(call, 0) != chain->state + 1)
        return mob_fail(
            call, "got %lld after %lld", (long long)mob_arg_i64(call, 0), (long long)chain->state);
    return mob_return_i64(call, ++chain->state);
}

static enum mob_status chain_set(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    chain->state = mob_arg_i64(call, 0);
    return mob_return_i64(call, chain->state);
}

/* What no class may do: its state follows from more than its calls. */
static enum mob_status chain_drift(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    chain->state = chaos_mix(chain->state, getpid());
    return mob_return_i64(call, chain->state);
}

static enum mob_status chain_poison(struct mob_call *call)
{
    printf("swallowing poison\n");
    fflush(stdout);
    (void)call;
    raise(SIGSEGV);
    return MOB_OK;
}

static enum mob_status chain_checkpoint(struct mob_call *call)
{
    const struct chain *chain = mob_call_self(call);
    return mob_return_i64(call, chain->state);
}

static enum mob_status chain_restore(struct mob_call *call)
{
    struct chain *chain = calloc(1, sizeof *chain);
    chain->state = mob_arg_i64(call, 0);
    mob_call_set_self(call, chain);
    return MOB_OK;
}

/* As many bytes as the second argument says, which follow from the state. */
static enum mob_status return_large(struct mob_call *call, const struct chain *chain)
{
    size_t bytes = (size_t)mob_arg_i64(call, 1);
    uint8_t *out = mob_return_buffer(call, 0, bytes);
    if (out != NULL)
        chaos_fill(chain->state, out, bytes);
    return MOB_OK;
}

/* A step whose result is too large for the lineage. Leaves a line, then waits for the gate. */
static enum mob_status chain_blob(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    char path[PATH_MAX_BYTES], gate[PATH_MAX_BYTES];
    text_arg(call, 2, path, sizeof path);
    text_arg(call, 3, gate, sizeof gate);
    leave_line(call, path, "blob");
    if (!wait_for_file(call, gate))
        return MOB_CANCELLED;
    chain->state = chaos_mix(chain->state, mob_arg_i64(call, 0));
    return return_large(call, chain);
}

/* Its state, and a line that it ran. */
static enum mob_status chain_peek(struct mob_call *call)
{
    const struct chain *chain = mob_call_self(call);
    char path[PATH_MAX_BYTES];
    text_arg(call, 0, path, sizeof path);
    leave_line(call, path, "peek");
    return mob_return_i64(call, chain->state);
}

/* The same, too large for the lineage. */
static enum mob_status chain_view(struct mob_call *call)
{
    const struct chain *chain = mob_call_self(call);
    char path[PATH_MAX_BYTES];
    text_arg(call, 0, path, sizeof path);
    leave_line(call, path, "view");
    return return_large(call, chain);
}

/* A step by what somebody has read. */
static enum mob_status chain_step_by(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    size_t bytes;
    const uint8_t *view = mob_arg_bytes(call, 0, &bytes);
    if (view == NULL)
        return MOB_INVALID;
    chain->state = chaos_mix(chain->state, chaos_digest(view, bytes, 1));
    return mob_return_i64(call, chain->state);
}

/* Ends its worker, the first time. */
static enum mob_status chain_stumble(struct mob_call *call)
{
    struct chain *chain = mob_call_self(call);
    char text[PATH_MAX_BYTES];
    text_arg(call, 0, text, sizeof text);
    int fd = open(text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        raise(SIGKILL);
    return mob_return_i64(call, chain->state);
}

static const struct mob_method_entry chain_methods[] = {MOB_METHOD("step", chain_step, "i64 v -> i64"),
    MOB_METHOD("blob", chain_blob, "i64 v, i64 bytes, utf8 path, utf8 gate -> bytes"),
    MOB_METHOD("stumble", chain_stumble, "utf8 path -> i64"),
    MOB_METHOD("expect", chain_expect, "i64 v -> i64"), MOB_METHOD("set", chain_set, "i64 v -> i64"),
    MOB_METHOD("drift", chain_drift, "-> i64"), MOB_METHOD("poison", chain_poison, "-> i64"),
    {.name = "peek", .main = chain_peek, .signature = "utf8 path -> i64", .flags = MOB_METHOD_READ_ONLY},
    {.name = "view",
        .main = chain_view,
        .signature = "utf8 path, i64 bytes -> bytes",
        .flags = MOB_METHOD_READ_ONLY},
    MOB_METHOD("step_by", chain_step_by, "bytes view -> i64"), {.name = NULL}};

/* The same with a state as large as its constructor says, all of which is in its checkpoints. */
struct bulky {
    int64_t state;
    size_t bytes;
};

static enum mob_status bulky_open(struct mob_call *call)
{
    struct bulky *bulky = calloc(1, sizeof *bulky);
    *bulky = (struct bulky){chaos_mix(mob_arg_i64(call, 0), 0), (size_t)mob_arg_i64(call, 1)};
    mob_call_set_self(call, bulky);
    return MOB_OK;
}

static enum mob_status bulky_step(struct mob_call *call)
{
    struct bulky *bulky = mob_call_self(call);
    bulky->state = chaos_mix(bulky->state, mob_arg_i64(call, 0));
    return mob_return_i64(call, bulky->state);
}

static enum mob_status bulky_checkpoint(struct mob_call *call)
{
    const struct bulky *bulky = mob_call_self(call);
    uint8_t *out = mob_return_buffer(call, 0, sizeof bulky->state + bulky->bytes);
    if (out == NULL)
        return MOB_OK;
    memcpy(out, &bulky->state, sizeof bulky->state);
    chaos_fill(bulky->state, out + sizeof bulky->state, bulky->bytes);
    return MOB_OK;
}

static enum mob_status bulky_restore(struct mob_call *call)
{
    size_t size;
    const uint8_t *in = mob_arg_bytes(call, 0, &size);
    struct bulky *bulky = calloc(1, sizeof *bulky);
    memcpy(&bulky->state, in, sizeof bulky->state);
    bulky->bytes = size - sizeof bulky->state;
    uint8_t *model = malloc(bulky->bytes);
    chaos_fill(bulky->state, model, bulky->bytes);
    bool same = memcmp(model, in + sizeof bulky->state, bulky->bytes) == 0;
    free(model);
    mob_call_set_self(call, bulky);
    return same ? MOB_OK : mob_fail(call, "the checkpoint is not what was written");
}

static const struct mob_method_entry bulky_methods[] = {
    MOB_METHOD("step", bulky_step, "i64 v -> i64"), {.name = NULL}};

/* n calls of an actor by one task, in order. */
static enum mob_status steps(struct mob_call *call)
{
    struct mob_actor *actor = mob_arg_actor(call, 0);
    struct mob_future *future = NULL;
    int64_t v = 0;
    enum mob_status status = MOB_OK;
    for (int64_t i = 0; i < mob_arg_i64(call, 1) && status == MOB_OK; i++) {
        if (future != NULL)
            mob_release(future);
        status = mob_actor_call(actor, "step", MOB_ARGS(mob_i64(i)), NULL, &future);
    }
    if (status == MOB_OK && future != NULL)
        status = mob_get_i64(future, MOB_FOREVER, &v);
    return status == MOB_OK ? mob_return_i64(call, v) : status;
}

/* An actor of this task alone: n calls in order, every other one with the result of a task; then it ends. */
static enum mob_status own_actor(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    struct mob_actor_options options = {
        .struct_size = sizeof options, .max_restarts = -1, .checkpoint_every = (int)mob_arg_i64(call, 2)};
    int64_t seed = mob_arg_i64(call, 0), v = 0;
    struct mob_actor *actor;
    struct mob_future *future = NULL, *input;
    enum mob_status status =
        mob_actor_create(client, "chaos.Chain", MOB_ARGS(mob_i64(seed)), &options, &actor);
    for (int64_t i = 0; i < mob_arg_i64(call, 1) && status == MOB_OK; i++) {
        struct mob_arg arg = mob_i64(i);
        if (i % 2 == 1) {
            status = mob_submit(
                client, "chaos.mix", MOB_ARGS(mob_i64(chaos_mix(seed, i))), &outlives_kills, &input);
            arg = mob_ref(input);
        }
        if (status == MOB_OK)
            status = mob_actor_call(actor, "step", (struct mob_args){&arg, 1}, NULL, &future);
    }
    if (status == MOB_OK)
        status = mob_get_i64(future, MOB_FOREVER, &v);
    if (status != MOB_OK)
        return status;
    (void)!mob_actor_kill(actor, true); /* a run before this one may have done it */
    return mob_return_i64(call, v);
}

static enum mob_status counts(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 1); i++)
        if (mob_yield(call, mob_i64(chaos_mix(mob_arg_i64(call, 0), i))) != MOB_OK)
            return MOB_OK;
    return MOB_OK;
}

/* Blocks on a child that waits for the gate. */
static enum mob_status blocks(struct mob_call *call)
{
    char text[PATH_MAX_BYTES];
    text_arg(call, 0, text, sizeof text);
    struct mob_future *child;
    int64_t v = 0;
    enum mob_status status =
        mob_submit(mob_call_client(call), "chaos.gated", MOB_ARGS(mob_utf8(text)), NULL, &child);
    if (status == MOB_OK)
        status = mob_get_i64(child, MOB_FOREVER, &v);
    return status == MOB_OK ? mob_return_i64(call, v) : status;
}

MOB_MODULE("chaos", MOB_FUNCTION("mix", mix, "i64 seed, i64... -> i64"),
    MOB_FUNCTION("slow", slow, "i64 seed, i64 ms -> i64"),
    MOB_FUNCTION("blob", blob, "i64 seed, i64 size -> bytes"),
    MOB_FUNCTION("stash", stash, "i64 seed, i64 size -> bytes"),
    MOB_FUNCTION("digest", digest, "bytes v, i64 seed -> i64"), MOB_FUNCTION("trip", trip, "i64 seed -> i64"),
    MOB_FUNCTION("nest", nest, "i64 seed, i64 width, i64 depth -> i64"),
    MOB_FUNCTION("traced", traced, "utf8 path, i64 seed -> i64"),
    MOB_FUNCTION("traced_blob", traced_blob, "utf8 path, i64 seed, i64 size, bytes... -> bytes"),
    MOB_FUNCTION("fickle_blob", fickle_blob, "utf8 path, i64 size -> bytes"),
    MOB_FUNCTION("fickle_put", fickle_put, "utf8 path, i64 size, i64 steady -> bytes"),
    MOB_FUNCTION("flaky_put", flaky_put, "utf8 path, i64 generations -> i64"),
    MOB_FUNCTION("parent", parent, "utf8 path, utf8 gate, i64 n -> i64"),
    MOB_FUNCTION("gated", gated, "utf8 gate -> i64"),
    MOB_FUNCTION("flaky", flaky, "utf8 path, i64 tries -> i64"),
    MOB_FUNCTION("defers", defers, "utf8 gate -> i64"),
    MOB_FUNCTION("descends", descends, "utf8 path, utf8 gate, i64 levels, i64 tails -> i64"),
    MOB_FUNCTION("becomes", becomes, "utf8 object -> i64"),
    MOB_FUNCTION("diverges", diverges, "utf8 path -> i64"),
    MOB_FUNCTION("shrugs", shrugs, "utf8 path -> i64"),
    MOB_FUNCTION("dies", dies, "utf8 path, i64 how -> i64"), MOB_FUNCTION("hoards", hoards, "-> i64"),
    MOB_FUNCTION("stops", stops, "-> i64"), MOB_FUNCTION("steps", steps, "actor a, i64 n -> i64"),
    MOB_FUNCTION("own_actor", own_actor, "i64 seed, i64 calls, i64 checkpoint_every -> i64"),
    MOB_FUNCTION("counts", counts, "i64 seed, i64 n -> stream i64"),
    MOB_FUNCTION("blocks", blocks, "utf8 gate -> i64"),
    {.name = "Bulky",
        .main = bulky_open,
        .signature = "i64 seed, i64 bytes -> ()",
        .methods = bulky_methods,
        .destroy = free,
        .checkpoint = bulky_checkpoint,
        .restore = bulky_restore},
    {.name = "Chain",
        .main = chain_open,
        .signature = "i64 seed -> ()",
        .methods = chain_methods,
        .destroy = free,
        .checkpoint = chain_checkpoint,
        .restore = chain_restore})
