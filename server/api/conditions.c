#include "server/api/conditions.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/api/problem.h"
#include "server/api/range.h"

const char *mob_object_tag(struct mob_object_id id, char out[MOB_OBJECT_TAG_MAX])
{
    struct mob_hash128 hash = mob_hash128(&id, sizeof id);
    snprintf(out, MOB_OBJECT_TAG_MAX, "\"%016llx%016llx\"", (unsigned long long)hash.hi,
        (unsigned long long)hash.lo);
    return out;
}

bool mob_condition_is_any(const struct mob_http_request *request, const char *name)
{
    const char *value = mob_http_header(request, name);
    return value && mob_etag_listed(value, NULL, true);
}

void mob_condition_reply(struct mob_http_request *request, const char *detail)
{
    mob_problem_reply(request,
        &(struct mob_problem){.http = 412,
            .status = MOB_BAD_REQUEST,
            .code = "precondition-failed",
            .title = "a condition of the request does not hold",
            .detail = detail});
}

static bool refuse(struct mob_http_request *request, const char *detail)
{
    mob_condition_reply(request, detail);
    mob_api_send(request);
    return false;
}

bool mob_conditions_check(struct mob_http_request *request, const struct mob_route *route)
{
    if (route->method != MOB_HTTP_PUT && route->method != MOB_HTTP_DELETE)
        return true;
    const char *match = mob_http_header(request, "If-Match");
    const char *none = mob_http_header(request, "If-None-Match");
    struct mob_object_id id;
    char text[MOB_OBJECT_TAG_MAX], *tag = NULL;
    if (route->handle == mob_api_object_delete &&
        mob_object_id_parse(request->segment_values[0], &id) == MOB_OK) {
        mob_object_tag(id, text);
        tag = text;
    }
    if (match && !mob_etag_listed(match, tag, true))
        return refuse(request,
            tag ? "If-Match names another version; an object has one only"
                : "If-Match names a version, and nothing has versions here; \"*\" stands for what is there");
    /* A PUT may still make what is not there. */
    bool never = route->method == MOB_HTTP_DELETE && mob_condition_is_any(request, "If-None-Match");
    if (none && (never || (tag && mob_etag_listed(none, tag, false))))
        return refuse(request, "If-None-Match names what is to be deleted");
    return true;
}
