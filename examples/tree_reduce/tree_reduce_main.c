/* while len(data) > 1: data = data[2:] + [aggregate(data[0], data[1])]; nobody waits before the root.
 *
 *   example_tree_reduce [MODULE_FILE [LEAVES [LENGTH]]]
 *
 * default build/release/modules/tree_reduce.so 64 1000
 */
#include <mobula/mobula.h>

#include <stdio.h>
#include <stdlib.h>

#define LEAVES_MAX 100000

static enum mob_status reduce(struct mob_client *client, int leaves, int length, struct mob_future **root_out)
{
    static struct mob_future *queue[2 * LEAVES_MAX];
    int head = 0, tail = 0;
    enum mob_status status = MOB_OK;
    for (int i = 0; i < leaves && status == MOB_OK; i++)
        status = mob_submit(
            client, "tree_reduce.data", MOB_ARGS(mob_i64(i), mob_i64(length)), NULL, &queue[tail++]);
    while (status == MOB_OK && tail - head > 1) {
        struct mob_future *a = queue[head++], *b = queue[head++];
        status = mob_submit(
            client, "tree_reduce.aggregate", MOB_ARGS(mob_ref(a), mob_ref(b)), NULL, &queue[tail++]);
        mob_release(a);
        mob_release(b);
    }
    if (status == MOB_OK)
        *root_out = queue[head];
    return status;
}

/* What the root must be. */
static int check(const struct mob_tensor *sum, int leaves, int length)
{
    if (sum->dims != 1 || sum->shape[0] != length)
        return 0;
    for (int i = 0; i < length; i++) {
        double expected = 0;
        for (int leaf = 0; leaf < leaves; leaf++)
            expected += (leaf * 7 + i) % 100;
        if (((const float *)sum->data)[i] != (float)expected)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const char *module = argc > 1 ? argv[1] : "build/release/modules/tree_reduce.so";
    int leaves = argc > 2 ? atoi(argv[2]) : 64, length = argc > 3 ? atoi(argv[3]) : 1000;
    struct mob_client *client = NULL;
    struct mob_future *root;
    struct mob_value *value;
    struct mob_tensor sum;

    if (leaves < 1 || leaves > LEAVES_MAX || length < 1) {
        fprintf(stderr, "LEAVES is 1 to %d, LENGTH at least 1\n", LEAVES_MAX);
        return 2;
    }
    if (mob_connect(NULL, &client) != MOB_OK) {
        fprintf(stderr, "%s\n", mob_connect_error());
        return 1;
    }
    if (mob_deploy(client, module, NULL) != MOB_OK || reduce(client, leaves, length, &root) != MOB_OK ||
        mob_get(root, MOB_FOREVER, &value) != MOB_OK || mob_value_tensor(value, &sum) != MOB_OK) {
        fprintf(stderr, "%s\n", mob_client_error(client));
        mob_disconnect(client);
        return 1;
    }
    int good = check(&sum, leaves, length);
    printf("%d vectors of %d, %d aggregations: the sum is %s\n", leaves, length, leaves - 1,
        good ? "right" : "WRONG");
    mob_value_release(value);
    mob_disconnect(client);
    return good ? 0 : 1;
}
