/* A growing text buffer for JSON and Prometheus output. Our replies are written, not built as trees: a tree
 * of 1,000 ids costs more than the ids.
 *
 *   struct mob_text t = {0};
 *   mob_text_puts(&t, "{\"id\":");
 *   mob_text_json_string(&t, name, strlen(name));
 *   mob_text_printf(&t, ",\"n\":%d}", n);
 *   char *body = mob_text_take(&t, &length);      // NULL if memory ran out on the way
 *
 * Failure is sticky. Not thread-safe; fini frees what was not taken.
 */
#ifndef MOB_SERVER_HTTP_TEXT_H
#define MOB_SERVER_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mob_text {
    char *bytes;
    size_t length, capacity;
    bool failed;
};

/* Room for n more bytes; false when memory ran out. */
bool mob_text_reserve(struct mob_text *text, size_t n);
static inline void mob_text_put(struct mob_text *text, const char *bytes, size_t n)
{
    if (text->capacity - text->length < n && !mob_text_reserve(text, n))
        return;
    if (n > 0)
        memcpy(text->bytes + text->length, bytes, n);
    text->length += n;
}
static inline void mob_text_puts(struct mob_text *text, const char *s)
{
    mob_text_put(text, s, strlen(s));
}
static inline void mob_text_putc(struct mob_text *text, char c)
{
    mob_text_put(text, &c, 1);
}
void mob_text_printf(struct mob_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mob_text_u64(struct mob_text *text, uint64_t v);
void mob_text_i64(struct mob_text *text, int64_t v);
/* Shortest form that reads back as the same double; NaN and infinities become null, as JSON has none. */
void mob_text_f64(struct mob_text *text, double v);
void mob_text_f32(struct mob_text *text, float v);
/* Quoted and escaped. Bytes that are not UTF-8 become U+FFFD. */
void mob_text_json_string(struct mob_text *text, const char *bytes, size_t n);
void mob_text_json_cstring(struct mob_text *text, const char *s);
/* A family of metrics in Prometheus' text format begins: what it is (one line, neither \ nor a line's end in
 * it) and its type. Its name is both parts together. */
void mob_text_family(
    struct mob_text *text, const char *prefix, const char *name, const char *type, const char *help);
void mob_text_base64(struct mob_text *text, const void *bytes, size_t n);
/* Gives the buffer (free with free()), NUL behind it, and empties the text. */
char *mob_text_take(struct mob_text *text, size_t *length_out);
void mob_text_fini(struct mob_text *text);

#endif
