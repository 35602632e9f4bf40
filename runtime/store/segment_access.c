#include "runtime/store/segment_access.h"

#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static uint64_t kill_at, passages;
static int last_signal;
static void (*rival)(const struct mob_segment_site *site, void *arg);
static void *rival_arg;
static bool rival_acts;

/* The linker's. Weak: without a site there is no section. */
extern struct mob_segment_site *const __start_mob_seg_sites[]
    __attribute__((weak)); // NOLINT: the linker's names
extern struct mob_segment_site *const __stop_mob_seg_sites[] __attribute__((weak)); // NOLINT

struct mob_segment_site *const *mob_segment_sites(size_t *count_out)
{
    *count_out = (size_t)(__stop_mob_seg_sites - __start_mob_seg_sites);
    return __start_mob_seg_sites;
}

void mob_segment_passage(struct mob_segment_site *site)
{
    if (kill_at == 0)
        return;
    if (rival && !rival_acts) {
        rival_acts = true;
        rival(site, rival_arg);
        rival_acts = false;
    }
    site->passages++;
    if (++passages == kill_at)
        kill(getpid(), last_signal);
}

void mob_segment_kill_at(uint64_t passage)
{
    size_t count;
    struct mob_segment_site *const *sites = mob_segment_sites(&count);
    for (size_t i = 0; i < count; i++)
        sites[i]->passages = 0;
    kill_at = passage;
    passages = 0;
    last_signal = SIGKILL;
}

void mob_segment_stop_at(uint64_t passage)
{
    mob_segment_kill_at(passage);
    last_signal = SIGSTOP;
}

uint64_t mob_segment_passages(void)
{
    return passages;
}

void mob_segment_set_rival(void (*act)(const struct mob_segment_site *site, void *arg), void *arg)
{
    rival = act;
    rival_arg = arg;
    rival_acts = false; /* one that sets itself again hands over to coroutines, whose stores count, too */
}
