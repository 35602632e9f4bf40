/* A worker's log: stdout and stderr of the process, in files that are bounded, and an index from tasks to
 * ranges.
 *
 *   LOG_DIR/worker-7.log    LOG_DIR/worker-7.log.1   the file before it
 *   LOG_DIR/worker-7.idx    LOG_DIR/worker-7.idx.1   struct mob_log_index each; none when nothing was noted
 *
 * stdio writes through functions of ours, which count: whether a task wrote anything costs no system call.
 * The first write of a task in a file puts a mark into the index, so that its output can be read while it
 * runs, and after its worker died of it; a task that writes nothing costs nothing. What goes around stdio
 * (write(2) in user code) has no mark. The node reads it while the task runs as what stands behind all that
 * was noted, and notes it itself when the worker dies; the worker notices it after tasks of a millisecond and
 * more.
 */
#ifndef MOB_RUNTIME_WORKER_WORKER_LOG_H
#define MOB_RUNTIME_WORKER_WORKER_LOG_H

#include "runtime/worker/zygote.h"

struct mob_log_index {
    struct mob_task_id task;
    uint64_t offset; /* in the log file beside this index */
    uint32_t
        bytes; /* 0: the mark of a task that writes from here on, up to the next entry or the file's end */
    uint32_t attempt; /* of the task. 0: an earlier version's entry, which did not say */
};
_Static_assert(sizeof(struct mob_log_index) == 32, "entries of earlier versions are as long");
#define MOB_LOG_NAME_MAX 320
/* suffix: "log", "log.1", "idx", "idx.1" */
void mob_worker_log_name(
    const char *log_dir, uint32_t worker, const char *suffix, char out[MOB_LOG_NAME_MAX]);

/* In the worker, once: opens the log and takes over descriptors 1 and 2 and stdio. */
MOB_MUST_USE enum mob_status mob_worker_log_open(const struct mob_worker_config *config, uint32_t worker);
/* This attempt of this task runs from now on: what is written is its. */
void mob_worker_log_task(struct mob_task_id task, uint32_t attempt);
/* Bytes written so far, ever. Compare before and after a task. */
uint64_t mob_worker_log_written(void);
/* Count what went around stdio (a system call). */
void mob_worker_log_measure(void);
/* The task that runs, and began when `written` bytes had been written, has ended: note its range. Gives its
 * last bytes for the event log; returns their number. */
uint32_t mob_worker_log_note(uint64_t written, char *tail_out, uint32_t size);

#endif
