/* gcs-bench: what the control store takes in, against Redis' own SET on the same kind of socket in the same
 * run.
 *
 *   gcs-bench [--seconds N] [--window N] [--argument BYTES] [--durability everysec|always|no]
 *
 * One log, real blocks of 128 specs and 128 completions (one i64 argument each, or so many bytes), `window`
 * unacknowledged; prints blocks and tasks a second, CPU of each process a block, and memory a task.
 */
#include <hiredis/hiredis.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/wire/block_format.h"
#include "tests/support/gcs_box.c" /* NOLINT(bugprone-suspicious-include): benches link no test library */

#define TASKS_IN_BLOCK 128u
#define POOL_BLOCKS 65536u

struct run {
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    uint64_t window, released;
    uint64_t acked, appended;
    uint8_t *template_bytes;
    uint32_t length;
    struct slot *free;
};
struct slot {
    struct mob_gcs_block block;
    struct slot *next;
    uint8_t bytes[];
};

static void on_acked(void *arg, uint64_t count)
{
    ((struct run *)arg)->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct run *r = arg;
    struct slot *slot = (struct slot *)block;
    slot->next = r->free;
    r->free = slot;
    r->released++;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    fprintf(stderr, "gcs-bench: log sealed: %s at %llu\n", mob_status_code(why), (unsigned long long)cut);
    exit(1);
}

/* The template with another sequence and stream, so that each block has groups of its own. */
static void stamp(struct run *r, uint8_t *bytes, uint64_t sequence)
{
    struct block_front front;
    memcpy(&front, bytes, sizeof front);
    front.sequence = sequence;
    uint8_t *stream = bytes + front.front_bytes;
    uint8_t *end = stream + front.zone_bytes;
    struct mob_stream plain = gcs_block_stream(1, 1);
    stream = memmem(stream, front.zone_bytes, &plain, 2);
    (void)end;
    if (stream != NULL)
        memcpy(stream + 2, &sequence, sizeof sequence);
    memcpy(bytes, &front, sizeof front);
    front.front_crc =
        mob_crc32c(bytes + BLOCK_CRC_FROM, front.front_bytes - BLOCK_CRC_FROM + front.zone_bytes);
    memcpy(bytes, &front, sizeof front);
    (void)r;
}

static bool append_one(struct run *r)
{
    struct slot *slot = r->free;
    if (slot == NULL) {
        if (r->appended - r->released >= POOL_BLOCKS)
            return false;
        slot = malloc(sizeof *slot + r->length);
        memcpy(slot->bytes, r->template_bytes, r->length);
    } else {
        r->free = slot->next;
    }
    stamp(r, slot->bytes, r->appended);
    slot->block = (struct mob_gcs_block){.bytes = slot->bytes, .length = r->length};
    if (mob_gcs_log_append(r->log, &slot->block) != MOB_OK) {
        slot->next = r->free;
        r->free = slot;
        return false;
    }
    r->appended++;
    return true;
}

static double redis_set_rate(const char *directory, uint32_t length, unsigned window, double seconds)
{
    char path[128], password[160] = "";
    snprintf(path, sizeof path, "%s/redis.pass", directory);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(password, sizeof password, file) == NULL)
        return 0;
    fclose(file);
    snprintf(path, sizeof path, "%s/redis.sock", directory);
    redisContext *c = redisConnectUnix(path);
    freeReplyObject(redisCommand(c, "AUTH mobula %s", password));
    uint8_t *value = calloc(1, length);
    uint64_t n = 0;
    int64_t start = mob_now();
    for (unsigned i = 0; i < window; i++)
        redisAppendCommand(c, "SET k%llu %b", (unsigned long long)n++, value, (size_t)length);
    while (mob_now() - start < (int64_t)(seconds * 1e9)) {
        for (unsigned i = 0; i < window; i++) {
            void *reply;
            if (redisGetReply(c, &reply) != REDIS_OK)
                return 0;
            freeReplyObject(reply);
        }
        for (unsigned i = 0; i < window; i++)
            redisAppendCommand(c, "SET k%llu %b", (unsigned long long)(n++ % 20000), value, (size_t)length);
    }
    double rate = (double)(n - window) / ((double)(mob_now() - start) / 1e9);
    redisFree(c);
    free(value);
    return rate;
}

static struct mob_gcs_stats stats_of(struct mob_gcs *gcs)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    MOB_ASSERT(mob_gcs_stats(gcs, mob_gcs_sync_done, &sync) == MOB_OK);
    MOB_ASSERT(mob_gcs_sync_wait(gcs, &sync, mob_now() + 10 * MOB_SEC, &result) == MOB_OK);
    struct mob_gcs_stats stats = *mob_gcs_result_answer(result)->stats;
    mob_gcs_result_destroy(result);
    return stats;
}

static void wait_until(struct run *r, bool durable)
{
    while (durable ? r->released < r->appended : r->acked < r->appended) {
        struct pollfd p = {.fd = mob_gcs_fd(r->gcs), .events = POLLIN};
        mob_gcs_step(r->gcs, mob_now());
        poll(&p, 1, 100);
    }
}

static void run_load(struct run *r, double seconds)
{
    int64_t end = mob_now() + (int64_t)(seconds * 1e9);
    while (mob_now() < end) {
        while (r->appended - r->acked < r->window && append_one(r)) {
        }
        mob_gcs_step(r->gcs, mob_now());
        if (r->appended - r->acked >= r->window || r->appended - r->released >= POOL_BLOCKS) {
            struct pollfd p = {.fd = mob_gcs_fd(r->gcs), .events = POLLIN};
            poll(&p, 1, 100);
        }
    }
    wait_until(r, false);
}

int main(int argc, char **argv)
{
    double seconds = 3;
    unsigned window = 32, argument = 0;
    const char *durability = "everysec";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--window") == 0)
            window = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--argument") == 0)
            argument = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--durability") == 0)
            durability = argv[i + 1];
    }
    signal(SIGPIPE, SIG_IGN);
    struct gcs_box box, plain;
    uint8_t *block = malloc(MOB_BLOCK_BYTES_MAX);
    struct run r = {.window = window};
    gcs_box_init(&plain, durability);
    gcs_box_start_redis(&plain);
    gcs_box_init(&box, durability);
    box.args[0] = "--gcs-hard-bytes", box.args[1] = "8000000000", box.args[2] = "--gcs-soft-bytes",
    box.args[3] = "8000000000";
    gcs_box_start(&box);
    r.gcs = gcs_box_client(&box);
    uint64_t incarnation = 0;
    MOB_ASSERT(mob_gcs_node_register_wait(r.gcs, "bench", mob_now() + 10 * MOB_SEC, &incarnation) == MOB_OK);
    struct gcs_block_spec spec = {.incarnation = incarnation,
        .job = 1,
        .stream = 1,
        .tasks = TASKS_IN_BLOCK,
        .specs = true,
        .finals = true,
        .argument_bytes = argument};
    r.length = gcs_block_make(&spec, block, MOB_BLOCK_BYTES_MAX);
    r.template_bytes = block;
    double set = redis_set_rate(plain.directory, r.length, window, seconds / 2);
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, &r};
    MOB_ASSERT(mob_gcs_log_open(r.gcs, incarnation, 0, &events, &r.log) == MOB_OK);
    struct mob_gcs_stats before = stats_of(r.gcs);
    int64_t gcs_cpu = gcs_box_cpu_ns(box.gcs), redis_cpu = gcs_box_cpu_ns(box.redis),
            own_cpu = mob_thread_cpu_now();
    int64_t start = mob_now();
    run_load(&r, seconds);
    double took = (double)(mob_now() - start) / 1e9, n = (double)r.acked;
    own_cpu = mob_thread_cpu_now() - own_cpu;
    gcs_cpu = gcs_box_cpu_ns(box.gcs) - gcs_cpu;
    redis_cpu = gcs_box_cpu_ns(box.redis) - redis_cpu;
    wait_until(&r, true);
    double durable = (double)(mob_now() - start) / 1e9;
    poll(NULL, 0, 2200); /* two measurements of Redis' memory, and the trim of the member's buffers */
    struct mob_gcs_stats after = stats_of(r.gcs);
    double tasks = n * TASKS_IN_BLOCK;
    double memory =
        (double)(after.redis_bytes + after.member_bytes) - (double)(before.redis_bytes + before.member_bytes);
    printf("durability %s, block %u bytes of %u tasks, window %u\n", durability, r.length, TASKS_IN_BLOCK,
        window);
    printf("redis SET pipelined    %9.0f /s\n", set);
    printf("blocks acknowledged    %9.0f /s   ratio %.2f   %.2f M finished tasks/s   %.0f MB/s\n", n / took,
        n / took / set, tasks / took / 1e6, n * r.length / took / 1e6);
    printf("all durable after      %9.2f s of %.2f\n", durable, took);
    printf(
        "cpu a block            client %.2f us, mobula-gcs %.2f us, redis %.2f us; %.2f cores of the store\n",
        (double)own_cpu / n / 1e3, (double)gcs_cpu / n / 1e3, (double)redis_cpu / n / 1e3,
        (double)(gcs_cpu + redis_cpu) / 1e9 / took);
    printf("memory a task          %.1f B (redis %.1f, member %.1f), block bytes %.1f\n", memory / tasks,
        (double)(after.redis_bytes - before.redis_bytes) / tasks,
        ((double)after.member_bytes - (double)before.member_bytes) / tasks,
        r.length / (double)TASKS_IN_BLOCK);
    mob_gcs_destroy(r.gcs);
    gcs_box_fini(&box);
    gcs_box_fini(&plain);
    return 0;
}
