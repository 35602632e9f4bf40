/* A model that tells what it was called with: for tests of batches.
 *
 *   Batcher(sleep_ms)   .infer(x[n,k]) -> seen[n,2]: for each row the rows of its call, and the sum of its
 * numbers
 */
#include <mobula/mobula.h>

#include <stdlib.h>
#include <unistd.h>

static enum mob_status batcher_create(struct mob_call *call)
{
    int64_t *sleep_ms = malloc(sizeof *sleep_ms);
    if (sleep_ms == NULL)
        return MOB_NO_MEMORY;
    *sleep_ms = mob_arg_i64(call, 0);
    mob_call_set_self(call, sleep_ms);
    return MOB_OK;
}

static enum mob_status infer(struct mob_call *call)
{
    const int64_t *sleep_ms = mob_call_self(call);
    const struct mob_tensor x = mob_arg_tensor(call, 0);
    const int64_t rows = x.shape[0], columns = x.shape[1];
    float *seen = malloc((size_t)rows * 2 * sizeof(float));
    if (seen == NULL)
        return MOB_NO_MEMORY;
    for (int64_t row = 0; row < rows; row++) {
        float sum = 0;
        for (int64_t i = 0; i < columns; i++)
            sum += ((const float *)x.data)[row * columns + i];
        seen[2 * row] = (float)rows;
        seen[2 * row + 1] = sum;
    }
    usleep((useconds_t)*sleep_ms * 1000);
    enum mob_status status = mob_return(call, mob_tensor_f32(seen, rows, 2));
    free(seen);
    return status;
}

/* clang-format off */
MOB_MODULE("batcher",
    MOB_ACTOR_CLASS("Batcher", batcher_create, "i64 sleep_ms -> ()", free,
        {.name = "infer", .main = infer, .signature = "tensor<f32>[n,k] x -> tensor<f32>[n,2] seen",
         .flags = MOB_METHOD_READ_ONLY}))
/* clang-format on */
