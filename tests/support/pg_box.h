/* A PostgreSQL of its own for a test or a bench, to be killed at will; configured as the supervisor does it.
 * The first one in a build tree runs initdb, others copy what that made. Everything ends with the calling
 * process. One thread.
 */
#ifndef MOB_TESTS_SUPPORT_PG_BOX_H
#define MOB_TESTS_SUPPORT_PG_BOX_H

#include <stdbool.h>
#include <sys/types.h>

#include "gcs/flush/database.h"

struct pg_box {
    char directory[64]; /* mkdtemp */
    char data[96]; /* in it: data directory, and socket */
    pid_t pid;
};

/* True when the machine has PostgreSQL, and as root its user. Tests skip themselves else, and say so. */
bool pg_box_available(void);
/* Makes the data directory; starts nothing. Fails the test when it cannot. */
void pg_box_init(struct pg_box *box);
/* The same under `place`, not under $TMPDIR. */
void pg_box_init_in(struct pg_box *box, const char *place);
/* Returns when it takes connections. */
void pg_box_start(struct pg_box *box);
/* Without waiting. */
void pg_box_spawn(struct pg_box *box);
/* signal, then wait until it is gone: SIGKILL, SIGINT = fast stop, SIGQUIT = at once. */
void pg_box_end(struct pg_box *box, int signal);
/* The same, and until its children are gone as well, which a killed one leaves for a moment. */
void pg_box_end_all(struct pg_box *box, int signal);
/* To all of its processes: SIGSTOP, SIGCONT. Where only the first one is stopped, connections go on. */
void pg_box_signal_all(struct pg_box *box, int signal);
/* Kills it, removes the folder (kept when MOBULA_KEEP is set). */
void pg_box_fini(struct pg_box *box);
/* A connection; fails the test after some seconds. */
struct mob_database *pg_box_open(struct pg_box *box);
/* The number in the first row and column (bigint). */
int64_t pg_box_number(struct mob_database *db, const char *sql);

#endif
