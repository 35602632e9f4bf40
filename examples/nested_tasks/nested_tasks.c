/* Nested tasks (001, appendix B.1): g(n) calls f() n times in parallel; the driver calls g(n) m times in
 * parallel. Nobody says where anything runs, and m and n are arguments.
 */
#include <mobula/mobula.h>

#include <stdlib.h>

/* One sample of a fitness: how near a random point is to the target. */
static enum mob_status f(struct mob_call *call)
{
    double target = mob_arg_f64(call, 0);
    double point = (double)(mob_random(call) >> 11) / (double)(1ull << 53);
    return mob_return_f64(call, 1 - (point - target) * (point - target));
}

/* The mean of n samples. */
static enum mob_status g(struct mob_call *call)
{
    struct mob_client *client = mob_call_client(call);
    double target = mob_arg_f64(call, 0), sum = 0;
    size_t n = (size_t)mob_arg_i64(call, 1);
    struct mob_future **results = calloc(n, sizeof(struct mob_future *));
    enum mob_status status = results == NULL ? MOB_NO_MEMORY : MOB_OK;

    for (size_t i = 0; i < n && status == MOB_OK; i++)
        status = mob_submit(client, "nested_tasks.f", MOB_ARGS(mob_f64(target)), NULL, &results[i]);
    for (size_t i = 0; i < n && status == MOB_OK; i++) {
        double sample = 0;
        status = mob_get_f64(results[i], MOB_FOREVER, &sample);
        sum += sample;
    }
    free(results);
    return status == MOB_OK ? mob_return_f64(call, n == 0 ? 0 : sum / (double)n) : status;
}

MOB_MODULE("nested_tasks", MOB_FUNCTION("f", f, "f64 target -> f64"),
    MOB_FUNCTION("g", g, "f64 target, i64 n -> f64"))
