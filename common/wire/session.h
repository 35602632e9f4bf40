/* Opening a session with a node: one exchange on the node's unix socket (SOCK_SEQPACKET, 0600), then shared
 * memory.
 *
 * The client sends mob_session_hello; the node answers mob_session_welcome and, when status is MOB_OK, two
 * descriptors (SCM_RIGHTS): the segment's memfd and the node's eventfd. The socket stays open as the sign of
 * life, both ways: end of file is the end of the peer, for a driver's job too unless it has a key. Only one
 * thing may be sent on it still, by a client that lets go of its session to resume it in another one:
 * MOB_SESSION_AGAIN, one byte, before the end of file. Workers do not connect: the zygote hands them the same
 * welcome.
 */
#ifndef MOB_COMMON_WIRE_SESSION_H
#define MOB_COMMON_WIRE_SESSION_H

#include <stddef.h>

#include "common/base/id.h"
#include "common/base/status.h"

#define MOB_SESSION_MAGIC 0x4c554d4du /* "MMUL" */
#define MOB_SESSION_VERSION 6
#define MOB_SESSION_DETAIL 256
#define MOB_SESSION_AGAIN 0x41 /* "A": the client comes again, its job waits for it */
#define MOB_NODE_SOCKET_NAME "node.sock" /* in the state directory */

#define MOB_JOB_WEIGHT_DEFAULT 100u
#define MOB_JOB_WEIGHT_MAX 1000u

enum mob_session_flag {
    MOB_SESSION_STANDING_JOB = 1, /* join the namespace's standing job */
    MOB_SESSION_READ_LOCAL = 2, /* MOB_IN_READY before the commit */
    MOB_SESSION_DETACHED = 4, /* the job goes on without its driver */
    MOB_SESSION_GATEWAY = 8, /* may cancel, kill and query any job of the namespace */
    MOB_SESSION_JOIN = 16 /* one more session of the job whose id is in job_name, with ids of its own */
};
struct mob_session_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t kind; /* enum mob_client_kind: driver or gateway */
    uint32_t pid;
    uint32_t flags;
    uint64_t resume_incarnation; /* 0, or the incarnation whose segment this client still maps */
    struct mob_task_id resume_root; /* and its root there: the same job goes on under the same ids */
    struct mob_stream resume_stream; /* of its children, and the first of them that it has not used yet */
    uint32_t resume_next_child;
    char ns[64];
    char job_name[64]; /* MOB_SESSION_JOIN: the job's id as text */
    char idempotency_key[128];
    uint32_t job_weight; /* share of dispatches against other jobs, 1 .. MOB_JOB_WEIGHT_MAX; 0 = the default,
                            or as it is */
    uint32_t zero;
};
struct mob_session_welcome {
    uint32_t magic;
    uint16_t version;
    uint16_t status; /* enum mob_status; else `detail` says why */
    uint32_t slot; /* in the segment's client table */
    uint32_t worker; /* workers: their number */
    uint64_t incarnation;
    struct mob_cluster_id cluster;
    struct mob_job_id job;
    struct mob_task_id
        root; /* parent of what this session submits; the job's, unless others submit to it too */
    uint32_t generation; /* of the root */
    uint32_t next_child; /* of a standing or resumed job: first free child index */
    uint32_t nest_max; /* workers: tasks that may wait below another one on their stack; 0 = none */
    uint32_t zero;
    char detail[MOB_SESSION_DETAIL];
};

/* What a client sent. MOB_INVALID (no client of ours, or malformed), MOB_VERSION; `detail_out` says why. The
 * texts have their ends; whether `kind` may come this way is the node's to say. */
MOB_MUST_USE enum mob_status mob_session_hello_decode(const void *bytes, size_t length,
    struct mob_session_hello *hello_out, char detail_out[MOB_SESSION_DETAIL]);
/* What a node answered. MOB_INVALID: no node of ours; MOB_VERSION: another version of one, and then of the
 * rest only `version` means something, and all else is 0. */
MOB_MUST_USE enum mob_status mob_session_welcome_decode(
    const void *bytes, size_t length, struct mob_session_welcome *welcome_out);

#endif
