#include "cli/places.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The nearest path at or above `path` that exists, in place; its stat. */
static bool nearest(char *path, struct stat *st)
{
    while (stat(path, st) != 0) {
        char *slash = strrchr(path, '/');
        if ((errno != ENOENT && errno != ENOTDIR) || !slash)
            return false;
        slash[slash == path] = '\0';
    }
    return true;
}

static enum mob_status check(
    const struct mob_settings *settings, enum mob_setting id, char error[STATE_ERROR_MAX])
{
    const char *path = mob_setting_text(settings, id), *name = mob_setting_row(id)->name;
    char at[MOB_SETTING_TEXT_MAX];
    struct stat st;
    snprintf(at, sizeof at, "%s", path);
    if (!nearest(at, &st)) {
        snprintf(error, STATE_ERROR_MAX, "%s is %.200s, and %.200s cannot be looked at: %s", name, path, at,
            strerror(errno));
        return MOB_IO;
    }
    if (!S_ISDIR(st.st_mode)) {
        snprintf(error, STATE_ERROR_MAX, "%s is %.200s, and %.200s is not a directory", name, path, at);
        return MOB_IO;
    }
    if (access(at, W_OK | X_OK) != 0) {
        snprintf(error, STATE_ERROR_MAX, "%s is %.200s, and nothing can be made in %.200s: %s", name, path,
            at, strerror(errno));
        return MOB_DENIED;
    }
    return MOB_OK;
}

static bool spills(const struct mob_settings *settings)
{
    return mob_setting_number(settings, MOB_SETTING_SPILL_QUOTA_BYTES) > 0;
}

enum mob_status places_check(const struct mob_settings *settings, char error[STATE_ERROR_MAX])
{
    bool shards = mob_setting_number(settings, MOB_SETTING_GCS_SHARDS) > 1;
    size_t most = shards ? STATE_DIR_LENGTH_SHARDS_MAX : STATE_DIR_LENGTH_MAX;
    const char *directory = mob_setting_text(settings, MOB_SETTING_DIR);
    if (strlen(directory) > most) {
        snprintf(error, STATE_ERROR_MAX,
            "dir is %s, which is too long for the sockets inside of it%s: at most %zu bytes", directory,
            shards ? " with several shards" : "", most);
        return MOB_TOO_LARGE;
    }
    enum mob_status status = check(settings, MOB_SETTING_DIR, error);
    return status == MOB_OK && spills(settings) ? check(settings, MOB_SETTING_SPILL_DIR, error) : status;
}

static enum mob_status make_with_parents(const char *path, const char *name, char error[STATE_ERROR_MAX])
{
    char part[MOB_SETTING_TEXT_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0755); /* what fails here fails below */
        *slash = '/';
    }
    struct stat st;
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        snprintf(error, STATE_ERROR_MAX, "%s is %.400s, and cannot be made: %s", name, path,
            strerror(errno == EEXIST ? ENOTDIR : errno));
        return MOB_IO;
    }
    return MOB_OK;
}

enum mob_status places_make(const struct mob_settings *settings, char error[STATE_ERROR_MAX])
{
    char why[STATE_ERROR_MAX];
    enum mob_status status = state_dir_prepare(mob_setting_text(settings, MOB_SETTING_DIR), why);
    if (status != MOB_OK) {
        snprintf(error, STATE_ERROR_MAX, "dir: %.600s", why);
        return status;
    }
    if (!spills(settings))
        return MOB_OK;
    return make_with_parents(mob_setting_text(settings, MOB_SETTING_SPILL_DIR),
        mob_setting_row(MOB_SETTING_SPILL_DIR)->name, error);
}
