#include "common/base/id.h"

#include <sodium.h>

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

size_t mob_base32_encode(const uint8_t *bytes, size_t length, char *out)
{
    size_t n = 0;
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < length; i++) {
        bits = bits << 8 | bytes[i];
        held += 8;
        while (held >= 5) {
            held -= 5;
            out[n++] = alphabet[bits >> held & 31];
        }
    }
    if (held > 0)
        out[n++] = alphabet[bits << (5 - held) & 31];
    out[n] = '\0';
    return n;
}

static int digit_of(char c)
{
    if (c >= 'a' && c <= 'z')
        return c - 'a';
    if (c >= '2' && c <= '7')
        return c - '2' + 26;
    return -1;
}

enum mob_status mob_base32_decode(const char *text, size_t text_length, uint8_t *out, size_t length)
{
    uint8_t bytes[64];
    if (length > sizeof bytes || text_length != (length * 8 + 4) / 5)
        return MOB_INVALID;
    uint32_t bits = 0;
    unsigned held = 0;
    size_t n = 0;
    for (size_t i = 0; i < text_length; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0)
            return MOB_INVALID;
        bits = bits << 5 | (uint32_t)digit;
        held += 5;
        if (held >= 8 && n < length) {
            held -= 8;
            bytes[n++] = (uint8_t)(bits >> held);
        }
    }
    /* one text for one id: the padding bits must be zero */
    if (held > 0 && (bits & ((1u << held) - 1)) != 0)
        return MOB_INVALID;
    memcpy(out, bytes, length);
    return MOB_OK;
}

static char *format(const char *prefix, const void *id, size_t length, char *out)
{
    size_t n = strlen(prefix);
    memcpy(out, prefix, n);
    mob_base32_encode(id, length, out + n);
    return out;
}

static enum mob_status parse(const char *prefix, const char *text, void *out, size_t length)
{
    size_t n = strlen(prefix);
    if (strncmp(text, prefix, n) != 0)
        return MOB_INVALID;
    return mob_base32_decode(text + n, strnlen(text + n, MOB_ID_TEXT_MAX), out, length);
}

char *mob_task_id_format(struct mob_task_id id, char *out)
{
    return format("task_", &id, sizeof id, out);
}
char *mob_object_id_format(struct mob_object_id id, char *out)
{
    return format("obj_", &id, sizeof id, out);
}
char *mob_actor_id_format(struct mob_actor_id id, char *out)
{
    return format("actor_", &id, sizeof id, out);
}
char *mob_job_id_format(struct mob_job_id id, char *out)
{
    return format("job_", &id, sizeof id, out);
}
char *mob_function_id_format(struct mob_function_id id, char *out)
{
    return format("fn_", &id, sizeof id, out);
}

enum mob_status mob_task_id_parse(const char *text, struct mob_task_id *out)
{
    return parse("task_", text, out, sizeof *out);
}
enum mob_status mob_object_id_parse(const char *text, struct mob_object_id *out)
{
    return parse("obj_", text, out, sizeof *out);
}
enum mob_status mob_actor_id_parse(const char *text, struct mob_actor_id *out)
{
    return parse("actor_", text, out, sizeof *out);
}
enum mob_status mob_job_id_parse(const char *text, struct mob_job_id *out)
{
    return parse("job_", text, out, sizeof *out);
}
enum mob_status mob_function_id_parse(const char *text, struct mob_function_id *out)
{
    return parse("fn_", text, out, sizeof *out);
}

struct mob_stream mob_stream_of_children(
    struct mob_task_id parent, uint32_t generation, uint32_t continuation)
{
    struct {
        struct mob_task_id parent;
        uint32_t generation, continuation;
    } in = {parent, generation, continuation};
    uint8_t digest[crypto_generichash_BYTES_MIN];
    struct mob_stream stream;
    crypto_generichash(digest, sizeof digest, (const uint8_t *)&in, sizeof in, NULL, 0);
    memcpy(stream.b, digest, sizeof stream.b);
    return stream;
}

struct mob_stream mob_stream_of_puts(struct mob_task_id task)
{
    struct {
        struct mob_task_id task;
        char kind[4]; /* the input is shorter than that of a child stream, so they never meet */
    } in = {task, {'p', 'u', 't', 's'}};
    uint8_t digest[crypto_generichash_BYTES_MIN];
    struct mob_stream stream;
    crypto_generichash(digest, sizeof digest, (const uint8_t *)&in, sizeof in, NULL, 0);
    memcpy(stream.b, digest, sizeof stream.b);
    return stream;
}

struct mob_task_id mob_put_group(struct mob_object_id put)
{
    if (!mob_put_has_group(put))
        return put.task;
    return (struct mob_task_id){mob_stream_of_puts(put.task), put.slot & ~MOB_SLOT_PUT};
}

_Static_assert(
    MOB_PUTS_OF_FIRST_GENERATION + MOB_PUT_GENERATIONS * MOB_PUTS_OF_GENERATION <= MOB_PUT_COUNTER_MAX,
    "all generations have room");

uint32_t mob_put_counters(uint32_t generation, uint32_t *first_out)
{
    bool first = generation == 0;
    if (generation > MOB_PUT_GENERATIONS)
        return 0;
    *first_out = first ? 0 : MOB_PUTS_OF_FIRST_GENERATION + (generation - 1) * MOB_PUTS_OF_GENERATION;
    return first ? MOB_PUTS_OF_FIRST_GENERATION : MOB_PUTS_OF_GENERATION;
}

uint32_t mob_put_generation(uint32_t slot)
{
    uint32_t counter = slot & ~MOB_SLOT_PUT, past = counter - MOB_PUTS_OF_FIRST_GENERATION;
    bool later =
        counter >= MOB_PUTS_OF_FIRST_GENERATION && past < MOB_PUT_GENERATIONS * MOB_PUTS_OF_GENERATION;
    return later ? 1 + past / MOB_PUTS_OF_GENERATION : 0;
}

struct mob_task_id mob_edge_group(struct mob_actor_id actor)
{
    static const uint8_t edges[] = "actor edges";
    struct mob_task_id group = actor.creation;
    _Static_assert(sizeof edges == sizeof group.stream.b, "one byte each");
    for (size_t i = 0; i < sizeof group.stream.b; i++)
        group.stream.b[i] ^= edges[i];
    group.stream.b[sizeof edges - 1] ^= (uint8_t)group.index;
    group.index &= ~0xffu;
    return group;
}

struct mob_job_id mob_job_system(void)
{
    struct mob_job_id id;
    memset(&id, 0xff, sizeof id);
    return id;
}

bool mob_job_is_system(struct mob_job_id id)
{
    struct mob_job_id system = mob_job_system();
    return memcmp(&id, &system, sizeof id) == 0;
}

struct mob_task_id mob_root_id_random(void)
{
    struct mob_task_id id = {.index = 0};
    randombytes_buf(id.stream.b, sizeof id.stream.b);
    return id;
}

struct mob_task_id mob_root_id_keyed(
    const uint8_t secret[32], const char *ns, const char *principal, const char *key)
{
    struct mob_task_id id = {.index = 0};
    uint8_t digest[crypto_generichash_BYTES_MIN];
    crypto_generichash_state state;
    crypto_generichash_init(&state, secret, 32, sizeof digest);
    /* the terminators separate the parts, so ("a","bc") and ("ab","c") differ */
    crypto_generichash_update(&state, (const uint8_t *)ns, strlen(ns) + 1);
    crypto_generichash_update(&state, (const uint8_t *)principal, strlen(principal) + 1);
    crypto_generichash_update(&state, (const uint8_t *)key, strlen(key) + 1);
    crypto_generichash_final(&state, digest, sizeof digest);
    memcpy(id.stream.b, digest, sizeof id.stream.b);
    return id;
}
