#include "common/settings/settings_daemon.h"

#include <string.h>

static const struct mob_daemon_link *link_named(
    const struct mob_daemon_link *links, const char *name, size_t length)
{
    for (; links->name; links++)
        if (strlen(links->name) == length && memcmp(links->name, name, length) == 0)
            return links;
    return NULL;
}

static enum mob_status store(
    struct mob_settings *settings, const struct mob_daemon_link *link, const char *value)
{
    unsigned at = link->count_out ? (*link->count_out)++ : 0;
    if (link->count_out && at >= link->texts_max) {
        snprintf(
            settings->error, sizeof settings->error, "--%s: at most %u of them", link->name, link->texts_max);
        return MOB_INVALID;
    }
    link->text_out[at] = value;
    return MOB_OK;
}

/* One link at argv[*index]: --name, --name value or --name=value. MOB_NOT_FOUND: it is none. */
static enum mob_status take_link(struct mob_settings *settings, const struct mob_daemon_link *links, int argc,
    char *const *argv, int *index)
{
    const char *bare = argv[*index] + 2;
    size_t length = strcspn(bare, "=");
    bool joined = bare[length] == '=';
    const struct mob_daemon_link *link = link_named(links, bare, length);
    if (!link)
        return MOB_NOT_FOUND;
    if (!link->text_out && joined) {
        snprintf(settings->error, sizeof settings->error, "--%s takes no value", link->name);
        return MOB_INVALID;
    }
    if (link->text_out && !joined && *index + 1 >= argc) {
        snprintf(settings->error, sizeof settings->error, "--%s needs a value", link->name);
        return MOB_INVALID;
    }
    if (link->given_out)
        *link->given_out = true;
    const char *value = joined ? bare + length + 1 : argv[*index + 1];
    *index += link->text_out && !joined ? 2 : 1;
    return link->text_out ? store(settings, link, value) : MOB_OK;
}

static enum mob_status take_argument(struct mob_settings *settings, const struct mob_daemon_link *links,
    int argc, char *const *argv, int *index)
{
    const char *argument = argv[*index];
    if (strncmp(argument, "--", 2) != 0) {
        snprintf(settings->error, sizeof settings->error, "unexpected argument %.200s", argument);
        return MOB_INVALID;
    }
    enum mob_status status = mob_settings_take_flag(settings, argc, argv, index);
    if (status == MOB_NOT_FOUND)
        status = take_link(settings, links, argc, argv, index);
    if (status == MOB_NOT_FOUND) /* says which name is near */
        status = mob_settings_set(settings, argument + 2, "", MOB_SOURCE_FLAG);
    return status;
}

enum mob_status mob_settings_read_daemon(struct mob_settings *settings, unsigned user,
    const struct mob_daemon_link *links, int argc, char *const *argv, char *const *environment)
{
    mob_settings_init(settings, user);
    enum mob_status status = MOB_OK;
    for (int i = 1; i < argc && status == MOB_OK;)
        status = take_argument(settings, links, argc, argv, &i);
    if (status == MOB_OK)
        status = mob_settings_read_environment(settings, environment);
    char path[MOB_SETTING_TEXT_MAX + sizeof MOB_SETTINGS_FILE_NAME];
    snprintf(path, sizeof path, "%s/" MOB_SETTINGS_FILE_NAME, mob_setting_text(settings, MOB_SETTING_DIR));
    if (status == MOB_OK)
        status = mob_settings_read_file(settings, path);
    return status == MOB_OK ? mob_settings_finish(settings) : status;
}

void mob_settings_daemon_help(
    const char *program, unsigned user, const struct mob_daemon_link *links, FILE *to)
{
    fprintf(to, "usage: %s [--NAME VALUE]...\n\nLinks:\n", program);
    for (; links->name; links++)
        fprintf(to, "  --%-22s %s\n", links->name, links->help);
    fprintf(to, "\nSettings, also as NAME = VALUE in DIR/" MOB_SETTINGS_FILE_NAME " and as MOBULA_NAME:\n");
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        if (row->users & user)
            fprintf(to, "  --%-22s %s (%s)\n", row->name, row->help, row->default_text);
    }
}
