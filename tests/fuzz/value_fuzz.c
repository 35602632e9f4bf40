/* mob_value_open and mob_value_verify on any bytes. */
#include "common/base/log.h"
#include "common/wire/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mob_value_view view;
    volatile uint8_t sum = 0;
    enum mob_status verified = mob_value_verify(data, size);
    if (mob_value_open(data, size, &view) != MOB_OK) {
        MOB_ASSERT(verified != MOB_OK);
        return 0;
    }
    for (uint64_t i = 0; i < view.payload_bytes; i++)
        sum ^= view.payload[i];
    for (uint64_t i = 0; i < (uint64_t)view.object_ref_count * sizeof(struct mob_object_id); i++)
        sum ^= view.object_refs[i];
    for (uint64_t i = 0; i < (uint64_t)view.actor_ref_count * sizeof(struct mob_actor_id); i++)
        sum ^= view.actor_refs[i];
    MOB_ASSERT(mob_value_small_ok(view.type, view.payload_bytes));
    return 0;
}
