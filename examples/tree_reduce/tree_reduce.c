/* Tree reduce (001, appendix B.2): the pair-wise sum of two vectors. The tree is the driver's. */
#include <mobula/mobula.h>

#include <stdlib.h>

static enum mob_status data(struct mob_call *call)
{
    int64_t seed = mob_arg_i64(call, 0), n = mob_arg_i64(call, 1);
    float *x = malloc((size_t)n * sizeof *x + 1);
    if (x == NULL)
        return MOB_NO_MEMORY;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((seed * 7 + i) % 100);
    enum mob_status status = mob_return(call, mob_tensor_f32(x, n, 0));
    free(x);
    return status;
}

static enum mob_status aggregate(struct mob_call *call)
{
    struct mob_tensor a = mob_arg_tensor(call, 0), b = mob_arg_tensor(call, 1);
    if (a.dims != 1 || b.dims != 1 || a.shape[0] != b.shape[0])
        return mob_fail(call, "the vectors differ in length");
    const float *x = a.data, *y = b.data;
    int64_t n = a.shape[0];
    float *sum = malloc((size_t)n * sizeof *sum + 1);
    if (sum == NULL)
        return MOB_NO_MEMORY;
    for (int64_t i = 0; i < n; i++)
        sum[i] = x[i] + y[i];
    enum mob_status status = mob_return(call, mob_tensor_f32(sum, n, 0));
    free(sum);
    return status;
}

MOB_MODULE("tree_reduce", MOB_FUNCTION("data", data, "i64 seed, i64 n -> tensor<f32>[n]"),
    MOB_FUNCTION("aggregate", aggregate, "tensor<f32>[n] a, tensor<f32>[n] b -> tensor<f32>[n]"))
