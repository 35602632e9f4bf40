/* The command line: one table of commands, one way to read their arguments, one way to say how they ended.
 *
 * stdout is data, stderr is talk. One thread; a process runs one command and ends.
 */
#ifndef MOB_CLI_CLI_H
#define MOB_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "common/settings/settings.h"

/* What the process ends with (API.md). */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1, /* the remote work failed, or the cluster did */
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_DENIED = 4,
    CLI_CONFLICT = 5,
    CLI_UNREACHABLE = 6,
    CLI_TIMEOUT = 7,
    CLI_PARTIAL = 8
};

enum cli_format { CLI_TABLE, CLI_JSON, CLI_JSONL, CLI_NAME };

#define CLI_OPTIONS_MAX 8
#define CLI_ARGUMENTS_MAX 1024

struct cli_option {
    char letter; /* 0 = none */
    const char *name; /* without the dashes */
    const char *value_name; /* NULL = takes no value */
    const char *help;
};
struct cli_call;
struct cli_command {
    const char *name, *arguments, *summary;
    unsigned settings; /* which settings it takes as flags: enum mob_settings_user */
    int arguments_min, arguments_max;
    struct cli_option options[CLI_OPTIONS_MAX];
    enum cli_exit (*run)(struct cli_call *call);
};
/* One command with what was given to it. */
struct cli_call {
    const struct cli_command *command;
    struct mob_settings settings;
    enum cli_format format;
    bool format_given, color; /* color: stdout is a terminal, and NO_COLOR is not set */
    int count;
    const char *arguments[CLI_ARGUMENTS_MAX];
    const char
        *values[CLI_OPTIONS_MAX]; /* of the command's options; "" for one without value; NULL = not given */
};

/* The table, ended by a NULL name. */
extern const struct cli_command cli_commands[];
const struct cli_command *cli_command_find(const char *name);
/* Reads argv[0..argc-1], what follows the command's name. Says on stderr what is wrong. */
bool cli_parse(struct cli_call *call, const struct cli_command *command, int argc, char *const *argv);
/* Everything: finds the command, reads its arguments, runs it. */
enum cli_exit cli_main(int argc, char *const *argv);

/* For commands. The value of an option, NULL when it was not given. The name is one of the command's. */
const char *cli_option(const struct cli_call *call, const char *name);
/* The same as a whole number from `minimum` to `maximum`; `fallback` when not given. False, after saying so:
 * no number. */
bool cli_option_number(const struct cli_call *call, const char *name, long long fallback, long long minimum,
    long long maximum, long long *out);
const char *cli_directory(const struct cli_call *call);
/* One line on stderr. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum cli_exit cmd_up(struct cli_call *call);
enum cli_exit cmd_down(struct cli_call *call);
enum cli_exit cmd_status(struct cli_call *call);
enum cli_exit cmd_doctor(struct cli_call *call);
enum cli_exit cmd_config(struct cli_call *call);
enum cli_exit cmd_migrate(struct cli_call *call);
enum cli_exit cmd_gcs(struct cli_call *call);
enum cli_exit cmd_submit(struct cli_call *call);
enum cli_exit cmd_get(struct cli_call *call);
enum cli_exit cmd_cancel(struct cli_call *call);
enum cli_exit cmd_list(struct cli_call *call);
enum cli_exit cmd_logs(struct cli_call *call);
enum cli_exit cmd_why(struct cli_call *call);
enum cli_exit cmd_lineage(struct cli_call *call);
enum cli_exit cmd_timeline(struct cli_call *call);

#endif
