/* `./dev bench gcs-history --out FILE`: what clients of a chain of three asked and heard while its members
 * and masters were killed, stopped and cut off, by a seed, each at least once; one JSON object a line
 * (gcs_history.h), for whoever wants to check it. It is judged here, too: the last line on standard output
 * says how. The masters' table is PostgreSQL's (chain_table.h).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/chain_table.h"
#include "bench/harness.h"
#include "common/base/clock.h"
#include "tests/support/chain_box.h"
#include "tests/support/gcs_load.h"

#define MEMBERS 3u
#define CLIENTS 8u
#define ANSWERS_MIN 500u /* after the last fault, so that a short run says something */
#define PATIENCE_NS (60 * MOB_SEC)
#define MORE_NS_MAX (30 * MOB_SEC) /* until a member was killed, one stopped and one cut off, or it fails */
#define FAULT_NS_MAX (300 * MOB_MS) /* how long somebody is stopped or cut off */

struct history_run {
    struct chain_table table;
    struct chain_box box;
    struct gcs_load load;
    struct fault_proxy *proxy;
    uint32_t kills, pauses, partitions, masters, clients;
};

static void tend(void *arg)
{
    chain_box_tend(&((struct history_run *)arg)->box);
}

static bool whole(struct history_run *r)
{
    int64_t deadline = mob_now() + PATIENCE_NS;
    while (!chain_box_wait_length(&r->box, MEMBERS, mob_now() - 1)) {
        if (mob_now() > deadline || r->load.wrong[0] != 0)
            return false;
        gcs_load_for(&r->load, 20 * MOB_MS);
    }
    return true;
}

static void for_a_while(struct history_run *r)
{
    gcs_load_for(&r->load, (int64_t)(gcs_load_random(&r->load) % (uint64_t)FAULT_NS_MAX));
}

static void cut_off(struct history_run *r, pid_t pid, uint64_t how)
{
    if (how != 0)
        fault_proxy_mute(r->proxy, pid);
    if (how != 1)
        fault_proxy_deafen(r->proxy, pid);
    for_a_while(r);
    fault_proxy_heal(r->proxy);
    r->partitions++;
}

static void one_fault(struct history_run *r)
{
    uint64_t random = gcs_load_random(&r->load) >> 16;
    pid_t *victim = &r->box.member[random % MEMBERS].gcs;
    if (*victim <= 0)
        return; /* it is not there just now */
    switch (random / MEMBERS % 6) {
    case 0:
    case 1:
        gcs_box_end(victim, SIGKILL);
        r->kills++;
        break;
    case 2:
        kill(*victim, SIGSTOP);
        for_a_while(r);
        kill(*victim, SIGCONT);
        r->pauses++;
        break;
    case 3:
        cut_off(r, *victim, random / 64 % 3);
        break;
    case 4:
        gcs_box_end(&r->box.master[random / 64 % 2], SIGKILL);
        r->masters++;
        break;
    default:
        gcs_load_crash_client(&r->load, (uint32_t)(random / 64 % CLIENTS));
        r->clients++;
        break;
    }
}

static bool each_happened(const struct history_run *r)
{
    return r->kills > 0 && r->pauses > 0 && r->partitions > 0;
}

static bool run(struct history_run *r, uint64_t seed, double seconds)
{
    chain_box_init(&r->box, MEMBERS, MEMBERS, BENCH_DURABILITY);
    r->proxy = fault_proxy_create(seed);
    chain_box_proxied(&r->box, r->proxy);
    r->box.masters = 2;
    r->box.postgres = chain_table_postgres(&r->table);
    chain_box_start(&r->box);
    if (!chain_box_wait_length(&r->box, MEMBERS, mob_now() + PATIENCE_NS))
        return false;
    struct gcs_load_options options = {
        .sockets = r->box.clients, .seed = seed, .clients = CLIENTS, .tend = tend, .arg = r};
    gcs_load_init(&r->load, &options);
    int64_t end = mob_now() + (int64_t)(seconds * 1e9);
    while (r->load.wrong[0] == 0 && mob_now() < end + (each_happened(r) ? 0 : MORE_NS_MAX)) {
        for_a_while(r);
        one_fault(r);
        gcs_load_for(&r->load, 50 * MOB_MS);
    }
    if (!whole(r))
        return false;
    gcs_load_steps(&r->load, ANSWERS_MIN, PATIENCE_NS);
    gcs_load_finish(&r->load, PATIENCE_NS);
    return r->load.wrong[0] == 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: mobula-bench gcs-history --out FILE [--seed N] [--seconds S]\n");
    return 2;
}

int bench_gcs_history(struct bench *b, int argc, char **argv)
{
    static struct history_run r;
    const char *out = NULL;
    uint64_t seed = 1;
    double seconds = 10;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage();
        if (strcmp(argv[i], "--out") == 0)
            out = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else
            return usage();
    }
    if (out == NULL)
        return usage();
    signal(SIGPIPE, SIG_IGN);
    setenv("MOBULA_BIN_DIR", b->options.binaries, 1);
    char table[128];
    if (!chain_table_open(b, "gcs-history", &r.table))
        return 1;
    chain_table_tell(&r.table, table, sizeof table);
    bool good = run(&r, seed, seconds);
    const struct gcs_history_verdict *v = &r.load.verdict;
    bool written = gcs_history_write(&r.load.history, out), all = each_happened(&r);
    if (!written)
        fprintf(stderr, "mobula-bench: %s cannot be written\n", out);
    if (!good)
        fprintf(stderr, "mobula-bench: %s\n",
            r.load.wrong[0] != 0 ? r.load.wrong : "the chain is not whole again");
    if (good && !all) /* a history of what is told would say nothing of what is not */
        fprintf(stderr,
            "mobula-bench: not each fault happened in time (%u kills, %u pauses, %u partitions): another "
            "seed, or more --seconds\n",
            r.kills, r.pauses, r.partitions);
    printf(
        "{\"seed\": %llu, \"operations\": %zu, \"unknown\": %zu, \"keys\": %zu, \"kills\": %u, \"pauses\": "
        "%u, \"partitions\": %u, \"masters_killed\": %u, \"clients_killed\": %u, \"longest_pause_ms\": "
        "%.1f, %s, \"linearizable\": %s}\n",
        (unsigned long long)seed, r.load.history.count, v->unknown, v->keys, r.kills, r.pauses, r.partitions,
        r.masters, r.clients, (double)r.load.longest_ns / 1e6, table, good ? "true" : "false");
    gcs_load_fini(&r.load);
    chain_box_fini(&r.box);
    fault_proxy_destroy(r.proxy);
    chain_table_close(&r.table);
    return good && written && all ? 0 : 1;
}
