/* Parts lie within the body, one behind the other, and none holds the delimiter. The first line is the
 * content type. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line_end = size > 0 ? memchr(data, '\n', size) : NULL;
    if (!line_end)
        return 0;
    char *type = calloc(1, (size_t)(line_end - data) + 1);
    size_t length = size - (size_t)(line_end - data) - 1;
    char *body = malloc(length ? length : 1); /* exact, so that a read behind it is seen */
    MOB_ASSERT(type && body);
    memcpy(type, data, (size_t)(line_end - data));
    memcpy(body, line_end + 1, length);
    struct mob_multipart parts;
    struct mob_part part;
    const char *last = body;
    enum mob_status status = mob_multipart_open(&parts, type, body, length);
    while (status == MOB_OK && (status = mob_multipart_next(&parts, &part)) == MOB_OK) {
        MOB_ASSERT(part.bytes >= last && part.length <= (size_t)(body + length - part.bytes));
        MOB_ASSERT(!memmem(part.bytes, part.length, parts.delimiter, parts.delimiter_length));
        last = part.bytes + part.length;
    }
    MOB_ASSERT(status == MOB_NOT_FOUND || status == MOB_INVALID);
    free(body);
    free(type);
    return 0;
}
