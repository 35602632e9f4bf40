#include "common/base/hash.h"

#include <sodium.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct mob_hash128 mob_hash128(const void *bytes, size_t length)
{
    XXH128_hash_t h = XXH3_128bits(bytes, length);
    return (struct mob_hash128){h.low64, h.high64};
}

uint64_t mob_hash64(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}

static uint32_t crc_table[8][256];

__attribute__((constructor)) static void crc_table_init(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        crc_table[0][n] = c;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            crc_table[k][n] = crc_table[k - 1][n] >> 8 ^ crc_table[0][crc_table[k - 1][n] & 255];
}

static uint32_t crc_portable(uint32_t crc, const uint8_t *p, size_t length)
{
    while (length >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        v ^= crc;
        crc = crc_table[7][v & 255] ^ crc_table[6][v >> 8 & 255] ^ crc_table[5][v >> 16 & 255] ^
            crc_table[4][v >> 24 & 255] ^ crc_table[3][v >> 32 & 255] ^ crc_table[2][v >> 40 & 255] ^
            crc_table[1][v >> 48 & 255] ^ crc_table[0][v >> 56];
        p += 8;
        length -= 8;
    }
    while (length-- > 0)
        crc = crc_table[0][(crc ^ *p++) & 255] ^ crc >> 8;
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t length)
{
    uint64_t c = crc;
    while (length >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
        p += 8;
        length -= 8;
    }
    uint32_t c32 = (uint32_t)c;
    while (length-- > 0)
        c32 = __builtin_ia32_crc32qi(c32, *p++);
    return c32;
}
#endif

uint32_t mob_crc32c(const void *bytes, size_t length)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_sse42(~0u, bytes, length);
#endif
    return ~crc_portable(~0u, bytes, length);
}

struct mob_module_hash mob_module_hash(const void *bytes, size_t length)
{
    struct mob_module_hash hash;
    crypto_generichash(hash.b, sizeof hash.b, bytes, length, NULL, 0);
    return hash;
}

struct mob_function_id mob_function_id(struct mob_module_hash module, const char *function_name)
{
    struct mob_function_id id;
    crypto_generichash(
        id.b, sizeof id.b, (const uint8_t *)function_name, strlen(function_name), module.b, sizeof module.b);
    return id;
}
