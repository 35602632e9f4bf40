/* mob_tensor_open on any bytes; what opens lies inside and is encoded again to the same shape. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/tensor.h"

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
    static uint8_t copy[1 << 20];
    struct mob_tensor_view v, w;
    if (mob_tensor_open(data, size, &v) != MOB_OK)
        return 0;
    MOB_ASSERT(v.data_bytes <= size && v.data >= data && v.data + v.data_bytes <= data + size);
    uint32_t head = mob_tensor_head_encode(copy, MOB_TENSOR_HEAD_MAX, v.dtype, v.shape, v.ndim, v.data_bytes);
    MOB_ASSERT(head > 0 && head % 64 == 0);
    if (v.data_bytes > sizeof copy - head)
        return 0;
    memcpy(copy + head, v.data, v.data_bytes);
    MOB_ASSERT(mob_tensor_open(copy, head + v.data_bytes, &w) == MOB_OK);
    MOB_ASSERT(w.dtype == v.dtype && w.ndim == v.ndim && w.data_bytes == v.data_bytes);
    MOB_ASSERT(memcmp(w.shape, v.shape, sizeof v.shape[0] * v.ndim) == 0);
    return 0;
}
