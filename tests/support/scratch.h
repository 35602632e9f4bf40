/* Directories that a test makes for itself under $TMPDIR or /tmp, and takes away again. */
#ifndef MOB_TESTS_SUPPORT_SCRATCH_H
#define MOB_TESTS_SUPPORT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Makes one whose name begins with `name`, into `out`; ends the test when it cannot. Short, since sockets lie
 * in it: where $TMPDIR is longer than 40 bytes, under /tmp. */
void scratch_make(char *out, size_t capacity, const char *name);
/* The same under `place`. */
void scratch_make_in(char *out, size_t capacity, const char *place, const char *name);

/* With all that is in it. False: it could not be removed whole. */
bool scratch_remove(const char *directory);

#endif
