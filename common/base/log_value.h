/* Text of others (a peer's words, a user's names, an error of the system) as one value of a log line, so that
 * it can neither begin another field nor another line. Pure.
 *
 *   MOB_LOG_WARN("session", "refused", "why=\"%s\"", MOB_LOG_VALUE(why));
 */
#ifndef MOB_COMMON_BASE_LOG_VALUE_H
#define MOB_COMMON_BASE_LOG_VALUE_H

#include <stddef.h>

/* `text` for between two quotes: a quote and a backslash get a backslash in front, control characters become
 * blanks. What does not fit into `capacity` (> 0) bytes is cut, never within such a pair or a character.
 * Returns `out`. */
const char *mob_log_value(const char *text, char *out, size_t capacity);

#define MOB_LOG_VALUE_MAX 1024u
/* In the arguments of a log line, which are evaluated only when it is written; lives as long as the line. */
#define MOB_LOG_VALUE(text) mob_log_value((text), (char[MOB_LOG_VALUE_MAX]){0}, MOB_LOG_VALUE_MAX)

#endif
