/* A driver of a node_box, for tests of programs: connected, with a module of tests/modules deployed; and the
 * files by which tasks and the test speak to each other. What fails here fails the test.
 */
#ifndef MOB_TESTS_SUPPORT_DRIVER_H
#define MOB_TESTS_SUPPORT_DRIVER_H

#include <stdbool.h>

#include <mobula/mobula.h>

struct node_box;

/* Built with a sanitizer: slower by far, with an allocator of its own. */
bool driver_sanitized(void);

/* options: NULL = the defaults. */
struct mob_client *driver_connect(const struct mob_connect_options *options);
/* `name` of tests/modules, without its ending. */
void driver_deploy(struct mob_client *client, const char *name);

/* A node of two slots with these flags (node_box_start_with; NULL = none), this module, and a driver of it:
 * what a set-up needs, and what takes it down. */
struct mob_client *driver_box_start(struct node_box *box, const char *const *args, const char *module);
void driver_box_stop(struct node_box *box, struct mob_client *client);

/* Names of a trace and a gate in the box's folder that no test before had. */
enum { DRIVER_PATH_MAX = 160 };
void driver_fresh_files(const struct node_box *box, char trace[DRIVER_PATH_MAX], char gate[DRIVER_PATH_MAX]);

/* Fails the test with what the library says, unless the status is MOB_OK. client: NULL = it could not
 * connect. */
void driver_assert_ok(const struct mob_client *client, enum mob_status status, const char *what, int line);
/* In a test program whose driver is called `client`. */
#define OK(call) driver_assert_ok(client, (call), #call, __LINE__)

/* How many lines of the file begin with `word`; 0 when there is no such file. */
int trace_lines(const char *trace, const char *word);
/* Makes the file for which tasks wait. */
void gate_open(const char *gate);

#endif
