/* Typed identifiers (ARCHITECTURE "Identity").
 *
 * Each id type is its own struct, so the compiler rejects a mix-up. All are plain bytes: copy, compare with
 * the functions here, store anywhere. Byte order of integers inside is little-endian. Text form: prefix +
 * lower-case base32 (RFC 4648 alphabet a-z2-7) without padding. Ids are names, not capabilities. Thread-safe,
 * pure.
 */
#ifndef MOB_COMMON_BASE_ID_H
#define MOB_COMMON_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/status.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(void *) == 8, "64-bit little-endian only");

/* 96-bit stream: the common part of all children of one (task, generation, continuation). */
struct mob_stream {
    uint8_t b[12];
};
/* task = stream ++ child index; actor id = id of its creation task. */
struct mob_task_id {
    struct mob_stream stream;
    uint32_t index;
};
struct mob_actor_id {
    struct mob_task_id creation;
};
/* object = producing task ++ slot: return index, or MOB_SLOT_PUT | put counter. */
struct mob_object_id {
    struct mob_task_id task;
    uint32_t slot;
};
/* A job is named by the stream of its root. */
struct mob_job_id {
    struct mob_stream root;
};
/* Content-derived: BLAKE2b-128 over (module hash, function name). */
struct mob_function_id {
    uint8_t b[16];
};
/* BLAKE2b-256 of a module file. */
struct mob_module_hash {
    uint8_t b[32];
};
struct mob_cluster_id {
    uint8_t b[16];
};

_Static_assert(
    sizeof(struct mob_task_id) == 16 && sizeof(struct mob_object_id) == 20, "ids are packed bytes");

#define MOB_SLOT_PUT 0x80000000u
/* Slots of argument pages (common/wire/spec.h): puts as well, but they go with the task that they belong to.
 */
#define MOB_SLOT_ARG_PAGE 0xc0000000u
#define MOB_ARG_PAGES_MAX 1024u
/* The puts of one owner: what follows are the slots of a checkpoint (common/wire/record.h) and of argument
 * pages. */
#define MOB_PUT_COUNTER_MAX 0x3ffffffeu
/* A task's first generation has the counters below this one. Each of the next MOB_PUT_GENERATIONS has so many
 * behind them: what a retry puts is its own object, and the task of each can be told from its id. */
#define MOB_PUTS_OF_FIRST_GENERATION 0x20000000u
#define MOB_PUTS_OF_GENERATION 0x100000u
#define MOB_PUT_GENERATIONS 511u
/* Past this index a parent goes on in its continued stream; tests start counters near it. */
#define MOB_CHILD_INDEX_MAX 0x7fffffffu
#define MOB_CONTINUED_CHILD 0xffffffffu
/* 256 neighbours (stream, index >> 8) are a group, the unit of directory look-up. */
#define MOB_GROUP_SHIFT 8
#define MOB_ID_TEXT_MAX 48 /* longest text form with its terminator */

static inline bool mob_stream_eq(struct mob_stream a, struct mob_stream b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}
static inline bool mob_task_id_eq(struct mob_task_id a, struct mob_task_id b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}
static inline bool mob_object_id_eq(struct mob_object_id a, struct mob_object_id b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}
static inline bool mob_actor_id_eq(struct mob_actor_id a, struct mob_actor_id b)
{
    return mob_task_id_eq(a.creation, b.creation);
}
static inline bool mob_task_id_is_zero(struct mob_task_id a)
{
    struct mob_task_id zero = {0};
    return mob_task_id_eq(a, zero);
}
static inline struct mob_object_id mob_object_of(struct mob_task_id task, uint32_t slot)
{
    return (struct mob_object_id){task, slot};
}

/* 64-bit mix for hash tables; cheap, not for adversarial input beyond one trust domain. */
static inline uint64_t mob_stream_mix(struct mob_stream s)
{
    uint64_t lo;
    uint32_t hi;
    memcpy(&lo, s.b, 8);
    memcpy(&hi, s.b + 8, 4);
    uint64_t x = (lo ^ ((uint64_t)hi << 32 | hi)) * 0x9e3779b97f4a7c15ull;
    return x ^ (x >> 29);
}
static inline uint64_t mob_task_id_mix(struct mob_task_id id)
{
    uint64_t x = (mob_stream_mix(id.stream) + id.index) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 31);
}

/* Child stream of (parent, generation): BLAKE2b-96; `continuation` 0 for the first 2^31-1 children. */
struct mob_stream mob_stream_of_children(
    struct mob_task_id parent, uint32_t generation, uint32_t continuation);
/* Which group holds the lineage of this put, said as the id of a member: the first 256 puts of a task, and
 * its argument pages, lie in the group of the task itself, the others in groups of their own, (stream of the
 * task's puts, counter >> 8), where that stream is BLAKE2b-96(task id, "puts"). */
struct mob_task_id mob_put_group(struct mob_object_id put);
struct mob_stream mob_stream_of_puts(struct mob_task_id task);
/* The counters of a generation's puts: how many, from *first_out on. 0: they all go on in its continued
 * streams. */
uint32_t mob_put_counters(uint32_t generation, uint32_t *first_out);
/* Which generation of the id's task made a put with this slot. */
uint32_t mob_put_generation(uint32_t slot);
/* Whether the put has a group of its own: the answer of mob_put_group costs a hash then. */
static inline bool mob_put_has_group(struct mob_object_id put)
{
    bool is_page = put.slot - MOB_SLOT_ARG_PAGE < MOB_ARG_PAGES_MAX;
    return (put.slot & MOB_SLOT_PUT) != 0 && (put.slot & ~MOB_SLOT_PUT) >> MOB_GROUP_SHIFT != 0 && !is_page;
}
/* Which group holds the stateful edges of this actor, said as the id of a member. One for each actor, so that
 * nobody who reads the neighbours of its creation reads its calls too: (the creation's stream xor a constant
 * and the low byte of its index, the creation's group). Streams of tasks are hashes or random, so none is met
 * but by chance. Costs no hash. */
struct mob_task_id mob_edge_group(struct mob_actor_id actor);
/* The job of entries that are no job's: what happens to nodes and workers. No root makes it. */
struct mob_job_id mob_job_system(void);
bool mob_job_is_system(struct mob_job_id id);
/* Root id of a driver: random, or keyed (cluster secret, namespace, principal, idempotency key). */
struct mob_task_id mob_root_id_random(void);
struct mob_task_id mob_root_id_keyed(
    const uint8_t secret[32], const char *ns, const char *principal, const char *key);

/* Text forms. `out` has MOB_ID_TEXT_MAX bytes; returns `out`. */
char *mob_task_id_format(struct mob_task_id id, char *out); /* task_... */
char *mob_object_id_format(struct mob_object_id id, char *out); /* obj_...  */
char *mob_actor_id_format(struct mob_actor_id id, char *out); /* actor_... */
char *mob_job_id_format(struct mob_job_id id, char *out); /* job_... */
char *mob_function_id_format(struct mob_function_id id, char *out); /* fn_... */
/* Parsers take exactly one id and nothing behind it. MOB_INVALID otherwise; `out` written only on success. */
MOB_MUST_USE enum mob_status mob_task_id_parse(const char *text, struct mob_task_id *out);
MOB_MUST_USE enum mob_status mob_object_id_parse(const char *text, struct mob_object_id *out);
MOB_MUST_USE enum mob_status mob_actor_id_parse(const char *text, struct mob_actor_id *out);
MOB_MUST_USE enum mob_status mob_job_id_parse(const char *text, struct mob_job_id *out);
MOB_MUST_USE enum mob_status mob_function_id_parse(const char *text, struct mob_function_id *out);

/* Raw base32, used for ids and module hashes. Encode writes 8*n/5 rounded up + NUL. Decode needs exact
 * length. */
size_t mob_base32_encode(const uint8_t *bytes, size_t length, char *out);
MOB_MUST_USE enum mob_status mob_base32_decode(
    const char *text, size_t text_length, uint8_t *out, size_t length);

#endif
