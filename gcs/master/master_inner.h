/* Between master.c and what it stands on. Internal to gcs/master; the loop's thread only. */
#ifndef MOB_GCS_MASTER_MASTER_INNER_H
#define MOB_GCS_MASTER_MASTER_INNER_H

#include "gcs/chain/membership.h"
#include "gcs/chain/node_watch.h"
#include "gcs/link/link.h"
#include "gcs/master/master.h"
#include "gcs/master/table.h"

#define LINKS_MAX 160u /* members, and the nodes whose home is here */
#define CHAIN_OPS_MAX 32u /* seals and registrations under way; what finds no room is asked again */

/* A link that a member made, or a node. */
struct member_link {
    struct mob_link *link;
    uint64_t member; /* 0: it has not reported */
    int64_t pid;
    int64_t out_ns; /* since then it is not in the chain that it was in; 0: it is, or never was */
    bool was_in;
    bool end_asked; /* since out_ns */
    int64_t heard_ns; /* its last report */
    uint64_t book_epoch; /* that it was sent */
    uint64_t token; /* of a node that has asked for an incarnation; 0: it has not */
    uint64_t incarnation; /* of a node that beats over it; 0: none has */
};

struct mob_gcs;
struct chain_op;
/* master_nodes.c */
struct master_nodes {
    struct mob_node_watch *watch;
    struct mob_gcs *gcs; /* the shard's chain; NULL: nothing was asked of it yet */
    struct chain_op *ops[CHAIN_OPS_MAX];
    uint64_t note_tag, logs_tag, home_tag; /* 0: none under way */
    int64_t note_deadline, logs_deadline, home_deadline;
    uint64_t next_token;
    struct mob_node_log homeless; /* whose home is asked for */
    uint64_t homeless_token;
};

struct master {
    struct mob_master_options options;
    struct mob_link_self self;
    struct mob_chunk_pool pool;
    struct mob_table *table;
    struct mob_mastership mastership;
    struct mob_membership *membership;
    bool began;
    struct mob_gcs_config newest; /* read; it begins when the logs of nodes are read, too */
    enum mob_mastership_step step;
    uint64_t next_tag, row_tag, read_tag, insert_tag; /* 0: none under way */
    int64_t row_deadline, read_deadline, insert_deadline;
    struct { /* who is to begin anew, when it is known what the database has */
        uint64_t tag, member, seq;
        int64_t deadline;
    } anew;
    struct mob_listener listener;
    int replace_fd;
    int64_t short_ns; /* since then the chain is too short, with all of its members there; 0: it is not */
    struct member_link links[LINKS_MAX];
    struct { /* places of members are known beyond their links */
        uint64_t member;
        struct mob_gcs_place place;
        int64_t heard_ns;
    } places[MOB_MEMBERSHIP_MEMBERS_MAX];
    struct master_nodes nodes;
    int64_t now_ns;
};

/* master.c */
struct member_link *master_link_of(struct master *m, uint64_t member); /* NULL: it has none */
bool master_ask(struct master *m, struct mob_table_question *q, uint64_t *tag_out, int64_t *deadline_out);
void master_tell(struct member_link *l, uint8_t type, uint64_t epoch, const void *head, uint32_t head_bytes,
    const void *body, uint32_t body_bytes);
void master_begin(struct master *m, const struct mob_node_log *logs, uint32_t count);

/* master_nodes.c */
MOB_MUST_USE enum mob_status master_nodes_open(struct master *m);
void master_nodes_close(struct master *m);
int master_nodes_fd(const struct master *m); /* readable: tick; -1: none */
void master_nodes_read(struct master *m);
bool master_nodes_answer(struct master *m, const struct mob_table_answer *a);
void master_nodes_home(struct master *m, uint32_t home);
void master_nodes_frame(struct master *m, struct member_link *l, const struct mob_gcs_frame *frame);
void master_nodes_closed(struct master *m, const struct member_link *l); /* the link is about to go */
void master_nodes_tick(struct master *m);
/* What a chain that starts with `config` is to know; false: not yet known. */
bool master_nodes_seals(const struct master *m, const struct mob_gcs_config *config,
    struct mob_gcs_seal seals_out[MOB_GCS_SEALS_MAX], uint32_t *count_out);

/* master_replace.c: who is to end, and to come back as another member; each tick */
void master_look_for_zombies(struct master *m);
void master_look_for_unheard(struct master *m);
/* `again`: it was asked before, which is no news. */
void master_ask_to_end(struct master *m, const char *who, int64_t pid, bool again);

#endif
