/* Hashes: XXH3-128 for contents and digests (not against adversaries), BLAKE2b-256 (libsodium) for modules.
 * Thread-safe, pure.
 */
#ifndef MOB_COMMON_BASE_HASH_H
#define MOB_COMMON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"

struct mob_hash128 {
    uint64_t lo, hi;
};

struct mob_hash128 mob_hash128(const void *bytes, size_t length);
uint64_t mob_hash64(const void *bytes, size_t length);
/* CRC-32C (Castagnoli), as GCS frames carry it. */
uint32_t mob_crc32c(const void *bytes, size_t length);
struct mob_module_hash mob_module_hash(const void *bytes, size_t length);
struct mob_function_id mob_function_id(struct mob_module_hash module, const char *function_name);
static inline bool mob_hash128_eq(struct mob_hash128 a, struct mob_hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

#endif
