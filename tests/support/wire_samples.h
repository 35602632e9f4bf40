/* Seeded random specs, completions and other entries, for round-trip tests. Same seed, same samples,
 * everywhere. */
#ifndef MOB_TESTS_SUPPORT_WIRE_SAMPLES_H
#define MOB_TESTS_SUPPORT_WIRE_SAMPLES_H

#include "common/wire/block.h"

struct sample_rng {
    uint64_t state;
};
uint64_t sample_u64(struct sample_rng *r);
uint32_t sample_below(struct sample_rng *r, uint32_t n);
/* True once in n. */
bool sample_one_in(struct sample_rng *r, uint32_t n);
/* Mostly small, sometimes any bit pattern. */
uint64_t sample_number(struct sample_rng *r);
void sample_bytes(struct sample_rng *r, void *out, size_t n);

/* What makes entries resemble those of one job: few streams, functions, workers. Zero it, then set rng. */
struct sample_world {
    struct sample_rng rng;
    struct mob_spec_head spec;
    struct mob_completion_head completion;
    struct mob_entry_edge edge;
    uint32_t streams, workers;
    int64_t now;
};
void sample_world_init(struct sample_world *w, uint64_t seed);

enum { SAMPLE_TAIL_MAX = MOB_SPEC_TAIL_MAX, SAMPLE_BODY_MAX = 64 * 1024, SAMPLE_PAYLOAD_MAX = 4096 };
/* One entry of any type: the fields that its type has, pointers into the sample itself. */
struct sample_entry {
    struct mob_entry entry;
    _Alignas(8) uint8_t tail[SAMPLE_TAIL_MAX];
    _Alignas(8) uint8_t body[SAMPLE_BODY_MAX];
    _Alignas(8) uint8_t payload[SAMPLE_PAYLOAD_MAX];
};
void sample_spec(struct sample_world *w, struct sample_entry *out);
void sample_completion(struct sample_world *w, struct sample_entry *out);
void sample_any(struct sample_world *w, struct sample_entry *out);
/* Adds it to a block by the call of its type. */
enum mob_status sample_add(struct mob_block_encoder *e, const struct sample_entry *s);
/* NULL when all fields of the type are equal, else the name of one that is not. */
const char *sample_difference(const struct mob_entry *want, const struct mob_entry *got);
/* The task in whose group the control store keeps the entry, said once more, without the code under test: of
 * puts and hashes the group of their put, of edges that of their actor. Zero for a JOB entry. */
struct mob_task_id sample_group(const struct mob_entry *e);

#endif
