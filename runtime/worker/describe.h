/* `mobula-worker --describe FILE`: says what a module offers, in a process of its own, so that user code
 * never runs in the node. */
#ifndef MOB_RUNTIME_WORKER_DESCRIBE_H
#define MOB_RUNTIME_WORKER_DESCRIBE_H

/* Loads the module and prints to stdout, a line each: "module NAME", "function NAME<TAB>SIGNATURE",
 * "class NAME<TAB>SIGNATURE OF THE CONSTRUCTOR" followed by its "method NAME<TAB>SIGNATURE" lines. Gives the
 * process' exit status: 0, or 1 after one line that says what is wrong. */
int mob_worker_describe(const char *path);

#endif
