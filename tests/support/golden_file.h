/* Golden files of the tests: texts under tests/golden that say what a version of a format is. A text that
 * differs from the one kept for its version means that the format has changed, and needs another version.
 * With MOBULA_GOLDEN_WRITE=1 a file that is missing is written; none that is there is changed.
 */
#ifndef MOB_TESTS_SUPPORT_GOLDEN_FILE_H
#define MOB_TESTS_SUPPORT_GOLDEN_FILE_H

#include <stdarg.h>
#include <stddef.h>

/* Grows by golden_say. */
struct golden_text {
    size_t used;
    char bytes[1 << 18];
};
__attribute__((format(printf, 2, 3))) void golden_say(struct golden_text *text, const char *format, ...);
/* Fails the test when tests/golden/NAME is missing or says something else; prints both. */
void golden_compare(const char *name, const struct golden_text *text);
/* The whole of tests/golden/NAME. */
void golden_read(const char *name, struct golden_text *text_out);

#endif
