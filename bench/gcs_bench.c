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

#include "bench/block_load.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/gcs_box.h"

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
    struct block_load r;
    gcs_box_init(&plain, durability);
    gcs_box_start_redis(&plain);
    gcs_box_init(&box, durability);
    box.args[0] = "--gcs-hard-bytes", box.args[1] = "8000000000", box.args[2] = "--gcs-soft-bytes",
    box.args[3] = "8000000000";
    gcs_box_start(&box);
    block_load_open(&r, gcs_box_client(&box), window, argument);
    double set = redis_set_rate(plain.directory, r.length, window, seconds / 2);
    struct mob_gcs_stats before = gcs_box_stats(r.gcs);
    int64_t gcs_cpu = gcs_box_cpu_ns(box.gcs), redis_cpu = gcs_box_cpu_ns(box.redis),
            own_cpu = mob_thread_cpu_now();
    int64_t start = mob_now();
    block_load_run(&r, seconds);
    double took = (double)(mob_now() - start) / 1e9, n = (double)r.acked;
    own_cpu = mob_thread_cpu_now() - own_cpu;
    gcs_cpu = gcs_box_cpu_ns(box.gcs) - gcs_cpu;
    redis_cpu = gcs_box_cpu_ns(box.redis) - redis_cpu;
    block_load_wait(&r, true);
    double durable = (double)(mob_now() - start) / 1e9;
    poll(NULL, 0, 2200); /* two measurements of Redis' memory, and the trim of the member's buffers */
    struct mob_gcs_stats after = gcs_box_stats(r.gcs);
    double tasks = n * BLOCK_LOAD_TASKS;
    double memory =
        (double)(after.redis_bytes + after.member_bytes) - (double)(before.redis_bytes + before.member_bytes);
    printf("durability %s, block %u bytes of %u tasks, window %u\n", durability, r.length, BLOCK_LOAD_TASKS,
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
        r.length / (double)BLOCK_LOAD_TASKS);
    mob_gcs_destroy(r.gcs);
    block_load_fini(&r);
    gcs_box_fini(&box);
    gcs_box_fini(&plain);
    return 0;
}
