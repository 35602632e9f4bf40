/* Randomness that can be made again: a stream is 8 bytes of state, everything follows from its seed, and
 * nothing from time. SplitMix64 underneath (Steele, Lea, Flood 2014). */
#ifndef EXAMPLES_TRAIN_POLICY_NOISE_H
#define EXAMPLES_TRAIN_POLICY_NOISE_H

#include <stddef.h>
#include <stdint.h>

struct noise_stream {
    uint64_t state;
};

/* The stream number `index` of a seed; streams of different (seed, index) are unrelated. */
struct noise_stream noise_stream_init(uint64_t seed, uint64_t index);
uint64_t noise_next(struct noise_stream *stream);
/* Uniform in [0, 1). */
double noise_uniform(struct noise_stream *stream);
/* n independent values of the standard normal distribution. */
void noise_normal(struct noise_stream *stream, float *values_out, size_t n);

#endif
