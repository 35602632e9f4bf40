#include "server/api/task_row.h"

json_t *task_row(const char *function, const struct mob_spec_head *head, const uint8_t *checked_tail,
    struct mob_job_id job, int64_t submitted_us)
{
    char id[MOB_ID_TEXT_MAX], job_text[MOB_ID_TEXT_MAX], parent[MOB_ID_TEXT_MAX], actor[MOB_ID_TEXT_MAX];
    json_t *row = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id", mob_task_id_format(head->task, id), "function",
        function, "name", function, "job", mob_job_id_format(job, job_text), "parent",
        mob_task_id_format(head->parent, parent), "submitted_us", (json_int_t)submitted_us);
    if (head->kind == MOB_KIND_ACTOR_CALL)
        json_object_set_new(row, "actor", json_string(mob_actor_id_format(head->actor, actor)));
    struct mob_ext_view ext;
    if (mob_spec_find_ext(checked_tail, MOB_EXT_NAME, &ext))
        json_object_set_new(row, "name", json_stringn((const char *)ext.payload, ext.payload_bytes));
    return row;
}

void task_row_live(json_t *row, const struct mob_live_task *live)
{
    static const char *const texts[MOB_LIVE_STATES] = {
        "submitted", "waiting", "delayed", "ready", "running", "blocked", "continued"};
    json_object_set_new(row, "state", json_string(texts[live->state < MOB_LIVE_STATES ? live->state : 0]));
    if (live->started_us > 0)
        json_object_set_new(row, "started_us", json_integer(live->started_us));
    if (live->has_worker)
        json_object_set_new(row, "worker", json_integer(live->worker));
    if (live->attempt > 0)
        json_object_set_new(row, "attempt", json_integer(live->attempt));
}

void task_row_end(json_t *row, const struct task_row_end *end)
{
    json_object_set_new(row, "state",
        json_string(end->status == MOB_OK      ? "finished"
                : end->status == MOB_CANCELLED ? "cancelled"
                                               : "failed"));
    if (end->started_us > 0) /* else it never began */
        json_object_set_new(row, "started_us", json_integer(end->started_us));
    json_object_set_new(row, "finished_us", json_integer(end->finished_us));
    json_object_set_new(row, "worker", json_integer(end->worker));
    json_object_set_new(row, "attempt", json_integer(end->attempt));
    if (end->status != MOB_OK)
        json_object_set_new(row, "code", json_string(mob_status_code(end->status)));
}
