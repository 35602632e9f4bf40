#include "common/base/clock.h"

#define CLOSE_NS (2 * MOB_US)
#define TRIES 16

int64_t mob_clocks_apart(int64_t (*mono)(void), int64_t (*wall)(void))
{
    int64_t apart = 0, closest = INT64_MAX;
    for (int i = 0; i < TRIES && closest > CLOSE_NS; i++) {
        int64_t before = mono(), then = wall(), took = mono() - before;
        if (took < closest) {
            closest = took;
            apart = then - (before + took / 2);
        }
    }
    return apart;
}

int64_t mob_wall_minus_mono(void)
{
    return mob_clocks_apart(mob_now, mob_wall_now);
}
