/* mob_spec_open on any bytes; what opens can be walked, built again, and is the same then. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR;
    return 0;
}

static void build_again(const struct mob_spec *spec)
{
    static _Alignas(8) uint8_t copy[MOB_SPEC_TAIL_MAX];
    struct mob_tail_builder b;
    struct mob_tail_iter it = mob_spec_args(spec->tail);
    struct mob_arg_view arg;
    struct mob_ext_view ext;
    mob_tail_begin(&b, copy, sizeof copy);
    while (mob_tail_next_arg(&it, &arg)) {
        if (arg.is_ref)
            mob_tail_add_typed_ref(&b, arg.type, arg.ref);
        else
            mob_tail_add_value(&b, arg.type, arg.payload, arg.payload_bytes);
    }
    while (mob_tail_next_ext(&it, &ext))
        mob_tail_add_ext(&b, ext.tag, ext.payload, ext.payload_bytes);
    uint32_t bytes = mob_tail_end(&b);
    MOB_ASSERT(bytes == spec->tail_bytes);
    memcpy(copy + 2, spec->tail + 2, 2); /* flags that are not known here */
    MOB_ASSERT(memcmp(copy, spec->tail, bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mob_spec spec;
    struct mob_ext_view ext;
    if (mob_spec_open(data, size, &spec) != MOB_OK)
        return 0;
    build_again(&spec);
    (void)mob_spec_find_ext(spec.tail, MOB_EXT_NAME, &ext);
    (void)mob_spec_digest(&spec.head, spec.tail, spec.tail_bytes);
    return 0;
}
