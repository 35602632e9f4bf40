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

#include <stddef.h>

#include "common/base/status.h"

/* In mobula-worker. */
int mob_inspect_print(const char *path);
/* In the node: spawns `worker_path` (NULL = mobula-worker beside this executable) and waits for it, for at
 * most 5 s. The text is malloc'ed, NUL-terminated. The child's error becomes the status, and the text its
 * reason. */
MOB_MUST_USE enum mob_status mob_module_inspect(
    const char *worker_path, const char *path, char **text_out, size_t *bytes_out);

#endif
