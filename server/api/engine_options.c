#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_submit.h"

void engine_native_options(const struct mob_engine_options *in, struct native_options *out)
{
    memset(&out->task, 0, sizeof out->task);
    memset(&out->actor, 0, sizeof out->actor);
    size_t n = in->resource_count;
    MOB_ASSERT(n <= MOB_TASK_RESOURCES_MAX); /* options.c */
    for (size_t i = 0; i < n; i++)
        out->resources[i] =
            (struct mob_resource){in->resources[i].name, (double)in->resources[i].amount / MOB_AMOUNT_UNITS};
    out->task = (struct mob_submit_options){.struct_size = sizeof out->task,
        .name = in->name,
        .resources = out->resources,
        .resource_count = n,
        .max_retries = !in->has_max_retries ? 0
            : in->max_retries == 0          ? MOB_NO_RETRY
                                            : in->max_retries,
        .retry_on_error = in->retry_on_error,
        .backoff_initial_ns = in->backoff_initial_ms * MOB_MS,
        .backoff_max_ns = in->backoff_max_ms * MOB_MS,
        .timeout_ns = in->timeout_ms * MOB_MS,
        .delay_ns = in->delay_ms * MOB_MS,
        .priority = in->priority,
        .deterministic = in->deterministic,
        .restart_on_divergence = in->restart_on_divergence,
        .traceparent = in->traceparent[0] ? in->traceparent : NULL,
        .labels = (const char *const *)in->labels,
        .label_count = in->label_count,
        .num_returns = in->num_returns};
    out->actor = (struct mob_actor_options){.struct_size = sizeof out->actor,
        .name = in->actor_name,
        .return_if_exists = in->return_existing,
        .detached = in->detached,
        .max_restarts = in->max_restarts,
        .checkpoint_every = (int)in->checkpoint_every,
        .resources = out->resources,
        .resource_count = n,
        .traceparent = out->task.traceparent};
    out->plain = !in->name && n == 0 && !in->has_max_retries && !in->retry_on_error && !in->timeout_ms &&
        !in->delay_ms && !in->priority && !in->deterministic && !in->restart_on_divergence &&
        !in->backoff_initial_ms && !in->backoff_max_ms && !in->traceparent[0] && !in->num_returns &&
        !in->label_count;
}
