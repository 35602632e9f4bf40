/* A node of another machine, as the control store sees it: writes a log in each shard of a running cluster.
 *
 *   mobula-log-writer DIR NAME ROUNDS TASKS [PAUSE_MS [FUNCTION_ID]]
 *
 * Registers incarnations until it has one at home in each shard, then appends ROUNDS blocks of TASKS finished
 * tasks each, called NAME (of a function that is none, or of FUNCTION_ID), the next one only after the one
 * before was acknowledged: so the order of their times is known. Writes "SHARD TASK_ID" for each task in that
 * order, then seals its logs and says that they are recovered.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/state_dir.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/block.h"
#include "gcs/client/client_sync.h"

#define ANSWER_NS (60 * MOB_SEC)

struct log {
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked;
    struct mob_job_id job;
    uint32_t tasks;
};
struct writer {
    struct mob_gcs *gcs;
    struct mob_cluster_id cluster;
    struct mob_block_encoder *encoder;
    const char *name;
    struct mob_function_id function;
    struct log logs[MOB_GCS_SHARDS_MAX];
    uint32_t shards;
    int64_t wall_less_mono_ns; /* one for a log, as with a node */
};
struct slot {
    struct mob_gcs_block block;
    uint8_t bytes[MOB_BLOCK_BYTES_MAX];
};

static void on_acked(void *arg, uint64_t count)
{
    ((struct log *)arg)->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    (void)arg;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    (void)cut;
    fprintf(stderr, "sealed: %s\n", mob_status_code(why));
}

static void need(enum mob_status status, const char *what)
{
    if (status == MOB_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, mob_status_code(status));
    exit(1);
}

static void open_logs(struct writer *w)
{
    static const struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, NULL};
    uint32_t open = 0;
    for (uint32_t i = 0; open < w->shards && i < 4 * w->shards; i++) {
        char node[64];
        uint64_t incarnation;
        snprintf(node, sizeof node, "%s-%u", w->name, i);
        need(mob_gcs_node_register_wait(w->gcs, node, mob_now() + ANSWER_NS, &incarnation), "register");
        struct log *log = &w->logs[mob_gcs_home_shard(w->gcs, incarnation)];
        if (log->log) { /* that shard has one */
            need(mob_gcs_log_seal_wait(w->gcs, incarnation, mob_now() + ANSWER_NS, NULL), "seal");
            continue;
        }
        struct mob_gcs_log_events own = events;
        own.arg = log;
        log->incarnation = incarnation;
        memcpy(&log->job, &(uint64_t){incarnation + ((uint64_t)mob_wall_now() << 8)}, 8);
        need(mob_gcs_log_open(w->gcs, incarnation, 0, &own, &log->log), "open");
        open++;
    }
    need(open == w->shards ? MOB_OK : MOB_NOT_FOUND, "a log in each shard");
}

static void add_task(struct writer *w, struct log *log)
{
    _Alignas(8) uint8_t tail[256], body[64];
    int64_t argument = log->tasks, now = mob_now();
    struct mob_tail_builder builder;
    mob_tail_begin(&builder, tail, sizeof tail);
    mob_tail_add_value(&builder, MOB_TYPE_I64, &argument, sizeof argument);
    mob_tail_add_ext(&builder, MOB_EXT_NAME, w->name, (uint32_t)strlen(w->name));
    struct mob_spec_head head = {.version = MOB_SPEC_VERSION,
        .kind = MOB_KIND_TASK,
        .runtime = MOB_RUNTIME_C,
        .num_returns = 1,
        .task = {log->job.root, log->tasks++},
        .job = log->job,
        .function = w->function,
        .max_retries = 3,
        .cpu = 10000,
        .attempt = 1};
    struct mob_return_view ret = {
        .type = MOB_TYPE_I64, .size = sizeof argument, .payload = (const uint8_t *)&argument};
    struct mob_completion_head end = {.version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .return_count = 1,
        .task = head.task,
        .attempt = 1,
        .worker = 1,
        .submitted_ns = now,
        .ready_ns = now,
        .dispatched_ns = now,
        .started_ns = now,
        .finished_ns = now + 1,
        .body_bytes = mob_return_encode(body, 0, sizeof body, &ret)};
    need(mob_block_add_spec(w->encoder, &head, tail, mob_tail_end(&builder), now), "a spec");
    need(mob_block_add_completion(w->encoder, &end, body), "a completion");
    char id[MOB_ID_TEXT_MAX];
    printf("%u %s\n", mob_gcs_home_shard(w->gcs, log->incarnation), mob_task_id_format(head.task, id));
}

static void append_block(struct writer *w, struct log *log, uint32_t tasks)
{
    struct slot *slot = calloc(1, sizeof *slot);
    MOB_ASSERT(slot != NULL);
    struct mob_block_header header = {.version = MOB_BLOCK_VERSION,
        .cluster = w->cluster,
        .incarnation = log->incarnation,
        .sequence = log->appended,
        .job = log->job,
        .ns = "default",
        .mono_ns = mob_now()};
    header.wall_ns = header.mono_ns + w->wall_less_mono_ns;
    mob_block_begin(w->encoder, &header);
    for (uint32_t i = 0; i < tasks; i++)
        add_task(w, log);
    slot->block.bytes = slot->bytes;
    slot->block.length = mob_block_end(w->encoder, slot->bytes);
    need(mob_gcs_log_append(log->log, &slot->block), "append");
    log->appended++;
    int64_t deadline = mob_now() + ANSWER_NS;
    while (log->acked < log->appended && mob_now() < deadline) {
        mob_gcs_step(w->gcs, mob_now());
        struct pollfd p = {.fd = mob_gcs_fd(w->gcs), .events = POLLIN};
        poll(&p, 1, 5);
    }
    need(log->acked == log->appended ? MOB_OK : MOB_TIMEOUT, "acknowledgement");
}

/* Runs of different lengths in each shard. */
static uint32_t shard_of_round(const struct writer *w, uint32_t round)
{
    return (round / 3 + round) % w->shards;
}

int main(int argc, char **argv)
{
    char addresses[STATE_ADDRESSES_MAX];
    struct writer w = {.encoder = mob_block_encoder_create()};
    if (argc < 5 || argc > 7 || !w.encoder) {
        fprintf(stderr, "usage: mobula-log-writer DIR NAME ROUNDS TASKS [PAUSE_MS [FUNCTION_ID]]\n");
        return 2;
    }
    long pause_ms = argc > 5 ? atol(argv[5]) : 0;
    uint32_t rounds = (uint32_t)atol(argv[3]), tasks = (uint32_t)atol(argv[4]);
    w.name = argv[2];
    if (argc > 6)
        need(mob_function_id_parse(argv[6], &w.function), "a function's id");
    w.wall_less_mono_ns = (mob_wall_now() - mob_now()) / 1000 * 1000;
    need(state_dir_cluster(argv[1], &w.cluster), "the cluster's id");
    uint8_t secret[STATE_SECRET_BYTES];
    need(state_dir_secret(argv[1], secret), "the cluster's secret");
    struct mob_gcs_options options = {
        .socket_path = state_gcs_addresses(argv[1], addresses), .cluster = w.cluster, .secret = secret};
    need(mob_gcs_create(&options, &w.gcs), "a client");
    w.shards = mob_gcs_shard_count(w.gcs);
    open_logs(&w);
    for (uint32_t round = 0; round < rounds; round++) {
        append_block(&w, &w.logs[shard_of_round(&w, round)], tasks);
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
    }
    for (uint32_t i = 0; i < w.shards; i++) {
        struct mob_gcs_sync sync = {0};
        need(mob_gcs_log_seal_wait(w.gcs, w.logs[i].incarnation, mob_now() + ANSWER_NS, NULL), "seal");
        need(mob_gcs_log_recovered(w.gcs, w.logs[i].incarnation, mob_gcs_sync_done, &sync), "recovered");
        need(mob_gcs_sync_wait(w.gcs, &sync, mob_now() + ANSWER_NS, NULL), "recovered");
    }
    mob_gcs_destroy(w.gcs);
    mob_block_encoder_destroy(w.encoder);
    return 0;
}
