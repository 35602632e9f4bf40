/* Settings: one table (settings_table.h), read from defaults, file, environment and flags, the later one
 * wins.
 *
 *   struct mob_settings settings;
 *   mob_settings_init(&settings, MOB_SETTINGS_NODE);
 *   if (mob_settings_read_environment(&settings, environ) || mob_settings_read_file(&settings, path))
 *       fprintf(stderr, "%s\n", settings.error);
 *   slots = mob_setting_number(&settings, MOB_SETTING_SLOTS);
 *
 * Unknown names, values out of bounds and values of another type are errors, said in `error` with the nearest
 * known name or the bounds. Settings are never secrets: the supervisor hands them to its daemons in argv. The
 * struct is its owner's (about 16 KiB); one thread. Memory: none besides the struct.
 */
#ifndef MOB_COMMON_SETTINGS_SETTINGS_H
#define MOB_COMMON_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/settings/settings_table.h"

#define MOB_SETTING_TEXT_MAX 512 /* bytes of one value as text, with its NUL */
#define MOB_SETTINGS_FILE_MAX 65536 /* bytes of a settings file */
#define MOB_SETTINGS_FILE_NAME "mobula.conf" /* in the state directory */

enum mob_setting {
#define MOB_SETTING_ID(id, ...) MOB_SETTING_##id,
    MOB_SETTINGS_TABLE(MOB_SETTING_ID)
#undef MOB_SETTING_ID
        MOB_SETTINGS_COUNT
};

/* Who takes part: a program knows only the names that concern it. */
enum mob_settings_user {
    MOB_SETTINGS_UP = 1, /* the supervisor, which needs all */
    MOB_SETTINGS_NODE = 2,
    MOB_SETTINGS_GCS = 4,
    MOB_SETTINGS_GATEWAY = 8,
    MOB_SETTINGS_CLI = 16, /* other commands: where the cluster is */
    MOB_SETTINGS_FLUSH = 32,
    MOB_SETTINGS_ALL = 63
};

enum mob_setting_type {
    MOB_SETTING_TYPE_LISTEN, /* these four: settings_forms.h */
    MOB_SETTING_TYPE_HOSTS,
    MOB_SETTING_TYPE_RESOURCES,
    MOB_SETTING_TYPE_CPUS,
    MOB_SETTING_TYPE_PATH,
    MOB_SETTING_TYPE_CHOICE,
    MOB_SETTING_TYPE_NUMBER,
    MOB_SETTING_TYPE_BYTES, /* 64M, 2GiB, 1048576: powers of 1024 */
    MOB_SETTING_TYPE_BYTES_OR_0, /* the same; 0 is outside of its bounds, and stands for none */
    MOB_SETTING_TYPE_MILLISECONDS, /* 250, 250ms, 10s, 5m, 24h, 7d; without a unit: the setting's own */
    MOB_SETTING_TYPE_SECONDS
};

/* In order of precedence. */
enum mob_setting_source {
    MOB_SOURCE_DEFAULT,
    MOB_SOURCE_DIRECTORY, /* what the state directory was made with */
    MOB_SOURCE_FILE,
    MOB_SOURCE_ENVIRONMENT,
    MOB_SOURCE_FLAG
};

struct mob_setting_row {
    const char *name;
    enum mob_setting_type type;
    const char *default_text;
    int64_t minimum, maximum;
    const char *unit; /* or the choices, with | between */
    unsigned users;
    const char *help;
};

struct mob_setting_value {
    char text[MOB_SETTING_TEXT_MAX];
    int64_t number;
    enum mob_setting_source source;
    unsigned line; /* in the file */
};
struct mob_settings {
    unsigned user;
    struct mob_setting_value values[MOB_SETTINGS_COUNT];
    char error[512]; /* one sentence after a failure */
};

const struct mob_setting_row *mob_setting_row(enum mob_setting id);
/* "default", "directory", "file", "environment", "flag". */
const char *mob_setting_source_name(enum mob_setting_source source);

/* Everything at its default. `user`: one of enum mob_settings_user. */
void mob_settings_init(struct mob_settings *settings, unsigned user);
/* One value. A source below the one that set it already is checked, and then ignored. `name` may have _ for
 * -. MOB_NOT_FOUND: no such name; MOB_INVALID: the value. */
MOB_MUST_USE enum mob_status mob_settings_set(
    struct mob_settings *settings, const char *name, const char *text, enum mob_setting_source source);
/* `name = value` lines; # begins a comment. The file is the whole cluster's, so names of other users are
 * checked too. No file is MOB_OK. `dir` cannot stand in it. MOB_NOT_FOUND or MOB_INVALID with file:line in
 * the error; MOB_IO. */
MOB_MUST_USE enum mob_status mob_settings_read_file(struct mob_settings *settings, const char *path);
/* MOBULA_NAME variables. Other users' names are skipped, and those in the list of settings_sources.c that are
 * no settings. */
MOB_MUST_USE enum mob_status mob_settings_read_environment(
    struct mob_settings *settings, char *const *environment);
/* One flag at argv[*index]: --name value, or --name=value; moves *index behind it. MOB_NOT_FOUND, with
 * nothing moved: this is no setting of this user. */
MOB_MUST_USE enum mob_status mob_settings_take_flag(
    struct mob_settings *settings, int argc, char *const *argv, int *index);
/* Works out the defaults that depend on others, and checks what must hold between two. Last, before reading
 * values. */
MOB_MUST_USE enum mob_status mob_settings_finish(struct mob_settings *settings);

const char *mob_setting_text(const struct mob_settings *settings, enum mob_setting id);
int64_t mob_setting_number(const struct mob_settings *settings, enum mob_setting id);

/* The known name that `name` was probably meant to be, or NULL when none is near. */
const char *mob_settings_nearest(const char *name, unsigned user);
/* Edit distance with neighbours swapped as one step; for names up to 63 bytes, else 64. */
unsigned mob_settings_distance(const char *a, const char *b);

#endif
