/* C strings out of byte strings that have no NUL behind them (payloads, parts of a line).
 *
 * strndup may read no further than it is told either, but sanitizers that are strict about strings want a NUL
 * behind what they see it given. Thread-safe.
 */
#ifndef MOB_COMMON_BASE_CSTRING_H
#define MOB_COMMON_BASE_CSTRING_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Copies `length` bytes and a NUL; gives it, free with free(). NULL: no memory. `bytes` may be NULL with
 * length 0. A NUL among the bytes ends the text early for whoever reads it. */
static inline char *mob_cstring_copy(const void *bytes, size_t length)
{
    char *text = malloc(length + 1);
    if (text == NULL)
        return NULL;
    if (length > 0)
        memcpy(text, bytes, length);
    text[length] = '\0';
    return text;
}

#endif
