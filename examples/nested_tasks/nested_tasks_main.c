/* results = [g(n) for _ in range(m)], every g and every f in parallel.
 *
 *   example_nested_tasks [MODULE_FILE [M [N]]]       default build/release/modules/nested_tasks.so 20 50
 */
#include <mobula/mobula.h>

#include <stdio.h>
#include <stdlib.h>

#define M_MAX 10000

int main(int argc, char **argv)
{
    const char *module = argc > 1 ? argv[1] : "build/release/modules/nested_tasks.so";
    int m = argc > 2 ? atoi(argv[2]) : 20, n = argc > 3 ? atoi(argv[3]) : 50;
    static struct mob_future *results[M_MAX];
    struct mob_client *client = NULL;
    double best = 0;
    int best_at = 0;

    if (m < 1 || m > M_MAX || n < 1) {
        fprintf(stderr, "M is 1 to %d, N at least 1\n", M_MAX);
        return 2;
    }
    if (mob_connect(NULL, &client) != MOB_OK) {
        fprintf(stderr, "%s\n", mob_connect_error());
        return 1;
    }
    if (mob_deploy(client, module, NULL) != MOB_OK)
        goto failed;
    for (int i = 0; i < m; i++) {
        double target = (double)i / m;
        if (mob_submit(client, "nested_tasks.g", MOB_ARGS(mob_f64(target), mob_i64(n)), NULL, &results[i]) !=
            MOB_OK)
            goto failed;
    }
    for (int i = 0; i < m; i++) {
        double mean;
        if (mob_get_f64(results[i], MOB_FOREVER, &mean) != MOB_OK)
            goto failed;
        mob_release(results[i]);
        if (mean > best) {
            best = mean;
            best_at = i;
        }
    }
    printf("%d tasks of %d samples each: best target %.3f, mean fitness %.3f\n", m, n, (double)best_at / m,
        best);
    mob_disconnect(client);
    return 0;

failed:
    fprintf(stderr, "%s\n", mob_client_error(client));
    mob_disconnect(client);
    return 1;
}
