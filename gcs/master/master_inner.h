/* Between master.c and what it stands on. Internal to gcs/master; the loop's thread only. */
#ifndef MOB_GCS_MASTER_MASTER_INNER_H
#define MOB_GCS_MASTER_MASTER_INNER_H

#include "gcs/chain/membership.h"
#include "gcs/link/link.h"
#include "gcs/master/master.h"
#include "gcs/master/table.h"

#define LINKS_MAX 32u

/* A link that a member made. */
struct member_link {
    struct mob_link *link;
    uint64_t member; /* 0: it has not reported */
    int64_t pid;
    int64_t out_ns; /* since then it is not in the chain that it was in; 0: it is, or never was */
    bool was_in;
    int64_t heard_ns; /* its last report */
    uint64_t book_epoch; /* that it was sent */
};

struct master {
    struct mob_master_options options;
    struct mob_link_self self;
    struct mob_chunk_pool pool;
    struct mob_table *table;
    struct mob_mastership mastership;
    struct mob_membership *membership;
    bool began;
    enum mob_mastership_step step;
    uint64_t next_tag, row_tag, read_tag, insert_tag; /* 0: none under way */
    int64_t row_deadline, read_deadline, insert_deadline;
    int listen_fd, replace_fd;
    int64_t short_ns; /* since then the chain is too short, with all of its members there; 0: it is not */
    struct member_link links[LINKS_MAX];
    struct { /* places of members are known beyond their links */
        uint64_t member;
        struct mob_gcs_place place;
        int64_t heard_ns;
    } places[MOB_MEMBERSHIP_MEMBERS_MAX];
    int64_t now_ns;
};

/* master.c: NULL: it has none */
struct member_link *master_link_of(struct master *m, uint64_t member);

/* master_replace.c: who is to end, and to come back as another member; each tick */
void master_look_for_zombies(struct master *m);
void master_look_for_unheard(struct master *m);

#endif
