/* What is in a module file. The file's constructors run when it is opened, so the node never opens one
 * itself: it runs `mobula-worker --describe FILE`, which prints
 *
 *   module NAME
 *   function NAME<TAB>SIGNATURE
 *   class NAME<TAB>SIGNATURE of the constructor
 *   method NAME<TAB>SIGNATURE                      of the class before it
 *
 * or one sentence that says why it is no module, with exit status 1.
 */
#ifndef MOB_RUNTIME_WORKER_DESCRIBE_H
#define MOB_RUNTIME_WORKER_DESCRIBE_H

int mob_describe_print(const char *path);

#endif
