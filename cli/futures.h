/* Waiting for an object over HTTP, as submit --wait and get do. */
#ifndef MOB_CLI_FUTURES_H
#define MOB_CLI_FUTURES_H

#include "cli/api_client.h"

/* The deadline that --timeout SECONDS asks for; INT64_MAX without it. False, after saying so: no number. */
bool futures_deadline(const struct cli_call *call, int64_t *deadline_ns_out);
/* From now on Ctrl-C ends the program with a word on the work that goes on, of which no id is known yet. */
void futures_detach_before_answer(void);
/* Long-polls until the object is ready or has failed, then prints its value (or its bytes), or says its
 * error. CLI_TIMEOUT after the deadline, saying how to come back. */
enum cli_exit futures_print(
    const struct cli_call *call, struct api *api, const char *object_id, int64_t deadline_ns);
/* The same of each of an array of ids, until one is not there. */
enum cli_exit futures_print_all(
    const struct cli_call *call, struct api *api, const json_t *object_ids, int64_t deadline_ns);
/* All returns of a task, or the items of a generator. */
enum cli_exit futures_print_task(
    const struct cli_call *call, struct api *api, const char *task_id, int64_t deadline_ns);
/* Prints the items of a generator's task as they come, each as one value, until it has ended. */
enum cli_exit futures_print_items(
    const struct cli_call *call, struct api *api, const char *task_id, int64_t deadline_ns);

#endif
