#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "server/edge/addresses.h"

static struct sockaddr_in v4(uint32_t address)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
}

static void each_address_has_its_share(void **state)
{
    (void)state;
    struct mob_addresses table;
    struct sockaddr_in a = v4(0x0a000001), b = v4(0x0a000002), loopback = v4(0x7f000001);
    assert_int_equal(mob_addresses_init(&table, 100, 2), MOB_OK);
    assert_true(mob_addresses_enter(&table, (struct sockaddr *)&a));
    assert_true(mob_addresses_enter(&table, (struct sockaddr *)&a));
    assert_false(mob_addresses_enter(&table, (struct sockaddr *)&a));
    assert_true(mob_addresses_enter(&table, (struct sockaddr *)&b));
    mob_addresses_leave(&table, (struct sockaddr *)&a);
    assert_true(mob_addresses_enter(&table, (struct sockaddr *)&a));
    for (int i = 0; i < 50; i++)
        assert_true(mob_addresses_enter(&table, (struct sockaddr *)&loopback));
    mob_addresses_fini(&table);
}

static void counts_survive_any_order_of_leaving(void **state)
{
    (void)state;
    enum { ADDRESSES = 64, CAP = 3 };
    struct mob_addresses table;
    unsigned counts[ADDRESSES] = {0}, seed = 5;
    assert_int_equal(
        mob_addresses_init(&table, ADDRESSES, CAP), MOB_OK); /* a crowded table: long probe runs */
    for (int i = 0; i < 200000; i++) {
        unsigned which = (unsigned)rand_r(&seed) % ADDRESSES;
        struct sockaddr_in a = v4(0xc0a80000 + which);
        if (rand_r(&seed) % 2) {
            assert_int_equal(mob_addresses_enter(&table, (struct sockaddr *)&a), counts[which] < CAP);
            counts[which] += counts[which] < CAP;
        } else if (counts[which] > 0) {
            mob_addresses_leave(&table, (struct sockaddr *)&a);
            counts[which]--;
        }
    }
    mob_addresses_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_has_its_share),
        cmocka_unit_test(counts_survive_any_order_of_leaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
