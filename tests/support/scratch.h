/* Directories that a test makes for itself under /tmp, and takes away again. */
#ifndef MOB_TESTS_SUPPORT_SCRATCH_H
#define MOB_TESTS_SUPPORT_SCRATCH_H

#include <stdbool.h>

/* With all that is in it. False: it could not be removed whole. */
bool scratch_remove(const char *directory);

#endif
