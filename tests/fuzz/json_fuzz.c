/* JSON to values: the first line is a signature, the rest a value for its first param. What converts fits its
 * declared type and can be written as JSON, which converts again.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/json_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mob_signature s;
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    if (!line || mob_signature_parse((const char *)data, (size_t)(line - data), &s, NULL) != MOB_OK ||
        s.param_count == 0)
        return 0;
    const char *json = (const char *)line + 1;
    size_t length = size - (size_t)(line + 1 - data);
    struct mob_json_value v = {0}, w = {0};
    struct mob_signature_error e;
    char *text;
    uint64_t text_bytes;
    enum mob_status status = mob_value_from_json(json, length, &s, &s.params[0], 1 << 20, &v, &e);
    if (status != MOB_OK) {
        MOB_ASSERT(e.message[0] != '\0');
        return 0;
    }
    if (!v.arg.is_ref) {
        MOB_ASSERT(mob_value_small_ok(v.arg.type, v.arg.payload_bytes));
        status =
            mob_value_to_json(v.arg.type, v.arg.payload, v.arg.payload_bytes, 4 << 20, &text, &text_bytes);
        MOB_ASSERT(status == MOB_OK && strlen(text) <= text_bytes);
        bool plain = s.params[0].type != MOB_TYPE_NONE || v.arg.type != MOB_TYPE_ACTOR;
        plain &= s.params[0].type != MOB_TYPE_NONE || v.arg.type != MOB_TYPE_BYTES;
        if (plain) {
            MOB_ASSERT(mob_value_from_json(text, text_bytes, &s, &s.params[0], 1 << 20, &w, &e) == MOB_OK);
            MOB_ASSERT(w.arg.type == v.arg.type && w.arg.payload_bytes == v.arg.payload_bytes);
            MOB_ASSERT(memcmp(w.arg.payload, v.arg.payload, v.arg.payload_bytes) == 0);
        }
        free(text);
    }
    mob_json_value_fini(&v);
    mob_json_value_fini(&w);
    return 0;
}
