/* POST /api/v1/objects: one value as the body, or several as the parts of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/wire/utf8.h"
#include "server/api/api.h"
#include "server/api/body.h"
#include "server/api/idempotency.h"
#include "server/api/problem.h"
#include "server/http/multipart.h"

static const struct {
    const char *media, *type;
} put_types[] = {
    {"application/octet-stream", "bytes"},
    {"application/json", "json"},
    {"text/plain", "utf8"},
    {"application/vnd.apache.arrow.stream", "table"},
    {"application/x-npy", "npy"},
    {"application/vnd.mobula.pickle5", "pickle5"},
};

/* NULL: answered with 415, or with 400 for JSON or text that is none: whoever reads the object later trusts
 * that it is. */
static const char *type_of(
    struct mob_http_request *request, const char *media, const char *bytes, size_t length)
{
    const char *type = media ? NULL : "bytes";
    for (size_t i = 0; !type && i < sizeof put_types / sizeof *put_types; i++)
        if (mob_http_media_is(media, put_types[i].media))
            type = put_types[i].type;
    if (!type) {
        mob_problem_replyf(request, MOB_UNSUPPORTED_MEDIA,
            "takes application/octet-stream, application/json, text/plain, "
            "application/vnd.apache.arrow.stream, application/x-npy, application/vnd.mobula.pickle5, "
            "and these as parts of multipart/form-data");
        mob_api_send(request);
        return NULL;
    }
    if (strcmp(type, "utf8") == 0 && !json_utf8_ok(bytes, length)) {
        mob_api_fail(
            request, MOB_BAD_REQUEST, "the body is not UTF-8: other bytes go as application/octet-stream");
        return NULL;
    }
    if (strcmp(type, "json") != 0)
        return type;
    char message[256];
    json_t *root = mob_json_parse(bytes, length, message, sizeof message);
    if (!root)
        mob_api_fail(request, MOB_BAD_REQUEST, "the body is not JSON: %s", message);
    json_decref(root);
    return root ? type : NULL;
}

/* --- one --- */

static void write_put(struct mob_text *t, struct mob_object_id object, size_t size)
{
    char id[MOB_ID_TEXT_MAX];
    mob_object_id_format(object, id);
    mob_text_printf(t, "\"id\":\"%s\",\"state\":\"ready\",\"size\":%zu}", id, size);
}

static void answer_put(struct mob_http_request *request, struct mob_engine_op *op)
{
    char id[MOB_ID_TEXT_MAX];
    struct mob_text t = {0};
    mob_http_reply_headerf(request, "Location", "/api/v1/objects/%s", mob_object_id_format(op->put.id, id));
    mob_text_putc(&t, '{');
    write_put(&t, op->put.id, op->put.value_bytes);
    mob_text_putc(&t, '\n');
    mob_http_reply_text(request, 201, "application/json", &t);
}

static void put_one(struct mob_http_request *request, const char *media, const char *bytes, size_t length)
{
    const char *type = type_of(request, media, bytes, length);
    struct mob_engine_op *op = type ? mob_api_op(request, MOB_ENGINE_OBJECT_PUT) : NULL;
    if (!op)
        return;
    op->put.type = strdup(type);
    op->put.payload = bytes;
    op->put.size = length;
    mob_api_run(request, op, answer_put, 0, NULL);
}

/* --- several --- */

/* One request's puts. The last to be done answers.
 *
 * Under an Idempotency-Key each part has a key of its own, so that each finds what it made before. The first
 * one's is the request's: it goes alone, since it says whether the key stands for this body at all.
 */
struct puts {
    struct mob_http_request *request;
    _Atomic size_t left;
    size_t count;
    bool keyed;
    struct put {
        struct puts *all;
        struct mob_engine_op *op;
        struct mob_part part;
    } puts[];
};

static void puts_destroy(struct puts *all)
{
    for (size_t i = 0; i < all->count; i++)
        mob_engine_op_destroy(all->puts[i].op);
    free(all);
}

/* False: the key stands for another body, and nothing is remembered of this one. */
static bool key_is_ours(struct mob_http_request *request, const struct puts *all)
{
    const struct mob_engine_key *key = all->puts[0].op->key;
    if (key && key->other_body) {
        mob_idempotency_forget(mob_api_of(request)->idempotency, request);
        return false;
    }
    if (key && key->again)
        mob_idempotency_mark(request);
    return true;
}

static void answer_puts(struct mob_http_request *request, void *cls)
{
    const struct puts *all = cls;
    struct mob_text t = {0};
    if (!key_is_ours(request, all)) {
        mob_problem_reply_error(request, &all->puts[0].op->error);
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        if (all->puts[i].op->error.status != MOB_OK) {
            mob_problem_reply_error(request, &all->puts[i].op->error);
            return;
        }
    mob_text_puts(&t, "{\"items\":[");
    for (size_t i = 0; i < all->count; i++) {
        const struct put *put = &all->puts[i];
        mob_text_puts(&t, i > 0 ? ",{\"name\":" : "{\"name\":");
        mob_text_json_cstring(&t, put->part.name);
        mob_text_putc(&t, ',');
        write_put(&t, put->op->put.id, put->op->put.value_bytes);
    }
    mob_text_puts(&t, "]}\n");
    mob_http_reply_text(request, 201, "application/json", &t);
}

/* From the one at `first` on; when it returns, the last one may have freed `all`. */
static void post_puts(struct puts *all, size_t first, size_t end)
{
    struct mob_engine *engine = mob_api_of(all->request)->parts.engine;
    for (size_t i = first; i < end; i++)
        mob_engine_post(engine, all->puts[i].op);
}

static void one_done(struct mob_engine_op *op)
{
    struct put *put = op->context;
    struct puts *all = put->all;
    size_t count = all->count;
    bool leads = all->keyed && put == all->puts && count > 1;
    if (leads && op->error.status == MOB_OK) {
        atomic_fetch_sub(&all->left, 1);
        post_puts(all, 1, count);
        return;
    }
    if (!leads && atomic_fetch_sub(&all->left, 1) > 1)
        return;
    mob_api_deliver(all->request, answer_puts, all);
    puts_destroy(all);
}

static struct mob_module_hash scope_of_part(struct mob_module_hash scope, uint32_t part)
{
    struct {
        struct mob_module_hash scope;
        uint32_t part;
    } of = {scope, part};
    return part == 0 ? scope : mob_module_hash(&of, sizeof of);
}

/* False: the request has no key. */
static bool key_puts(const struct mob_http_request *request, struct puts *all)
{
    struct mob_engine_key key;
    if (!mob_api_key(request, &key))
        return false;
    for (size_t i = 0; i < all->count; i++) {
        struct mob_engine_op *op = all->puts[i].op;
        op->key = malloc(sizeof *op->key);
        MOB_ASSERT(op->key != NULL);
        *op->key = key;
        op->key->scope = scope_of_part(key.scope, (uint32_t)i);
    }
    return true;
}

static void run_puts(struct mob_http_request *request, struct puts *all)
{
    size_t count = all->count;
    all->request = request;
    atomic_init(&all->left, count);
    all->keyed = key_puts(request, all);
    mob_http_park(request, mob_api_deadline(request, 0), mob_api_outcome_unknown);
    post_puts(all, 0, all->keyed ? 1 : count);
}

/* False: answered. */
static bool make_put(struct mob_http_request *request, struct puts *all, struct put *put)
{
    const char *type = type_of(request, put->part.media_type, put->part.bytes, put->part.length);
    put->op = type ? mob_api_op(request, MOB_ENGINE_OBJECT_PUT) : NULL;
    if (!put->op)
        return false;
    put->all = all;
    put->op->put.type = strdup(type);
    put->op->put.payload = put->part.bytes;
    put->op->put.size = put->part.length;
    put->op->done = one_done;
    put->op->context = put;
    return true;
}

static void put_parts(struct mob_http_request *request, const char *media)
{
    struct mob_multipart parts;
    struct puts *all = calloc(1, sizeof *all + MOB_API_PUT_PARTS_MAX * sizeof(struct put));
    if (!all) {
        mob_api_fail(request, MOB_NO_MEMORY, "out of memory");
        return;
    }
    const char *body = request->body ? request->body : "";
    struct mob_part extra;
    enum mob_status status = mob_multipart_open(&parts, media, body, request->body_length);
    while (status == MOB_OK && all->count < MOB_API_PUT_PARTS_MAX) {
        status = mob_multipart_next(&parts, &all->puts[all->count].part);
        all->count += status == MOB_OK;
    }
    if (status == MOB_OK)
        status = mob_multipart_next(&parts, &extra);
    if (status != MOB_NOT_FOUND || all->count == 0) {
        mob_api_fail(request, MOB_BAD_REQUEST,
            status == MOB_OK ? "more than %d parts" : "the body is not 1 to %d whole parts of its boundary",
            MOB_API_PUT_PARTS_MAX);
        free(all);
        return;
    }
    bool made = true;
    for (size_t i = 0; made && i < all->count; i++)
        made = make_put(request, all, &all->puts[i]);
    if (made)
        run_puts(request, all);
    else
        puts_destroy(all);
}

void mob_api_object_put(struct mob_api *api, struct mob_http_request *request)
{
    (void)api;
    const char *media = mob_http_header(request, "Content-Type");
    if (media && strncasecmp(media, "multipart/", 10) == 0)
        put_parts(request, media);
    else
        put_one(request, media, request->body ? request->body : "", request->body_length);
}
