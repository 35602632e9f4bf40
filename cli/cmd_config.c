#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void print_json(const struct cli_call *call)
{
    json_t *all = json_array();
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        const struct mob_setting_value *value = &call->settings.values[i];
        json_t *shown =
            row->type >= MOB_SETTING_TYPE_NUMBER ? json_integer(value->number) : json_string(value->text);
        json_t *item = json_pack("{s:s, s:o, s:s, s:s, s:s}", "name", row->name, "value", shown, "source",
            mob_setting_source_name(value->source), "default", row->default_text, "help", row->help);
        if (call->format == CLI_JSONL) {
            json_dumpf(item, stdout, JSON_COMPACT);
            putchar('\n');
            json_decref(item);
        } else {
            json_array_append_new(all, item);
        }
    }
    if (call->format == CLI_JSON) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(all);
}

enum cli_exit cmd_config(struct cli_call *call)
{
    if (call->format == CLI_JSON || call->format == CLI_JSONL) {
        print_json(call);
        return CLI_OK;
    }
    if (call->format == CLI_TABLE)
        printf("%-18s %-24s %s\n", "NAME", "VALUE", "FROM");
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        const struct mob_setting_value *value = &call->settings.values[i];
        if (call->format == CLI_NAME) {
            puts(row->name);
            continue;
        }
        printf("%-18s %-24s %s", row->name, value->text[0] ? value->text : "-",
            mob_setting_source_name(value->source));
        if (value->source == MOB_SOURCE_FILE)
            printf(" %s/%s:%u", cli_directory(call), MOB_SETTINGS_FILE_NAME, value->line);
        putchar('\n');
    }
    return CLI_OK;
}
