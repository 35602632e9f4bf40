/* The tasks that rows gcs_find and gcs_find_http look for: finished ones of 30 days, of many jobs and 100
 * functions, some of them failed, all evenly spread. Everything of task n follows from n, so that every
 * answer can be compared with what was written. Any thread.
 */
#ifndef MOB_BENCH_FIND_CORPUS_H
#define MOB_BENCH_FIND_CORPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/block.h"

#define FIND_FUNCTIONS 100u
#define FIND_HOURS (30u * 24)
#define FIND_BLOCK_TASKS 125u
#define FIND_BLOCK_BYTES_MAX 16384u /* of a block of so many */
#define FIND_PAGE 100 /* rows of a first page */

struct find_corpus {
    uint64_t tasks, jobs; /* a job has tasks / jobs of them, a multiple of FIND_BLOCK_TASKS */
    uint64_t one_in; /* one failure in so many */
    uint8_t tag; /* ids of another tag are other ids */
    int64_t first_wall_ns; /* the 30 days begin then */
    struct mob_function_id functions[FIND_FUNCTIONS];
};

struct mob_task_id find_corpus_task(const struct find_corpus *c, uint64_t task);
uint32_t find_corpus_function(uint64_t task); /* which of the functions */
bool find_corpus_fails(const struct find_corpus *c, uint64_t task);
int64_t find_corpus_finished_ns(const struct find_corpus *c, uint64_t task); /* wall clock */
/* Specs and ends of tasks [from, from + FIND_BLOCK_TASKS), of one job; `header` names incarnation, sequence
 * and, where one is checked, cluster. Its length, at most FIND_BLOCK_BYTES_MAX, in `out`, which has room for
 * MOB_BLOCK_BYTES_MAX. */
uint32_t find_corpus_block(const struct find_corpus *c, struct mob_block_encoder *encoder,
    const struct mob_block_header *header, uint64_t from, uint8_t *out);
/* The next failure from a place that depends on i. */
uint64_t find_corpus_failure(const struct find_corpus *c, uint64_t i);
/* Which tasks of the function failed in [from, to), newest first, at most FIND_PAGE; how many. */
int find_corpus_failures(
    const struct find_corpus *c, uint32_t function, uint64_t from, uint64_t to, uint64_t out[FIND_PAGE]);

#endif
