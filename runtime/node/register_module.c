#include "runtime/node/register_module.h"

#include <mobula/mobula.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/wire/signature.h"

/* Sent and not answered: others have something to write as well. */
enum { ROWS_ON_THEIR_WAY_MAX = 256 };

/* A function or class, with its methods' lines. */
struct described {
    char *name;
    uint16_t kind, methods, flags;
    char *signature;
    uint8_t reads[FUNCTION_METHODS_MAX / 8]; /* bits: which methods are read-only */
};

struct registration {
    struct registration *next; /* comes behind this one */
    struct node *node;
    struct mob_module_hash module;
    char *text, *signatures; /* what names and signatures lie in */
    char *name; /* of the module */
    uint64_t deployment; /* 0: it has not begun */
    struct described *functions;
    uint32_t count, capacity;
    uint32_t rows; /* sent: two a function */
    uint32_t waiting; /* of these, for their answers */
    enum mob_status status;
    void (*done)(void *arg, enum mob_status status, const char *message);
    void *arg;
};

/* ---- reading lines ---- */

int described_split(char *line, char *fields[DESCRIBED_FIELDS_MAX])
{
    int n = 0;
    for (char *at = line; at && n < DESCRIBED_FIELDS_MAX; n++) {
        fields[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return n;
}

static struct described *add_described(struct registration *r)
{
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->functions = realloc(r->functions, r->capacity * sizeof *r->functions);
        MOB_ASSERT(r->functions);
    }
    return &r->functions[r->count++];
}

static void add_method(struct described *class, uint32_t flags)
{
    if ((flags & MOB_METHOD_READ_ONLY) && class->methods < FUNCTION_METHODS_MAX)
        class->reads[class->methods / 8] |= (uint8_t)(1u << class->methods % 8);
    class->methods++;
}

/* A class' signature is its constructor's, then a line "method signature" each. All of them together are
 * shorter than the lines that they come from. */
static void read_lines(struct registration *r)
{
    char *save = NULL, *fields[DESCRIBED_FIELDS_MAX], *at = r->signatures;
    struct described *last = NULL;
    for (char *line = strtok_r(r->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int n = described_split(line, fields);
        bool class = strcmp(fields[0], "class") == 0;
        if (n >= 2 && strcmp(fields[0], "module") == 0) {
            r->name = fields[1];
        } else if (n >= 4 && strcmp(fields[0], "method") == 0 && last) {
            at += sprintf(at - 1, "\n%s %s", fields[1], fields[3]);
            add_method(last, (uint32_t)strtoul(fields[2], NULL, 10));
        } else if (n >= 4 && (class || strcmp(fields[0], "function") == 0)) {
            last = add_described(r);
            *last = (struct described){.name = fields[1],
                .kind = class ? MOB_KIND_ACTOR_CREATE : MOB_KIND_TASK,
                .flags = (uint16_t)strtoul(fields[2], NULL, 10),
                .signature = at};
            at += sprintf(at, "%s", fields[3]) + 1;
        }
    }
}

/* The module's own code ran in the process that printed them. */
static bool names_are_good(const struct registration *r)
{
    bool good = mob_callable_name_ok(r->name);
    for (uint32_t i = 0; good && i < r->count; i++)
        good = mob_callable_name_ok(r->functions[i].name);
    return good;
}

/* ---- rows ---- */

static void go_on(struct registration *r);

static void free_registration(struct registration *r)
{
    free(r->functions);
    free(r->signatures);
    free(r->text);
    free(r);
}

static struct function_record record_of(const struct registration *r, const struct described *one)
{
    return (struct function_record){.version = FUNCTION_RECORD_VERSION,
        .kind = one->kind,
        .method_count = one->methods,
        .flags = one->flags,
        .id = mob_function_id(r->module, one->name),
        .module = r->module};
}

/* As many bytes as have a bit that is set. */
static uint32_t reads_bytes(const struct described *one)
{
    uint32_t bytes = sizeof one->reads;
    while (bytes > 0 && one->reads[bytes - 1] == 0)
        bytes--;
    return bytes;
}

/* Behind it. */
static char *put_extension(char *at, enum function_row_ext ext, const void *payload, uint32_t bytes)
{
    const uint16_t tag = (uint16_t)ext;
    memcpy(at, &tag, sizeof tag);
    memcpy(at + 4, &bytes, sizeof bytes);
    memcpy(at + FUNCTION_ROW_EXT_HEAD, payload, bytes);
    return at + FUNCTION_ROW_EXT_HEAD + bytes;
}

/* A row: the record, and behind it *text_out of *text_bytes_out. Gives. */
static uint8_t *row_of(
    const struct registration *r, const struct described *one, char **text_out, size_t *text_bytes_out)
{
    const struct function_record record = record_of(r, one);
    const uint32_t bytes = reads_bytes(one);
    const size_t signature = strlen(one->signature);
    uint8_t *row =
        calloc(1, sizeof record + signature + 1 + 2 * FUNCTION_ROW_EXT_HEAD + sizeof r->deployment + bytes);
    MOB_ASSERT(row);
    memcpy(row, &record, sizeof record);
    char *text = (char *)row + sizeof record;
    memcpy(text, one->signature, signature);
    char *end = text + signature + 1;
    if (bytes > 0)
        end = put_extension(end, FUNCTION_ROW_READ_ONLY, one->reads, bytes);
    end = put_extension(end, FUNCTION_ROW_DEPLOYMENT, &r->deployment, sizeof r->deployment);
    *text_out = text;
    *text_bytes_out = (size_t)(end - text);
    return row;
}

static void row_done(void *arg, const struct mob_gcs_answer *answer)
{
    struct registration *r = arg;
    r->waiting--;
    if (answer->status != MOB_OK)
        r->status = answer->status;
    go_on(r);
}

/* The name's row, then the pinned one. */
static enum mob_status put_row(struct registration *r, const struct described *one, bool pinned)
{
    char key[MOB_GCS_KEY_MAX], hash[64], *text;
    size_t text_bytes;
    uint8_t *value = row_of(r, one, &text, &text_bytes);
    mob_base32_encode(r->module.b, sizeof r->module.b, hash);
    int length =
        snprintf(key, sizeof key, "%s.%s%s%s", r->name, one->name, pinned ? "@" : "", pinned ? hash : "");
    MOB_ASSERT(length < (int)sizeof key); /* names_are_good */
    struct mob_gcs_put put = {
        .table = MOB_GCS_FUNCTIONS,
        .key = key,
        .key_length = (uint32_t)length,
        .value = value,
        .value_length = (uint32_t)(sizeof(struct function_record) + text_bytes),
        .if_version = MOB_GCS_ANY_VERSION,
    };
    enum mob_status status = mob_gcs_put(r->node->gcs, &put, row_done, r);
    free(value);
    return status;
}

static void put_rows(struct registration *r)
{
    while (r->status == MOB_OK && r->rows < 2 * r->count && r->waiting < ROWS_ON_THEIR_WAY_MAX) {
        enum mob_status status = put_row(r, &r->functions[r->rows / 2], r->rows % 2 != 0);
        if (status == MOB_QUEUE_FULL) /* goes on with an answer, or at the next tick */
            return;
        r->status = status;
        r->rows += status == MOB_OK;
        r->waiting += status == MOB_OK;
    }
}

/* ---- the node's table ---- */

static void enter_table(const struct registration *r)
{
    char name[2 * MOB_CALLABLE_NAME_MAX + 2], *text;
    size_t text_bytes;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct described *one = &r->functions[i];
        struct function_record record = record_of(r, one);
        int length = snprintf(name, sizeof name, "%s.%s", r->name, one->name);
        uint8_t *row = row_of(r, one, &text, &text_bytes);
        struct node_function *f =
            node_function_add(r->node, name, (size_t)length, &record, text, text_bytes, true);
        MOB_ASSERT(f); /* has_room */
        free(row);
    }
}

static bool has_room(const struct registration *r)
{
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < r->count; i++)
        fresh += !node_function_by_id(r->node, mob_function_id(r->module, r->functions[i].name));
    return fresh <= node_functions_room(r->node);
}

/* ---- one after the other ---- */

/* It is the first. */
static void end(struct registration *r, enum mob_status status, const char *message)
{
    struct node *node = r->node;
    node->registrations = r->next;
    r->done(r->arg, status, message);
    free_registration(r);
    if (node->registrations)
        go_on(node->registrations);
}

static void go_on(struct registration *r)
{
    if (r->rows == 0 && !has_room(r)) {
        end(r, MOB_QUEUE_FULL, "the function table has no room for so many");
        return;
    }
    if (r->deployment == 0)
        r->deployment = node_deployment_number(r->node);
    put_rows(r);
    if (r->waiting > 0 || (r->status == MOB_OK && r->rows < 2 * r->count))
        return;
    if (r->status == MOB_OK)
        enter_table(r);
    end(r, r->status, "the control store refused the function table's rows");
}

void node_register_module(struct node *node, struct mob_module_hash module, char *text,
    void (*done)(void *arg, enum mob_status status, const char *message), void *arg)
{
    struct registration *r = calloc(1, sizeof *r), **last = &node->registrations;
    MOB_ASSERT(r);
    *r = (struct registration){.node = node,
        .module = module,
        .text = text,
        .done = done,
        .arg = arg,
        .signatures = malloc(strlen(text) + 1)};
    MOB_ASSERT(r->signatures);
    read_lines(r);
    if (r->count == 0 || !names_are_good(r)) {
        done(arg, MOB_INVALID,
            r->count == 0 ? "the module has no functions"
                          : "the module describes itself with names that cannot be");
        free_registration(r);
        return;
    }
    while (*last)
        last = &(*last)->next;
    *last = r;
    if (node->registrations == r)
        go_on(r);
}

void node_registrations_tick(struct node *node)
{
    if (node->registrations && node->registrations->waiting == 0)
        go_on(node->registrations);
}

void node_registrations_drop(struct node *node)
{
    while (node->registrations) {
        struct registration *next = node->registrations->next;
        free_registration(node->registrations);
        node->registrations = next;
    }
}
