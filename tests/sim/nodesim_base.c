/* What the world of nodesim stands on: chance and messages. */
#include "tests/sim/nodesim.h"

struct nodesim world;

void nodesim_count(enum nodesim_cover what)
{
    world.cover[what]++;
}

uint64_t nodesim_draw(void)
{
    uint64_t x = world.rng[0], y = world.rng[1];
    world.rng[0] = y;
    x ^= x << 23;
    world.rng[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
    return world.rng[1] + y;
}

uint64_t nodesim_below(uint64_t n)
{
    return nodesim_draw() % n;
}

bool nodesim_chance(double p)
{
    return (double)(nodesim_draw() >> 11) / 9007199254740992.0 < p;
}

void nodesim_fail(const char *format, ...)
{
    if (world.failed)
        return;
    va_list list;
    va_start(list, format);
    world.failed = true;
    vsnprintf(world.why, sizeof world.why, format, list);
    va_end(list);
}

void nodesim_put(struct event e, int64_t delay)
{
    if (world.event_count == EVENTS_MAX) {
        nodesim_fail("too many events");
        return;
    }
    e.at = world.now + delay;
    e.order = ++world.order;
    world.events[world.event_count++] = e;
}

struct mob_node_log *nodesim_copy_of(const struct event *e)
{
    struct mob_node_log *logs = malloc((e->count + 1) * sizeof *logs);
    if (e->count > 0)
        memcpy(logs, e->logs, e->count * sizeof *logs);
    return logs;
}

/* Lost, late, or twice; in a calm network only late. */
void nodesim_send_event(struct event e, bool may_double)
{
    double loss = world.healing ? 0 : 0.04;
    if (nodesim_chance(loss)) {
        nodesim_count(NODESIM_FAULT_LOST);
        free(e.logs);
        free(e.seals);
        return;
    }
    bool late = nodesim_chance(0.05);
    int64_t delay = (int64_t)nodesim_below((uint64_t)(late ? 120 * MS : 12 * MS));
    if (late)
        nodesim_count(NODESIM_FAULT_LATE);
    if (may_double && !world.healing && nodesim_chance(0.03)) {
        struct event twin = e;
        if (e.logs != NULL)
            twin.logs = nodesim_copy_of(&e);
        twin.seals = NULL;
        if (e.seals == NULL) {
            nodesim_count(NODESIM_FAULT_DOUBLED);
            nodesim_put(twin, (int64_t)nodesim_below(150 * MS));
        } else
            free(twin.logs);
    }
    nodesim_put(e, delay); // NOLINT(clang-analyzer-unix.Malloc): the queue owns the copies now
} // NOLINT(clang-analyzer-unix.Malloc): as above
