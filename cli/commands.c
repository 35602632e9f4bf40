#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/decimal.h"
extern char **environ;

/* Commands appear in this order in the help. */
const struct cli_command cli_commands[] = {
    {"up", "", "start a private cluster, and keep it running", MOB_SETTINGS_UP, 0, 0,
        {{'d', "detach", NULL, "run in the background; return when it is ready"},
            {0, "foreground", NULL, "stay until Ctrl-C (the default)"},
            {0, "no-postgres", NULL, "without PostgreSQL, and with one member: as --postgres off"}},
        cmd_up},
    {"down", "", "stop the cluster; what was acknowledged is kept", MOB_SETTINGS_CLI, 0, 0, {{0}}, cmd_down},
    {"status", "", "what runs, since when, and what had to be restarted", MOB_SETTINGS_CLI, 0, 0, {{0}},
        cmd_status},
    {"doctor", "", "whether this machine, and what runs, is as Mobula needs it, and what to do",
        MOB_SETTINGS_UP, 0, 0,
        {{0, "cluster", NULL, "a cluster must run there and answer (else exit status 6)"}}, cmd_doctor},
    {"config", "[NAME...]",
        "settings of the running cluster, where they came from, and what the next start changes",
        MOB_SETTINGS_UP, 0, CLI_ARGUMENTS_MAX,
        {{0, "next", NULL, "what the next start uses, whether one runs or not"}}, cmd_config},
    {"migrate", "", "bring the schema of the cluster's PostgreSQL up to date, as `up` does", MOB_SETTINGS_CLI,
        0, 0, {{0}}, cmd_migrate},
    {"gcs", "status|verify|dump [TASK|OBJECT|ACTOR]",
        "the control store: figures, whether it is whole, all it knows of one id", MOB_SETTINGS_CLI, 1, 2,
        {{0}}, cmd_gcs},
    {"submit", "FUNCTION [ARGUMENT...]", "run a task; arguments are JSON, object ids, or else strings",
        MOB_SETTINGS_CLI, 1, CLI_ARGUMENTS_MAX,
        {{'w', "wait", NULL, "wait for the result and print it"},
            {0, "timeout", "SECONDS", "wait at most this long"},
            {0, "name", "NAME", "a name to show in lists"},
            {0, "retries", "N", "when its worker dies (default 3, -1 = for ever)"},
            {0, "resources", "CPU=1,...", "what it needs while it runs"},
            {0, "job", "JOB", "the job it belongs to"}},
        cmd_submit},
    {"get", "TASK|OBJECT...", "wait for a value and print it", MOB_SETTINGS_CLI, 1, CLI_ARGUMENTS_MAX,
        {{0, "timeout", "SECONDS", "wait at most this long"}}, cmd_get},
    {"cancel", "TASK...", "ask a task, and what it has begun, to stop", MOB_SETTINGS_CLI, 1,
        CLI_ARGUMENTS_MAX, {{'f', "force", NULL, "end its worker at once"}}, cmd_cancel},
    {"list", "KIND", "tasks, objects, actors, functions, jobs, nodes or endpoints", MOB_SETTINGS_CLI, 1, 1,
        {{0, "filter", "FILTER", "as state:FAILED AND name:train*"}, {0, "sort", "FIELD", "as -started_us"},
            {'n', "limit", "N", "at most so many (default 100)"}},
        cmd_list},
    {"logs", "TASK|ACTOR", "what it wrote on stdout and stderr", MOB_SETTINGS_CLI, 1, 1,
        {{'f', "follow", NULL, "go on until it ends"}}, cmd_logs},
    {"why", "TASK", "why this task waits", MOB_SETTINGS_CLI, 1, 1, {{0}}, cmd_why},
    {"lineage", "OBJECT|TASK", "what made this object, and what made that", MOB_SETTINGS_CLI, 1, 1,
        {{0, "depth", "N", "levels (default 8)"}}, cmd_lineage},
    {"timeline", "", "what ran when, as a Chrome trace", MOB_SETTINGS_CLI, 0, 0,
        {{'o', "output", "FILE", "where to write it (default stdout)"}, {0, "job", "JOB", "only this job"},
            {'n', "limit", "N", "the newest N tasks and events (default 100000)"}},
        cmd_timeline},
    {.name = NULL},
};

void cli_say(const char *format, ...)
{
    va_list list;
    fputs("mobula: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

const struct cli_command *cli_command_find(const char *name)
{
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static int option_index(const struct cli_command *command, const char *name)
{
    for (int i = 0; i < CLI_OPTIONS_MAX && command->options[i].name; i++)
        if (strcmp(command->options[i].name, name) == 0)
            return i;
    return -1;
}

const char *cli_option(const struct cli_call *call, const char *name)
{
    int index = option_index(call->command, name);
    return index < 0 ? NULL : call->values[index];
}

bool cli_option_number(const struct cli_call *call, const char *name, long long fallback, long long minimum,
    long long maximum, long long *out)
{
    const char *text = cli_option(call, name);
    *out = fallback;
    if (!text)
        return true;
    bool negative = text[0] == '-';
    int64_t number;
    size_t length = mob_decimal_int(text + negative, &number);
    if (length > 0 && negative)
        number = -number;
    if (length == 0 || text[negative + length] != '\0' || number < minimum || number > maximum) {
        cli_say("--%s is %s, and must be from %lld to %lld", name, text, minimum, maximum);
        return false;
    }
    *out = number;
    return true;
}

const char *cli_directory(const struct cli_call *call)
{
    return mob_setting_text(&call->settings, MOB_SETTING_DIR);
}

/* ---- help ---- */

static void print_options(const struct cli_command *command)
{
    for (int i = 0; i < CLI_OPTIONS_MAX && command->options[i].name; i++) {
        const struct cli_option *option = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
            option->letter ? option->letter : ' ', option->letter ? ", " : "  ", option->name,
            option->value_name ? " " : "", option->value_name ? option->value_name : "");
        printf("  %-28s %s\n", left, option->help);
    }
    if (option_index(command, "output") < 0)
        printf("  %-28s %s\n", "-o, --output FORMAT", "table, json, jsonl or name");
}

static void print_settings(unsigned user)
{
    for (int i = 0; i < MOB_SETTINGS_COUNT; i++) {
        const struct mob_setting_row *row = mob_setting_row((enum mob_setting)i);
        char left[64];
        if (!(row->users & user))
            continue;
        snprintf(left, sizeof left, "    --%s", row->name);
        printf("  %-28s %s (default %s%s%s)\n", left, row->help,
            row->default_text[0] ? row->default_text : "none", row->unit[0] ? "; " : "", row->unit);
    }
}

static void print_command_help(const struct cli_command *command)
{
    printf("mobula %s%s%s\n%s\n\n", command->name, command->arguments[0] ? " " : "", command->arguments,
        command->summary);
    print_options(command);
    print_settings(command->settings);
}

static void print_help(FILE *out)
{
    fputs("mobula COMMAND [ARGUMENT...]\n\n", out);
    for (const struct cli_command *command = cli_commands; command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fputs("  help       this; `mobula help COMMAND` or `mobula COMMAND --help` says more\n"
          "  version    which version this is\n\n"
          "Exit status: 0 ok, 1 the work failed, 2 usage, 3 not found, 4 not allowed, 5 conflict, 6 "
          "unreachable,\n"
          "7 time-out, 8 partly done. MOBULA_DIR names the state directory (default ~/.mobula).\n",
        out);
}

/* ---- reading arguments ---- */

static bool take_format(struct cli_call *call, const char *text)
{
    static const char *const names[] = {"table", "json", "jsonl", "name"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        call->format = (enum cli_format)i;
        call->format_given = true;
        return true;
    }
    cli_say("-o is %s, and may be table, json, jsonl or name", text);
    return false;
}

/* The option at argv[*index], if it is one of the command's or -o: 1 taken, 0 not ours, -1 wrong (and said
 * so). */
static int take_option(struct cli_call *call, int argc, char *const *argv, int *index)
{
    const char *word = argv[*index];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    size_t length = equals ? (size_t)(equals - word) - 2 : strlen(word) - (word[1] == '-' ? 2 : 1);
    static const struct cli_option output = {'o', "output", "FORMAT", ""};
    const struct cli_option *option = NULL;
    int at = -1;
    for (int i = 0; i <= CLI_OPTIONS_MAX && !option; i++) {
        bool own = i < CLI_OPTIONS_MAX && call->command->options[i].name;
        const struct cli_option *candidate =
            own ? &call->command->options[i] : &output; /* the command's own win */
        bool by_name = word[1] == '-' && strlen(candidate->name) == length &&
            !strncmp(word + 2, candidate->name, length);
        bool by_letter = word[1] != '-' && length == 1 && candidate->letter == word[1];
        if (by_name || by_letter) {
            option = candidate;
            at = own ? i : -1;
        }
        if (!own)
            break;
    }
    if (!option)
        return 0;
    if (equals && !option->value_name) {
        cli_say("--%s takes no value", option->name);
        return -1;
    }
    if (option->value_name && !equals && *index + 1 >= argc) {
        cli_say("--%s needs a value: %s", option->name, option->value_name);
        return -1;
    }
    const char *value = !option->value_name ? "" : equals ? equals + 1 : argv[*index + 1];
    *index += option->value_name && !equals ? 2 : 1;
    if (at < 0)
        return take_format(call, value) ? 1 : -1;
    call->values[at] = value;
    return 1;
}

static bool looks_like_number(const char *word)
{
    return word[0] == '-' && ((word[1] >= '0' && word[1] <= '9') || word[1] == '.');
}

/* A slip of the fingers, and not another word of about the same length. */
static bool is_near(const char *typed, const char *name)
{
    unsigned distance = mob_settings_distance(typed, name);
    return distance <= 2 && distance * 3 <= strlen(typed);
}

static bool unknown_option(const struct cli_call *call, const char *word)
{
    const char *name = word + strspn(word, "-"),
               *nearest = mob_settings_nearest(name, call->command->settings);
    for (int i = 0; i < CLI_OPTIONS_MAX && call->command->options[i].name; i++)
        if (is_near(name, call->command->options[i].name))
            nearest = call->command->options[i].name;
    if (nearest)
        cli_say("unknown option %s; did you mean --%s?", word, nearest);
    else
        cli_say("unknown option %s; see mobula %s --help", word, call->command->name);
    return false;
}

bool cli_parse(struct cli_call *call, const struct cli_command *command, int argc, char *const *argv)
{
    *call = (struct cli_call){.command = command};
    mob_settings_init(&call->settings, command->settings);
    call->color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    bool only_arguments = false;
    for (int i = 0; i < argc;) {
        const char *word = argv[i];
        if (only_arguments || word[0] != '-' || word[1] == '\0' || looks_like_number(word)) {
            if (call->count >= command->arguments_max || call->count >= CLI_ARGUMENTS_MAX) {
                cli_say("one argument too many: %s; see mobula %s --help", word, command->name);
                return false;
            }
            call->arguments[call->count++] = word;
            i++;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_arguments = true;
            i++;
            continue;
        }
        int taken = take_option(call, argc, argv, &i);
        if (taken > 0)
            continue;
        enum mob_status status =
            taken < 0 ? MOB_INVALID : mob_settings_take_flag(&call->settings, argc, argv, &i);
        if (status == MOB_OK)
            continue;
        if (status == MOB_NOT_FOUND)
            return unknown_option(call, word);
        if (taken == 0)
            cli_say("%s", call->settings.error);
        return false;
    }
    if (call->count < command->arguments_min) {
        cli_say("usage: mobula %s %s", command->name, command->arguments);
        return false;
    }
    return true;
}

/* The file lies in the directory that the environment or a flag names, so those are read before it; they win
 * anyway. */
static bool read_settings(struct cli_call *call)
{
    char path[MOB_SETTING_TEXT_MAX + sizeof MOB_SETTINGS_FILE_NAME + 1];
    enum mob_status status = mob_settings_read_environment(&call->settings, environ);
    if (status == MOB_OK) {
        snprintf(path, sizeof path, "%s/%s", cli_directory(call), MOB_SETTINGS_FILE_NAME);
        status = mob_settings_read_file(&call->settings, path);
    }
    if (status == MOB_OK)
        status = mob_settings_finish(&call->settings);
    if (status != MOB_OK)
        cli_say("%s", call->settings.error);
    return status == MOB_OK;
}

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static enum cli_exit unknown_command(const char *name)
{
    const char *nearest = NULL;
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (is_near(name, command->name))
            nearest = command->name;
    if (nearest)
        cli_say("unknown command %s; did you mean %s?", name, nearest);
    else
        cli_say("unknown command %s; see mobula help", name);
    return CLI_USAGE;
}

/* These have no options: the list says all there is of them. */
static bool is_in_list_only(const char *name)
{
    return strcmp(name, "help") == 0 || strcmp(name, "version") == 0;
}

enum cli_exit cli_main(int argc, char *const *argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_help(stderr);
        return CLI_USAGE;
    }
    bool version = strcmp(name, "version") == 0 || strcmp(name, "--version") == 0;
    bool help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (version && argc == 2) {
        puts("mobula " MOB_VERSION_TEXT);
        return CLI_OK;
    }
    if (version && !asks_for_help(argc - 2, argv + 2)) {
        cli_say("one argument too many: %s; see mobula help", argv[2]);
        return CLI_USAGE;
    }
    if (version || (help && (argc < 3 || argv[2][0] == '-' || is_in_list_only(argv[2])))) {
        print_help(stdout);
        return CLI_OK;
    }
    const struct cli_command *command = cli_command_find(help ? argv[2] : name);
    if (!command)
        return unknown_command(help ? argv[2] : name);
    if (help || asks_for_help(argc - 2, argv + 2)) {
        print_command_help(command);
        return CLI_OK;
    }
    static struct cli_call call; /* some 30 KiB */
    if (!cli_parse(&call, command, argc - 2, argv + 2) || !read_settings(&call))
        return CLI_USAGE;
    enum cli_exit status = command->run(&call);
    if (fflush(stdout) != 0 && status == CLI_OK)
        status = CLI_FAILED; /* data that nobody got */
    return status;
}
