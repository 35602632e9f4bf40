/* Bloom filters: any bytes answer any question without being read outside, and what was put in is found in
 * filters of any length. The first byte says how long the filter is, the next eight are the first question;
 * the filter follows, and what is behind it are members, eight bytes each. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/bloom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t word(const uint8_t *bytes)
{
    uint64_t w;
    memcpy(&w, bytes, sizeof w);
    return w;
}

static void ask(const uint8_t *filter, size_t bytes, uint64_t mixed)
{
    struct mob_bloom_hash h = mob_bloom_hash(mixed);
    MOB_ASSERT(h.a <= INT32_MAX && h.b <= INT32_MAX && h.b % 2 == 1);
    bool every = true;
    for (unsigned k = 0; bytes > 0 && k < MOB_BLOOM_PROBES; k++) {
        uint64_t bit = mob_bloom_bit(h, k, bytes);
        MOB_ASSERT(bit < bytes * 8);
        every = every && (filter[bit / 8] >> bit % 8 & 1);
    }
    MOB_ASSERT(mob_bloom_has(filter, bytes, h) == every);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 9)
        return 0;
    size_t bytes = data[0];
    uint64_t question = word(data + 1);
    data += 9;
    size -= 9;
    bytes = bytes <= size ? bytes : size;
    /* In memory of its own length: what is read outside is seen. */
    uint8_t *filter = malloc(bytes + (bytes == 0));
    MOB_ASSERT(filter);
    memcpy(filter, data, bytes);
    ask(filter, bytes, question);
    size_t members = (size - bytes) / 8;
    for (size_t i = 0; bytes > 0 && i < members; i++)
        mob_bloom_add(filter, bytes, mob_bloom_hash(word(data + bytes + i * 8)));
    for (size_t i = 0; i < members; i++) {
        MOB_ASSERT(mob_bloom_has(filter, bytes, mob_bloom_hash(word(data + bytes + i * 8))));
        ask(filter, bytes, question + i);
    }
    MOB_ASSERT(
        mob_bloom_bytes(members) % 8 == 0 && mob_bloom_bytes(members) * 8 >= members * MOB_BLOOM_BITS_EACH);
    free(filter);
    return 0;
}
