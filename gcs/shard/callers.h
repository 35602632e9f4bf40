/* Which processes have called on this member, in a file that outlives it: so its next life can prove that
 * nobody is left who may have what it lost, and need not wait for clients that it does not know.
 *
 * The proof: a client is the process that connected (SO_PEERCRED, and the time of its start). It is in the
 * file before its first request is read, so before anything was acknowledged to it. What was written
 * to a file is there for as long as this kernel runs, whatever is killed; after another boot, or in another
 * pid namespace, the file says nothing. Then the file of a member that is over names all who may hold
 * something, and mob_process_is_over proves of each that it does not run any more. A socket that something
 * forwards proves nothing of who is behind it: a caller that is not known by its process makes the file
 * worthless for the rest of this life, and so does a file that cannot be written.
 *
 * It vouches from when nothing older can be outstanding: once the member serves. `life` is a number that the
 * store has from each life, too: one of a version that knows no such file has left another. For the member's
 * loop.
 */
#ifndef MOB_GCS_SHARD_CALLERS_H
#define MOB_GCS_SHARD_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_CALLERS_MAX 4096u /* processes: of more than that which live nothing is known any more */

#define MOB_CALLERS_SUFFIX ".callers" /* of the file, behind the name of the member's socket */

struct mob_callers;
/* This boot of this machine, and which pids are meant: mob_process_is_over holds for these only. */
void mob_callers_boot(uint8_t out[16]);
/* Reads what the lives before left, if the last of them was `life_before`, and goes on with it as `life`.
 * Gives (destroy). A file that cannot be had is one that says nothing; MOB_IO: nor can an old one be taken
 * away. MOB_NO_MEMORY. Copies the path. */
MOB_MUST_USE enum mob_status mob_callers_open(
    const char *path, uint32_t life_before, uint32_t life, struct mob_callers **callers_out);
/* All who called on the lives before are known, and none of them runs any more. As of the opening. */
bool mob_callers_over(const struct mob_callers *callers);
/* Before anything that this process asks for is done. pid or started 0: it is not known. False: it must not
 * be let in, since the next life would not know of it. */
MOB_MUST_USE bool mob_callers_add(struct mob_callers *callers, int32_t pid, uint64_t started);
/* Nothing that was acknowledged before now can be outstanding. */
void mob_callers_vouch(struct mob_callers *callers);
void mob_callers_destroy(struct mob_callers *callers); /* the file stays; NULL is fine */

#endif
