/* Every version of every format must decode for ever. tests/golden/wire holds, per format and version, the
 * bytes (NAME.bin) and what they say (NAME.txt); here they are decoded and described again.
 *
 * For a new version, add a maker below and run this once with MOBULA_GOLDEN_WRITE=1: it writes the files that
 * are missing and changes none that are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/block.h"
#include "common/wire/bucket.h"
#include "common/wire/checkpoint_row.h"
#include "common/wire/recover_row.h"
#include "common/wire/signature.h"
#include "common/wire/tensor.h"
#include "tests/support/wire_samples.h"

enum { FILE_MAX = 1 << 18, TEXT_MAX = 1 << 20 };

/* ---- text ---- */

static char text[TEXT_MAX];
static size_t used;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    assert_in_range(n, 0, sizeof text - used - 1);
    used += (size_t)n;
}

static void say_bytes(const char *name, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    say("  %s %zu:", name, n);
    for (size_t i = 0; i < n; i++)
        say("%02x", p[i]);
    say("\n");
}

static void say_task(const char *name, struct mob_task_id id)
{
    char id_text[MOB_ID_TEXT_MAX];
    say("  %s %s\n", name, mob_task_id_format(id, id_text));
}

/* ---- what each format says ---- */

static void describe_value(const uint8_t *bytes, size_t length)
{
    struct mob_value_view v;
    assert_int_equal(mob_value_open(bytes, length, &v), MOB_OK);
    assert_int_equal(mob_value_verify(bytes, length), MOB_OK);
    say("value %s\n", mob_value_type_name(v.type));
    say_bytes("payload", v.payload, v.payload_bytes);
    say_bytes("object_refs", v.object_refs, v.object_ref_count * sizeof(struct mob_object_id));
    say_bytes("actor_refs", v.actor_refs, v.actor_ref_count * sizeof(struct mob_actor_id));
    say("  hash %016llx %016llx\n", (unsigned long long)v.hash.lo, (unsigned long long)v.hash.hi);
}

static void say_spec(const struct mob_spec *s)
{
    const struct mob_spec_head *h = &s->head;
    say("spec kind %u runtime %u returns %u flags %u\n", h->kind, h->runtime, h->num_returns, h->flags);
    say_task("task", h->task);
    say_task("parent", h->parent);
    say_task("actor", h->actor.creation);
    say_bytes("job", &h->job, sizeof h->job);
    say_bytes("function", &h->function, sizeof h->function);
    say("  generation %u retries %d priority %d method %u cpu %u attempt %u seq %u\n", h->generation,
        h->max_retries, h->priority, h->method, h->cpu, h->attempt, h->caller_seq);
    say("  deadline %lld not_before %lld\n", (long long)h->deadline_wall_ns,
        (long long)h->not_before_wall_ns);
    struct mob_tail_iter it = mob_spec_args(s->tail);
    struct mob_arg_view arg;
    struct mob_ext_view ext;
    while (mob_tail_next_arg(&it, &arg)) {
        say("  arg %s %s\n", arg.is_ref ? "ref" : "value", mob_value_type_name(arg.type));
        say_bytes("payload", arg.payload, arg.payload_bytes);
    }
    while (mob_tail_next_ext(&it, &ext)) {
        say("  ext %u\n", ext.tag);
        say_bytes("payload", ext.payload, ext.payload_bytes);
    }
    struct mob_hash128 digest = mob_spec_digest(h, s->tail, s->tail_bytes);
    say("  digest %016llx %016llx\n", (unsigned long long)digest.lo, (unsigned long long)digest.hi);
}

static void describe_spec(const uint8_t *bytes, size_t length)
{
    struct mob_spec s;
    assert_int_equal(mob_spec_open(bytes, length, &s), MOB_OK);
    say_spec(&s);
}

static void say_return(const struct mob_return_view *r)
{
    say("  return slot %u %s flags %u size %llu hash %016llx %016llx\n", r->slot,
        mob_value_type_name(r->type), r->flags, (unsigned long long)r->size, (unsigned long long)r->hash.lo,
        (unsigned long long)r->hash.hi);
    if ((r->flags & MOB_RETURN_STORED) == 0)
        say_bytes("payload", r->payload, r->size);
}

static void say_completion(const struct mob_completion *c)
{
    const struct mob_completion_head *h = &c->head;
    struct mob_return_view r;
    uint32_t at = 0;
    say("completion flags %u status %s attempt %u generation %u worker %u peak %u\n", h->flags,
        mob_status_code((enum mob_status)h->status), h->attempt, h->generation, h->worker, h->peak_kb);
    say_task("task", h->task);
    say_task("actor", h->actor.creation);
    say("  submitted %lld ready %lld dispatched %lld started %lld finished %lld cpu %lld\n",
        (long long)h->submitted_ns, (long long)h->ready_ns, (long long)h->dispatched_ns,
        (long long)h->started_ns, (long long)h->finished_ns, (long long)h->cpu_ns);
    say("  position %llu incarnation %u\n", (unsigned long long)h->position, h->incarnation);
    while (mob_completion_next(c, &at, &r))
        say_return(&r);
}

static void describe_completion(const uint8_t *bytes, size_t length)
{
    struct mob_completion c;
    assert_int_equal(mob_completion_open(bytes, length, &c), MOB_OK);
    say_completion(&c);
}

static void describe_error(const uint8_t *bytes, size_t length)
{
    struct mob_error_link links[MOB_ERROR_LINKS_MAX];
    int count = mob_error_decode(bytes, length, links, MOB_ERROR_LINKS_MAX);
    for (int i = 0; i < count; i++) {
        say("error %s signal %d\n", mob_status_code(links[i].status), links[i].signal);
        say_task("task", links[i].task);
        say("  message %.*s\n", (int)links[i].message_bytes, links[i].message);
        say("  detail %.*s\n", (int)links[i].detail_bytes, links[i].detail);
    }
}

static void describe_tensor(const uint8_t *bytes, size_t length)
{
    struct mob_tensor_view v;
    assert_int_equal(mob_tensor_open(bytes, length, &v), MOB_OK);
    say("tensor %s [", mob_dtype_name(v.dtype));
    for (uint32_t i = 0; i < v.ndim; i++)
        say(" %lld", (long long)v.shape[i]);
    say(" ]\n");
    say_bytes("data", v.data, v.data_bytes);
}

static void say_zone(const struct mob_zone_map *z)
{
    say("zone time %lld %lld longest %lld specs %u finals %u failed %u others %u functions %u\n",
        (long long)z->time_min_ns, (long long)z->time_max_ns, (long long)z->longest_ns, z->specs, z->finals,
        z->failed, z->others, z->function_count);
    for (uint32_t i = 0; i < z->function_count && i < MOB_ZONE_FUNCTIONS_MAX; i++)
        say_bytes("function", &z->functions[i], sizeof z->functions[i]);
    for (uint32_t i = 0; i < z->group_count; i++) {
        say("  group %u specs %u finals %u others %u\n", z->groups[i].group, z->groups[i].specs,
            z->groups[i].finals, z->groups[i].others);
        say_bytes("stream", &z->groups[i].stream, sizeof z->groups[i].stream);
    }
}

static void say_other(const struct mob_entry *e)
{
    switch (e->type) {
    case MOB_ENTRY_PUT:
        say_task("put", e->put.id.task);
        say("  slot %u type %u flags %u size %llu inline %u hash %016llx %016llx\n", e->put.id.slot,
            e->put.type, e->put.flags, (unsigned long long)e->put.size, e->put.inline_bytes,
            (unsigned long long)e->put.hash.lo, (unsigned long long)e->put.hash.hi);
        break;
    case MOB_ENTRY_YIELD:
        say_task("yield", e->yield.task);
        say("  attempt %u item %u\n", e->yield.attempt, e->yield.item);
        say_return(&e->ret);
        break;
    case MOB_ENTRY_OUTCOME:
        say_task("outcome", e->outcome.task);
        say("  generation %u sequence %u kind %u\n", e->outcome.generation, e->outcome.sequence,
            e->outcome.kind);
        break;
    case MOB_ENTRY_EVENT:
        say_task("event", e->event.task);
        say("  at %lld span %lld type %u json %u\n", (long long)e->event.at_ns, (long long)e->event.span_ns,
            e->event.type_bytes, e->event.json_bytes);
        if (e->event.attempt != 0) /* none in version 1 */
            say("  attempt %u incarnation %u position %llu\n", e->event.attempt, e->event.incarnation,
                (unsigned long long)e->event.position);
        break;
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        say_task("edge of actor", e->edge.actor.creation);
        say_task("to", e->edge.task);
        say("  position %llu incarnation %u reason %u\n", (unsigned long long)e->edge.position,
            e->edge.incarnation, e->edge.reason);
        break;
    case MOB_ENTRY_ACTOR:
        say_task("actor", e->actor.actor.creation);
        say("  incarnation %u event %u position %llu reason %u\n", e->actor.incarnation, e->actor.event,
            (unsigned long long)e->actor.position, e->actor.reason);
        break;
    case MOB_ENTRY_HASH:
        say_task("hash", e->hash.id.task);
        say("  slot %u %016llx %016llx\n", e->hash.id.slot, (unsigned long long)e->hash.hash.lo,
            (unsigned long long)e->hash.hash.hi);
        break;
    case MOB_ENTRY_CANCEL:
        say_task("cancel", e->cancel.task);
        say("  force %u recursive %u\n", e->cancel.force, e->cancel.recursive);
        break;
    case MOB_ENTRY_JOB:
    case MOB_ENTRY_SPEC:
    case MOB_ENTRY_COMPLETION:
        break;
    }
    if (e->payload)
        say_bytes("payload", e->payload, e->payload_bytes);
}

static void describe_block(const uint8_t *bytes, size_t length)
{
    struct mob_block_decoder *d = mob_block_decoder_create();
    static struct mob_zone_map zone;
    static struct mob_entry e;
    struct mob_block_header h;
    assert_int_equal(mob_block_open(d, bytes, length, &h, &zone), MOB_OK);
    say("block incarnation %llu sequence %llu namespace %s wall %lld mono %lld entries %u\n",
        (unsigned long long)h.incarnation, (unsigned long long)h.sequence, h.ns, (long long)h.wall_ns,
        (long long)h.mono_ns, h.entry_count);
    say_bytes("cluster", &h.cluster, sizeof h.cluster);
    say_bytes("job", &h.job, sizeof h.job);
    say_zone(&zone);
    memset(&e, 0, sizeof e);
    while (mob_block_next(d, &e) == MOB_OK) {
        say("entry %d\n", (int)e.type);
        if (e.type == MOB_ENTRY_SPEC) {
            say("  submitted %lld\n", (long long)e.submitted_ns);
            say_spec(&e.spec);
        } else if (e.type == MOB_ENTRY_COMPLETION) {
            say_completion(&e.completion);
        } else {
            say_other(&e);
        }
        memset(&e, 0, sizeof e);
    }
    mob_block_decoder_destroy(d);
}

static void describe_bucket(const uint8_t *bytes, size_t length)
{
    struct mob_bucket_reader *r = mob_bucket_reader_create();
    struct mob_bucket_block b;
    uint32_t blocks;
    assert_int_equal(mob_bucket_open(r, bytes, length, &blocks), MOB_OK);
    say("bucket of %u blocks\n", blocks);
    while (mob_bucket_next(r, &b)) {
        static struct mob_zone_map zone;
        struct mob_block_header h;
        struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
        assert_int_equal(mob_block_peek(b.bytes, b.length, &h, &zone), MOB_OK);
        say("seq %llu whole %d\n", (unsigned long long)b.seq, b.whole);
        assert_int_equal(mob_bucket_origins(&b, origins, h.entry_count), MOB_OK);
        for (uint32_t i = 0; i < h.entry_count; i++)
            say("  from %llu %u\n", (unsigned long long)origins[i].seq, origins[i].ordinal);
        struct mob_hash128 hash = mob_hash128(b.bytes, b.length); /* blocks have a file of their own */
        say("  block of %u bytes, hash %016llx %016llx\n", b.length, (unsigned long long)hash.lo,
            (unsigned long long)hash.hi);
    }
    mob_bucket_reader_destroy(r);
}

static void describe_signatures(const uint8_t *bytes, size_t length)
{
    const char *at = (const char *)bytes, *end = at + length;
    static char schema[32 * 1024], canonical[4096];
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        struct mob_signature s;
        assert_non_null(line);
        assert_int_equal(mob_signature_parse(at, (size_t)(line - at), &s, NULL), MOB_OK);
        assert_true(mob_signature_format(&s, canonical, sizeof canonical) > 0);
        assert_true(mob_signature_json_schema(&s, schema, sizeof schema) > 0);
        say("%s\n  params %u required %u variadic %d returns %u stream %d\n  %s\n", canonical, s.param_count,
            s.required, s.variadic, s.return_count, s.stream, schema);
        at = line + 1;
    }
}

/* ---- making the files of the current versions ---- */

static uint8_t made[FILE_MAX];

static size_t make_value(void)
{
    struct mob_object_id objects[2] = {{{{"object one.."}, 1}, 2}, {{{"object two.."}, 3}, 4}};
    struct mob_actor_id actor = {{{"actor one..."}, 5}};
    uint64_t size;
    uint8_t *at;
    assert_int_equal(mob_value_full_size(13, 2, 1, &size), MOB_OK);
    assert_int_equal(mob_value_init(made, size, MOB_TYPE_JSON, 13, objects, 2, &actor, 1, &at), MOB_OK);
    memcpy(at, "{\"rollout\":1}", 13);
    mob_value_hash(made);
    return size;
}

static size_t make_spec(void)
{
    static struct sample_entry s;
    struct sample_world world;
    uint64_t seed = 1;
    do { /* one with arguments and extensions */
        sample_world_init(&world, seed++);
        sample_spec(&world, &s);
    } while (s.entry.spec.arg_count < 3 || !mob_spec_find_ext(s.tail, 1000, &(struct mob_ext_view){0}));
    memcpy(made, &s.entry.spec.head, sizeof s.entry.spec.head);
    memcpy(made + sizeof s.entry.spec.head, s.tail, s.entry.spec.tail_bytes);
    return sizeof s.entry.spec.head + s.entry.spec.tail_bytes;
}

/* One amount in each form. */
static size_t make_spec_resources(void)
{
    struct mob_spec_head head = {.version = MOB_SPEC_VERSION,
        .kind = MOB_KIND_TASK,
        .runtime = MOB_RUNTIME_C,
        .num_returns = 1,
        .max_retries = 3,
        .cpu = 10000,
        .attempt = 1};
    _Alignas(8) uint8_t tail[MOB_SPEC_TAIL_MAX];
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ext(&b, MOB_EXT_RESOURCES, "\x88\x13\0\0GPU", 7);
    mob_tail_add_ext(&b, MOB_EXT_WIDE_RESOURCES, "\0\0\x8a\x5d\x78\x45\x63\x01memory", 14);
    uint32_t bytes = mob_tail_end(&b);
    assert_int_not_equal(bytes, 0);
    memcpy(made, &head, sizeof head);
    memcpy(made + sizeof head, tail, bytes);
    return sizeof head + bytes;
}

static size_t make_completion(void)
{
    static struct sample_entry s;
    struct sample_world world;
    uint64_t seed = 1;
    do {
        sample_world_init(&world, seed++);
        sample_completion(&world, &s);
    } while (s.entry.completion.head.return_count < 4);
    const struct mob_completion_head *h = &s.entry.completion.head;
    memcpy(made, h, sizeof *h);
    memcpy(made + sizeof *h, s.body, h->body_bytes);
    return sizeof *h + h->body_bytes;
}

static size_t make_error(void)
{
    struct mob_error_link root = {.status = MOB_WORKER_DIED, .task = {.index = 1}, .signal = 11};
    root.message = "the worker was killed by signal 11";
    root.message_bytes = (uint32_t)strlen(root.message);
    root.detail = "last words";
    root.detail_bytes = 10;
    struct mob_error_link outer = {
        .status = MOB_DEPENDENCY_FAILED, .task = {.index = 2}, .message = "input", .message_bytes = 5};
    uint32_t n = mob_error_encode(made, MOB_ERROR_BYTES_MAX, &root, NULL, 0);
    return mob_error_encode(made, MOB_ERROR_BYTES_MAX, &outer, made, n);
}

static size_t make_tensor(
    enum mob_dtype dtype, const void *data, uint64_t bytes, int64_t rows, int64_t columns)
{
    int64_t shape[2] = {rows, columns};
    uint32_t head = mob_tensor_head_encode(made, sizeof made, dtype, shape, 2, bytes);
    assert_int_not_equal(head, 0);
    memcpy(made + head, data, bytes);
    return head + bytes;
}

static size_t make_tensor_f32(void)
{
    const float data[6] = {1, 2, 3, 4, 5, 6.5f};
    return make_tensor(MOB_DTYPE_F32, data, sizeof data, 2, 3);
}

static size_t make_tensor_bf16(void)
{
    const uint16_t data[2] = {0x3f80, 0x4049};
    return make_tensor(MOB_DTYPE_BF16, data, sizeof data, 1, 2);
}

static size_t make_tensor_bytes(void)
{
    return make_tensor(MOB_DTYPE_BYTES, "\1\0\0\0a\2\0\0\0bc", 11, 2, 1);
}

/* All entry types that one seed gives, as bits. */
static uint32_t fill_block(struct mob_block_encoder *e, uint64_t seed)
{
    struct mob_block_header h = {
        .incarnation = 7, .sequence = 8, .ns = "golden", .wall_ns = 9, .mono_ns = 1000000};
    static struct sample_entry s;
    struct sample_world world;
    uint32_t types = 0;
    sample_world_init(&world, seed);
    memset(&h.cluster, 1, sizeof h.cluster);
    memset(&h.job, 2, sizeof h.job);
    mob_block_begin(e, &h);
    for (int i = 0; i < 100; i++) {
        sample_any(&world, &s);
        if (s.entry.payload_bytes > 200) /* the file should stay small */
            continue;
        assert_int_equal(sample_add(e, &s), MOB_OK);
        types |= 1u << s.entry.type;
    }
    return types;
}

static size_t make_block(void)
{
    struct mob_block_encoder *e = mob_block_encoder_create();
    uint64_t seed = 1;
    while (fill_block(e, seed) != (2u << MOB_ENTRY_JOB) - 2)
        seed++;
    uint32_t bytes = mob_block_end(e, made);
    mob_block_encoder_destroy(e);
    return bytes;
}

/* One block as it was and one that was cut, from three runs with skips and a place far away. */
static size_t make_bucket(void)
{
    static uint8_t block[MOB_BLOCK_BYTES_MAX];
    struct mob_block_encoder *e = mob_block_encoder_create();
    struct mob_bucket_builder *b = mob_bucket_builder_create();
    struct mob_bucket_summary summary;
    struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
    fill_block(e, 3);
    uint32_t entries = mob_block_entries(e), bytes = mob_block_end(e, block);
    mob_bucket_begin(b);
    assert_int_equal(mob_bucket_add(b, 1000, block, bytes, NULL), MOB_OK);
    for (uint32_t i = 0; i < entries; i++)
        origins[i] = (struct mob_bucket_origin){2000 + i % 3, i / 3 + (i > 50 ? 9 : 0)};
    origins[60] = (struct mob_bucket_origin){7, 255};
    assert_int_equal(mob_bucket_add(b, 1001, block, bytes, origins), MOB_OK);
    uint32_t length = mob_bucket_end(b, made, &summary);
    mob_bucket_builder_destroy(b);
    mob_block_encoder_destroy(e);
    return length;
}

static size_t make_signatures(void)
{
    static const char list[] = "i64 a, i64 b -> i64\n"
                               "tensor<f32>[n,64] x, tensor<f32>[n] w -> (f64 loss, utf8)\n"
                               "any... -> json\n"
                               "i64 n, utf8? label -> stream f64\n"
                               "actor simulator, bytes, bool, table, pickle5, null -> ()\n"
                               "tensor t, tensor<bf16>[*,3], json? -> i64...\n"
                               "-> null\n";
    memcpy(made, list, sizeof list - 1);
    return sizeof list - 1;
}

static void describe_checkpoint(const uint8_t *bytes, size_t length)
{
    struct mob_checkpoint_row row;
    assert_int_equal(mob_checkpoint_row_open(bytes, length, &row), MOB_OK);
    say("checkpoint version %u type %s position %llu\n", row.version,
        mob_value_type_name((enum mob_value_type)row.type), (unsigned long long)row.position);
    say("  hash %016llx %016llx\n", (unsigned long long)row.hash.lo, (unsigned long long)row.hash.hi);
    say_bytes("state", bytes + sizeof row, row.bytes);
}

static size_t make_checkpoint(void)
{
    static const char state[] = "the state behind call 41";
    struct mob_checkpoint_row row = {.version = MOB_CHECKPOINT_ROW_VERSION,
        .type = MOB_TYPE_BYTES,
        .bytes = sizeof state - 1,
        .position = 41,
        .hash = mob_hash128(state, sizeof state - 1)};
    memcpy(made, &row, sizeof row);
    memcpy(made + sizeof row, state, sizeof state - 1);
    return sizeof row + sizeof state - 1;
}

static void describe_recover(const uint8_t *bytes, size_t length)
{
    struct mob_recover_row row;
    uint8_t key[MOB_RECOVER_KEY_BYTES];
    assert_int_equal(mob_recover_row_open(bytes, length, &row), MOB_OK);
    mob_recover_key(row.incarnation, key);
    say_bytes("key", key, sizeof key);
    say("recover version %u %s incarnation %llu by %llu from %llu takeovers %u tasks %u since %lld\n",
        row.version, mob_recover_state_text(row.state), (unsigned long long)row.incarnation,
        (unsigned long long)row.by, (unsigned long long)row.taken_from, row.takeovers, row.tasks,
        (long long)row.since_wall_ns);
}

static size_t make_recover(void)
{
    struct mob_recover_row row = {.version = MOB_RECOVER_ROW_VERSION,
        .state = MOB_RECOVER_ENDED,
        .tasks = 7,
        .incarnation = 0x0102030405060708,
        .by = 12,
        .taken_from = 11,
        .since_wall_ns = 1700000000000000000,
        .takeovers = 2};
    memcpy(made, &row, sizeof row);
    return sizeof row;
}

static const struct golden {
    const char *name;
    void (*describe)(const uint8_t *bytes, size_t length);
    /* NULL: the bytes come from elsewhere, or from a version that is no longer written */
    size_t (*make)(void);
    bool may_change; /* the writer may find shorter codings within the version */
} goldens[] = {
    {"value_v1", describe_value, make_value, false},
    {"spec_v1", describe_spec, make_spec, false},
    {"spec_v1_resources", describe_spec, make_spec_resources, false},
    {"completion_v1", describe_completion, make_completion, false},
    {"error_v1", describe_error, make_error, false},
    {"block_v1", describe_block, NULL, true},
    {"block_v2", describe_block, make_block, true},
    {"bucket_v1", describe_bucket, NULL, true}, /* of blocks of version 1 */
    {"bucket_v1_blocks_v2", describe_bucket, make_bucket, true},
    {"checkpoint_v1", describe_checkpoint, make_checkpoint, false},
    {"recover_v1", describe_recover, make_recover, false},
    {"tensor_f32_v1", describe_tensor, make_tensor_f32, false},
    {"tensor_bf16_v1", describe_tensor, make_tensor_bf16, false},
    {"tensor_bytes_v1", describe_tensor, make_tensor_bytes, false},
    {"signature_v1", describe_signatures, make_signatures, false},
    /* pyarrow.ipc.write_tensor of arange(6.0).reshape(2, 3) + 0.5 */
    {"tensor_pyarrow_f64", describe_tensor, NULL, false},
};

/* ---- files ---- */

static void path_of(const char *name, const char *suffix, char *out, size_t n)
{
    const char *root = getenv("MOBULA_SOURCE_DIR");
    snprintf(out, n, "%s/tests/golden/wire/%s%s", root ? root : ".", name, suffix);
}

static size_t read_file(const char *path, void *out, size_t most)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is missing", path);
    size_t n = fread(out, 1, most, f);
    fclose(f);
    return n;
}

static void write_missing(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wxb");
    if (!f)
        return;
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void describe(const struct golden *g, const uint8_t *bytes, size_t length)
{
    used = 0;
    text[0] = '\0';
    g->describe(bytes, length);
}

static void golden_files_decode_to_the_same_fields(void **state)
{
    (void)state;
    static uint8_t bytes[FILE_MAX];
    static char want[TEXT_MAX];
    char path[512];
    bool write = getenv("MOBULA_GOLDEN_WRITE") != NULL;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        const struct golden *g = &goldens[i];
        path_of(g->name, ".bin", path, sizeof path);
        if (write && g->make)
            write_missing(path, made, g->make());
        size_t length = read_file(path, bytes, sizeof bytes);
        describe(g, bytes, length);
        path_of(g->name, ".txt", path, sizeof path);
        if (write)
            write_missing(path, text, used);
        want[read_file(path, want, sizeof want - 1)] = '\0';
        if (strcmp(want, text) != 0)
            fail_msg("%s says:\n%s", g->name, text);
    }
}

/* The writer still gives the same bytes; a change of format needs a new version. */
static void writers_of_the_current_versions_have_not_changed(void **state)
{
    (void)state;
    static uint8_t bytes[FILE_MAX];
    char path[512];
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        if (!goldens[i].make || goldens[i].may_change)
            continue;
        path_of(goldens[i].name, ".bin", path, sizeof path);
        size_t length = read_file(path, bytes, sizeof bytes);
        memset(made, 0, sizeof made);
        size_t now = goldens[i].make();
        if (now != length || memcmp(bytes, made, length) != 0)
            fail_msg("%s: the same input gives other bytes than when the version was new", goldens[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files_decode_to_the_same_fields),
        cmocka_unit_test(writers_of_the_current_versions_have_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
