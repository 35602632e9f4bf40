/* `mobula config`: what the running cluster was started with, beside what a start would use now. */
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/places.h"
#include "cli/replicas.h"
#include "cli/running_settings.h"

struct config {
    const struct cli_call *call;
    bool running; /* then `now` is shown, and `next` where it differs */
    struct mob_settings now;
    bool known[MOB_SETTINGS_COUNT]; /* by the running program */
    const struct mob_settings *next;
};

static bool differs(const struct config *config, int id)
{
    return config->running && config->known[id] &&
        strcmp(config->now.values[id].text, config->next->values[id].text) != 0;
}

/* What is shown; NULL: the running program is of another version, and has no such setting. */
static const struct mob_setting_value *shown(const struct config *config, int id)
{
    if (!config->running)
        return &config->next->values[id];
    return config->known[id] ? &config->now.values[id] : NULL;
}

/* --- JSON --- */

static json_t *value_json(int id, const struct mob_setting_value *value)
{
    return mob_setting_row((enum mob_setting)id)->type >= MOB_SETTING_TYPE_NUMBER
        ? json_integer(value->number)
        : json_string(value->text);
}

static json_t *item_json(const struct config *config, int id)
{
    const struct mob_setting_row *row = mob_setting_row((enum mob_setting)id);
    const struct mob_setting_value *value = shown(config, id);
    json_t *item = json_pack("{s:s, s:o?, s:s, s:s, s:s, s:b}", "name", row->name, "value",
        value ? value_json(id, value) : json_null(), "source",
        value ? mob_setting_source_name(value->source) : "unknown", "default", row->default_text, "help",
        row->help, "running", (int)config->running);
    if (value && value->source == MOB_SOURCE_FILE)
        json_object_set_new(item, "line", json_integer(value->line));
    if (differs(config, id)) {
        const struct mob_setting_value *next = &config->next->values[id];
        json_object_set_new(item, "next",
            json_pack("{s:o, s:s}", "value", value_json(id, next), "source",
                mob_setting_source_name(next->source)));
    }
    return item;
}

/* --- a table --- */

static void print_source(
    const struct config *config, const struct mob_setting_value *value, char *out, size_t size)
{
    const char *name = mob_setting_source_name(value->source);
    if (value->source == MOB_SOURCE_FILE)
        snprintf(
            out, size, "%s %s/%s:%u", name, cli_directory(config->call), MOB_SETTINGS_FILE_NAME, value->line);
    else
        snprintf(out, size, "%s", name);
}

/* --- which ones --- */

static bool is_wanted(const struct cli_call *call, const char *name)
{
    for (int i = 0; i < call->count; i++)
        if (fnmatch(call->arguments[i], name, 0) == 0)
            return true;
    return call->count == 0;
}

/* Each name or pattern is one of something. */
static bool names_are_known(const struct cli_call *call)
{
    for (int k = 0; k < call->count; k++) {
        bool any = false;
        for (int i = 0; i < MOB_SETTINGS_COUNT && !any; i++)
            any = fnmatch(call->arguments[k], mob_setting_row((enum mob_setting)i)->name, 0) == 0;
        if (any)
            continue;
        const char *nearest = mob_settings_nearest(call->arguments[k], MOB_SETTINGS_ALL);
        if (nearest)
            cli_say("no setting is called %s; did you mean %s?", call->arguments[k], nearest);
        else
            cli_say("no setting is called %s; `mobula config` lists them all", call->arguments[k]);
        return false;
    }
    return true;
}

/* One line of the table. `next`: what the next start would change; "" if nothing. */
struct row {
    const char *name, *value;
    char from[MOB_SETTING_TEXT_MAX + 64], next[2 * MOB_SETTING_TEXT_MAX + 80];
};

static void row_of(const struct config *config, int id, struct row *out)
{
    const struct mob_setting_value *value = shown(config, id);
    *out = (struct row){.name = mob_setting_row((enum mob_setting)id)->name,
        .value = value && value->text[0] ? value->text : "-",
        .from = "unknown"};
    if (value)
        print_source(config, value, out->from, sizeof out->from);
    if (!differs(config, id))
        return;
    const struct mob_setting_value *next = &config->next->values[id];
    char from[MOB_SETTING_TEXT_MAX + 64];
    print_source(config, next, from, sizeof from);
    snprintf(out->next, sizeof out->next, "%s (%s)", next->text[0] ? next->text : "-", from);
}

static void widen(int *width, const char *text)
{
    int length = (int)strlen(text);
    *width = length > *width ? length : *width;
}

/* The last column of a line has no blanks behind it. */
static void print_row(const struct row *row, const int widths[3])
{
    printf("%-*s  %-*s  ", widths[0], row->name, widths[1], row->value);
    if (row->next[0])
        printf("%-*s  %s\n", widths[2], row->from, row->next);
    else
        puts(row->from);
}

static void print_table(const struct config *config, bool has_next)
{
    struct row row = {.name = "NAME", .value = "VALUE", .from = "FROM", .next = ""};
    int widths[3] = {4, 5, 4};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            row = (struct row){.name = "NAME", .value = "VALUE", .from = "FROM"};
            snprintf(row.next, sizeof row.next, "%s", has_next ? "NEXT" : "");
            print_row(&row, widths);
        }
        for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
            if (!is_wanted(config->call, mob_setting_row((enum mob_setting)i)->name))
                continue;
            row_of(config, i, &row);
            if (pass == 1) {
                print_row(&row, widths);
                continue;
            }
            widen(&widths[0], row.name);
            widen(&widths[1], row.value);
            widen(&widths[2], row.next[0] ? row.from : "");
        }
    }
}

static void print(const struct config *config)
{
    const struct cli_call *call = config->call;
    json_t *all = json_array();
    bool has_next = false;
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++)
        has_next |= is_wanted(call, mob_setting_row((enum mob_setting)i)->name) && differs(config, i);
    if (call->format == CLI_TABLE)
        print_table(config, has_next);
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const char *name = mob_setting_row((enum mob_setting)i)->name;
        if (!is_wanted(call, name))
            continue;
        if (call->format == CLI_NAME)
            puts(name);
        else if (call->format != CLI_TABLE)
            json_array_append_new(all, item_json(config, i));
    }
    for (size_t i = 0; call->format == CLI_JSONL && i < json_array_size(all); i++) {
        json_dumpf(json_array_get(all, i), stdout, JSON_COMPACT);
        putchar('\n');
    }
    if (call->format == CLI_JSON) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(all);
    if (call->format == CLI_TABLE && has_next)
        cli_say("NEXT is what `mobula down` and `mobula up`, here and with the same flags, would change");
}

enum cli_exit cmd_config(struct cli_call *call)
{
    static struct config config; /* some 20 KiB */
    char error[STATE_ERROR_MAX], shape[STATE_ERROR_MAX];
    config = (struct config){.call = call, .next = &call->settings};
    if (!names_are_known(call))
        return CLI_USAGE;
    if (!cli_option(call, "next")) {
        enum mob_status status = running_settings_read(cli_directory(call), &config.now, config.known);
        config.running = status == MOB_OK;
        if (status == MOB_CORRUPT)
            cli_say("%s/%s cannot be read: this is what the next start uses", cli_directory(call),
                STATE_SETTINGS_NAME);
        else if (status != MOB_OK && call->format == CLI_TABLE)
            cli_say("nothing runs in %s: this is what the next start uses", cli_directory(call));
    }
    bool can_be = places_check(&call->settings, error) == MOB_OK;
    bool fits = replicas_choose(&call->settings, shape) == MOB_OK;
    print(&config);
    if (can_be && fits)
        return CLI_OK;
    cli_say("the next start will refuse this: %s", can_be ? shape : error);
    return CLI_USAGE;
}
