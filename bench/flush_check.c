#include "bench/flush_check.h"

#include <string.h>

#include "common/base/log.h"
#include "common/wire/block.h"
#include "gcs/flush/cold.h"

/* One task in what a look-up gave. */
struct looked {
    struct mob_task_id task;
    int64_t argument, result;
    bool spec, end;
};

static bool is_number(const uint8_t *payload, uint32_t bytes, int64_t wanted)
{
    return bytes == sizeof wanted && memcmp(payload, &wanted, sizeof wanted) == 0;
}

static void look_at(struct looked *l, const struct mob_entry *e)
{
    if (e->type == MOB_ENTRY_SPEC && mob_task_id_eq(e->spec.head.task, l->task)) {
        struct mob_tail_iter arguments = mob_spec_args(e->spec.tail);
        struct mob_arg_view first;
        l->spec |= mob_tail_next_arg(&arguments, &first) && !first.is_ref &&
            is_number(first.payload, first.payload_bytes, l->argument);
    } else if (e->type == MOB_ENTRY_COMPLETION && mob_task_id_eq(e->completion.head.task, l->task)) {
        struct mob_return_view ret;
        uint32_t at = 0;
        l->end |= (e->completion.head.flags & MOB_COMPLETION_FINAL) != 0 &&
            e->completion.head.status == MOB_OK && mob_completion_next(&e->completion, &at, &ret) &&
            is_number(ret.payload, (uint32_t)ret.size, l->result);
    }
}

static bool look_up(
    struct mob_cold *cold, struct mob_database *db, struct mob_block_decoder *decoder, struct looked *l)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_header header;
    struct mob_gcs_cold_get q = {.upto = MOB_GCS_COLD_SEQ_MAX,
        .get = {
            .query = MOB_GCS_Q_GROUP, .stream = l->task.stream, .group = l->task.index >> MOB_GROUP_SHIFT}};
    struct mob_gcs_cold_answer a;
    do { /* a group's entries may lie in buckets of several batches */
        if (mob_cold_read(cold, db, &q, &a) != MOB_OK)
            return false;
        for (uint32_t i = 0; i < a.block_count; i++) {
            enum mob_status status =
                mob_block_open(decoder, a.blocks[i].bytes, a.blocks[i].length, &header, &zone);
            while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK)
                look_at(l, &entry);
        }
        q.get.position = a.next;
    } while (a.next != 0 && !(l->spec && l->end));
    return l->spec && l->end;
}

int bench_flush_check(struct mob_database *db, const struct bench_samples *samples, double *us_out)
{
    static double us[BENCH_SAMPLES];
    struct mob_cold *cold = mob_cold_create(0);
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    MOB_ASSERT(cold != NULL && decoder != NULL);
    int good = 0;
    for (int i = 0; i < samples->count; i++) {
        const struct bench_sample *s = &samples->items[i];
        struct looked l = {.argument = s->argument, .result = s->result};
        int64_t begin = bench_now();
        good += mob_task_id_parse(s->task, &l.task) == MOB_OK && look_up(cold, db, decoder, &l);
        us[i] = (double)(bench_now() - begin) / 1e3;
    }
    *us_out = samples->count > 0 ? bench_percentile(us, samples->count, 50) : 0;
    mob_block_decoder_destroy(decoder);
    mob_cold_destroy(cold);
    return good;
}
