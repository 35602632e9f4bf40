/* Figures of the node, for /metrics: what GET /nodes has of it, in Prometheus' text format. */
#include "server/api/engine_metrics.h"

static void write_name(const json_t *stats, const char *name, struct mob_text *t)
{
    const char *node = json_string_value(json_object_get(stats, "name"));
    mob_text_printf(t, "mobula_node_%s{node=", name);
    mob_text_json_cstring(t, node ? node : "");
}

/* One family, a line for each state: those of `group` that are named here. */
static void write_states(
    const json_t *stats, const char *name, const char *group, const char *const *states, struct mob_text *t)
{
    mob_text_printf(t, "# TYPE mobula_node_%s gauge\n", name);
    for (; *states; states++) {
        const json_t *value = json_object_get(json_object_get(stats, group), *states);
        write_name(stats, name, t);
        mob_text_printf(t, ",state=\"%s\"} %lld\n", *states, (long long)json_integer_value(value));
    }
}

static void write_resources(const json_t *stats, const char *name, const char *key, struct mob_text *t)
{
    const char *resource;
    json_t *amounts;
    mob_text_printf(t, "# TYPE mobula_node_%s gauge\n", name);
    json_object_foreach(json_object_get(stats, "resources"), resource, amounts)
    {
        write_name(stats, name, t);
        mob_text_puts(t, ",resource=");
        mob_text_json_cstring(t, resource);
        mob_text_printf(t, "} %.15g\n", json_number_value(json_object_get(amounts, key)));
    }
}

void engine_write_node(const json_t *stats, struct mob_text *t)
{
    static const char *const of_tasks[] = {"waiting", "delayed", "ready", "running", "blocked", NULL};
    static const char *const of_workers[] = {"idle", "busy", "blocked", "actors", NULL};
    static const struct {
        const char *name, *type, *group, *key; /* group NULL: the whole */
    } figures[] = {{"tasks_submitted_total", "counter", NULL, "submitted"},
        {"tasks_finished_total", "counter", NULL, "finished"},
        {"tasks_failed_total", "counter", NULL, "failed"},
        {"tasks_retried_total", "counter", NULL, "retried"},
        {"store_segment_bytes", "gauge", "store", "segment_bytes"},
        {"store_used_bytes", "gauge", "store", "used_bytes"},
        {"store_free_bytes", "gauge", "store", "free_bytes"}, {"store_objects", "gauge", "store", "objects"},
        {"store_spilled_objects", "gauge", "store", "spilled_objects"},
        {"store_spilled_bytes", "gauge", "store", "spilled_bytes"},
        {"store_evictions_total", "counter", "store", "evictions"},
        {"store_restores_total", "counter", "store", "restores"},
        {"log_entries_total", "counter", "log", "entries"}, {"log_bytes_total", "counter", "log", "bytes"},
        {"log_blocks_in_flight", "gauge", "log", "in_flight"}, {"incarnation", "gauge", NULL, "incarnation"}};
    write_states(stats, "tasks", "queue", of_tasks, t);
    write_states(stats, "workers", "workers", of_workers, t);
    write_resources(stats, "resource_capacity", "total", t);
    write_resources(stats, "resource_free", "free", t);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const json_t *group = figures[i].group ? json_object_get(stats, figures[i].group) : stats;
        mob_text_printf(t, "# TYPE mobula_node_%s %s\n", figures[i].name, figures[i].type);
        write_name(stats, figures[i].name, t);
        mob_text_printf(t, "} %lld\n", (long long)json_integer_value(json_object_get(group, figures[i].key)));
    }
}
