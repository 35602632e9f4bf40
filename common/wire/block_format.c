#include "common/wire/block_format.h"

void block_predictors_init(struct predictors *p, const struct mob_block_header *header)
{
    p->spec_used = p->worker_used = p->stream_used = p->function_used = p->edge_used = 0;
    p->spec_last = p->worker_last = 0;
    p->base_ns = p->submitted = (uint64_t)header->mono_ns;
    p->put_slot = MOB_SLOT_PUT;
    /* what the first entry differs from: a plain task of this job */
    struct spec_context *spec = &p->specs[0];
    memset(spec, 0, offsetof(struct spec_context, exts));
    spec->head.version = MOB_SPEC_VERSION;
    spec->head.kind = MOB_KIND_TASK;
    spec->head.runtime = MOB_RUNTIME_C;
    spec->head.num_returns = 1;
    spec->head.job = header->job;
    spec->head.max_retries = 3;
    spec->head.cpu = 10000;
    spec->head.attempt = 1;
    struct worker_context *worker = &p->workers[0];
    memset(worker, 0, sizeof *worker);
    worker->head.version = MOB_COMPLETION_VERSION;
    worker->head.flags = MOB_COMPLETION_FINAL;
    worker->head.attempt = 1;
    for (int i = 0; i < TIMES; i++)
        worker->times[i] = p->base_ns;
}

uint8_t *block_put_long(uint8_t *at, uint64_t v)
{
    while (v >= 128) {
        *at++ = (uint8_t)(v | 128);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

const uint8_t *block_get_long(const uint8_t *at, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = *at++;
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            break;
    }
    *out = v;
    return at;
}
