#include "cli/running_settings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/state_dir.h"

enum mob_status running_settings_write(const struct mob_settings *settings)
{
    char path[STATE_PATH_MAX];
    json_t *all = json_array();
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_value *value = &settings->values[i];
        json_array_append_new(all,
            json_pack("{s:s, s:s, s:s, s:i}", "name", mob_setting_row((enum mob_setting)i)->name, "value",
                value->text, "source", mob_setting_source_name(value->source), "line", (int)value->line));
    }
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    if (!text) /* a path that is no UTF-8 has no place in JSON */
        return MOB_INVALID;
    state_path(mob_setting_text(settings, MOB_SETTING_DIR), STATE_SETTINGS_NAME, path);
    enum mob_status status = state_write(path, text, strlen(text));
    free(text);
    return status;
}

static bool source_named(const char *name, enum mob_setting_source *out)
{
    for (int i = MOB_SOURCE_DEFAULT; i <= MOB_SOURCE_FLAG; i++)
        if (strcmp(name, mob_setting_source_name((enum mob_setting_source)i)) == 0) {
            *out = (enum mob_setting_source)i;
            return true;
        }
    return false;
}

static bool read_one(json_t *item, struct mob_settings *out, bool known_out[MOB_SETTINGS_COUNT])
{
    const char *name, *text, *source_name;
    int line;
    enum mob_setting_source source;
    if (json_unpack(item, "{s:s, s:s, s:s, s:i}", "name", &name, "value", &text, "source", &source_name,
            "line", &line) != 0 ||
        strlen(text) >= MOB_SETTING_TEXT_MAX || !source_named(source_name, &source))
        return false;
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        if (strcmp(name, row->name) != 0)
            continue;
        struct mob_setting_value *value = &out->values[i];
        snprintf(value->text, sizeof value->text, "%s", text);
        value->number = row->type >= MOB_SETTING_TYPE_NUMBER ? strtoll(text, NULL, 10) : 0;
        value->source = source;
        value->line = (unsigned)line;
        known_out[i] = true;
    }
    return true; /* one that this program does not know is another version's */
}

enum mob_status running_settings_read(
    const char *directory, struct mob_settings *out, bool known_out[MOB_SETTINGS_COUNT])
{
    char path[STATE_PATH_MAX];
    if (state_dir_supervisor(directory) == 0)
        return MOB_NOT_FOUND;
    json_t *all =
        json_load_file(state_path(directory, STATE_SETTINGS_NAME, path), JSON_REJECT_DUPLICATES, NULL);
    if (!all)
        return MOB_NOT_FOUND;
    memset(known_out, 0, MOB_SETTINGS_COUNT * sizeof *known_out);
    memset(out, 0, sizeof *out);
    bool good = json_is_array(all);
    for (size_t i = 0; good && i < json_array_size(all); i++)
        good = read_one(json_array_get(all, i), out, known_out);
    json_decref(all);
    return good ? MOB_OK : MOB_CORRUPT;
}
