/* The command table and how arguments are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli.h"

static struct cli_call call;
static char *no_words[1];

#define PARSE(name, ...) \
    (cli_parse(&call, cli_command_find(name), (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), \
        (char *[]){__VA_ARGS__}))

static void every_command_is_complete_and_named_once(void **state)
{
    (void)state;
    static const char *const promised[] = {
        "up", "down", "status", "submit", "get", "list", "logs", "why", "lineage", "timeline", "config"};
    for (size_t i = 0; i < sizeof promised / sizeof promised[0]; i++)
        assert_non_null(cli_command_find(promised[i]));
    for (const struct cli_command *command = cli_commands; command->name; command++) {
        assert_true(strlen(command->summary) > 0);
        assert_true(command->run != NULL);
        assert_true(command->settings != 0);
        assert_true(command->arguments_min <= command->arguments_max);
        assert_ptr_equal(cli_command_find(command->name), command);
        for (int i = 0; i < CLI_OPTIONS_MAX && command->options[i].name; i++) {
            assert_non_null(command->options[i].help);
            for (int j = 0; j < i; j++)
                assert_string_not_equal(command->options[i].name, command->options[j].name);
        }
    }
    assert_null(cli_command_find("nothing"));
}

static void options_and_arguments_may_be_mixed(void **state)
{
    (void)state;
    assert_true(PARSE("submit", "m.f", "1", "--wait", "-2", "--name=x", "-o", "json", "{\"a\":1}"));
    assert_int_equal(call.count, 4);
    assert_string_equal(call.arguments[0], "m.f");
    assert_string_equal(call.arguments[2], "-2");
    assert_string_equal(cli_option(&call, "name"), "x");
    assert_non_null(cli_option(&call, "wait"));
    assert_null(cli_option(&call, "job"));
    assert_int_equal(call.format, CLI_JSON);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    assert_true(PARSE("submit", "m.f", "--", "--wait", "--"));
    assert_int_equal(call.count, 3);
    assert_string_equal(call.arguments[1], "--wait");
    assert_string_equal(call.arguments[2], "--");
    assert_null(cli_option(&call, "wait"));
}

static void settings_are_options_of_the_commands_that_take_them(void **state)
{
    (void)state;
    assert_true(PARSE("up", "--detach", "--slots", "3", "--dir=/tmp/x"));
    assert_int_equal(mob_setting_number(&call.settings, MOB_SETTING_SLOTS), 3);
    assert_string_equal(cli_directory(&call), "/tmp/x");
    assert_true(PARSE("get", "obj_x", "--dir", "/tmp/y"));
    assert_string_equal(cli_directory(&call), "/tmp/y");
    assert_false(PARSE("get", "obj_x", "--slots", "3"));
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    assert_false(PARSE("up", "--dettach"));
    assert_false(PARSE("up", "stray"));
    assert_false(PARSE("up", "--slots", "0"));
    assert_false(PARSE("up", "--slots"));
    assert_false(PARSE("up", "--detach=yes"));
    assert_false(PARSE("list", "tasks", "-o", "xml"));
    assert_false(PARSE("list", "tasks", "--limit"));
    assert_false(cli_parse(&call, cli_command_find("submit"), 0, no_words));
}

static void a_commands_own_option_wins_over_the_common_one(void **state)
{
    (void)state;
    assert_true(PARSE("timeline", "-o", "trace.json"));
    assert_string_equal(cli_option(&call, "output"), "trace.json");
    assert_false(call.format_given);
}

static void numbers_of_options_have_bounds(void **state)
{
    (void)state;
    long long limit;
    assert_true(PARSE("list", "tasks", "-n", "5"));
    assert_true(cli_option_number(&call, "limit", 100, 1, 10, &limit));
    assert_int_equal(limit, 5);
    assert_false(cli_option_number(&call, "limit", 100, 6, 10, &limit));
    assert_true(PARSE("list", "tasks", "-n", "5x"));
    assert_false(cli_option_number(&call, "limit", 100, 1, 10, &limit));
}

static void exit_codes_say_what_kind_of_end_it_was(void **state)
{
    (void)state;
    char *unknown[] = {"mobula", "stats"}, *version[] = {"mobula", "version", "x"};
    assert_int_equal(cli_main(2, unknown), CLI_USAGE);
    assert_int_equal(cli_main(1, version), CLI_USAGE);
    assert_int_equal(cli_main(2, version), CLI_OK);
    assert_int_equal(cli_main(3, version), CLI_USAGE);
}

/* Each name of the list, those without a row of the table too. */
static void every_name_in_the_list_has_help(void **state)
{
    (void)state;
    static const char *const others[] = {"help", "version"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char *before[] = {"mobula", "help", (char *)others[i]},
             *behind[] = {"mobula", (char *)others[i], "--help"};
        assert_int_equal(cli_main(3, before), CLI_OK);
        assert_int_equal(cli_main(3, behind), CLI_OK);
    }
    for (const struct cli_command *command = cli_commands; command->name; command++) {
        char *before[] = {"mobula", "help", (char *)command->name},
             *behind[] = {"mobula", (char *)command->name, "--help"};
        assert_int_equal(cli_main(3, before), CLI_OK);
        assert_int_equal(cli_main(3, behind), CLI_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_is_complete_and_named_once),
        cmocka_unit_test(options_and_arguments_may_be_mixed),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(settings_are_options_of_the_commands_that_take_them),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(a_commands_own_option_wins_over_the_common_one),
        cmocka_unit_test(numbers_of_options_have_bounds),
        cmocka_unit_test(exit_codes_say_what_kind_of_end_it_was),
        cmocka_unit_test(every_name_in_the_list_has_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
