/* The head check: complete heads are within the input, and what is taken is what the two-step check takes
 * too. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length = 0;
    struct mob_http_refusal refusal = {0};
    enum mob_status status = mob_http_head_check((const char *)data, size, &length, &refusal);
    MOB_ASSERT(status == MOB_OK || status == MOB_AGAIN || status == MOB_BAD_REQUEST);
    if (status == MOB_OK) {
        size_t again = 0;
        MOB_ASSERT(length >= 4 && length <= size);
        MOB_ASSERT(
            mob_http_head_check((const char *)data, length, &again, &refusal) == MOB_OK && again == length);
        MOB_ASSERT(mob_http_head_check((const char *)data, length - 1, &again, &refusal) == MOB_AGAIN);
    }
    if (status == MOB_BAD_REQUEST)
        MOB_ASSERT(refusal.status >= 400 && refusal.why);
    return 0;
}
