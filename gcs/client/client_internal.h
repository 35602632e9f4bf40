/* The parts of a client: its pass (client.c), links and what they bring (client_link.c), who is asked
 * (client_route.c), frames out (client_out.c), logs (client_log.c), ordered operations (client_ops.c), reads
 * and subscriptions (client_read.c), good-byes of those that had no link (client_left.c); over several
 * shards: who is asked (client_shards.c), what all are asked (client_gather.c). Internal to gcs/client; one
 * thread.
 *
 * Requests go to the head, reads and subscriptions to the tail, which also answers the requests; where one
 * member is both, one link is both.
 */
#ifndef MOB_GCS_CLIENT_CLIENT_INTERNAL_H
#define MOB_GCS_CLIENT_CLIENT_INTERNAL_H

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_peer.h"
#include "gcs/client/client.h"
#include "gcs/link/opening.h"
#include "gcs/link/out_queue.h"

#define RETRY_PAUSE_NS (5 * MOB_MS)
#define RETRY_PAUSE_MAX_NS (500 * MOB_MS)
#define REFUSED_PAUSE_NS (50 * MOB_MS) /* before a request that met MOB_GCS_FULL is tried again */
#define OPS_WINDOW (MOB_GCS_WINDOW / 2) /* unanswered; the member remembers twice as many */
#define WRONG_MEMBER_NS (2 * MOB_MS) /* before a member is asked again that was not the right one */
#define CHAIN_READ_NS (50 * MOB_MS) /* a read through the chain that has no answer */
#define STREAM_PATIENCE_NS (200 * MOB_MS) /* with an attachment */
#define OPENING_PATIENCE_NS (100 * MOB_MS) /* with a member that says nothing, when there are others */
#define HURRY_PAUSE_NS \
    (100 * MOB_MS) /* well below the time for which a member that was asked stays watchful */
#define OUT_PIECES_MAX 4096u /* above it the pumps wait for the socket */

/* One request stream: this client's, or a log's. */
enum stream_state {
    STREAM_DETACHED = 0, /* OPEN or ATTACH is to be sent at `attach_ns` */
    STREAM_LISTENING, /* first the tail is to know where answers go */
    STREAM_OPENING, /* this client has no id yet, and has asked for one */
    STREAM_ATTACHING, /* ATTACHED is awaited */
    STREAM_ATTACHED
};
struct stream {
    enum stream_state state;
    int64_t attach_ns, since_ns; /* since: of the state */
    uint64_t last; /* in the member's tables, as ATTACHED said */
    uint64_t sent; /* newest request ever sent */
    uint64_t next; /* next request to send on this attachment */
    bool resent; /* RESENT was sent on this attachment */
    bool heard; /* the tail listens, on this attachment */
};

struct op {
    struct op *next;
    struct mob_gcs_request head;
    uint32_t body_bytes;
    bool answered;
    uint64_t seq;
    mob_gcs_done_fn *done;
    void *arg;
    uint8_t body[]; /* with it: what is kept until it is durable has left the caches when it is freed */
};
struct read_op {
    struct read_op *next;
    struct mob_gcs_get head;
    uint32_t body_bytes;
    bool sent;
    bool by_chain; /* the tail had no lease: through the head */
    int64_t sent_ns;
    mob_gcs_done_fn *done;
    void *arg;
    uint8_t body[];
};

struct mob_gcs_log {
    struct mob_gcs *gcs;
    uint64_t incarnation;
    struct mob_gcs_log_events events;
    struct stream stream; /* request = number + 1 */
    struct mob_gcs_block *first, *last; /* kept */
    struct mob_gcs_block *cursor; /* next to send */
    struct mob_gcs_block *unacked; /* the first that is not acknowledged */
    uint64_t appended, acked, released;
    bool sealed, sealed_told;
    enum mob_status why;
    uint64_t cut;
};
struct mob_gcs_sub {
    struct mob_gcs *gcs;
    struct mob_gcs_sub_events events;
    uint64_t tag, after, epoch;
    bool sent, newest, closed;
};

enum link_state { LINK_DOWN = 0, LINK_OPENING, LINK_UP };
struct link {
    struct mob_gcs *gcs;
    char path[MOB_GCS_ADDRESS_MAX]; /* where it leads, or last led */
    int fd;
    enum link_state state;
    bool want_write;
    bool chain; /* to a member of a chain with masters */
    struct mob_opening opening; /* WELCOME comes behind it */
    int64_t opened_ns; /* or when its opening last went on */
    int64_t retry_ns, retry_pause_ns;
    struct mob_gcs_durable said; /* the last; soft_bytes 0: nothing yet */

    uint8_t *in;
    size_t in_used, in_capacity;
    struct mob_out_queue out; /* keeps blocks */
};

struct gather; /* client_gather.c */

/* A client that was destroyed without good-bye. */
struct left {
    struct mob_hash128 members; /* whose it was */
    uint64_t client; /* 0: none */
    uint64_t answered; /* the last request whose reply it had */
    int64_t since_ns; /* when it ended */
};

#define SEEDS_MAX MOB_GCS_MEMBERS_MAX
struct mob_gcs {
    struct mob_gcs_options options;
    /* Of several shards: only these, epoll_fd, in_step and told are used. */
    struct mob_gcs *shards[MOB_GCS_SHARDS_MAX];
    uint32_t shard_count; /* 0: this is the client of one */
    struct mob_gcs *parent; /* of the client of one among several */
    struct gather *gathers;
    struct mob_gcs_call *late_calls; /* whose callers have gone: client_sync.c */
    enum mob_status shard_told[MOB_GCS_SHARDS_MAX];
    char seeds[SEEDS_MAX][MOB_GCS_ADDRESS_MAX];
    uint32_t seed_count, next_seed;
    int epoll_fd; /* options.watch_fd, or its own */
    struct mob_link_self self;
    enum mob_status refused; /* MOB_OK: no link was since one opened */
    char why[sizeof((struct mob_opening *)0)->why]; /* the same in words */
    struct link links[2];
    struct link *head, *tail; /* of `links`; one link when one member is both */
    bool up; /* both are, and it is known that they are the right ones */
    bool seeks; /* whoever answers is asked for the configuration */
    struct mob_gcs_book book; /* the newest that was heard of; epoch 0: none, or no masters */
    bool collecting, in_step, closed;
    enum mob_status told; /* the last status given to on_link */
    int64_t now_ns;
    int64_t hurried_ns; /* both members of a chain last heard that something is asked */
    int64_t head_heard_ns; /* when its link was read last */
    struct mob_yielder yielder; /* of whoever waits in run_until */
    int64_t reads_ns; /* reads that met the wrong member go again then */
    struct mob_gcs_position position;

    uint64_t client; /* 0: none yet */
    uint64_t nonce; /* of the OPEN whose reply is awaited */
    uint32_t opens; /* how often it was sent */
    struct stream stream;
    uint64_t next_request;
    struct op *op_first, *op_last;
    struct op *op_cursor; /* next to send */
    struct op *op_wait; /* the first that is not answered */
    uint32_t op_count, op_unanswered; /* unanswered: sent and not answered */
    uint32_t op_kept; /* answered, and not known to be durable */
    struct read_op *read_first, *read_last;
    uint32_t read_count;
    uint64_t next_tag;
    bool heard; /* something was answered in this step */
    int64_t silent_ns; /* mob_gcs_silent_since */

    struct mob_gcs_log *logs[MOB_GCS_LOGS_MAX];
    uint32_t log_count;
    size_t kept_bytes;
    struct mob_gcs_sub *subs[MOB_GCS_SUBS_MAX];
    uint32_t sub_count;
    mob_gcs_cold_fn *cold; /* NULL: others serve what was flushed */
    void *cold_arg;
    bool cold_said; /* on this link */
    bool watermark_known;
    uint64_t watermark;
    struct mob_gcs_database database; /* goes with it */
    uint16_t cold_time; /* how often it had to be said; in the tags that the reader sees */
    struct left left; /* attached in its place, to leave */
    int64_t left_ns; /* not before: it was not taken */
    int64_t left_sent_ns; /* when it was attached */
};

/* client_link.c */
void link_fail(struct link *l, enum mob_status why);
void link_memory(struct mob_gcs *g); /* what they say of it, once another is in use */
void link_open(struct link *l, const char *path);
void link_fini(struct link *l);
/* Reads what is there; `to_the_end`: also whether the links ended behind it. */
void links_receive(struct mob_gcs *g, bool to_the_end);
void detach_all(struct mob_gcs *g, int64_t attach_ns);

/* client_shards.c */
MOB_MUST_USE enum mob_status shards_create(const struct mob_gcs_options *options, struct mob_gcs **gcs_out);
void shards_destroy(struct mob_gcs *g);
int64_t shards_step(struct mob_gcs *g, int64_t now_ns);
int64_t shards_send(struct mob_gcs *g);
bool shards_connected(const struct mob_gcs *g);
void shards_position(const struct mob_gcs *g, struct mob_gcs_position *out);
/* Whom to ask; `g` itself when it is the client of one. */
static inline struct mob_gcs *shard_of_key(
    struct mob_gcs *g, enum mob_gcs_table table, const void *key, uint32_t key_length)
{
    return g->shard_count == 0 ? g : g->shards[mob_gcs_key_shard(g, table, key, key_length)];
}
static inline struct mob_gcs *shard_of_log(struct mob_gcs *g, uint64_t incarnation)
{
    return g->shard_count == 0 ? g : g->shards[mob_gcs_home_shard(g, incarnation)];
}

/* client_gather.c: what all shards are asked; done comes once */
MOB_MUST_USE enum mob_status gather_register(
    struct mob_gcs *g, const char *name, mob_gcs_done_fn *done, void *arg);
MOB_MUST_USE enum mob_status gather_incarnations(
    struct mob_gcs *g, uint64_t after, mob_gcs_done_fn *done, void *arg);
MOB_MUST_USE enum mob_status gather_job_drop(struct mob_gcs *g, struct mob_job_id job, bool finished_only,
    int64_t before_wall_ns, mob_gcs_done_fn *done, void *arg);
MOB_MUST_USE enum mob_status gather_list(
    struct mob_gcs *g, const struct mob_gcs_list *list, mob_gcs_done_fn *done, void *arg);
/* GROUP and UNFINISHED: one shard after the other, page by page. */
MOB_MUST_USE enum mob_status gather_pages(struct mob_gcs *g, const struct mob_gcs_get *get,
    const struct mob_gcs_group_key *groups, uint32_t group_count, mob_gcs_done_fn *done, void *arg);
void gathers_destroy(struct mob_gcs *g);

/* client_route.c */
MOB_MUST_USE enum mob_status route_init(struct mob_gcs *g, const char *paths);
void route_step(struct mob_gcs *g); /* opens what is to be open */
void route_failed(struct link *l); /* it is down now */
void route_nack(struct link *l, const struct mob_gcs_frame *frame);
int64_t route_next_ns(const struct mob_gcs *g);

/* client_out.c: queue a frame; head and small bodies are copied, a block's bytes are not */
void out_frame(struct link *l, uint8_t type, uint64_t from, uint64_t epoch, const void *head,
    uint32_t head_bytes, const void *body, uint32_t body_bytes, struct mob_gcs_block *block);
void out_flush(struct link *l);
/* EPOLL_CTL_ADD or _MOD of a link's socket; false: see errno. */
bool out_watch(struct link *l, int op, uint32_t events);
/* The set of a new client; MOB_IO. */
MOB_MUST_USE enum mob_status watch_open(struct mob_gcs *g);
void watch_close(struct mob_gcs *g);
/* Of the queue: the bytes of a block have left, or will not. */
void out_block_left(void *block);
static inline bool out_full(const struct link *l)
{
    return l->out.count >= OUT_PIECES_MAX;
}

/* streams (client_ops.c) */
void stream_detach(struct stream *s, int64_t attach_ns);
/* True when the tail knows where the answers to `client` go; else it is asked. */
bool stream_listens(struct mob_gcs *g, struct stream *s, uint64_t client);
/* The tail has answered. */
void stream_heard(struct mob_gcs *g, uint64_t client);
void stream_attach(struct mob_gcs *g, struct stream *s, uint64_t client, uint64_t answered, uint64_t kept);
/* Nobody has answered for too long: from the beginning. */
void stream_tick(struct mob_gcs *g, struct stream *s);

/* client_ops.c */
void ops_pump(struct mob_gcs *g);
void ops_attached(struct mob_gcs *g, const struct mob_gcs_attached *attached);
void ops_reply(struct mob_gcs *g, const struct mob_gcs_reply *reply);
void ops_expired(struct mob_gcs *g);
void ops_opened(struct mob_gcs *g, const struct mob_gcs_reply *reply);
void ops_durable(struct mob_gcs *g);
void ops_close(struct mob_gcs *g); /* all that is not answered: MOB_CLOSED */
void ops_destroy(struct mob_gcs *g);

/* client_log.c */
struct mob_gcs_log *log_find(struct mob_gcs *g, uint64_t incarnation);
void log_pump(struct mob_gcs_log *log);
void log_attached(struct mob_gcs_log *log, const struct mob_gcs_attached *attached);
void log_reply(struct mob_gcs_log *log, const struct mob_gcs_reply *reply);
void log_expired(struct mob_gcs_log *log, enum mob_status why, uint64_t cut);
void log_durable(struct mob_gcs_log *log);
void log_destroy(struct mob_gcs_log *log);

/* client_ops.c */
/* `a` and `b` one behind the other. */
void join(uint8_t *out, const void *a, uint32_t a_bytes, const void *b, uint32_t b_bytes);
/* `shards` of them, of which this is `shard` */
MOB_MUST_USE enum mob_status ops_register(
    struct mob_gcs *g, const char *name, uint32_t shard, uint32_t shards, mob_gcs_done_fn *done, void *arg);

/* client_read.c */
MOB_MUST_USE enum mob_status read_submit(struct mob_gcs *g, const struct mob_gcs_get *head, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes, mob_gcs_done_fn *done, void *arg);
/* With these groups as its body, or none. */
MOB_MUST_USE enum mob_status read_groups(struct mob_gcs *g, const struct mob_gcs_get *head,
    const struct mob_gcs_group_key *groups, uint32_t count, mob_gcs_done_fn *done, void *arg);
void reads_pump(struct mob_gcs *g);
void reads_down(struct mob_gcs *g); /* the tail's link is another, or none */
void reads_again(struct mob_gcs *g, int64_t at_ns);
void subs_leave(struct mob_gcs *g, struct link *tail); /* another is the tail */
void reads_answer(struct mob_gcs *g, const struct mob_gcs_frame *frame);
void reads_close(struct mob_gcs *g);
void reads_destroy(struct mob_gcs *g);
void subs_pump(struct mob_gcs *g);
void subs_frame(struct mob_gcs *g, const struct mob_gcs_frame *frame);
void subs_reap(struct mob_gcs *g);

/* client_cold.c */
void cold_pump(struct mob_gcs *g);
void cold_down(struct mob_gcs *g);
void cold_frame(struct mob_gcs *g, const struct mob_gcs_frame *frame);

/* client_left.c */
void left_behind(struct mob_gcs *g); /* it is destroyed, and cannot say good-bye */
void left_pump(struct mob_gcs *g);
void left_heard(struct mob_gcs *g, const struct mob_gcs_frame *frame); /* about no stream of its own */
void left_detach(struct mob_gcs *g); /* what was sent may not have been taken */
int64_t left_next_ns(const struct mob_gcs *g);

/* client_sync.c: waits that timed out, at the client's end. */
void late_calls_free(struct mob_gcs *g);

#endif
