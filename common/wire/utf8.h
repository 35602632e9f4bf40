/* Whether bytes are UTF-8. Apart from json_text.h, whose names are those of a JSON library too. Any thread.
 */
#ifndef MOB_COMMON_WIRE_UTF8_H
#define MOB_COMMON_WIRE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the sequence at `text` (which is not empty), 0 when it is not UTF-8: no overlong forms, no
 * surrogates, at most U+10FFFF. */
size_t json_utf8_sequence(const char *text, size_t left);
bool json_utf8_ok(const void *bytes, size_t length);
/* What of `text` is UTF-8 and has room, cut between two characters; `?` for each byte that is none. `size`
 * >= 1.
 */
void json_utf8_copy(char *to, size_t size, const char *text);

#endif
