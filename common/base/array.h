/* Arrays that grow. */
#ifndef MOB_COMMON_BASE_ARRAY_H
#define MOB_COMMON_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Room for `count` elements of `size` bytes in *array, which has room for *capacity; it grows at least
 * twofold. False: there is no memory, and nothing changed. The caller frees *array. */
static inline bool mob_array_room(void **array, size_t count, size_t *capacity, size_t size)
{
    if (count <= *capacity)
        return true;
    size_t wanted = count > 2 * *capacity ? count : 2 * *capacity;
    void *grown = reallocarray(*array, wanted, size);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

#endif
