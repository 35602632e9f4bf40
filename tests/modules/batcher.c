/* A model that tells what it was called with: for tests of batches.
 *
 *   Batcher(sleep_ms)   .infer(x[n,k]) -> seen[n,2]: for each row the rows of its call, and the sum of its
 * numbers
 *   Gate(path)          the same, but each call makes path.in and ends when there is path.open
 *   Texts()             .infer(x[n], w[n]) -> seen[n]: how long each text is, times w
 *   Twice()             .infer(x[n,k]) -> y[n,k]: each text twice
 *   Fuse()              the same as Batcher(0), but a number of -1 ends its process, -2 leaves a row out, and
 * -3 is refused Tally()             .infer(x[n,k]) -> seen[n,2]: how many calls this process has run, and 0
 */
#include <mobula/mobula.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static enum mob_status tell(struct mob_call *call)
{
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
    enum mob_status status = mob_return(call, mob_tensor_f32(seen, rows, 2));
    free(seen);
    return status;
}

/* Of one row fewer than it was given. */
static enum mob_status tell_less(struct mob_call *call, int64_t rows)
{
    float *seen = calloc((size_t)rows, 2 * sizeof(float));
    if (seen == NULL)
        return MOB_NO_MEMORY;
    enum mob_status status = mob_return(call, mob_tensor_f32(seen, rows - 1, 2));
    free(seen);
    return status;
}

static enum mob_status infer_or_blow(struct mob_call *call)
{
    const struct mob_tensor x = mob_arg_tensor(call, 0);
    for (int64_t i = 0; i < x.shape[0] * x.shape[1]; i++) {
        if (((const float *)x.data)[i] == -1)
            abort();
        if (((const float *)x.data)[i] == -2)
            return tell_less(call, x.shape[0]);
        if (((const float *)x.data)[i] == -3)
            return mob_fail(call, "a row is refused");
    }
    return tell(call);
}

static enum mob_status infer(struct mob_call *call)
{
    const int64_t *sleep_ms = mob_call_self(call);
    usleep((useconds_t)*sleep_ms * 1000);
    return tell(call);
}

static enum mob_status gate_create(struct mob_call *call)
{
    size_t length;
    const char *path = mob_arg_utf8(call, 0, &length);
    mob_call_set_self(call, strndup(path, length));
    return MOB_OK;
}

static enum mob_status infer_behind_gate(struct mob_call *call)
{
    char in[512], open_[512];
    snprintf(in, sizeof in, "%s.in", (const char *)mob_call_self(call));
    snprintf(open_, sizeof open_, "%s.open", (const char *)mob_call_self(call));
    FILE *file = fopen(in, "w");
    if (file == NULL)
        return mob_fail(call, "cannot make the file");
    fclose(file);
    while (access(open_, F_OK) != 0)
        usleep(1000);
    return tell(call);
}

static enum mob_status texts_create(struct mob_call *call)
{
    (void)call;
    return MOB_OK;
}

static enum mob_status infer_lengths(struct mob_call *call)
{
    const struct mob_tensor x = mob_arg_tensor(call, 0), w = mob_arg_tensor(call, 1);
    const int64_t rows = x.shape[0];
    const char *at = x.data; /* u32 length, bytes; one behind the other */
    float *seen = calloc((size_t)rows + 1, sizeof *seen);
    if (seen == NULL)
        return MOB_NO_MEMORY;
    for (int64_t row = 0; row < rows; row++) {
        uint32_t length;
        memcpy(&length, at, sizeof length);
        at += sizeof length + length;
        seen[row] = (float)length * ((const float *)w.data)[row];
    }
    enum mob_status status = mob_return(call, mob_tensor_f32(seen, rows, 0));
    free(seen);
    return status;
}

static enum mob_status infer_twice(struct mob_call *call)
{
    struct mob_tensor x = mob_arg_tensor(call, 0);
    const char *at = x.data, *end = at;
    uint32_t length;
    for (int64_t i = 0; i < x.shape[0] * x.shape[1]; i++) {
        memcpy(&length, end, sizeof length);
        end += sizeof length + length;
    }
    char *y = malloc(2 * (size_t)(end - at) + 1), *to = y;
    if (y == NULL)
        return MOB_NO_MEMORY;
    while (at < end) {
        memcpy(&length, at, sizeof length);
        uint32_t twice = 2 * length;
        memcpy(to, &twice, sizeof twice);
        memcpy(to + sizeof twice, at + sizeof length, length);
        memcpy(to + sizeof twice + length, at + sizeof length, length);
        at += sizeof length + length;
        to += sizeof twice + twice;
    }
    x.data = y;
    enum mob_status status = mob_return(call, mob_tensor(x));
    free(y);
    return status;
}

static enum mob_status tally_create(struct mob_call *call)
{
    int64_t *calls = calloc(1, sizeof *calls);
    if (calls == NULL)
        return MOB_NO_MEMORY;
    mob_call_set_self(call, calls);
    return MOB_OK;
}

static enum mob_status infer_and_count(struct mob_call *call)
{
    int64_t *calls = mob_call_self(call);
    const int64_t rows = mob_arg_tensor(call, 0).shape[0];
    float *seen = calloc((size_t)rows, 2 * sizeof(float));
    if (seen == NULL)
        return MOB_NO_MEMORY;
    (*calls)++;
    for (int64_t row = 0; row < rows; row++)
        seen[2 * row] = (float)*calls;
    enum mob_status status = mob_return(call, mob_tensor_f32(seen, rows, 2));
    free(seen);
    return status;
}

/* clang-format off */
MOB_MODULE("batcher",
    MOB_ACTOR_CLASS("Batcher", batcher_create, "i64 sleep_ms -> ()", free,
        {.name = "infer", .main = infer, .signature = "tensor<f32>[n,k] x -> tensor<f32>[n,2] seen",
         .flags = MOB_METHOD_READ_ONLY}),
    MOB_ACTOR_CLASS("Fuse", texts_create, "-> ()", NULL,
        {.name = "infer", .main = infer_or_blow, .signature = "tensor<f32>[n,k] x -> tensor<f32>[n,2] seen",
         .flags = MOB_METHOD_READ_ONLY}),
    MOB_ACTOR_CLASS("Tally", tally_create, "-> ()", free,
        {.name = "infer", .main = infer_and_count, .signature = "tensor<f32>[n,k] x -> tensor<f32>[n,2] seen",
         .flags = MOB_METHOD_READ_ONLY}),
    MOB_ACTOR_CLASS("Texts", texts_create, "-> ()", NULL,
        {.name = "infer", .main = infer_lengths, .signature = "tensor<bytes>[n] x, tensor<f32>[n] w -> tensor<f32>[n] seen",
         .flags = MOB_METHOD_READ_ONLY}),
    MOB_ACTOR_CLASS("Twice", texts_create, "-> ()", NULL,
        {.name = "infer", .main = infer_twice, .signature = "tensor<bytes>[n,k] x -> tensor<bytes>[n,k] y",
         .flags = MOB_METHOD_READ_ONLY}),
    MOB_ACTOR_CLASS("Gate", gate_create, "utf8 path -> ()", free,
        {.name = "infer", .main = infer_behind_gate, .signature = "tensor<f32>[n,k] x -> tensor<f32>[n,2] seen",
         .flags = MOB_METHOD_READ_ONLY}))
/* clang-format on */
