#include "tests/support/faults.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/chain_fill.h"

#define FILL_NS (300 * MOB_SEC)

/* Configurations that lost a member, in all masters' logs. */
static uint32_t evictions(struct stage *s)
{
    char path[128], line[1024];
    uint32_t count = 0, before = 0, members;
    snprintf(path, sizeof path, "%s/master.0.log", s->box.directory);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "configuration status=ok");
        if (at == NULL || sscanf(strstr(at, "members="), "members=%u", &members) != 1)
            continue;
        count += members < before;
        before = members;
    }
    if (file != NULL)
        fclose(file);
    return count;
}

/* Who has no core for long may be left out; a minute may see that once. */
void fault_four_busy_loops(struct stage *s)
{
    pid_t loops[4];
    int64_t time = stage_seconds("MOBULA_CHAOS_BUSY_S", 3), minutes = time / (60 * MOB_SEC);
    uint32_t before = evictions(s);
    for (int i = 0; i < 4; i++) {
        loops[i] = fork();
        if (loops[i] == 0)
            for (int64_t end = mob_now() + time + MOB_SEC;;)
                if (mob_now() > end) /* whatever becomes of the test */
                    _exit(0);
    }
    gcs_load_for(&s->load, time);
    for (int i = 0; i < 4; i++)
        gcs_box_end(&loops[i], SIGKILL);
    uint32_t count = evictions(s) - before;
    print_message("%u evictions in %lld s of four busy loops, suspicion %d ms\n", count,
        (long long)(time / MOB_SEC), s->box.suspicion_ms);
    stage_good(s); /* each was safe */
    if (count > (minutes > 1 ? minutes : 1))
        stage_failed(s, "more than one eviction a minute");
}

/* ---- large members ---- */

static void fill(struct stage *s, struct chain_fill *f)
{
    const char *mib = getenv("MOBULA_CHAOS_RESIDENT_MIB");
    uint64_t bytes = (mib == NULL ? 32 : strtoull(mib, NULL, 10)) << 20;
    int64_t deadline = mob_now() + FILL_NS;
    chain_fill_open(f, &s->box);
    while (!chain_fill_step(f, bytes)) {
        gcs_load_for(&s->load, MOB_MS);
        stage_good(s);
        if (mob_now() > deadline)
            stage_failed(s, "the chain does not become large");
    }
    if (f->wrong[0] != 0)
        stage_failed(s, f->wrong);
}

static uint64_t large_bytes;

/* By what their Redis say, which members ask for now and then. */
static bool all_are_large(struct stage *s)
{
    for (uint32_t i = 0; i < s->box.members; i++) {
        struct mob_gcs_stats stats = {0};
        if (!stage_stats(s, (int)i, &stats) || stats.redis_bytes < large_bytes)
            return false;
    }
    return stage_is_whole(s);
}

/* The tail dies, with its Redis or without, when the chain is large; so is who takes its place, and no block
 * is missing. */
void fault_large_tail_dies(struct stage *s)
{
    struct chain_fill f;
    fill(s, &f);
    large_bytes = f.bytes;
    stage_until(s, all_are_large, "not all members are large before the fault");
    stage_pause_up_to(s, 100 * MOB_MS);
    int tail = stage_slot_at(s, true);
    bool with_redis = stage_draw(s);
    int64_t killed_ns = mob_now();
    stage_end_member(s, tail);
    if (with_redis)
        stage_end_redis(s, tail);
    stage_steps(s);
    int64_t served_ns = mob_now();
    stage_whole_again(s);
    print_message("%llu MiB in %llu blocks, the tail dies%s: served after %lld ms, whole after %lld\n",
        (unsigned long long)(f.bytes >> 20), (unsigned long long)f.appended,
        with_redis ? " with its Redis" : "", (long long)((served_ns - killed_ns) / MOB_MS),
        (long long)((mob_now() - killed_ns) / MOB_MS));
    stage_compare_members(s);
    stage_until(s, all_are_large, "not all members are large again");
    const char *wrong = chain_fill_check(&f, &s->box, mob_now() + PATIENCE_NS);
    s->load.progress_ns = mob_now();
    if (wrong[0] != 0)
        stage_failed(s, f.wrong);
    chain_fill_close(&f);
}
