/* One seed from beginning to end. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define WHOLE_WITHIN_NS (4000 * SIM_MS)
#define OPERATIONS_LEAST 60u

static jmp_buf end;

jmp_buf *sim_end(void)
{
    return &end;
}

static struct sim_node *add_node(struct sim *s, enum sim_node_kind kind, uint32_t index)
{
    struct sim_node *n = &s->nodes[s->node_count++];
    *n = (struct sim_node){.kind = kind, .index = index, .life = 1};
    n->clock_offset = sim_between(s, 1, 1000 * SIM_MS);
    n->clock_rate = 1.0 + ((double)sim_below(s, 2001) - 1000) * 1e-5; /* a hundredth apart at most */
    return n;
}

static void populate(struct sim *s)
{
    for (uint32_t i = 0; i < s->plan.slots; i++) {
        s->members[i].slot = i;
        s->members[i].node = add_node(s, SIM_MEMBER, i);
    }
    for (uint32_t i = 0; i < SIM_MASTERS; i++) {
        s->masters[i].number = (uint8_t)s->node_count;
        s->masters[i].node = add_node(s, SIM_MASTER, i);
    }
    s->database.number = (uint8_t)s->node_count;
    s->database.node = add_node(s, SIM_DATABASE, 0);
    s->database.node->up = true;
    for (uint32_t i = 0; i < s->plan.clients; i++) {
        struct sim_client *c = &s->clients[i];
        c->number = (uint8_t)s->node_count;
        c->node = add_node(s, SIM_CLIENT, i);
        c->window = 1 + (uint32_t)sim_below(s, 12);
        c->get_share = 0.2 + 0.5 * (double)sim_below(s, 100) / 100;
        c->has_log = sim_chance(s, 0.5);
        c->watches = sim_chance(s, 0.4);
        c->flushes = sim_chance(s, 0.4);
        c->think_ns = sim_between(s, 5 * SIM_MS, 60 * SIM_MS);
    }
}

static void start_node(struct sim *s, struct sim_node *n)
{
    n->up = true;
    switch (n->kind) {
    case SIM_MEMBER:
        sim_member_start(s, &s->members[n->index]);
        break;
    case SIM_MASTER:
        sim_master_start(s, &s->masters[n->index]);
        break;
    case SIM_CLIENT:
        sim_client_start(s, &s->clients[n->index]);
        break;
    case SIM_DATABASE:
        break;
    }
}

/* Each message that there is has its counter. */
#define COUNTED(name, text, minimum) \
    _Static_assert((int)SIM_MSG_##name - (int)SIM_MSG_CHAIN == (int)SIM_##name - (int)SIM_CHAIN, #name);
SIM_MESSAGES(COUNTED)
#undef COUNTED
_Static_assert(SIM_MSG_ROWS + 1 - SIM_MSG_CHAIN == SIM_MSG_TYPES - SIM_CHAIN, "a message is not counted");

static void on_message(struct sim *s, struct sim_node *n, const struct sim_msg *msg)
{
    sim_cover_add(s, (enum sim_cover)(SIM_MSG_CHAIN + (msg->type - SIM_CHAIN)));
    switch (n->kind) {
    case SIM_MEMBER:
        sim_member_message(s, &s->members[n->index], msg);
        break;
    case SIM_MASTER:
        sim_master_message(s, &s->masters[n->index], msg);
        break;
    case SIM_DATABASE:
        if (msg->type == SIM_DB)
            sim_database_message(s, msg);
        break;
    case SIM_CLIENT:
        sim_client_message(s, &s->clients[n->index], msg);
        break;
    }
}

static void on_event(struct sim *s, struct sim_node *n, const struct sim_event *e)
{
    if (e->type == SIM_EV_MESSAGE)
        on_message(s, n, e->message);
    else if (e->type == SIM_EV_RESTART)
        start_node(s, n);
    else if (n->kind == SIM_MEMBER)
        sim_member_event(s, &s->members[n->index], e);
    else if (n->kind == SIM_MASTER)
        sim_master_tick(s, &s->masters[n->index]);
    else if (n->kind == SIM_CLIENT)
        sim_client_tick(s, &s->clients[n->index]);
}

/* False: the run is over. */
static bool step(struct sim *s)
{
    struct sim_event e;
    if (!sim_pop(s, &e))
        return false;
    s->now = e.at;
    s->result->events++;
    if (e.type == SIM_EV_ALL_OFF) {
        sim_all_off(s);
    } else if (e.type == SIM_EV_FAULT) {
        if (!s->healing)
            sim_fault(s);
    } else if (e.type == SIM_EV_HEAL) {
        sim_heal(s);
    } else {
        struct sim_node *n = &s->nodes[e.node];
        bool stale = e.life != 0 && e.life != n->life;
        if (!stale && n->paused_until > s->now && n->up) {
            sim_defer(s, &e, n->paused_until);
            return true;
        }
        if (!stale && (n->up || e.type == SIM_EV_RESTART))
            on_event(s, n, &e);
        free(e.message);
    }
    sim_check_step(s);
    return true;
}

static void play(struct sim *s)
{
    int64_t deadline = s->plan.duration + WHOLE_WITHIN_NS;
    int64_t look_at = 0;
    while (step(s)) {
        if (!s->healing || s->now < look_at)
            continue;
        look_at = s->now + SIM_MS;
        if (sim_is_whole(s))
            break;
        if (s->now < deadline)
            continue;
        char missing[360];
        sim_tell_missing(s, missing, sizeof missing);
        s->result->stuck = true;
        sim_fail(s, "not whole: %s", missing);
    }
    sim_check_whole(s);
    sim_history_check(s);
}

static void fini(struct sim *s)
{
    for (uint32_t i = 0; i < s->plan.slots; i++)
        sim_member_fini(&s->members[i]);
    for (uint32_t i = 0; i < SIM_MASTERS; i++)
        if (s->masters[i].membership != NULL)
            sim_master_stop(s, &s->masters[i]);
    for (uint32_t i = 0; i < s->plan.clients; i++)
        sim_client_fini(&s->clients[i]);
    for (size_t i = 0; i < s->heap_count; i++)
        free(s->heap[i].message);
    free(s->heap);
    free(s->named);
    free(s->history);
    free(s->answers);
    free(s->dropped);
    free(s->database.cold);
    free(s->registered);
    free(s->versions);
    free(s->lost);
    free(s->excused);
    free(s->gone);
    free(s);
}

void sim_run(const struct sim_setup *setup, struct sim_result *result_out)
{
    struct sim *volatile s = calloc(1, sizeof *s);
    *result_out = (struct sim_result){0};
    s->setup = *setup;
    s->result = result_out;
    s->next_store = 1;
    s->now = SIM_MS;
    if (setjmp(end) == 0) {
        sim_seed(s, setup->seed);
        sim_faults_plan(s);
        populate(s);
        for (uint32_t i = 0; i < s->node_count; i++)
            if (s->nodes[i].kind != SIM_DATABASE)
                start_node(s, &s->nodes[i]);
        sim_at(s, 100 * SIM_MS, (struct sim_event){.type = SIM_EV_FAULT});
        sim_at(s, s->plan.duration, (struct sim_event){.type = SIM_EV_HEAL});
        play(s);
    }
    result_out->virtual_ns = s->now;
    result_out->is_void = !result_out->failed && result_out->operations < OPERATIONS_LEAST;
    fini(s);
}
