/* The recovery of a dead node's log under kill -9 at each of its steps: the next incarnation takes the
 * RECOVER record over, each task runs once, and in the end the log is RECOVERED. ctest: timeout=300
 */
#include "tests/chaos/restart_fixture.h"

#include "common/wire/block.h"
#include "common/wire/recover_row.h"

enum { TASKS = 5, LEFT = 2 * TASKS }; /* gated ones, and one behind each */

/* The newest incarnation; `state_out` (may be NULL) gets what the log of `of` is. */
static uint64_t newest(uint64_t of, uint32_t *state_out)
{
    struct mob_gcs *gcs = gcs_box_client(&box.gcs);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    OK(mob_gcs_incarnations(gcs, 0, mob_gcs_sync_done, &sync));
    OK(mob_gcs_sync_wait(gcs, &sync, mob_now() + PATIENCE, &result));
    const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
    uint64_t last = 0;
    for (uint32_t i = 0; i < answer->incarnation_count; i++) {
        last = answer->incarnations[i].id;
        if (last == of && state_out)
            *state_out = answer->incarnations[i].state;
    }
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
    return last;
}

static bool record_of(uint64_t log, struct mob_recover_row *row_out)
{
    struct mob_gcs *gcs = gcs_box_client(&box.gcs);
    struct mob_gcs_result *result = NULL;
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    mob_recover_key(log, key);
    enum mob_status status =
        mob_gcs_get_wait(gcs, MOB_GCS_NODES, key, sizeof key, mob_now() + PATIENCE, &result);
    if (status == MOB_OK) {
        const struct mob_gcs_kv *kv = &mob_gcs_result_answer(result)->kvs[0];
        OK(mob_recover_row_open(kv->value, kv->value_length, row_out));
    } else if (status != MOB_NOT_FOUND) {
        fail_msg("the record of %lu: %s", (unsigned long)log, mob_status_code(status));
    }
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
    return status == MOB_OK;
}

/* Whose it is, since which death, and what it says. */
static void check_record(
    const char *step, uint64_t log, uint64_t by, uint64_t from, uint32_t takeovers, uint16_t state)
{
    struct mob_recover_row row = {0};
    bool there = record_of(log, &row);
    uint32_t tasks = state == MOB_RECOVER_ENDED ? LEFT : 0;
    if (!there || row.by != by || row.taken_from != from || row.takeovers != takeovers ||
        row.state != state || row.tasks != tasks)
        fail_msg("%s: record of %lu: there %d, by %lu from %lu takeovers %u state %u tasks %u, instead of by "
                 "%lu from %lu takeovers %u state %u tasks %u",
            step, (unsigned long)log, there, (unsigned long)row.by, (unsigned long)row.taken_from,
            row.takeovers, row.state, row.tasks, (unsigned long)by, (unsigned long)from, takeovers, state,
            tasks);
}

static void wait_for_record_to_end(const char *step, uint64_t log)
{
    struct mob_recover_row row = {0};
    for (int64_t deadline = mob_now() + PATIENCE; !record_of(log, &row) || row.state != MOB_RECOVER_ENDED;
         poll(NULL, 0, 2))
        if (mob_now() > deadline)
            fail_msg("%s: the record of %lu does not end", step, (unsigned long)log);
}

static void wait_until_recovered(const char *step, uint64_t log)
{
    struct mob_recover_row row;
    uint32_t state = 0;
    for (int64_t deadline = mob_now() + PATIENCE; newest(log, &state) != 0 && state != MOB_GCS_RECOVERED;
         poll(NULL, 0, 5))
        if (mob_now() > deadline)
            fail_msg("%s: the log of %lu is not recovered: %u", step, (unsigned long)log, state);
    if (record_of(log, &row))
        fail_msg("%s: the log of %lu is recovered, and by %lu still", step, (unsigned long)log,
            (unsigned long)row.by);
}

/* Final completions of tasks in the logs, over all incarnations: of each task one. */
static void check_each_ended_once(const char *step, uint32_t expected)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    static struct mob_task_id ended[4096];
    struct mob_block_header header;
    struct mob_gcs *gcs = gcs_box_client(&box.gcs);
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    struct mob_gcs_scan scan = {0};
    uint32_t count = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result = NULL;
        OK(mob_gcs_scan(gcs, &scan, mob_gcs_sync_done, &sync));
        OK(mob_gcs_sync_wait(gcs, &sync, mob_now() + PATIENCE, &result));
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < answer->block_count; i++) {
            OK(mob_block_open(decoder, answer->blocks[i].bytes, answer->blocks[i].length, &header, &zone));
            while (mob_block_next(decoder, &entry) == MOB_OK) {
                if (entry.type != MOB_ENTRY_COMPLETION ||
                    !(entry.completion.head.flags & MOB_COMPLETION_FINAL))
                    continue;
                for (uint32_t k = 0; k < count; k++)
                    assert_false(mob_task_id_eq(ended[k], entry.completion.head.task));
                assert_true(count < sizeof ended / sizeof *ended);
                ended[count++] = entry.completion.head.task;
            }
        }
        scan.position = answer->next;
        mob_gcs_result_destroy(result);
    } while (scan.position != 0);
    mob_block_decoder_destroy(decoder);
    mob_gcs_destroy(gcs);
    if (count != expected)
        fail_msg("%s: %u tasks ended, instead of %u", step, count, expected);
}

static uint32_t tasks_so_far;

/* Leaves LEFT unfinished tasks in the log of the incarnation that it returns, which is dead then. */
static uint64_t leave_tasks(const char *key, char ids[TASKS][MOB_TEXT_ID_MAX])
{
    struct mob_future *gated, *traced;
    unlink(gate);
    unlink(trace);
    mob_disconnect(client);
    connect_with(key);
    for (int i = 0; i < TASKS; i++) {
        OK(mob_submit(client, "chaos.gated", MOB_ARGS(mob_utf8(gate)), NULL, &gated));
        OK(mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_ref(gated)), NULL, &traced));
        mob_future_id(traced, ids[i]);
        mob_release(gated);
        mob_release(traced);
    }
    OK(mob_flush(client, PATIENCE));
    mob_disconnect(client);
    client = NULL;
    tasks_so_far += LEFT;
    uint64_t log = newest(0, NULL);
    node_box_kill(&box);
    return log;
}

static void check_results(const char *step, const char *key, char ids[TASKS][MOB_TEXT_ID_MAX])
{
    struct mob_future *found;
    connect_with(key);
    open_gate();
    for (int i = 0; i < TASKS; i++) {
        OK(mob_future_from_id(client, ids[i], &found));
        assert_int_equal(get_of(found), chaos_mix(7, 1));
        mob_release(found);
    }
    if (lines("ran") != TASKS)
        fail_msg("%s: tasks ran %d times instead of %d", step, lines("ran"), TASKS);
    OK(mob_flush(client, PATIENCE));
}

/* Two recoverers die at the same step, one after the other; the third one does not. */
static void killed_at(const char *step, uint16_t state)
{
    char ids[TASKS][MOB_TEXT_ID_MAX], failpoints[64], key[64];
    struct mob_recover_row row;
    snprintf(failpoints, sizeof failpoints, "%s=kill", step);
    snprintf(key, sizeof key, "killed at %s", step);
    uint64_t log = leave_tasks(key, ids), dead[2];
    for (int i = 0; i < 2; i++) {
        node_box_restart_to_die(&box, failpoints);
        dead[i] = newest(0, NULL);
        assert_true(dead[i] > (i == 0 ? log : dead[0]));
        if (state == 0)
            assert_false(record_of(log, &row)); /* so nothing of it ran */
        else
            check_record(step, log, dead[i], i == 0 ? 0 : dead[0], (uint32_t)i, state);
        assert_int_equal(lines("ran"), 0);
    }
    node_box_revive(&box);
    uint64_t last = newest(0, NULL);
    wait_for_record_to_end(step, log);
    check_record(step, log, last, state == 0 ? 0 : dead[1], state == 0 ? 0 : 2, MOB_RECOVER_ENDED);
    check_results(step, key, ids);
    wait_until_recovered(step, log);
    wait_until_recovered(step, dead[0]);
    wait_until_recovered(step, dead[1]);
    check_each_ended_once(step, tasks_so_far);
}

static void recoverer_dies_before_it_has_the_record(void **unused)
{
    (void)unused;
    killed_at("node.recover_claim", 0);
}

static void recoverer_dies_with_the_record(void **unused)
{
    (void)unused;
    killed_at("node.recover_claimed", MOB_RECOVER_RUNS);
}

static void recoverer_dies_when_it_has_read_the_log(void **unused)
{
    (void)unused;
    killed_at("node.recover_read", MOB_RECOVER_RUNS);
}

static void recoverer_dies_when_it_owns_the_tasks(void **unused)
{
    (void)unused;
    killed_at("node.recover_ran", MOB_RECOVER_RUNS);
}

static void recoverer_dies_when_the_record_has_ended(void **unused)
{
    (void)unused;
    killed_at("node.recover_ended", MOB_RECOVER_ENDED);
}

/* The tasks have ended under the recoverer, and it dies while it says so. */
static void killed_behind_the_tasks(const char *failpoint, uint32_t state)
{
    char ids[TASKS][MOB_TEXT_ID_MAX], key[64];
    struct mob_recover_row row;
    uint32_t found = 0;
    snprintf(key, sizeof key, "killed at %s", failpoint);
    uint64_t log = leave_tasks(key, ids);
    open_gate();
    node_box_restart_to_die(&box, failpoint);
    uint64_t dead = newest(log, &found);
    assert_false(record_of(log, &row));
    assert_int_equal(found, state);
    assert_int_equal(lines("ran"), TASKS);
    node_box_revive(&box);
    check_results(failpoint, key, ids);
    wait_until_recovered(failpoint, log);
    wait_until_recovered(failpoint, dead);
    check_each_ended_once(failpoint, tasks_so_far);
}

static void recoverer_dies_when_the_record_is_gone(void **unused)
{
    (void)unused;
    killed_behind_the_tasks("node.recover_removed=kill", MOB_GCS_SEALED);
}

static void recoverer_dies_when_the_log_is_recovered(void **unused)
{
    (void)unused;
    killed_behind_the_tasks("node.recover_said=kill", MOB_GCS_RECOVERED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recoverer_dies_before_it_has_the_record),
        cmocka_unit_test(recoverer_dies_with_the_record),
        cmocka_unit_test(recoverer_dies_when_it_has_read_the_log),
        cmocka_unit_test(recoverer_dies_when_it_owns_the_tasks),
        cmocka_unit_test(recoverer_dies_when_the_record_has_ended),
        cmocka_unit_test(recoverer_dies_when_the_record_is_gone),
        cmocka_unit_test(recoverer_dies_when_the_log_is_recovered),
    };
    return cmocka_run_group_tests_name("chaos/recover_record", tests, set_up, tear_down);
}
