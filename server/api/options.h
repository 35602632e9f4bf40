/* The fields that tasks, batches and actors share in request bodies: function, arguments, options, job.
 */
#ifndef MOB_SERVER_API_OPTIONS_H
#define MOB_SERVER_API_OPTIONS_H

#include "server/api/body.h"
#include "server/api/engine.h"

enum mob_options_of { MOB_OPTIONS_OF_TASK, MOB_OPTIONS_OF_ACTOR, MOB_OPTIONS_OF_CALL };

/* Reads `options` and `job` of `object`, whose pointer is `prefix`. Errors go to the body; what was read is
 * in `out` (free with mob_engine_op_destroy, which has them). */
void mob_options_read(struct mob_body *body, const json_t *object, const char *prefix, enum mob_options_of of,
    struct mob_engine_options *out);
/* A new reference to `arguments`, an empty array when absent; NULL after an error. */
json_t *mob_options_arguments(struct mob_body *body, const json_t *object, const char *prefix);
/* A copy of a function's, class' or method's name. */
char *mob_options_function(
    struct mob_body *body, const json_t *object, const char *prefix, const char *field);

#endif
