/* Peak memory of the running task: the kernel's high-water mark of this process' resident memory, put back to
 * what is resident each time it is taken. What the process held before the task counts with it: modules, an
 * actor's state, memory that a task before it left behind. The worker's thread; not in the zygote, whose
 * descriptors would be of the wrong process.
 */
#ifndef MOB_RUNTIME_WORKER_PEAK_MEMORY_H
#define MOB_RUNTIME_WORKER_PEAK_MEMORY_H

#include <stdint.h>

/* KiB, highest since the last call (of the process, at the first); about 20 us. 0: not known, as where the
 * kernel does not put the mark back (no CONFIG_PROC_PAGE_MONITOR) and it has not risen since. */
uint32_t mob_peak_memory_take(void);

#endif
