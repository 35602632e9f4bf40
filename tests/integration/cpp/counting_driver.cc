/* counting_driver MODULE: a driver of C++, with the arguments in lists. */
#include <mobula/mobula.h>

#include <cstdio>
#include <cstdlib>

static struct mob_client *client;

static void must(enum mob_status status, const char *what)
{
    if (status == MOB_OK)
        return;
    std::fprintf(stderr, "%s: %s\n", what, client ? mob_client_error(client) : mob_connect_error());
    std::exit(1);
}
#define MUST(call) must((call), #call)

static int64_t value_of(struct mob_future *future)
{
    int64_t value = 0;
    MUST(mob_get_i64(future, MOB_FOREVER, &value));
    mob_release(future);
    return value;
}

int main(int argc, char **argv)
{
    struct mob_future *sum, *future;
    struct mob_actor *counter;
    if (argc != 2)
        return 2;
    MUST(mob_connect(nullptr, &client));
    MUST(mob_deploy(client, argv[1], nullptr));
    MUST(mob_submit(client, "counting.add", MOB_ARGS(mob_i64(40), mob_i64(2)), nullptr, &sum));
    MUST(mob_actor_create(client, "counting.Counter", MOB_ARGS(mob_i64(100)), nullptr, &counter));
    MUST(mob_actor_call(counter, "inc", MOB_ARGS(mob_ref(sum)), nullptr, &future));
    if (value_of(sum) != 42 || value_of(future) != 142)
        return 3;
    MUST(mob_actor_call(counter, "get", MOB_NO_ARGS, nullptr, &future));
    if (value_of(future) != 142)
        return 4;
    mob_actor_release(counter);
    mob_disconnect(client);
    return 0;
}
