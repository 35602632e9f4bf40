/* Between flusher.c and what it stands on. Internal to gcs/flush; the loop's thread only. */
#ifndef MOB_GCS_FLUSH_FLUSHER_INNER_H
#define MOB_GCS_FLUSH_FLUSHER_INNER_H

#include "gcs/client/client.h"
#include "gcs/flush/cold_pool.h"
#include "gcs/flush/flush_marks.h"
#include "gcs/flush/flush_thread.h"
#include "gcs/flush/flusher.h"

#define PAUSE_MIN_NS (50 * MOB_MS) /* between sessions, doubled after each that wrote nothing */
#define PAUSE_MAX_NS (2 * MOB_SEC)
#define MAINTAIN_SELDOM 6 /* so many times the pause, while nothing is written */
#define LOOK_NS MOB_SEC /* the member measures its memory each second */
#define QUIET_NS (2 * MOB_SEC) /* of the subscription, before it is looked whether anything is missing */
#define GATHERED_BATCHES_MAX 6u /* then the subscription is not read */
#define MARKS_KEPT_MAX 2048u /* batches that are written and still in the members, too */

enum session_state {
    SESSION_NONE, /* until retry_ns, and until the last one's answers are there */
    SESSION_ASKS, /* the member: what has it flushed? */
    SESSION_OPENS, /* the thread: where is the watermark? */
    SESSION_RUNS
};

struct flusher {
    struct mob_flusher_options options;
    struct mob_gcs *control, *stream;
    struct mob_gcs_sub *sub;
    struct flush_thread *thread;
    struct cold_pool *pool;
    int event_fd;
    enum session_state state;
    int64_t retry_ns, pause_ns;
    enum mob_status refused; /* by the database: ends the process */
    bool told_ready;
    bool busy; /* the thread has `job` */
    struct flush_job job;
    bool asking; /* for the member's figures */
    bool flushing; /* FLUSH up to flushing_upto is unanswered */
    uint64_t flushing_upto;
    /* Of the session. */
    uint64_t applied; /* by the member, when it began */
    uint64_t flushed, written, written_at_begin;
    uint64_t gathered; /* the newest block that is in a batch, or was */
    size_t gathered_bytes; /* not written yet */
    struct flush_batch *open, *closed_first, *closed_last;
    struct flush_marks marks;
    int64_t look_ns;
    int64_t maintain_ns; /* when it is time again */
    uint64_t maintained; /* the newest block that was written when it last was */
    uint64_t session; /* their number */
    uint64_t last_seen; /* by the subscription, at seen_ns */
    int64_t seen_ns;
    bool looking; /* for the newest block, since looking_session */
    uint64_t looking_session;
};

/* The member uses so much memory: what may leave it, does. */
void flusher_keep_hot(struct flusher *f, uint64_t memory_bytes);

#endif
