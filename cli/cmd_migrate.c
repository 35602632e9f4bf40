#include <stdio.h>

#include "cli/cli.h"
#include "cli/state_dir.h"
#include "gcs/flush/migrate.h"

static enum cli_exit migrate(struct mob_database *db, struct mob_cluster_id cluster)
{
    int from = 0, to = 0;
    enum mob_status status = mob_migrate(db, mob_migrations, &from, &to);
    if (status == MOB_OK)
        status = mob_migrate_claim(db, cluster);
    if (status == MOB_OK && from == to) {
        printf("schema %d: nothing to do\n", to);
    } else if (status == MOB_OK) {
        printf("schema %d -> %d\n", from, to);
    } else if (status == MOB_VERSION || status == MOB_CORRUPT || status == MOB_DENIED) {
        cli_say("the database is refused: %s",
            status == MOB_VERSION       ? "a newer version of this program has migrated it"
                : status == MOB_CORRUPT ? "another program has migrated it"
                                        : "it holds another cluster's lineage");
        return CLI_CONFLICT;
    } else {
        cli_say("not migrated: %s", mob_status_text(status));
        return CLI_FAILED;
    }
    return CLI_OK;
}

enum cli_exit cmd_migrate(struct cli_call *call)
{
    char path[STATE_PATH_MAX];
    struct mob_cluster_id cluster;
    struct mob_database *db = NULL;
    state_path(cli_directory(call), STATE_POSTGRES_DIR_NAME, path);
    if (state_dir_cluster(cli_directory(call), &cluster) != MOB_OK ||
        mob_database_open(path, &db) != MOB_OK) {
        cli_say("no PostgreSQL runs in %s; mobula up --postgres on starts it, and migrates", path);
        return CLI_UNREACHABLE;
    }
    enum cli_exit code = migrate(db, cluster);
    mob_database_close(db);
    return code;
}
