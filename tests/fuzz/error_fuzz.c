/* mob_error_decode on any bytes; a new link in front of it gives an error value that decodes. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/completion.h"

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
    struct mob_error_link links[MOB_ERROR_LINKS_MAX],
        link = {.status = MOB_TASK_FAILED, .message = "x", .message_bytes = 1};
    uint8_t out[MOB_ERROR_BYTES_MAX];
    volatile uint8_t sum = 0;
    int count = mob_error_decode(data, size, links, MOB_ERROR_LINKS_MAX);
    for (int i = 0; i < count; i++) {
        for (uint32_t j = 0; j < links[i].message_bytes; j++)
            sum ^= (uint8_t)links[i].message[j];
        for (uint32_t j = 0; j < links[i].detail_bytes; j++)
            sum ^= (uint8_t)links[i].detail[j];
    }
    if (count < 0)
        return 0;
    for (uint32_t capacity = 41; capacity <= sizeof out; capacity += 811) {
        link.detail = size > 0 ? (const char *)data : NULL;
        link.detail_bytes = (uint32_t)size;
        uint32_t bytes = mob_error_encode(out, capacity, &link, data, (uint32_t)size);
        MOB_ASSERT(bytes > 0 && bytes <= capacity);
        MOB_ASSERT(mob_error_decode(out, bytes, links, MOB_ERROR_LINKS_MAX) >= 1);
    }
    return 0;
}
