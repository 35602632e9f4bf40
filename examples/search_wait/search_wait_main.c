/* A search that keeps a few experiments running, and after each step that is ready (whichever it is: wait)
 * decides whether that one goes on or makes room for the next.
 *
 *   example_search_wait [MODULE_FILE]       default build/release/modules/search_wait.so
 */
#include <mobula/mobula.h>

#include <math.h>
#include <stdio.h>

#define RUNNING 5
#define EXPERIMENTS 20
#define STEPS_MAX 8
#define PATIENCE_STEPS 3

struct experiment {
    struct mob_actor *actor;
    struct mob_future *step; /* that is running */
    double learning_rate;
    double accuracy;
    int steps;
};

static struct mob_client *client;
static int started;

/* The queue of hyperparameters: learning rates from 1e-4 to 1. */
static int generate(struct experiment *e)
{
    if (started == EXPERIMENTS)
        return 0;
    *e = (struct experiment){.learning_rate = pow(10, -4 + 4.0 * started / (EXPERIMENTS - 1))};
    started++;
    return 1;
}

static int is_promising(const struct experiment *e)
{
    return e->steps < PATIENCE_STEPS || (e->accuracy > 0.5 && e->steps < STEPS_MAX);
}

static enum mob_status step(struct experiment *e)
{
    return mob_actor_call(e->actor, "training_step", MOB_NO_ARGS, NULL, &e->step);
}

static enum mob_status start(struct experiment *e)
{
    enum mob_status status = mob_actor_create(
        client, "search_wait.Experiment", MOB_ARGS(mob_f64(e->learning_rate)), NULL, &e->actor);
    return status == MOB_OK ? step(e) : status;
}

/* One experiment's step is ready: `running[ready]`. It goes on, or the next one takes its place. */
static enum mob_status advance(
    struct experiment *running, size_t *count, size_t ready, struct experiment *best)
{
    struct experiment *e = &running[ready];
    enum mob_status status = mob_get_f64(e->step, MOB_FOREVER, &e->accuracy);
    if (status != MOB_OK)
        return status;
    mob_release(e->step);
    e->steps++;
    if (e->accuracy > best->accuracy)
        *best = *e;
    if (is_promising(e))
        return step(e);
    status = mob_actor_kill(e->actor, true);
    mob_actor_release(e->actor);
    if (status != MOB_OK)
        return status;
    if (generate(e))
        return start(e);
    *e = running[--*count];
    return MOB_OK;
}

static enum mob_status search(struct experiment *best)
{
    struct experiment running[RUNNING];
    size_t count = 0, ready_count;
    enum mob_status status = MOB_OK;
    while (count < RUNNING && status == MOB_OK && generate(&running[count]))
        status = start(&running[count++]);
    while (count > 0 && status == MOB_OK) {
        struct mob_future *steps[RUNNING];
        bool ready[RUNNING];
        for (size_t i = 0; i < count; i++)
            steps[i] = running[i].step;
        status = mob_wait(steps, count, 1, MOB_FOREVER, ready, &ready_count);
        for (size_t i = 0; i < count && status == MOB_OK; i++)
            if (ready[i]) {
                status = advance(running, &count, i, best);
                break;
            }
    }
    return status;
}

int main(int argc, char **argv)
{
    struct experiment best = {0};
    if (mob_connect(NULL, &client) != MOB_OK) {
        fprintf(stderr, "%s\n", mob_connect_error());
        return 1;
    }
    if (mob_deploy(client, argc > 1 ? argv[1] : "build/release/modules/search_wait.so", NULL) != MOB_OK ||
        search(&best) != MOB_OK) {
        fprintf(stderr, "%s\n", mob_client_error(client));
        mob_disconnect(client);
        return 1;
    }
    printf("%d experiments: best learning rate %.4f, accuracy %.3f after %d steps\n", started,
        best.learning_rate, best.accuracy, best.steps);
    mob_disconnect(client);
    return 0;
}
