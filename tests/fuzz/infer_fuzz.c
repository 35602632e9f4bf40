/* Inference requests: the first two bytes are the length of the JSON part; what is taken fits its shapes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/serve/infer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mob_model *model;
    char why[256];
    if (!model)
        MOB_ASSERT(mob_model_create("m", "a.B",
                       "tensor<f32>[n,2] x, tensor<bytes>[n] s, tensor<i8>[n] b, tensor<u64>[n] u -> "
                       "tensor<f32>[n,2] y",
                       1, 0, &model, why) == MOB_OK);
    if (size < 2)
        return 0;
    uint16_t header;
    memcpy(&header, data, 2);
    struct mob_infer_request *request = NULL;
    char *body = malloc(size);
    memcpy(body, data + 2, size - 2);
    enum mob_status status =
        mob_infer_parse(model, body, size - 2, header == UINT16_MAX ? SIZE_MAX : header, &request, why);
    if (status == MOB_OK) {
        uint64_t touched = 0;
        for (uint32_t i = 0; i < model->input_count; i++)
            for (uint64_t k = 0; k < request->inputs[i].bytes; k++)
                touched += request->inputs[i].data[k];
        struct mob_text t = {0};
        size_t length;
        mob_infer_write(model, request, request->inputs, &t, &length);
        mob_text_fini(&t);
        (void)touched;
    }
    mob_infer_request_destroy(request);
    free(body);
    return 0;
}
