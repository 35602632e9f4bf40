/* /api/v1/actors: create, call, end. Reading is in routes_lists.c. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/api/api.h"
#include "server/api/body.h"
#include "server/api/options.h"
#include "server/api/submit.h"

void mob_api_actor_create(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_body body;
    struct mob_engine_op *op = mob_body_open_op(&body, request, false, MOB_ENGINE_SUBMIT);
    if (!op)
        return;
    mob_body_fields(&body, body.root, "", "class\0arguments\0options\0job\0");
    op->submit.call = MOB_CALL_ACTOR_CREATE;
    op->submit.function = mob_options_function(&body, body.root, "", "class");
    op->submit.arguments = mob_options_arguments(&body, body.root, "");
    mob_options_read(&body, body.root, "", MOB_OPTIONS_OF_ACTOR, &op->submit.options);
    mob_submit_run(&body, op);
}

static bool actor_of(struct mob_http_request *request, struct mob_actor_id *id_out)
{
    if (mob_actor_id_parse(request->segment_values[0], id_out) == MOB_OK)
        return true;
    mob_api_fail(request, MOB_NOT_FOUND, "no such actor");
    return false;
}

void mob_api_actor_call(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_actor_id actor;
    struct mob_body body;
    if (!actor_of(request, &actor))
        return;
    struct mob_engine_op *op = mob_body_open_op(&body, request, true, MOB_ENGINE_SUBMIT);
    if (!op)
        return;
    mob_body_fields(&body, body.root, "", "arguments\0options\0");
    op->submit.call = MOB_CALL_ACTOR_METHOD;
    op->submit.actor = actor;
    op->submit.function = strdup(request->segment_values[1]);
    op->submit.arguments = mob_options_arguments(&body, body.root, "");
    mob_options_read(&body, body.root, "", MOB_OPTIONS_OF_CALL, &op->submit.options);
    mob_submit_run(&body, op);
}

void mob_api_actor_delete(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    struct mob_actor_id actor;
    struct mob_engine_op *op =
        actor_of(request, &actor) ? mob_api_op(request, MOB_ENGINE_ACTOR_DELETE) : NULL;
    if (!op)
        return;
    op->query.id = strdup(request->segment_values[0]);
    mob_api_run(request, op, mob_api_answer_accepted, 0, NULL);
}
