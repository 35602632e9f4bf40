#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/replicas.h"
#include "cli/running_settings.h"

/* By what the running cluster was started with, or by what the next start would use. */
static void find_wants(struct cli_call *call, bool runs, struct doctor_wants *out)
{
    static struct mob_settings now, next;
    bool known[MOB_SETTINGS_COUNT];
    char error[STATE_ERROR_MAX];
    const struct mob_settings *s = &next;
    next = call->settings;
    (void)!replicas_choose(&next, error); /* what it refuses is told as a check */
    if (runs && running_settings_read(cli_directory(call), &now, known) == MOB_OK)
        s = &now;
    *out = (struct doctor_wants){.runs = runs,
        .shards = (uint32_t)mob_setting_number(s, MOB_SETTING_GCS_SHARDS),
        .replicas = (uint32_t)mob_setting_number(s, MOB_SETTING_GCS_REPLICAS),
        .postgres = strcmp(mob_setting_text(s, MOB_SETTING_POSTGRES), "on") == 0,
        .segment_bytes = (uint64_t)mob_setting_number(s, MOB_SETTING_SEGMENT_BYTES),
        .soft_bytes = (uint64_t)mob_setting_number(s, MOB_SETTING_GCS_SOFT_BYTES),
        .hard_bytes = (uint64_t)mob_setting_number(s, MOB_SETTING_GCS_HARD_BYTES),
        .spill_bytes = (uint64_t)mob_setting_number(s, MOB_SETTING_SPILL_QUOTA_BYTES),
        .slots = (uint64_t)mob_setting_number(s, MOB_SETTING_SLOTS),
        .blocked_max = (uint64_t)mob_setting_number(s, MOB_SETTING_BLOCKED_MAX)};
    out->shards = out->shards == 0 ? 1 : out->shards;
    out->replicas = out->replicas == 0 ? 1 : out->replicas;
}

/* ---- printing ---- */

static void print_line(const struct cli_call *call, const struct doctor_check *c)
{
    static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool colour = call->color;
    printf("%s%-4s%s  %-14s  %s", colour ? colours[c->verdict] : "", doctor_verdict_name(c->verdict),
        colour ? "\033[0m" : "", c->name, c->found);
    if (c->means[0] != 0)
        printf(": %s", c->means);
    if (c->todo[0] != 0)
        printf("; do: %s", c->todo);
    putchar('\n');
}

static json_t *check_json(const struct doctor_check *c)
{
    return json_pack("{s:s s:s s:s s:s s:s}", "check", c->name, "verdict", doctor_verdict_name(c->verdict),
        "found", c->found, "means", c->means, "do", c->todo);
}

static void print(const struct cli_call *call, const struct doctor_report *report)
{
    json_t *all = json_array();
    for (int i = 0; i < report->count; i++) {
        const struct doctor_check *c = &report->checks[i];
        if (call->format == CLI_TABLE)
            print_line(call, c);
        else if (call->format == CLI_NAME && c->verdict != DOCTOR_OK)
            puts(c->name);
        else if (call->format != CLI_NAME)
            json_array_append_new(all, check_json(c));
    }
    for (size_t i = 0; call->format == CLI_JSONL && i < json_array_size(all); i++) {
        json_dumpf(json_array_get(all, i), stdout, JSON_COMPACT);
        putchar('\n');
    }
    if (call->format == CLI_JSON) {
        json_t *object =
            json_pack("{s:s s:O}", "verdict", doctor_verdict_name(doctor_worst(report)), "checks", all);
        json_dumpf(object, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(object);
    }
    json_decref(all);
}

static bool answers(const struct doctor_cluster *c)
{
    bool any = false;
    for (int i = 0; i < c->member_count; i++)
        any |= c->members[i].status == MOB_OK;
    return c->runs && !c->unreadable && any && c->gateway_ready;
}

enum cli_exit cmd_doctor(struct cli_call *call)
{
    static struct doctor_report report; /* these: some 300 KiB */
    static struct doctor_machine machine;
    static struct doctor_directory directory;
    static struct doctor_cluster cluster;
    struct doctor_wants wants;
    doctor_look_cluster(call, &cluster);
    find_wants(call, cluster.runs, &wants);
    doctor_look_machine(&wants, &machine);
    doctor_look_directory(&call->settings, &wants, &directory);
    doctor_judge_machine(&machine, &wants, &report);
    doctor_judge_directory(&directory, &wants, &report);
    doctor_judge_cluster(&cluster, &wants, &report);
    print(call, &report);
    if (cli_option(call, "cluster") && !answers(&cluster)) {
        cli_say(
            cluster.runs ? "the cluster in %s does not answer" : "nothing runs in %s; mobula up starts it",
            cli_directory(call));
        return CLI_UNREACHABLE;
    }
    return doctor_worst(&report) == DOCTOR_FAIL ? CLI_FAILED : CLI_OK;
}
