/* Bounded reading and writing of byte strings: the only way decoders touch input.
 *
 * A reader never passes its end: the first short read sets `failed`, and every later read gives zero. Check
 * mob_reader_ok() before using what was read to size or index anything. A writer behaves the same at its
 * capacity. Integers are little-endian; varints are LEB128 of at most 10 bytes. Not thread-safe; keep on the
 * stack.
 */
#ifndef MOB_COMMON_BASE_BYTES_H
#define MOB_COMMON_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mob_reader {
    const uint8_t *at, *end;
    bool failed;
};
struct mob_writer {
    uint8_t *at, *end, *begin;
    bool failed;
};

static inline struct mob_reader mob_reader_of(const void *bytes, size_t length)
{
    const uint8_t *p = bytes;
    return (struct mob_reader){p, p + length, false};
}
static inline bool mob_reader_ok(const struct mob_reader *r)
{
    return !r->failed;
}
static inline size_t mob_reader_left(const struct mob_reader *r)
{
    return (size_t)(r->end - r->at);
}
/* Borrow `n` bytes of the input, NULL when it is too short. */
static inline const uint8_t *mob_read_bytes(struct mob_reader *r, uint64_t n)
{
    if (r->failed || n > mob_reader_left(r)) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += n;
    return p;
}
static inline void mob_read_into(struct mob_reader *r, void *out, size_t n)
{
    const uint8_t *p = mob_read_bytes(r, n);
    if (p)
        memcpy(out, p, n);
    else
        memset(out, 0, n);
}
#define MOB_READ_INT(name, type) \
    static inline type name(struct mob_reader *r) \
    { \
        type v; \
        mob_read_into(r, &v, sizeof v); \
        return v; \
    }
MOB_READ_INT(mob_read_u8, uint8_t)
MOB_READ_INT(mob_read_u16, uint16_t)
MOB_READ_INT(mob_read_u32, uint32_t)
MOB_READ_INT(mob_read_u64, uint64_t)
MOB_READ_INT(mob_read_i64, int64_t)
#undef MOB_READ_INT
static inline uint64_t mob_read_varint(struct mob_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at >= r->end)
            break;
        uint8_t b = *r->at++;
        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return v;
    }
    r->failed = true;
    return 0;
}
static inline int64_t mob_read_zigzag(struct mob_reader *r)
{
    uint64_t v = mob_read_varint(r);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static inline struct mob_writer mob_writer_of(void *bytes, size_t capacity)
{
    uint8_t *p = bytes;
    return (struct mob_writer){p, p + capacity, p, false};
}
static inline bool mob_writer_ok(const struct mob_writer *w)
{
    return !w->failed;
}
static inline size_t mob_writer_length(const struct mob_writer *w)
{
    return (size_t)(w->at - w->begin);
}
static inline size_t mob_writer_left(const struct mob_writer *w)
{
    return (size_t)(w->end - w->at);
}
static inline void mob_write_bytes(struct mob_writer *w, const void *bytes, size_t n)
{
    if (w->failed || n > mob_writer_left(w)) {
        w->failed = true;
        return;
    }
    if (n > 0)
        memcpy(w->at, bytes, n);
    w->at += n;
}
#define MOB_WRITE_INT(name, type) \
    static inline void name(struct mob_writer *w, type v) \
    { \
        mob_write_bytes(w, &v, sizeof v); \
    }
MOB_WRITE_INT(mob_write_u8, uint8_t)
MOB_WRITE_INT(mob_write_u16, uint16_t)
MOB_WRITE_INT(mob_write_u32, uint32_t)
MOB_WRITE_INT(mob_write_u64, uint64_t)
MOB_WRITE_INT(mob_write_i64, int64_t)
#undef MOB_WRITE_INT
static inline void mob_write_varint(struct mob_writer *w, uint64_t v)
{
    uint8_t b[10];
    size_t n = 0;
    while (v >= 128) {
        b[n++] = (uint8_t)(v | 128);
        v >>= 7;
    }
    b[n++] = (uint8_t)v;
    mob_write_bytes(w, b, n);
}
static inline void mob_write_zigzag(struct mob_writer *w, int64_t v)
{
    mob_write_varint(w, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

/* Checked arithmetic for sizes: true on overflow, result in *out otherwise. */
static inline bool mob_add_overflows(uint64_t a, uint64_t b, uint64_t *out)
{
    return __builtin_add_overflow(a, b, out);
}
static inline bool mob_mul_overflows(uint64_t a, uint64_t b, uint64_t *out)
{
    return __builtin_mul_overflow(a, b, out);
}
static inline uint64_t mob_round_up(uint64_t v, uint64_t power_of_two)
{
    return (v + power_of_two - 1) & ~(power_of_two - 1);
}

#endif
