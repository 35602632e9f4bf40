/* Text into a buffer of fixed size, always NUL-terminated; what does not fit sets `failed`. */
#ifndef MOB_COMMON_WIRE_TEXT_OUT_H
#define MOB_COMMON_WIRE_TEXT_OUT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct text_out {
    char *begin;
    uint32_t used, capacity;
    bool failed;
};

static inline struct text_out text_out_of(char *buffer, uint32_t capacity)
{
    if (capacity > 0)
        buffer[0] = '\0';
    return (struct text_out){buffer, 0, capacity, capacity == 0};
}
__attribute__((format(printf, 2, 3))) static inline void text_add(struct text_out *t, const char *format, ...)
{
    if (t->failed)
        return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->begin + t->used, t->capacity - t->used, format, args);
    va_end(args);
    if (n < 0 || (uint32_t)n >= t->capacity - t->used)
        t->failed = true;
    else
        t->used += (uint32_t)n;
}
static inline uint32_t text_length(const struct text_out *t)
{
    return t->failed ? 0 : t->used;
}

#endif
