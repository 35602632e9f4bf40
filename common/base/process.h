/* What the kernel tells of a process (Linux, /proc/PID/stat). Any thread. */
#ifndef MOB_COMMON_BASE_PROCESS_H
#define MOB_COMMON_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mob_process {
    char state; /* 'R', 'S', 'D', 'T' stopped, 't' traced, 'Z' or 'X' ended, ... */
    pid_t parent;
    bool exits; /* it ends, or has ended: it runs no more of its program */
    int64_t cpu_ns; /* of all its threads, user and system; in steps of 10 ms */
    int threads; /* of one that has ended, but for others than the first of them: more than 1 */
    uint64_t started; /* in clock ticks since the machine started: with the pid it names the process */
};

/* False: there is no such process, or nobody may ask; everything is 0. */
bool mob_process_look(pid_t pid, struct mob_process *out);
/* Its `started`; 0 also when it has ended, and only its parent has not asked for it. */
uint64_t mob_process_started(pid_t pid);
/* It is proved that the process which started then runs no more: there is none of that number, or a later
 * one, or it has ended with all its threads. What cannot be looked at is not over. */
bool mob_process_is_over(pid_t pid, uint64_t started);
/* Signals stop it, or a debugger. */
bool mob_process_is_stopped(pid_t pid);

#endif
