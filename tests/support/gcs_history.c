#include "tests/support/gcs_history.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/sim/lincheck.h"

#define STATES_MAX 200000u
#define LINE_MAX_BYTES 512

void gcs_history_key(uint32_t key, char out[16])
{
    snprintf(out, 16, "h%06u", key);
}

size_t gcs_history_call(struct gcs_history *h, const struct gcs_op *op)
{
    if (h->count == h->capacity) {
        h->capacity = h->capacity == 0 ? 4096 : h->capacity * 2;
        h->ops = realloc(h->ops, h->capacity * sizeof *h->ops);
        MOB_ASSERT(h->ops != NULL);
    }
    struct gcs_op *o = &h->ops[h->count];
    *o = *op;
    o->outcome = GCS_OP_UNKNOWN;
    o->return_ns = LINCHECK_NEVER;
    o->call_ns = mob_now();
    return h->count++;
}

void gcs_history_return(struct gcs_history *h, size_t at, enum gcs_op_outcome outcome, uint64_t value)
{
    struct gcs_op *o = &h->ops[at];
    MOB_ASSERT(at < h->count && o->return_ns == LINCHECK_NEVER);
    o->return_ns = mob_now();
    o->outcome = outcome;
    if (!o->put)
        o->value = value;
}

void gcs_history_fini(struct gcs_history *h)
{
    free(h->ops);
    *h = (struct gcs_history){0};
}

/* ---- the file ---- */

static void write_op(FILE *file, const struct gcs_op *o)
{
    char key[16], value[32] = "null", returned[32] = "null";
    static const char *const outcomes[] = {"null", "true", "false"};
    gcs_history_key(o->key, key);
    if (o->value != 0)
        snprintf(value, sizeof value, "%" PRIu64, o->value);
    if (o->return_ns != LINCHECK_NEVER)
        snprintf(returned, sizeof returned, "%" PRId64, o->return_ns);
    fprintf(file,
        "{\"client\":%u,\"op\":\"%s\",\"key\":\"%s\",\"value\":%s,\"call_ns\":%" PRId64
        ",\"return_ns\":%s,\"ok\":%s}\n",
        o->client, o->put ? "put" : "get", key, value, o->call_ns, returned, outcomes[o->outcome]);
}

bool gcs_history_write(const struct gcs_history *h, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    for (size_t i = 0; i < h->count; i++)
        write_op(file, &h->ops[i]);
    bool good = ferror(file) == 0;
    return fclose(file) == 0 && good;
}

static bool parse_op(const char *line, struct gcs_op *out)
{
    json_t *client, *op, *key, *value, *call, *returned, *ok;
    json_t *all = json_loads(line, 0, NULL);
    bool good = json_unpack(all, "{s:o, s:o, s:o, s:o, s:o, s:o, s:o !}", "client", &client, "op", &op, "key",
                    &key, "value", &value, "call_ns", &call, "return_ns", &returned, "ok", &ok) == 0;
    good = good && json_is_integer(client) && json_is_string(op) && json_is_string(key) &&
        json_is_integer(call) && (json_is_integer(value) || json_is_null(value)) &&
        (json_is_integer(returned) || json_is_null(returned)) && (json_is_boolean(ok) || json_is_null(ok));
    if (good) {
        *out = (struct gcs_op){.client = (uint32_t)json_integer_value(client),
            .put = strcmp(json_string_value(op), "put") == 0,
            .outcome = json_is_null(ok) ? GCS_OP_UNKNOWN
                : json_is_true(ok)      ? GCS_OP_DONE
                                        : GCS_OP_REFUSED,
            .value = (uint64_t)json_integer_value(value),
            .call_ns = json_integer_value(call),
            .return_ns = json_is_null(returned) ? LINCHECK_NEVER : json_integer_value(returned)};
        good = (out->put || strcmp(json_string_value(op), "get") == 0) &&
            sscanf(json_string_value(key), "h%u", &out->key) == 1 && (!out->put || out->value != 0) &&
            (out->outcome == GCS_OP_UNKNOWN) == (out->return_ns == LINCHECK_NEVER);
    }
    json_decref(all);
    return good;
}

bool gcs_history_read(struct gcs_history *h, const char *path)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "re");
    bool good = file != NULL;
    for (size_t number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
        struct gcs_op op = {0};
        good = parse_op(line, &op);
        if (!good)
            fprintf(stderr, "%s:%zu: not an operation: %s", path, number, line);
        size_t at = good ? gcs_history_call(h, &op) : 0;
        if (good)
            h->ops[at] = op;
    }
    if (file == NULL)
        fprintf(stderr, "%s cannot be read\n", path);
    else
        fclose(file);
    return good;
}

/* ---- the verdict ---- */

static int by_key(const void *a, const void *b)
{
    const struct gcs_op *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->call_ns < y->call_ns ? -1 : x->call_ns > y->call_ns;
}

/* False: it says nothing (refused, or a get that nobody heard of). The version of a write is its value, which
 * is unique. */
static bool convert(const struct gcs_op *o, struct lincheck_op *out)
{
    *out = (struct lincheck_op){.type = o->put ? LINCHECK_PUT : LINCHECK_GET,
        .outcome = LINCHECK_DONE,
        .value = o->value,
        .version = o->value,
        .call_at = o->call_ns,
        .return_at = o->return_ns};
    if (o->outcome == GCS_OP_UNKNOWN)
        out->outcome = LINCHECK_UNKNOWN;
    else if (!o->put && o->value == 0)
        out->outcome = LINCHECK_ABSENT;
    return o->outcome != GCS_OP_REFUSED && (o->put || o->outcome != GCS_OP_UNKNOWN);
}

static void check_key(
    const struct lincheck_op *ops, size_t count, uint32_t key, struct gcs_history_verdict *out)
{
    enum lincheck_result result = lincheck(ops, count, STATES_MAX);
    out->keys++;
    out->given_up += result == LINCHECK_GAVE_UP;
    if (result != LINCHECK_VIOLATED || out->violated)
        return;
    out->violated = true;
    out->key = key;
}

void gcs_history_check(const struct gcs_history *h, struct gcs_history_verdict *out)
{
    struct gcs_op *sorted = malloc((h->count + 1) * sizeof *sorted);
    struct lincheck_op *ops = malloc((h->count + 1) * sizeof *ops);
    MOB_ASSERT(sorted != NULL && ops != NULL);
    *out = (struct gcs_history_verdict){0};
    if (h->count > 0)
        memcpy(sorted, h->ops, h->count * sizeof *sorted);
    qsort(sorted, h->count, sizeof *sorted, by_key);
    size_t of_key = 0;
    for (size_t i = 0; i < h->count; i++) {
        out->done += sorted[i].outcome == GCS_OP_DONE;
        out->unknown += sorted[i].outcome == GCS_OP_UNKNOWN;
        of_key += convert(&sorted[i], &ops[of_key]);
        if (i + 1 == h->count || sorted[i + 1].key != sorted[i].key) {
            check_key(ops, of_key, sorted[i].key, out);
            of_key = 0;
        }
    }
    free(ops);
    free(sorted);
}
