#include "server/api/metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Upper bounds in microseconds; the last bucket has none. */
static const int64_t bounds_us[] = {100, 250, 500, 1000, 2500, 5000, 10000, 50000, 250000, 1000000, 10000000};
#define BUCKETS (sizeof bounds_us / sizeof *bounds_us + 1)

struct route_metrics {
    _Atomic uint64_t by_class[6]; /* status / 100 */
    _Atomic uint64_t buckets[BUCKETS];
    _Atomic uint64_t duration_us;
};

struct mob_metrics {
    size_t routes;
    _Atomic uint64_t tasks;
    struct route_metrics of_route[];
};

enum mob_status mob_metrics_create(size_t routes, struct mob_metrics **metrics_out)
{
    struct mob_metrics *metrics = calloc(1, sizeof *metrics + (routes + 1) * sizeof metrics->of_route[0]);
    if (!metrics)
        return MOB_NO_MEMORY;
    metrics->routes = routes;
    *metrics_out = metrics;
    return MOB_OK;
}

void mob_metrics_destroy(struct mob_metrics *metrics)
{
    free(metrics);
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

void mob_metrics_request(struct mob_metrics *metrics, size_t route, int status, int64_t duration_ns)
{
    struct route_metrics *m = &metrics->of_route[route];
    int64_t us = duration_ns / 1000;
    size_t bucket = 0;
    while (bucket < BUCKETS - 1 && us > bounds_us[bucket])
        bucket++;
    add(&m->by_class[status / 100 % 6], 1);
    add(&m->buckets[bucket], 1);
    add(&m->duration_us, (uint64_t)us);
}

void mob_metrics_tasks(struct mob_metrics *metrics, uint64_t submitted)
{
    add(&metrics->tasks, submitted);
}

typedef void write_family(
    const struct route_metrics *m, const char *method, const char *pattern, struct mob_text *out);

static void write_requests(
    const struct route_metrics *m, const char *method, const char *pattern, struct mob_text *out)
{
    for (unsigned c = 1; c < 6; c++) {
        uint64_t n = get(&m->by_class[c]);
        if (n > 0)
            mob_text_printf(out,
                "mobula_http_requests_total{method=\"%s\",route=\"%s\",status=\"%uxx\"} %llu\n", method,
                pattern, c, (unsigned long long)n);
    }
}

static void write_durations(
    const struct route_metrics *m, const char *method, const char *pattern, struct mob_text *out)
{
    uint64_t total = 0, below = 0;
    for (size_t b = 0; b < BUCKETS; b++)
        total += get(&m->buckets[b]);
    if (total == 0)
        return;
    for (size_t b = 0; b < BUCKETS; b++) {
        below += get(&m->buckets[b]);
        char bound[32] = "+Inf";
        if (b < BUCKETS - 1)
            snprintf(bound, sizeof bound, "%g", (double)bounds_us[b] / 1e6);
        mob_text_printf(out,
            "mobula_http_request_duration_seconds_bucket{method=\"%s\",route=\"%s\",le=\"%s\"} %llu\n",
            method, pattern, bound, (unsigned long long)below);
    }
    mob_text_printf(out, "mobula_http_request_duration_seconds_sum{method=\"%s\",route=\"%s\"} %.6f\n",
        method, pattern, (double)get(&m->duration_us) / 1e6);
    mob_text_printf(out, "mobula_http_request_duration_seconds_count{method=\"%s\",route=\"%s\"} %llu\n",
        method, pattern, (unsigned long long)below);
}

/* The lines of one family stand together, as the format wants it. */
static void write_routes(const struct mob_metrics *metrics, write_family *write, struct mob_text *out)
{
    for (size_t i = 0; i < metrics->routes; i++)
        write(&metrics->of_route[i], mob_http_method_name(mob_routes[i].method), mob_routes[i].pattern, out);
    write(&metrics->of_route[metrics->routes], "ANY", "none", out);
}

void mob_metrics_write(const struct mob_metrics *metrics, struct mob_text *out)
{
    mob_text_family(out, "mobula_http_", "requests_total", "counter",
        "Requests that were answered, by route and class of status.");
    write_routes(metrics, write_requests, out);
    mob_text_family(out, "mobula_http_", "request_duration_seconds", "histogram",
        "Time from a request's head to its answer, waiting included.");
    write_routes(metrics, write_durations, out);
    mob_text_family(out, "mobula_", "tasks_submitted_total", "counter",
        "Tasks that were submitted through this gateway.");
    mob_text_printf(out, "mobula_tasks_submitted_total %llu\n", (unsigned long long)get(&metrics->tasks));
}
