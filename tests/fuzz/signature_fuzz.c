/* Signature texts: what parses has a canonical text that parses to the same, a schema, and checks any
 * arguments. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[4 * MOB_SIGNATURE_BYTES_MAX], again[4 * MOB_SIGNATURE_BYTES_MAX], schema[64 * 1024];
    static struct mob_signature s, t;
    struct mob_signature_error e;
    if (mob_signature_parse((const char *)data, size, &s, &e) != MOB_OK) {
        MOB_ASSERT(e.position >= 0 && (size_t)e.position <= size && e.message[0] != '\0');
        return 0;
    }
    uint32_t length = mob_signature_format(&s, text, sizeof text);
    MOB_ASSERT(length > 0);
    if (length <= MOB_SIGNATURE_BYTES_MAX) {
        MOB_ASSERT(mob_signature_parse(text, length, &t, &e) == MOB_OK);
        MOB_ASSERT(memcmp(&s, &t, sizeof s) == 0);
        MOB_ASSERT(
            mob_signature_format(&t, again, sizeof again) == length && memcmp(text, again, length) == 0);
    }
    MOB_ASSERT(mob_signature_json_schema(&s, schema, sizeof schema) > 0);
    struct mob_signature_check c;
    mob_signature_check_begin(&c, &s);
    for (uint32_t i = 0; i < 40; i++) {
        struct mob_arg_view arg = {
            .is_ref = i % 7 == 0, .type = (enum mob_value_type)(i % MOB_TYPE_COUNT), .payload = data};
        arg.payload_bytes = (uint32_t)size;
        (void)!mob_signature_check_next(&c, &arg, &e);
    }
    (void)!mob_signature_check_end(&c, &e);
    return 0;
}
