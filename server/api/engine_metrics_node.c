/* Figures of the node, for /metrics: what GET /nodes has of it, in Prometheus' text format. */
#include "server/api/engine_metrics.h"

static void write_family(struct mob_text *t, const char *name, const char *type, const char *help)
{
    mob_text_family(t, "mobula_node_", name, type, help);
}

static void write_name(const json_t *stats, const char *name, struct mob_text *t)
{
    const char *node = json_string_value(json_object_get(stats, "name"));
    mob_text_printf(t, "mobula_node_%s{node=", name);
    mob_text_json_cstring(t, node ? node : "");
}

/* One family, a line for each state: those of `group` that are named here. */
static void write_states(const json_t *stats, const char *name, const char *help, const char *group,
    const char *const *states, struct mob_text *t)
{
    write_family(t, name, "gauge", help);
    for (; *states; states++) {
        const json_t *value = json_object_get(json_object_get(stats, group), *states);
        write_name(stats, name, t);
        mob_text_printf(t, ",state=\"%s\"} %lld\n", *states, (long long)json_integer_value(value));
    }
}

static void write_resources(
    const json_t *stats, const char *name, const char *help, const char *key, struct mob_text *t)
{
    const char *resource;
    json_t *amounts;
    write_family(t, name, "gauge", help);
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
        const char *name, *type, *group, *key, *help; /* group NULL: the whole */
    } figures[] = {{"tasks_submitted_total", "counter", NULL, "submitted",
                       "Tasks that were submitted since the node started."},
        {"tasks_finished_total", "counter", NULL, "finished", "Tasks that ended well."},
        {"tasks_failed_total", "counter", NULL, "failed", "Tasks that failed."},
        {"tasks_retried_total", "counter", NULL, "retried", "Attempts behind the first."},
        {"store_segment_bytes", "gauge", "store", "segment_bytes", "Size of the shared memory of objects."},
        {"store_used_bytes", "gauge", "store", "used_bytes", "Bytes of the segment that objects take."},
        {"store_free_bytes", "gauge", "store", "free_bytes", "Bytes of the segment that are free."},
        {"store_objects", "gauge", "store", "objects", "Objects in the table."},
        {"store_spilled_objects", "gauge", "store", "spilled_objects", "Objects on the spill disk."},
        {"store_spilled_bytes", "gauge", "store", "spilled_bytes", "Bytes of the objects on the spill disk."},
        {"store_evictions_total", "counter", "store", "evictions", "Objects that left memory."},
        {"store_restores_total", "counter", "store", "restores", "Objects that came back from disk."},
        {"log_entries_total", "counter", "log", "entries", "Entries of lineage that were logged."},
        {"log_bytes_total", "counter", "log", "bytes", "Bytes of lineage that were logged."},
        {"log_blocks_in_flight", "gauge", "log", "in_flight",
            "Blocks that the control store has not acknowledged."},
        {"incarnation", "gauge", NULL, "incarnation", "Which start of this node it is."}};
    write_states(stats, "tasks", "Tasks that have not ended.", "queue", of_tasks, t);
    write_states(stats, "workers", "Worker processes.", "workers", of_workers, t);
    write_resources(stats, "resource_capacity", "What the node has of a resource.", "total", t);
    write_resources(stats, "resource_free", "What nobody has of it now.", "free", t);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const json_t *group = figures[i].group ? json_object_get(stats, figures[i].group) : stats;
        write_family(t, figures[i].name, figures[i].type, figures[i].help);
        write_name(stats, figures[i].name, t);
        mob_text_printf(t, "} %lld\n", (long long)json_integer_value(json_object_get(group, figures[i].key)));
    }
}
