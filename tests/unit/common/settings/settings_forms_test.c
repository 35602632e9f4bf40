/* Lists and addresses among the settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/settings/settings_forms.h"

static char message[MOB_FORM_MESSAGE_MAX];

static void resources_are_read_in_their_order(void **state)
{
    (void)state;
    struct mob_listed_resource r;
    const char *at = "GPU=2,camera=0.5,memory=1e9,none=0";
    static const struct mob_listed_resource wanted[] = {
        {"GPU", 2}, {"camera", 0.5}, {"memory", 1e9}, {"none", 0}};
    assert_int_equal(mob_resources_check(at, message), MOB_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(mob_resources_next(&at, &r, message), MOB_OK);
        assert_string_equal(r.name, wanted[i].name);
        assert_true(r.amount == wanted[i].amount);
    }
    assert_int_equal(mob_resources_next(&at, &r, message), MOB_NOT_FOUND);
    assert_int_equal(mob_resources_check("", message), MOB_OK);
}

static void what_is_no_resource_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"GPU", "GPU=", "=1", "GPU=-1", "GPU=+1", "GPU= 1", "GPU=1x", "GPU=1,",
        ",GPU=1", "GPU=1,,a=1", "GPU=inf", "GPU=nan", "GPU=0x10", "GPU=1e16", "GPU=0.00001", "G U=1",
        "a\x01=1", "GPU=1,b=2,GPU=3", "0123456789012345678901234567890123456789012345678901234567890123=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        message[0] = '\0';
        if (mob_resources_check(bad[i], message) != MOB_INVALID || !message[0])
            fail_msg("\"%s\" is taken, or refused without a word", bad[i]);
    }
}

static void so_many_and_no_more(void **state)
{
    (void)state;
    char text[MOB_LISTED_RESOURCES_MAX * 8 + 16] = "";
    size_t used = 0;
    for (unsigned i = 0; i < MOB_LISTED_RESOURCES_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sr%u=1", i > 0 ? "," : "", i);
    assert_int_equal(mob_resources_check(text, message), MOB_OK);
    snprintf(text + used, sizeof text - used, ",more=1");
    assert_int_equal(mob_resources_check(text, message), MOB_INVALID);
    assert_non_null(strstr(message, "at most 60"));
}

static void an_address_and_a_port(void **state)
{
    (void)state;
    char host[MOB_LISTEN_HOST_MAX];
    uint16_t port;
    assert_int_equal(mob_listen_parse("127.0.0.1:8080", host, &port, message), MOB_OK);
    assert_string_equal(host, "127.0.0.1");
    assert_int_equal(port, 8080);
    assert_int_equal(mob_listen_parse("[::1]:0", host, &port, message), MOB_OK);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 0);
    static const char *const bad[] = {"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:80 ", "127.0.0.1:65536", "127.0.0.1:000080", "::1:80", "[::1]80", "[]:80",
        "[127.0.0.1]:80", "localhost:80", "1.2.3:80",
        "[0123456789012345678901234567890123456789012345678901234567890123456789]:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mob_listen_parse(bad[i], host, &port, message) != MOB_INVALID)
            fail_msg("\"%s\" is taken", bad[i]);
    assert_string_equal(host, "::1");
}

static void names_of_hosts(void **state)
{
    (void)state;
    struct mob_listed_hosts hosts;
    assert_int_equal(mob_hosts_parse("", &hosts, message), MOB_OK);
    assert_int_equal(hosts.count, 0);
    assert_int_equal(mob_hosts_parse("db.example,10.0.0.1,a_b-c", &hosts, message), MOB_OK);
    assert_int_equal(hosts.count, 3);
    assert_string_equal(hosts.names[2], "a_b-c");
    static const char *const bad[] = {",", "a,", ",a", "a b", "http://a", "a,b,c,d,e,f,g,h,i"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mob_hosts_parse(bad[i], &hosts, message) != MOB_INVALID)
            fail_msg("\"%s\" is taken", bad[i]);
}

static void numbers_of_cores(void **state)
{
    (void)state;
    char one[32];
    cpu_set_t cpus, allowed;
    unsigned first = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(first, &allowed))
        first++;
    assert_int_equal(mob_cpus_parse("", &cpus, message), MOB_OK);
    assert_int_equal(CPU_COUNT(&cpus), 0);
    snprintf(one, sizeof one, "%u", first);
    assert_int_equal(mob_cpus_parse(one, &cpus, message), MOB_OK);
    assert_true(CPU_COUNT(&cpus) == 1 && CPU_ISSET(first, &cpus));
    snprintf(one, sizeof one, "1000-1002,%u,%u", first, first);
    assert_int_equal(mob_cpus_parse(one, &cpus, message), MOB_OK);
    assert_true(
        CPU_COUNT(&cpus) == 4 && CPU_ISSET(first, &cpus) && CPU_ISSET(1000, &cpus) && CPU_ISSET(1002, &cpus));
    static const char *const bad[] = {",", "1,", "-1", "3-1", "0-", "a", "1 ", "0-1-2", "1024",
        "99999999999999999999", "0--1", "0-3;5", "1023"}; /* the last one is no core of this machine */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        message[0] = '\0';
        if (mob_cpus_parse(bad[i], &cpus, message) != MOB_INVALID || !message[0])
            fail_msg("\"%s\" is taken for cores", bad[i]);
    }
}

static void cores_that_are_left(void **state)
{
    (void)state;
    char others[MOB_CPUS_TEXT_MAX];
    cpu_set_t allowed, given, back;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CPU_ZERO(&given);
    mob_cpus_others(&given, others);
    assert_string_equal(others, ""); /* nobody has cores of its own */
    mob_cpus_others(&allowed, others);
    assert_string_equal(others, ""); /* none is left */
    unsigned first = 0;
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_SET(first, &given);
    mob_cpus_others(&given, others);
    if (CPU_COUNT(&allowed) == 1)
        return;
    assert_int_equal(mob_cpus_parse(others, &back, message), MOB_OK);
    CPU_OR(&back, &back, &given);
    assert_true(CPU_EQUAL(&back, &allowed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(resources_are_read_in_their_order),
        cmocka_unit_test(what_is_no_resource_is_refused), cmocka_unit_test(so_many_and_no_more),
        cmocka_unit_test(an_address_and_a_port), cmocka_unit_test(names_of_hosts),
        cmocka_unit_test(numbers_of_cores), cmocka_unit_test(cores_that_are_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
