/* Talking to the gateway of the state directory: finds address and key, asks, and turns problems into words
 * and exit codes. While a process of a supervised cluster restarts, a request that may be repeated is, for at
 * most API_RETRY_NS: one that cannot have arrived, a read, and what carries an idempotency key.
 */
#ifndef MOB_CLI_API_CLIENT_H
#define MOB_CLI_API_CLIENT_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/http_client.h"
#include "common/base/id.h"

#define API_PREFIX "/api/v1"
#define API_PATH_MAX 1024
#define API_TIMEOUT_NS (30ll * 1000000000ll)
/* From the first answer that is missing: the control store may wait 10 s for its clients when it restarts,
 * and the longest pause between two starts is 5 s. */
#define API_RETRY_NS (30ll * 1000000000ll)
#define API_RETRY_SAY_NS (3ll * 1000000000ll) /* from then on the user should know what it waits for */
#define API_WAIT_MAX_S 30 /* of one long poll; then another one */

struct api {
    const char *directory;
    char address[64], token[128];
    int64_t deadline_ns; /* what the user set: nothing is repeated after it; 0 = none */
    struct http_response response; /* of the last request */
};

/* Where, and with which key. Says what is wrong. */
enum cli_exit api_open(const struct cli_call *call, struct api *api);
void api_close(struct api *api);
/* One request; `request` needs method and path, and what is special. Fills address and token. On CLI_OK the
 * answer's status is 2xx. Otherwise it has been said on stderr, unless `quiet_status` is the answer's status.
 */
enum cli_exit api_exchange(struct api *api, struct http_request *request, int quiet_status);
/* The same with JSON in (borrows; NULL = none) and out (gives). */
enum cli_exit api_json(struct api *api, const char *method, const char *path, const char *headers,
    const json_t *body, json_t **out);
/* The object that `text` names: an object's id, or a task's for its first return. False, after saying so:
 * neither. */
bool api_object_of(const char *text, char out[MOB_ID_TEXT_MAX]);
/* Writes a failed task's error, with its chain of causes, on stderr. */
void api_say_error(const json_t *error);
/* Prints one value: in table form a string as it is, anything else as JSON. */
void api_print_value(const struct cli_call *call, const json_t *value);

#endif
