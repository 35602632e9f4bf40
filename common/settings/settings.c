#include "common/settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

#define UP MOB_SETTINGS_UP
#define NODE MOB_SETTINGS_NODE
#define GCS MOB_SETTINGS_GCS
#define GATEWAY MOB_SETTINGS_GATEWAY
#define FLUSH MOB_SETTINGS_FLUSH
#define ALL MOB_SETTINGS_ALL
static const struct mob_setting_row rows[MOB_SETTINGS_COUNT] = {
#define ROW(id, name_, type_, default_, minimum_, maximum_, unit_, users_, help_) \
    [MOB_SETTING_##id] = { \
        name_, MOB_SETTING_TYPE_##type_, default_, minimum_, maximum_, unit_, (users_), help_},
    MOB_SETTINGS_TABLE(ROW)
#undef ROW
};
#undef UP
#undef NODE
#undef GCS
#undef GATEWAY
#undef FLUSH
#undef ALL

const struct mob_setting_row *mob_setting_row(enum mob_setting id)
{
    MOB_ASSERT((unsigned)id < MOB_SETTINGS_COUNT);
    return &rows[id];
}

const char *mob_setting_source_name(enum mob_setting_source source)
{
    static const char *const names[] = {"default", "directory", "file", "environment", "flag"};
    return names[source];
}

const char *mob_setting_text(const struct mob_settings *settings, enum mob_setting id)
{
    MOB_ASSERT((unsigned)id < MOB_SETTINGS_COUNT);
    return settings->values[id].text;
}

int64_t mob_setting_number(const struct mob_settings *settings, enum mob_setting id)
{
    MOB_ASSERT((unsigned)id < MOB_SETTINGS_COUNT && rows[id].type >= MOB_SETTING_TYPE_NUMBER);
    return settings->values[id].number;
}

/* What this process may use: the machine's memory, or its control group's share of it. */
static int64_t memory_bytes(void)
{
    int64_t total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    static const char *const limits[] = {
        "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        FILE *file = fopen(limits[i], "re");
        long long limit;
        if (file && fscanf(file, "%lld", &limit) == 1 && limit > 0 && limit < total)
            total = limit;
        if (file)
            fclose(file);
    }
    return total;
}

static void set_number(struct mob_setting_value *value, const struct mob_setting_row *row, int64_t number)
{
    if (number < row->minimum)
        number = row->minimum;
    if (number > row->maximum)
        number = row->maximum;
    value->number = number;
    snprintf(value->text, sizeof value->text, "%lld", (long long)number);
}

/* Shares of memory are whole MiB, so that people can read them. */
static void set_share(struct mob_setting_value *value, const struct mob_setting_row *row, int64_t percent)
{
    set_number(value, row, memory_bytes() / 100 * percent / MOB_MIB * MOB_MIB);
}

static void set_default(struct mob_settings *settings, enum mob_setting id)
{
    struct mob_setting_value *value = &settings->values[id];
    const struct mob_setting_row *row = &rows[id];
    if (id == MOB_SETTING_DIR) {
        const char *home = getenv("HOME");
        snprintf(value->text, sizeof value->text, "%s/.mobula", home && home[0] == '/' ? home : "/root");
    } else if (id == MOB_SETTING_SLOTS) {
        set_number(value, row, sysconf(_SC_NPROCESSORS_ONLN));
    } else if (id == MOB_SETTING_SEGMENT_BYTES) {
        set_share(value, row, 30);
    } else if (id == MOB_SETTING_WORKER_MEMORY_BYTES) {
        set_share(value, row, 50);
    } else if (id == MOB_SETTING_GCS_SOFT_BYTES) {
        set_share(value, row, 12);
    } else if (id == MOB_SETTING_GCS_HARD_BYTES) {
        set_share(value, row, 16);
    } else if (id == MOB_SETTING_SPILL_DIR) {
        value->text[0] = '\0'; /* of the final `dir`: in finish */
    } else {
        enum mob_status status = mob_settings_set(settings, row->name, row->default_text, MOB_SOURCE_DEFAULT);
        MOB_ASSERT(status == MOB_OK); /* the table contradicts itself */
    }
}

void mob_settings_init(struct mob_settings *settings, unsigned user)
{
    memset(settings, 0, sizeof *settings);
    settings->user = MOB_SETTINGS_ALL;
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++)
        set_default(settings, (enum mob_setting)i);
    settings->user = user;
}

static enum mob_status make_absolute(struct mob_settings *settings, enum mob_setting id)
{
    struct mob_setting_value *value = &settings->values[id];
    if (value->text[0] == '/')
        return MOB_OK;
    char here[MOB_SETTING_TEXT_MAX], whole[2 * MOB_SETTING_TEXT_MAX];
    if (!getcwd(here, sizeof here)) {
        snprintf(settings->error, sizeof settings->error, "%s: the current directory has no usable path",
            rows[id].name);
        return MOB_INVALID;
    }
    int length = snprintf(whole, sizeof whole, "%s/%s", here, value->text);
    if (length >= (int)sizeof value->text) {
        snprintf(settings->error, sizeof settings->error, "%s: the path is too long", rows[id].name);
        return MOB_INVALID;
    }
    memcpy(value->text, whole, (size_t)length + 1);
    return MOB_OK;
}

/* More than there is would be touched until the machine kills somebody. */
static enum mob_status check_segment(struct mob_settings *settings)
{
    const struct mob_setting_value *segment = &settings->values[MOB_SETTING_SEGMENT_BYTES];
    int64_t memory = segment->source == MOB_SOURCE_DEFAULT ? INT64_MAX : memory_bytes();
    if (segment->number <= memory)
        return MOB_OK;
    snprintf(settings->error, sizeof settings->error,
        "segment-bytes is %lld, and this machine (or its control group) has %lld bytes of memory",
        (long long)segment->number, (long long)memory);
    return MOB_INVALID;
}

enum mob_status mob_settings_finish(struct mob_settings *settings)
{
    if (make_absolute(settings, MOB_SETTING_DIR) != MOB_OK || check_segment(settings) != MOB_OK)
        return MOB_INVALID;
    struct mob_setting_value *spill = &settings->values[MOB_SETTING_SPILL_DIR];
    if (spill->text[0] == '\0') {
        const char *dir = mob_setting_text(settings, MOB_SETTING_DIR);
        if (strlen(dir) + sizeof "/spill" > sizeof spill->text) {
            snprintf(settings->error, sizeof settings->error, "dir: the path is too long");
            return MOB_INVALID;
        }
        snprintf(
            spill->text, sizeof spill->text, "%.*s/spill", (int)(sizeof spill->text - sizeof "/spill"), dir);
    } else if (make_absolute(settings, MOB_SETTING_SPILL_DIR) != MOB_OK) {
        return MOB_INVALID;
    }
    struct mob_setting_value *soft = &settings->values[MOB_SETTING_GCS_SOFT_BYTES];
    struct mob_setting_value *hard = &settings->values[MOB_SETTING_GCS_HARD_BYTES];
    if (soft->number <= hard->number)
        return MOB_OK;
    if (hard->source == MOB_SOURCE_DEFAULT) { /* only one was given: the other goes along */
        set_number(hard, &rows[MOB_SETTING_GCS_HARD_BYTES], soft->number / 3 * 4);
        return MOB_OK;
    }
    if (soft->source == MOB_SOURCE_DEFAULT) {
        set_number(soft, &rows[MOB_SETTING_GCS_SOFT_BYTES], hard->number / 4 * 3);
        return MOB_OK;
    }
    snprintf(settings->error, sizeof settings->error, "gcs-soft-bytes (%lld) is above gcs-hard-bytes (%lld)",
        (long long)soft->number, (long long)hard->number);
    return MOB_INVALID;
}
