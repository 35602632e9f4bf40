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

#define CRC_LANE_BYTES 160u /* three lanes are most of a frame with a small value */

static uint32_t crc_table[8][256];
/* What `CRC_LANE_BYTES` zero bytes make of a sum, byte by byte of it: a sum is linear. */
static uint32_t crc_past_lane[4][256];

static uint32_t crc_portable(uint32_t crc, const uint8_t *p, size_t length);

static void crc_past_lane_init(void)
{
    static const uint8_t zeros[CRC_LANE_BYTES];
    uint32_t of_bit[32];
    for (uint32_t bit = 0; bit < 32; bit++)
        of_bit[bit] = crc_portable(1u << bit, zeros, sizeof zeros);
    for (uint32_t byte = 0; byte < 4; byte++)
        for (uint32_t n = 0; n < 256; n++)
            for (uint32_t bit = 0; bit < 8; bit++)
                crc_past_lane[byte][n] ^= (n >> bit & 1) != 0 ? of_bit[8 * byte + bit] : 0;
}

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
    crc_past_lane_init();
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
static uint64_t word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t past_lane(uint32_t crc)
{
    return crc_past_lane[0][crc & 255] ^ crc_past_lane[1][crc >> 8 & 255] ^
        crc_past_lane[2][crc >> 16 & 255] ^ crc_past_lane[3][crc >> 24];
}

/* The instruction takes three cycles and can begin in each, so three lanes at a time cost what one does. */
__attribute__((target("sse4.2"))) static uint32_t crc_three_lanes(uint32_t crc, const uint8_t *p)
{
    uint64_t a = crc, b = 0, c = 0;
    for (size_t at = 0; at < CRC_LANE_BYTES; at += 8) {
        a = __builtin_ia32_crc32di(a, word(p + at));
        b = __builtin_ia32_crc32di(b, word(p + at + CRC_LANE_BYTES));
        c = __builtin_ia32_crc32di(c, word(p + at + 2 * CRC_LANE_BYTES));
    }
    return past_lane(past_lane((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t length)
{
    for (; length >= 3 * CRC_LANE_BYTES; p += 3 * CRC_LANE_BYTES, length -= 3 * CRC_LANE_BYTES)
        crc = crc_three_lanes(crc, p);
    uint64_t c = crc;
    for (; length >= 8; p += 8, length -= 8)
        c = __builtin_ia32_crc32di(c, word(p));
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
