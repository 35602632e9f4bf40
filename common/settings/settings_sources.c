#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/settings/settings.h"
#include "common/settings/settings_forms.h"
#include "common/settings/settings_parse.h"

#define VARIABLE_PREFIX "MOBULA_"
enum { NAME_MAX_BYTES = 64 };

/* Variables with our prefix that are no settings: test hooks, and what scripts hand to each other. */
static const char *const other_variables[] = {"FAILPOINTS", "RECORDING", "BIN_DIR", "MODULE_DIR",
    "SOURCE_DIR", "SANITIZE", "LINT_BASE", "ADDRESS", "TOKEN", "URL", "KEEP", "SEED", "RUNS", "TEST",
    "LINEAGE_DEPTH", "GCS_ROUNDS", "GOLDEN_WRITE", "SHOW_LOGS", NULL};
static const char *const other_prefixes[] = {"TEST_", "BENCH_", "DEMO_", "CHAOS_", NULL};

static bool known_otherwise(const char *name)
{
    for (int i = 0; other_variables[i]; i++)
        if (strcmp(name, other_variables[i]) == 0)
            return true;
    for (int i = 0; other_prefixes[i]; i++)
        if (strncmp(name, other_prefixes[i], strlen(other_prefixes[i])) == 0)
            return true;
    return false;
}

/* Lower case and - for _; false when it is no possible name. */
static bool canonical_name(const char *text, size_t length, char out[NAME_MAX_BYTES])
{
    if (length == 0 || length >= NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i] == '_' ? '-' : (char)tolower((unsigned char)text[i]);
        if (!isalnum((unsigned char)c) && c != '-')
            return false;
        out[i] = c;
    }
    out[length] = '\0';
    return true;
}

static int find(const char *name, unsigned users)
{
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        if ((row->users & users) && strcmp(row->name, name) == 0)
            return i;
    }
    return -1;
}

const char *mob_settings_nearest(const char *name, unsigned user)
{
    const char *best = NULL;
    const size_t length = strlen(name);
    unsigned best_distance = 3; /* further away, it is another word and not a slip */
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        if (!(row->users & user))
            continue;
        unsigned distance = mob_settings_distance(name, row->name);
        /* someone who forgot the unit, or half of the name, means that one */
        if (length >= 3 && strncmp(row->name, name, length) == 0)
            distance = 1;
        if (distance < best_distance && distance * 2 < length) {
            best = row->name;
            best_distance = distance;
        }
    }
    return best;
}

static enum mob_status unknown_name(struct mob_settings *settings, const char *name)
{
    const char *nearest = mob_settings_nearest(name, settings->user);
    if (nearest)
        snprintf(
            settings->error, sizeof settings->error, "unknown setting %s; did you mean %s?", name, nearest);
    else
        snprintf(settings->error, sizeof settings->error,
            "unknown setting %s; `mobula config` lists them all", name);
    return MOB_NOT_FOUND;
}

static const char *type_words(enum mob_setting_type type)
{
    if (type == MOB_SETTING_TYPE_BYTES || type == MOB_SETTING_TYPE_BYTES_OR_0)
        return "a size as 512MiB or 1048576";
    if (type == MOB_SETTING_TYPE_MILLISECONDS)
        return "a time as 250ms or 10s";
    return type == MOB_SETTING_TYPE_SECONDS ? "a time as 90s or 24h" : "a whole number";
}

/* Lists and addresses, read as their daemon will read them. */
static enum mob_status check_form(
    const struct mob_setting_row *row, const char *text, char *error, size_t size)
{
    char message[MOB_FORM_MESSAGE_MAX], host[MOB_LISTEN_HOST_MAX];
    struct mob_listed_hosts hosts;
    cpu_set_t cpus;
    uint16_t port;
    enum mob_status status = MOB_OK;
    if (row->type == MOB_SETTING_TYPE_RESOURCES)
        status = mob_resources_check(text, message);
    else if (row->type == MOB_SETTING_TYPE_LISTEN)
        status = mob_listen_parse(text, host, &port, message);
    else if (row->type == MOB_SETTING_TYPE_HOSTS)
        status = mob_hosts_parse(text, &hosts, message);
    else if (row->type == MOB_SETTING_TYPE_CPUS)
        status = mob_cpus_parse(text, &cpus, message);
    if (status != MOB_OK)
        snprintf(error, size, "%s: %s", row->name, message);
    return status;
}

static enum mob_status check_value(
    struct mob_settings *settings, const struct mob_setting_row *row, const char *text, int64_t *number_out)
{
    char *error = settings->error;
    size_t size = sizeof settings->error;
    if (strlen(text) >= MOB_SETTING_TEXT_MAX) {
        snprintf(error, size, "%s is longer than %d bytes", row->name, MOB_SETTING_TEXT_MAX - 1);
        return MOB_INVALID;
    }
    if (row->type == MOB_SETTING_TYPE_PATH && text[0] == '\0') {
        snprintf(error, size, "%s is empty", row->name);
        return MOB_INVALID;
    }
    if (row->type == MOB_SETTING_TYPE_CHOICE && !mob_setting_is_choice(row->unit, text)) {
        snprintf(error, size, "%s is %s, and may be %s", row->name, text, row->unit);
        return MOB_INVALID;
    }
    if (row->type < MOB_SETTING_TYPE_NUMBER)
        return check_form(row, text, error, size);
    if (!mob_setting_parse_number(row->type, text, number_out)) {
        int n = snprintf(error, size, "%s is %s, and must be %s", row->name, text, type_words(row->type));
        if (row->type == MOB_SETTING_TYPE_NUMBER && n > 0 && (size_t)n < size)
            snprintf(error + n, size - (size_t)n, " from %lld to %lld", (long long)row->minimum,
                (long long)row->maximum);
        return MOB_INVALID;
    }
    bool may_be_0 = row->type == MOB_SETTING_TYPE_BYTES_OR_0;
    if (may_be_0 && *number_out == 0)
        return MOB_OK;
    if (*number_out < row->minimum || *number_out > row->maximum) {
        snprintf(error, size, "%s is %s, and must be %sfrom %lld to %lld", row->name, text,
            may_be_0 ? "0, or " : "", (long long)row->minimum, (long long)row->maximum);
        return MOB_INVALID;
    }
    return MOB_OK;
}

enum mob_status mob_settings_set(
    struct mob_settings *settings, const char *name, const char *text, enum mob_setting_source source)
{
    char canonical[NAME_MAX_BYTES] = "";
    if (!canonical_name(name, strlen(name), canonical))
        return unknown_name(settings, name);
    int id = find(canonical, settings->user);
    if (id < 0)
        return unknown_name(settings, canonical);
    const struct mob_setting_row *row = mob_setting_row((enum mob_setting)id);
    int64_t number = 0;
    if (check_value(settings, row, text, &number) != MOB_OK)
        return MOB_INVALID;
    struct mob_setting_value *value = &settings->values[id];
    if (source < value->source)
        return MOB_OK;
    memcpy(value->text, text, strlen(text) + 1);
    if (row->type >= MOB_SETTING_TYPE_NUMBER) /* one form, whatever the suffix was */
        snprintf(value->text, sizeof value->text, "%lld", (long long)number);
    value->number = number;
    value->source = source;
    value->line = 0;
    return MOB_OK;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

/* Puts path:line before what is in `error`. */
static void locate_error(struct mob_settings *settings, const char *path, unsigned line)
{
    char located[sizeof settings->error];
    if (snprintf(located, sizeof located, "%s:%u: %s", path, line, settings->error) > 0)
        memcpy(settings->error, located, sizeof located);
}

static enum mob_status read_line(struct mob_settings *settings, char *line, unsigned number)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    line = trim(line);
    if (*line == '\0')
        return MOB_OK;
    char *equals = strchr(line, '=');
    if (!equals) {
        snprintf(settings->error, sizeof settings->error, "expected name = value");
        return MOB_INVALID;
    }
    *equals = '\0';
    char *name = trim(line);
    if (strcmp(name, "dir") == 0) {
        snprintf(
            settings->error, sizeof settings->error, "dir cannot be set by a file inside of it; use --dir");
        return MOB_INVALID;
    }
    /* The file is the whole cluster's: what concerns other programs is checked like ours. */
    unsigned user = settings->user;
    settings->user = MOB_SETTINGS_ALL;
    enum mob_status status = mob_settings_set(settings, name, trim(equals + 1), MOB_SOURCE_FILE);
    settings->user = user;
    if (status != MOB_OK)
        return status;
    char canonical[NAME_MAX_BYTES] = "";
    if (canonical_name(name, strlen(name), canonical)) {
        int id = find(canonical, MOB_SETTINGS_ALL);
        if (id >= 0 && settings->values[id].source == MOB_SOURCE_FILE)
            settings->values[id].line = number;
    }
    return MOB_OK;
}

enum mob_status mob_settings_read_file(struct mob_settings *settings, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR)) /* a directory that cannot be is told as such */
        return MOB_OK;
    if (!file) {
        snprintf(settings->error, sizeof settings->error, "%s: %s", path, strerror(errno));
        return MOB_IO;
    }
    char line[MOB_SETTING_TEXT_MAX + 2 * NAME_MAX_BYTES];
    enum mob_status status = MOB_OK;
    size_t total = 0;
    for (unsigned number = 1; status == MOB_OK && fgets(line, sizeof line, file); number++) {
        size_t length = strlen(line);
        total += length;
        if (total > MOB_SETTINGS_FILE_MAX || (length == sizeof line - 1 && line[length - 1] != '\n')) {
            snprintf(settings->error, sizeof settings->error, "the line or the file is too long");
            status = MOB_INVALID;
        } else {
            status = read_line(settings, line, number);
        }
        if (status != MOB_OK)
            locate_error(settings, path, number);
    }
    if (status == MOB_OK && ferror(file)) {
        snprintf(settings->error, sizeof settings->error, "%s: cannot be read", path);
        status = MOB_IO;
    }
    fclose(file);
    return status;
}

enum mob_status mob_settings_read_environment(struct mob_settings *settings, char *const *environment)
{
    for (char *const *entry = environment; entry && *entry; entry++) {
        if (strncmp(*entry, VARIABLE_PREFIX, sizeof VARIABLE_PREFIX - 1) != 0)
            continue;
        const char *bare = *entry + sizeof VARIABLE_PREFIX - 1;
        const char *equals = strchr(bare, '=');
        char upper[NAME_MAX_BYTES], name[NAME_MAX_BYTES] = "";
        if (!equals || (size_t)(equals - bare) >= sizeof upper)
            continue;
        memcpy(upper, bare, (size_t)(equals - bare));
        upper[equals - bare] = '\0';
        if (known_otherwise(upper))
            continue;
        bool possible = canonical_name(bare, (size_t)(equals - bare), name);
        if (possible && find(name, settings->user) < 0 && find(name, MOB_SETTINGS_ALL) >= 0)
            continue; /* another program's */
        enum mob_status status =
            mob_settings_set(settings, possible ? name : upper, equals + 1, MOB_SOURCE_ENVIRONMENT);
        if (status != MOB_OK) {
            char said[sizeof settings->error];
            snprintf(said, sizeof said, VARIABLE_PREFIX "%s: %.400s", upper, settings->error);
            memcpy(settings->error, said, sizeof said);
            return status;
        }
    }
    return MOB_OK;
}

enum mob_status mob_settings_take_flag(struct mob_settings *settings, int argc, char *const *argv, int *index)
{
    const char *flag = argv[*index];
    if (strncmp(flag, "--", 2) != 0)
        return MOB_NOT_FOUND;
    const char *bare = flag + 2;
    size_t length = strcspn(bare, "=");
    const char *equals = bare[length] == '=' ? bare + length : NULL;
    char name[NAME_MAX_BYTES] = "";
    if (!canonical_name(bare, length, name) || find(name, settings->user) < 0)
        return MOB_NOT_FOUND;
    if (!equals && *index + 1 >= argc) {
        snprintf(settings->error, sizeof settings->error, "--%s needs a value", name);
        return MOB_INVALID;
    }
    enum mob_status status =
        mob_settings_set(settings, name, equals ? equals + 1 : argv[*index + 1], MOB_SOURCE_FLAG);
    if (status == MOB_OK)
        *index += equals ? 1 : 2;
    return status;
}
