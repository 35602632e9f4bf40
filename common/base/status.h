/* Status codes of the whole system, one table.
 *
 * Every function that can fail returns `enum mob_status`; MOB_OK is 0. The stable text form (`code` in an
 * HTTP problem document, exit reason in the CLI) is mob_status_code(). Numbers are written to lineage: never
 * renumber, only append. Thread-safe, pure.
 */
#ifndef MOB_COMMON_BASE_STATUS_H
#define MOB_COMMON_BASE_STATUS_H

#include <stdbool.h>

/* scope: op = only this operation failed; peer = close the peer's connection; node = this node cannot go on
 */
#define MOB_STATUS_TABLE(X) \
    X(0, OK, "ok", "success", 200, false, op) \
    X(1, INVALID, "invalid-argument", "an argument is not acceptable", 422, false, op) \
    X(2, NOT_FOUND, "not-found", "no such thing", 404, false, op) \
    X(3, EXISTS, "already-exists", "it exists already", 409, false, op) \
    X(4, TIMEOUT, "timeout", "not ready in time", 408, true, op) \
    X(5, NO_MEMORY, "no-memory", "out of memory", 503, true, op) \
    X(6, STORE_FULL, "store-full", "the object store is full", 503, true, op) \
    X(7, DISK_FULL, "disk-full", "no space left on the spill disk", 507, true, op) \
    X(8, GCS_FULL, "gcs-full", "the control store is at its memory cap", 429, true, op) \
    X(9, QUEUE_FULL, "queue-full", "a bounded queue is full", 429, true, op) \
    X(10, UNAVAILABLE, "unavailable", "the peer cannot be reached now", 503, true, peer) \
    X(11, CORRUPT, "corrupt", "stored or received bytes fail their check", 500, false, peer) \
    X(12, VERSION, "unsupported-version", "format version not supported", 400, false, peer) \
    X(13, TRUNCATED, "truncated", "input ends too early", 400, false, op) \
    X(14, TOO_LARGE, "too-large", "larger than the limit", 413, false, op) \
    X(15, DENIED, "denied", "not allowed", 403, false, op) \
    X(16, UNAUTHENTICATED, "unauthenticated", "no valid key", 401, false, op) \
    X(17, CANCELLED, "cancelled", "it was cancelled", 409, false, op) \
    X(18, DEADLINE, "deadline-exceeded", "its deadline has passed", 409, false, op) \
    X(19, TASK_FAILED, "task-failed", "the function returned an error", 409, false, op) \
    X(20, WORKER_DIED, "worker-died", "the worker process died", 409, false, op) \
    X(21, ACTOR_DIED, "actor-died", "the actor is dead", 409, false, op) \
    X(22, DEPENDENCY_FAILED, "dependency-failed", "an input failed", 409, false, op) \
    X(23, REPLAY_DIVERGED, "replay-diverged", "a known id came again with other content", 409, false, op) \
    X(24, OBJECT_LOST, "object-lost", "the bytes are gone and cannot be re-made", 410, false, op) \
    X(25, LINEAGE_GONE, "lineage-gone", "its lineage has aged out", 410, false, op) \
    X(26, NOT_READY, "object-not-ready", "the value is not there yet", 409, true, op) \
    X(27, FINISHED, "already-finished", "it has finished already", 409, false, op) \
    X(28, TYPE_MISMATCH, "type-mismatch", "a value has another type than the signature says", 422, false, \
        op) \
    X(29, ABI_MISMATCH, "abi-mismatch", "the module was built for another ABI or machine", 422, false, op) \
    X(30, TOO_MANY_BLOCKED, "too-many-blocked", "the limit of blocked workers is reached", 503, true, op) \
    X(31, CYCLE, "cycle", "a future waits for itself", 409, false, op) \
    X(32, SEALED, "sealed", "the log or object is sealed", 409, false, op) \
    X(33, WRONG_EPOCH, "wrong-epoch", "the configuration has changed", 409, true, op) \
    X(34, EXPIRED, "expired", "the client or cursor has expired", 410, false, op) \
    X(35, GAP, "gap", "a request before this one is missing", 409, true, op) \
    X(36, SEGMENT_DAMAGED, "segment-damaged", "the shared segment fails its checks", 500, false, node) \
    X(37, IO, "io-error", "an input/output operation failed", 500, false, op) \
    X(38, CLOSED, "closed", "the connection or handle is closed", 503, true, peer) \
    X(39, UNSATISFIABLE, "unsatisfiable", "no node can ever have these resources", 422, false, op) \
    X(40, CONFLICT, "conflict", "compare-and-set found another value", 409, false, op) \
    X(41, LOST_UNCOMMITTED, "lost", "it may have existed, and no log knows it any more", 410, false, op) \
    X(42, NONDETERMINISTIC, "nondeterministic", "a replay gave another result", 409, false, op) \
    X(43, INTERNAL, "internal", "a defect in Mobula itself", 500, false, op) \
    X(44, METHOD_NOT_ALLOWED, "method-not-allowed", "the route has no such method", 405, false, op) \
    X(45, UNSUPPORTED_MEDIA, "unsupported-media-type", "that content type is not accepted here", 415, false, \
        op) \
    X(46, RANGE, "range-not-satisfiable", "the range lies outside", 416, false, op) \
    X(47, MISDIRECTED, "misdirected-request", "the Host header is not served here", 421, false, peer) \
    X(48, BAD_REQUEST, "bad-request", "the request is malformed", 400, false, peer) \
    X(49, HEADERS_TOO_LARGE, "headers-too-large", "the header block is too large", 431, false, peer) \
    X(50, AGAIN, "again", "would block", 503, true, op) \
    X(51, IN_USE, "in-use", "something still needs it", 409, false, op) \
    X(52, NOT_PLACED, "not-placed", "its actor waits to be placed", 503, true, op) \
    X(53, TOO_MUCH, "too-much-to-read", "there is more to read than one answer has time for", 422, false, op)

enum mob_status {
#define MOB_STATUS_ENUM(n, name, code, text, http, retry, scope) MOB_##name = (n),
    MOB_STATUS_TABLE(MOB_STATUS_ENUM)
#undef MOB_STATUS_ENUM
        MOB_STATUS_COUNT
};

enum mob_status_scope { MOB_SCOPE_op, MOB_SCOPE_peer, MOB_SCOPE_node };

#define MOB_MUST_USE __attribute__((warn_unused_result))

/* Stable machine-readable code, as "store-full". Unknown numbers give "unknown". Static storage. */
/* Function modules call these two, too. */
__attribute__((visibility("default"))) const char *mob_status_code(enum mob_status status);
/* One English sentence fragment. Static storage. */
__attribute__((visibility("default"))) const char *mob_status_text(enum mob_status status);
int mob_status_http(enum mob_status status);
bool mob_status_retryable(enum mob_status status);
enum mob_status_scope mob_status_scope(enum mob_status status);
/* Back from the stable code; MOB_INTERNAL when unknown. */
enum mob_status mob_status_from_code(const char *code);

#endif
