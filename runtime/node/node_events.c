/* What happens to the node and its workers, as entries of the log: MOB_ENTRY_EVENT of no task, under the job
 * of the system. They are seen where everything else is (events, timeline), and age with it.
 */
#include <jansson.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/recover_row.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/node.h"

#define STOPPED "node.stopped"

static void node_event(struct node *node, const char *type, json_t *data)
{
    json_object_set_new(data, "node", json_string(node->options.name));
    json_object_set_new(data, "incarnation", json_integer((json_int_t)node->incarnation));
    char *text = json_dumps(data, JSON_COMPACT);
    json_decref(data);
    MOB_ASSERT(text);
    struct mob_out_event event = {
        .at_ns = mob_now(), .type_bytes = (uint32_t)strlen(type), .json_bytes = (uint32_t)strlen(text)};
    uint32_t bytes = event.type_bytes + event.json_bytes;
    uint8_t *payload = malloc(bytes);
    MOB_ASSERT(payload);
    memcpy(payload, type, event.type_bytes);
    memcpy(payload + event.type_bytes, text, event.json_bytes);
    lineage_log_job(node->log, mob_job_system(), "");
    lineage_log_other(node->log, MOB_ENTRY_EVENT, &event, sizeof event, payload, bytes);
    free(payload);
    free(text);
}

void node_event_worker_died(struct node *node, uint32_t serial, pid_t pid, const char *why)
{
    node_event(node, "worker.died",
        json_pack("{s:i,s:i,s:s}", "worker", (int)serial, "pid", (int)pid, "reason", why));
    node->workers_lost++;
}

/* Only those that come instead of one that died: a cluster that works starts and reaps them all the time. */
void node_event_worker_started(struct node *node, uint32_t serial, pid_t pid)
{
    if (node->workers_lost == 0)
        return;
    node->workers_lost--;
    node_event(node, "worker.started", json_pack("{s:i,s:i}", "worker", (int)serial, "pid", (int)pid));
}

/* --- the incarnation before --- */

static bool tells_of_stop(const struct mob_gcs_block_row *row)
{
    struct mob_block_header header;
    struct mob_zone_map *zone = malloc(sizeof *zone);
    struct mob_entry *entry = malloc(sizeof *entry);
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    MOB_ASSERT(zone && entry && decoder);
    bool stopped = false;
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, zone);
    while (status == MOB_OK && (status = mob_block_next(decoder, entry)) == MOB_OK)
        stopped |= entry->type == MOB_ENTRY_EVENT && mob_job_is_system(header.job) &&
            entry->event.type_bytes == sizeof STOPPED - 1 && entry->payload_bytes >= sizeof STOPPED - 1 &&
            memcmp(entry->payload, STOPPED, sizeof STOPPED - 1) == 0;
    mob_block_decoder_destroy(decoder);
    free(zone);
    free(entry);
    return stopped;
}

/* A log that ends with this word was closed by its node. One whose last block cannot be read was not, as far
 * as anybody knows. */
static bool was_stopped(struct node *node, uint64_t incarnation, uint64_t blocks, int64_t deadline)
{
    struct mob_gcs_result *result = NULL;
    bool stopped = false;
    if (blocks == 0)
        return false;
    struct mob_gcs_call *call = mob_gcs_call_create();
    enum mob_status asked = mob_gcs_log_read(node->gcs, incarnation, blocks - 1, mob_gcs_call_done, call);
    if (mob_gcs_call_wait(node->gcs, call, asked, deadline, &result) == MOB_OK) {
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < answer->block_count; i++)
            stopped |= tells_of_stop(&answer->blocks[i]);
    }
    mob_gcs_result_destroy(result);
    return stopped;
}

void node_event_started(struct node *node, uint64_t previous, uint64_t blocks, int64_t deadline)
{
    if (previous != 0 && !was_stopped(node, previous, blocks, deadline))
        node_event(node, "node.died",
            json_pack("{s:I,s:I}", "died", (json_int_t)previous, "blocks", (json_int_t)blocks));
    json_t *data = json_object();
    if (previous != 0)
        json_object_set_new(data, "previous", json_integer((json_int_t)previous));
    node_event(node, "node.started", data);
}

void node_event_recovered(struct node *node, const struct mob_recover_row *row)
{
    json_t *data =
        json_pack("{s:I,s:i}", "recovered", (json_int_t)row->incarnation, "tasks", (int)row->tasks);
    if (row->taken_from != 0)
        json_object_set_new(data, "taken_from", json_integer((json_int_t)row->taken_from));
    node_event(node, "node.recovered", data);
}

void node_event_stopped(struct node *node)
{
    node_event(node, STOPPED, json_object());
}
