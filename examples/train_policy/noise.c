#include "examples/train_policy/noise.h"

#include <math.h>

#define TWO_PI 6.28318530717958647692

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct noise_stream noise_stream_init(uint64_t seed, uint64_t index)
{
    /* Mixed twice, so that neighbours in seed or index start far apart. */
    return (struct noise_stream){mix(mix(seed + 0x9e3779b97f4a7c15u) ^ (index * 0xd1342543de82ef95u + 1))};
}

uint64_t noise_next(struct noise_stream *stream)
{
    stream->state += 0x9e3779b97f4a7c15u;
    return mix(stream->state);
}

double noise_uniform(struct noise_stream *stream)
{
    return (double)(noise_next(stream) >> 11) * 0x1p-53;
}

/* Box and Muller: two uniform numbers make two normal ones. */
void noise_normal(struct noise_stream *stream, float *values_out, size_t n)
{
    for (size_t i = 0; i < n; i += 2) {
        double radius = sqrt(-2.0 * log(1.0 - noise_uniform(stream))); /* of (0, 1]: log(0) cannot be asked */
        double angle = TWO_PI * noise_uniform(stream);
        values_out[i] = (float)(radius * cos(angle));
        if (i + 1 < n)
            values_out[i + 1] = (float)(radius * sin(angle));
    }
}
