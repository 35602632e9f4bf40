/* Text of others as one value of a log line (`key="..."`). Pure. */
#ifndef MOB_CLI_LOG_VALUE_H
#define MOB_CLI_LOG_VALUE_H

#include <stddef.h>

/* `text` for between two quotes: a quote and a backslash get a backslash in front, control characters become
 * blanks. What does not fit into `capacity` (> 0) bytes is cut, never within such a pair or a character.
 * Returns `out`. */
const char *log_value(const char *text, char *out, size_t capacity);

#endif
