#include "cli/replicas.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool shard_has_store(const char *directory, uint32_t shard, uint32_t replica)
{
    char path[STATE_PATH_MAX], name[STATE_NAME_MAX];
    state_member_name(STATE_GCS_DIR_NAME, shard, replica, "/appendonlydir", name);
    return access(state_path(directory, name, path), F_OK) == 0;
}

static bool has_store(const char *directory, uint32_t replica)
{
    return shard_has_store(directory, 0, replica);
}

/* Of a directory that does not say it, because an earlier version made it or it never was ready. */
static uint32_t count_stores(const char *directory)
{
    uint32_t count = 1;
    while (count < STATE_REPLICAS_MAX && has_store(directory, count))
        count++;
    return count;
}

/* MOB_NOT_FOUND: it does not say it. */
static enum mob_status recorded(const char *directory, uint32_t *out)
{
    char path[STATE_PATH_MAX], text[16] = "";
    enum mob_status status =
        state_read_line(state_path(directory, STATE_REPLICAS_NAME, path), text, sizeof text);
    bool good = strlen(text) == 1 && text[0] >= '1' && text[0] <= '0' + STATE_REPLICAS_MAX;
    if (status == MOB_NOT_FOUND)
        return status;
    if (status != MOB_OK || !good)
        return MOB_CORRUPT;
    *out = (uint32_t)(text[0] - '0');
    return MOB_OK;
}

enum mob_status replicas_of_directory(const char *directory, uint32_t *out)
{
    if (!has_store(directory, 0)) {
        *out = 0;
        return MOB_OK;
    }
    enum mob_status status = recorded(directory, out);
    if (status == MOB_NOT_FOUND) {
        *out = count_stores(directory);
        return MOB_OK;
    }
    return status;
}

bool replicas_lost_all(const char *directory, uint32_t shards, uint32_t *shard_out)
{
    uint32_t count = 0;
    if (recorded(directory, &count) != MOB_OK)
        return false;
    for (uint32_t shard = 0; shard < shards; shard++) {
        uint32_t there = 0;
        for (uint32_t i = 0; i < count; i++)
            there += shard_has_store(directory, shard, i);
        if (there == 0) {
            *shard_out = shard;
            return true;
        }
    }
    return false;
}

bool replicas_lost(const char *directory, uint32_t shards, char path_out[STATE_PATH_MAX])
{
    char name[STATE_NAME_MAX];
    uint32_t count = 0;
    if (recorded(directory, &count) != MOB_OK || count < 2 ||
        access(state_path(directory, STATE_POSTGRES_DIR_NAME, path_out), F_OK) != 0)
        return false;
    for (uint32_t shard = 0; shard < shards; shard++)
        for (uint32_t i = 0; i < count; i++)
            if (!shard_has_store(directory, shard, i)) {
                state_path(directory, state_member_name(STATE_GCS_DIR_NAME, shard, i, "", name), path_out);
                return true;
            }
    return false;
}

enum mob_status replicas_record(const char *directory, uint32_t replicas)
{
    char path[STATE_PATH_MAX], text[16];
    uint32_t there;
    if (replicas_of_directory(directory, &there) == MOB_OK && there == replicas &&
        access(state_path(directory, STATE_REPLICAS_NAME, path), F_OK) == 0)
        return MOB_OK;
    int length = snprintf(text, sizeof text, "%u\n", replicas);
    return state_write(state_path(directory, STATE_REPLICAS_NAME, path), text, (size_t)length);
}

static bool has_postgres(const struct mob_settings *settings)
{
    return strcmp(mob_setting_text(settings, MOB_SETTING_POSTGRES), "on") == 0;
}

static enum mob_status take(
    struct mob_settings *settings, enum mob_setting id, uint32_t number, enum mob_setting_source source)
{
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    return mob_settings_set(settings, mob_setting_row(id)->name, text, source);
}

/* An earlier version let a chain of several be without PostgreSQL, with its configurations in a file. Where
 * there has been no PostgreSQL since, only that file says who of them was in the last one. */
static bool is_of_table_file(const char *directory)
{
    char path[STATE_PATH_MAX];
    return access(state_path(directory, STATE_TABLE_FILE_NAME, path), F_OK) == 0 &&
        access(state_path(directory, STATE_POSTGRES_DIR_NAME, path), F_OK) != 0;
}

static enum mob_status check(const struct mob_settings *settings, uint32_t there, char error[STATE_ERROR_MAX])
{
    const char *directory = mob_setting_text(settings, MOB_SETTING_DIR);
    uint32_t wanted = (uint32_t)mob_setting_number(settings, MOB_SETTING_GCS_REPLICAS);
    if (there > wanted)
        snprintf(error, STATE_ERROR_MAX,
            "%.200s holds a control store of %u members, and gcs-replicas is %u: those that are left out may "
            "have what the others have not. Use --gcs-replicas %u here, or another --dir",
            directory, there, wanted, there);
    else if (there > 1 && is_of_table_file(directory))
        snprintf(error, STATE_ERROR_MAX,
            "%.200s holds a control store of %u members that an earlier version ran without PostgreSQL. "
            "This one cannot; use that version here, or another --dir",
            directory, there);
    else if (there > 1 && !has_postgres(settings))
        snprintf(error, STATE_ERROR_MAX,
            "postgres is off, and %.200s holds a control store of %u members: who is in a chain of several "
            "is decided in PostgreSQL. Use --postgres on here, or another --dir",
            directory, there);
    else if (wanted > 1 && !has_postgres(settings))
        snprintf(error, STATE_ERROR_MAX,
            "postgres is off, and gcs-replicas is %u: who is in a chain of several is decided in PostgreSQL, "
            "and without it there is one member",
            wanted);
    else
        return MOB_OK;
    return MOB_CONFLICT;
}

static enum mob_status choose_shards(struct mob_settings *settings, char error[STATE_ERROR_MAX])
{
    const char *directory = mob_setting_text(settings, MOB_SETTING_DIR);
    uint32_t there = 0;
    if (state_dir_shards(directory, &there) == MOB_OK && there > 0) {
        enum mob_status status = take(settings, MOB_SETTING_GCS_SHARDS, there, MOB_SOURCE_DIRECTORY);
        if (status != MOB_OK)
            return status;
    }
    return state_dir_check_shards(
        directory, (uint32_t)mob_setting_number(settings, MOB_SETTING_GCS_SHARDS), error);
}

enum mob_status replicas_choose(struct mob_settings *settings, char error[STATE_ERROR_MAX])
{
    const char *directory = mob_setting_text(settings, MOB_SETTING_DIR);
    uint32_t there = 0;
    enum mob_status status = choose_shards(settings, error);
    if (status != MOB_OK)
        return status;
    status = replicas_of_directory(directory, &there);
    if (status != MOB_OK) {
        snprintf(error, STATE_ERROR_MAX,
            "%.200s/" STATE_REPLICAS_NAME " does not say how many members the control store has", directory);
        return status;
    }
    if (there > 0)
        status = take(settings, MOB_SETTING_GCS_REPLICAS, there, MOB_SOURCE_DIRECTORY);
    else if (!has_postgres(settings))
        status = take(settings, MOB_SETTING_GCS_REPLICAS, 1, MOB_SOURCE_DEFAULT);
    return status == MOB_OK ? check(settings, there, error) : status;
}
