#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLOSE_NS (2 * MOB_US)
#define TRIES 16
#define OFFSET_S_MAX (100ll * 366 * 86400)

int64_t mob_wall_offset_ns;

__attribute__((constructor)) static void read_offset(void)
{
    const char *text = getenv("MOBULA_TEST_WALL_OFFSET_S");
    if (text == NULL)
        return;
    char *end;
    long long seconds = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || seconds > OFFSET_S_MAX || seconds < -OFFSET_S_MAX) {
        fprintf(stderr, "MOBULA_TEST_WALL_OFFSET_S: cannot parse \"%s\"; expected seconds\n", text);
        _exit(2);
    }
    mob_wall_offset_ns = seconds * MOB_SEC;
}

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
