/* What is in a module file. The file's constructors run when it is opened, so the node never opens one
 * itself: it runs `mobula-worker --inspect FILE`, which prints tab-separated lines
 *
 *   module <name> <abi> <machine>
 *   function <name> <flags> <signature>
 *   class <name> <flags> <constructor's signature> <hooks: c and r, or ->
 *   method <name> <flags> <signature>          of the class before it
 *   error <status code> <reason>               instead, with exit status 1
 */
#ifndef MOB_RUNTIME_WORKER_INSPECT_H
#define MOB_RUNTIME_WORKER_INSPECT_H

int mob_inspect_print(const char *path);

#endif
