/* Hyperparameter search (001, appendix B.3): the class Experiment, whose steps get better by its learning
 * rate. */
#include <mobula/mobula.h>

#include <math.h>
#include <stdlib.h>

struct experiment {
    double learning_rate;
    double accuracy;
};

static enum mob_status create(struct mob_call *call)
{
    struct experiment *e = calloc(1, sizeof *e);
    if (e == NULL)
        return MOB_NO_MEMORY;
    e->learning_rate = mob_arg_f64(call, 0);
    mob_call_set_self(call, e);
    return MOB_OK;
}

/* Nearer to 1 with each step, faster when the rate is near 0.1. */
static enum mob_status training_step(struct mob_call *call)
{
    struct experiment *e = mob_call_self(call);
    double distance = log10(e->learning_rate) + 1;
    e->accuracy += (1 - e->accuracy) * 0.5 * exp(-distance * distance);
    return mob_return_f64(call, e->accuracy);
}

MOB_MODULE("search_wait",
    MOB_ACTOR_CLASS("Experiment", create, "f64 learning_rate -> ()", free,
        MOB_METHOD("training_step", training_step, "-> f64 accuracy")))
