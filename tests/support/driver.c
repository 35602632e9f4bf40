#include "tests/support/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/node_box.h"

bool driver_sanitized(void)
{
    const char *sanitize = getenv("MOBULA_SANITIZE");
    return sanitize != NULL && *sanitize != '\0';
}

void driver_assert_ok(const struct mob_client *client, enum mob_status status, const char *what, int line)
{
    if (status != MOB_OK)
        fail_msg("line %d: %s: %s: %s", line, what, mob_status_code(status),
            client == NULL ? mob_connect_error() : mob_client_error(client));
}

struct mob_client *driver_connect(const struct mob_connect_options *options)
{
    struct mob_client *client = NULL;
    enum mob_status status = mob_connect(options, &client);
    driver_assert_ok(status == MOB_OK ? client : NULL, status, "mob_connect", __LINE__);
    return client;
}

void driver_deploy(struct mob_client *client, const char *name)
{
    char module[512];
    const char *folder = getenv("MOBULA_MODULE_DIR");
    assert_non_null(folder); /* CTest sets it */
    snprintf(module, sizeof module, "%s/%s.so", folder, name);
    driver_assert_ok(client, mob_deploy(client, module, NULL), module, __LINE__);
}

struct mob_client *driver_box_start(struct node_box *box, const char *const *args, const char *module)
{
    node_box_start_with(box, 2, args);
    struct mob_client *client = driver_connect(NULL);
    driver_deploy(client, module);
    return client;
}

void driver_box_stop(struct node_box *box, struct mob_client *client)
{
    mob_disconnect(client);
    node_box_stop(box);
}

void driver_fresh_files(const struct node_box *box, char trace[DRIVER_PATH_MAX], char gate[DRIVER_PATH_MAX])
{
    static int number;
    snprintf(trace, DRIVER_PATH_MAX, "%s/trace%d", box->gcs.directory, ++number);
    snprintf(gate, DRIVER_PATH_MAX, "%s/gate%d", box->gcs.directory, number);
}

int trace_lines(const char *trace, const char *word)
{
    char line[512];
    int count = 0;
    FILE *file = fopen(trace, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strncmp(line, word, strlen(word)) == 0;
    if (file != NULL)
        fclose(file);
    return count;
}

void gate_open(const char *gate)
{
    FILE *file = fopen(gate, "w");
    assert_non_null(file);
    fclose(file);
}
