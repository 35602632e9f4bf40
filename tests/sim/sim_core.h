/* Random numbers, time and events of one run: sim_core.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_CORE_H
#define MOB_TESTS_SIM_SIM_CORE_H

#include "tests/sim/sim.h"
#include "tests/sim/sim_cover.h"

enum sim_node_kind { SIM_MEMBER, SIM_MASTER, SIM_DATABASE, SIM_CLIENT };
/* A process slot: what may be killed, stopped and cut off. */
struct sim_node {
    enum sim_node_kind kind;
    uint32_t index; /* among its kind */
    uint32_t life; /* events for an older one are void */
    bool up;
    int64_t paused_until;
    int64_t clock_offset;
    double clock_rate;
};

enum sim_event_type {
    SIM_EV_MESSAGE,
    SIM_EV_TICK, /* of a process */
    SIM_EV_HEARTBEAT,
    SIM_EV_STORED, /* the store of a member answered; a = write number */
    SIM_EV_SYNC, /* a member's disk: a sync begins or ends */
    SIM_EV_ROWS, /* the owner's rows of a snapshot are read */
    SIM_EV_RESTART, /* a process slot gets a new life */
    SIM_EV_FAULT,
    SIM_EV_ALL_OFF,
    SIM_EV_HEAL
};
struct sim_msg;
struct sim_event {
    int64_t at;
    uint64_t order;
    uint8_t type; /* enum sim_event_type */
    uint8_t node;
    uint32_t life; /* of the node; 0 = any */
    uint64_t a;
    struct sim_msg *message;
};

uint64_t sim_random(struct sim *s);
uint64_t sim_below(struct sim *s, uint64_t n);
int64_t sim_between(struct sim *s, int64_t low, int64_t high);
bool sim_chance(struct sim *s, double p);
void sim_at(struct sim *s, int64_t delay, struct sim_event event);
/* A node's own monotonic clock. */
int64_t sim_clock(const struct sim *s, const struct sim_node *node);
void sim_cover_add(struct sim *s, enum sim_cover what);
/* A rule is broken: ends the run. */
_Noreturn void sim_fail(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define SIM_TRACE(s, ...) \
    do { \
        if (sim_traces(s)) \
            sim_trace((s), __VA_ARGS__); \
    } while (0)
bool sim_traces(const struct sim *s);
#define SIM_CHECK(s, condition, ...) \
    do { \
        if (!(condition)) \
            sim_fail((s), __VA_ARGS__); \
    } while (0)

#endif
