/* The function table: names to content hashes, kept in the GCS (table FUNCTIONS) and cached here. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/functions.h"

enum { FUNCTION_BUCKETS = 1024, FUNCTIONS_MAX = 65536, LOAD_TIMEOUT_SECONDS = 30 };
struct function_table {
    struct node_function *by_id[FUNCTION_BUCKETS];
    struct node_function *by_name[FUNCTION_BUCKETS]; /* all versions of a name */
    uint32_t count;
    uint64_t deployment; /* the latest that is known */
};

struct function_table *function_table_create(void)
{
    struct function_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    return table;
}

void function_table_destroy(struct function_table *table)
{
    if (!table)
        return;
    for (int i = 0; i < FUNCTION_BUCKETS; i++)
        while (table->by_id[i]) {
            struct node_function *next = table->by_id[i]->next;
            free(table->by_id[i]->name);
            free(table->by_id[i]->signature);
            free(table->by_id[i]->reads);
            free(table->by_id[i]);
            table->by_id[i] = next;
        }
    free(table);
}

static struct node_function **bucket_of(struct function_table *table, struct mob_function_id id)
{
    uint32_t h;
    memcpy(&h, id.b, 4); /* a hash already */
    return &table->by_id[h % FUNCTION_BUCKETS];
}

uint32_t node_functions_room(const struct node *node)
{
    return FUNCTIONS_MAX - node->functions->count;
}

struct node_function *node_function_by_id(struct node *node, struct mob_function_id id)
{
    struct node_function *f = *bucket_of(node->functions, id);
    while (f && memcmp(&f->id, &id, sizeof id) != 0)
        f = f->next;
    return f;
}

static struct node_function **bucket_named(struct function_table *table, const char *name, size_t length)
{
    return &table->by_name[mob_hash64(name, length) % FUNCTION_BUCKETS];
}

static bool is_named(const struct node_function *f, const char *name, size_t length)
{
    return strlen(f->name) == length && memcmp(f->name, name, length) == 0;
}

static bool hash_matches(const struct node_function *f, const char *text)
{
    char hash[64];
    mob_base32_encode(f->module.b, sizeof f->module.b, hash);
    return strncmp(hash, text, strlen(text)) == 0 && strlen(text) >= 8;
}

struct node_function *node_function_by_name(struct node *node, const char *name)
{
    const char *at = strchr(name, '@');
    size_t length = at ? (size_t)(at - name) : strlen(name);
    struct node_function *f = *bucket_named(node->functions, name, length);
    while (f &&
        (f->leaving || f->gone || !is_named(f, name, length) || !(at ? hash_matches(f, at + 1) : f->newest)))
        f = f->next_named;
    return f;
}

enum mob_status node_module_find(struct node *node, const char *text, struct mob_module_hash *module_out,
    struct node_function ***functions_out, uint32_t *count_out)
{
    const char *at = strchr(text, '@'), *hash = at ? at + 1 : text;
    size_t length = at ? (size_t)(at - text) : 0;
    struct node_function **functions = NULL;
    uint32_t count = 0;
    bool named = !at, several = false;
    for (int i = 0; i < FUNCTION_BUCKETS; i++)
        for (struct node_function *f = node->functions->by_id[i]; f; f = f->next) {
            if (f->gone || !hash_matches(f, hash))
                continue;
            several |= count > 0 && memcmp(&functions[0]->module, &f->module, sizeof f->module) != 0;
            named |= is_named(f, text, length);
            functions = realloc(functions, (count + 1) * sizeof(struct node_function *));
            MOB_ASSERT(functions);
            functions[count++] = f;
        }
    if (several || !named || count == 0) {
        free(functions);
        return several ? MOB_INVALID : MOB_NOT_FOUND;
    }
    *module_out = functions[0]->module;
    *functions_out = functions;
    *count_out = count;
    return MOB_OK;
}

void node_function_is_newest(struct node *node, const struct mob_gcs_kv *row)
{
    struct function_record record;
    if (row->value_length < sizeof record)
        return;
    memcpy(&record, row->value, sizeof record);
    struct node_function *f = node_function_by_id(node, record.id);
    if (f && !f->gone)
        f->newest = true;
}

/* Keys and values of the control store end where their length says, without a terminator. */
static char *text_copy(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    MOB_ASSERT(copy);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

bool node_function_reads(const struct node_function *class, uint16_t method)
{
    return method / 8u < class->reads_bytes && class->reads[method / 8u] >> (method % 8u) & 1;
}

/* What stands behind the record in a row. */
struct row_text {
    const char *at, *end;
};
struct row_extension {
    uint16_t tag;
    uint32_t bytes;
    const char *payload;
};

/* The next one, from behind the signature on. False: there are no more. */
static bool next_extension(struct row_text *text, struct row_extension *out)
{
    if (text->end - text->at < (ptrdiff_t)FUNCTION_ROW_EXT_HEAD)
        return false;
    memcpy(&out->tag, text->at, sizeof out->tag);
    memcpy(&out->bytes, text->at + 4, sizeof out->bytes);
    out->payload = text->at + FUNCTION_ROW_EXT_HEAD;
    if (out->bytes > (size_t)(text->end - out->payload))
        return false;
    text->at = out->payload + out->bytes;
    return true;
}

/* Past the signature. */
static struct row_text extensions_of(const char *text, size_t length)
{
    size_t signature = strnlen(text, length);
    return (struct row_text){text + signature + (signature < length), text + length};
}

static uint64_t deployment_in(struct row_text text)
{
    struct row_extension ext;
    uint64_t number = 0;
    while (next_extension(&text, &ext))
        if (ext.tag == FUNCTION_ROW_DEPLOYMENT && ext.bytes == sizeof number)
            memcpy(&number, ext.payload, sizeof number);
    return number;
}

uint64_t node_function_row_deployment(const struct mob_gcs_kv *row)
{
    const size_t head = sizeof(struct function_record);
    if (row->value_length < head)
        return 0;
    return deployment_in(extensions_of((const char *)row->value + head, row->value_length - head));
}

uint64_t node_deployment_number(struct node *node)
{
    struct function_table *table = node->functions;
    uint64_t now = (uint64_t)mob_wall_now();
    table->deployment = now > table->deployment ? now : table->deployment + 1;
    return table->deployment;
}

static void read_reads(struct node_function *f, struct row_text text)
{
    struct row_extension ext;
    while (next_extension(&text, &ext))
        if (ext.tag == FUNCTION_ROW_READ_ONLY && ext.bytes > 0) {
            free(f->reads);
            f->reads = malloc(ext.bytes);
            MOB_ASSERT(f->reads);
            memcpy(f->reads, ext.payload, ext.bytes);
            f->reads_bytes = ext.bytes;
        }
}

struct node_function *node_function_add(struct node *node, const char *name, size_t name_length,
    const struct function_record *record, const char *text, size_t text_length, bool newest)
{
    struct function_table *table = node->functions;
    const struct row_text extensions = extensions_of(text, text_length);
    const uint64_t deployment = deployment_in(extensions);
    struct node_function *f = node_function_by_id(node, record->id);
    if (!f) {
        if (table->count >= FUNCTIONS_MAX)
            return NULL;
        f = calloc(1, sizeof *f);
        MOB_ASSERT(f);
        f->id = record->id;
        f->module = record->module;
        f->name = text_copy(name, name_length);
        f->signature = text_copy(text, strnlen(text, text_length));
        f->kind = record->kind;
        f->method_count = record->method_count;
        f->number = table->count++;
        struct node_function **bucket = bucket_of(table, f->id);
        f->next = *bucket;
        *bucket = f;
        bucket = bucket_named(table, f->name, name_length);
        f->next_named = *bucket;
        *bucket = f;
    }
    f->gone = false; /* deployed again */
    f->flags = record->flags; /* a row that an older node wrote has none */
    read_reads(f, extensions);
    if (deployment > table->deployment)
        table->deployment = deployment;
    if (newest) {
        size_t length = strlen(f->name);
        struct node_function *other = *bucket_named(table, f->name, length);
        for (; other; other = other->next_named)
            if (is_named(other, f->name, length))
                other->newest = other == f;
    }
    return f;
}

static void load_row(void *arg, const struct mob_gcs_kv *kv)
{
    struct node *node = arg;
    struct function_record record;
    if (kv->value_length < sizeof record)
        return;
    memcpy(&record, kv->value, sizeof record);
    if (record.version != FUNCTION_RECORD_VERSION) {
        MOB_LOG_WARN(
            "functions", "row_skipped", "version=%u known=%d", record.version, FUNCTION_RECORD_VERSION);
        return;
    }
    const char *name = (const char *)kv->key;
    const char *at = memchr(name, '@', kv->key_length);
    size_t name_length = at ? (size_t)(at - name) : kv->key_length;
    node_function_add(node, name, name_length, &record, (const char *)kv->value + sizeof record,
        kv->value_length - sizeof record, at == NULL);
}

enum mob_status node_functions_load(struct node *node)
{
    return mob_gcs_each_row_wait(
        node->gcs, MOB_GCS_FUNCTIONS, mob_deadline_after(LOAD_TIMEOUT_SECONDS * MOB_SEC), load_row, node);
}

bool node_module_is_known(const struct node *node, struct mob_module_hash module)
{
    for (int i = 0; i < FUNCTION_BUCKETS; i++)
        for (const struct node_function *f = node->functions->by_id[i]; f; f = f->next)
            if (!f->gone && memcmp(&f->module, &module, sizeof module) == 0)
                return true;
    return false;
}

char *node_functions_json(struct node *node)
{
    json_t *items = json_array();
    for (int i = 0; i < FUNCTION_BUCKETS; i++)
        for (struct node_function *f = node->functions->by_id[i]; f; f = f->next) {
            if (f->gone)
                continue;
            char hash[64], id[MOB_ID_TEXT_MAX];
            mob_base32_encode(f->module.b, sizeof f->module.b, hash);
            json_array_append_new(items,
                json_pack("{s:s,s:s,s:s,s:s,s:s,s:b}", "name", f->name, "id",
                    mob_function_id_format(f->id, id), "module_hash", hash, "kind",
                    f->kind == MOB_KIND_TASK ? "function" : "class", "signature", f->signature, "newest",
                    (int)f->newest));
        }
    char *text = json_dumps(items, JSON_COMPACT);
    json_decref(items);
    return text;
}
