/* A driver: deploys the module, submits, gets.
 *
 *   example_arith [MODULE_FILE]       default build/release/modules/arith.so
 */
#include <mobula/mobula.h>

#include <stdio.h>

static int failed(const struct mob_client *client, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, client == NULL ? mob_connect_error() : mob_client_error(client));
    return 1;
}

int main(int argc, char **argv)
{
    struct mob_client *client = NULL;
    struct mob_future *sum, *results[2];
    int64_t value, quotient, remainder;

    if (mob_connect(NULL, &client) != MOB_OK)
        return failed(client, "connect");
    if (mob_deploy(client, argc > 1 ? argv[1] : "build/release/modules/arith.so", NULL) != MOB_OK)
        return failed(client, "deploy");

    if (mob_submit(client, "arith.add", MOB_ARGS(mob_i64(1), mob_i64(2)), NULL, &sum) != MOB_OK ||
        mob_get_i64(sum, MOB_FOREVER, &value) != MOB_OK)
        return failed(client, "add");
    printf("1 + 2 = %lld\n", (long long)value);

    /* A result goes into the next task by reference: nobody waits for it here. */
    if (mob_submit(client, "arith.divmod", MOB_ARGS(mob_i64(17), mob_ref(sum)), NULL, results) != MOB_OK ||
        mob_get_i64(results[0], MOB_FOREVER, &quotient) != MOB_OK ||
        mob_get_i64(results[1], MOB_FOREVER, &remainder) != MOB_OK)
        return failed(client, "divmod");
    printf("17 = 3 * %lld + %lld\n", (long long)quotient, (long long)remainder);

    mob_disconnect(client);
    return 0;
}
