/* The network between processes, and what they say: sim_net.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_NET_H
#define MOB_TESTS_SIM_SIM_NET_H

#include "gcs/chain/chain.h"
#include "gcs/chain/membership.h"
#include "tests/sim/sim.h"

#define SIM_LEASE_HURRY 2u
#define SIM_CUTS_MAX 256u
enum sim_msg_type {
    SIM_CHAIN = 1, /* frame between members */
    SIM_PUT, /* client to head: body = the request's */
    SIM_REPLY,
    SIM_NACK, /* and answer to WHERE: config */
    SIM_GAP,
    SIM_EXPIRED,
    SIM_ATTACH,
    SIM_ATTACHED,
    SIM_RESENT,
    SIM_BYE, /* client to head: it ends, and its place is free */
    SIM_GET,
    SIM_VALUE,
    SIM_WHERE,
    SIM_REPORT,
    SIM_LEASE, /* c: the read lease, or SIM_LEASE_HURRY */
    SIM_BOOK, /* the master's push: config; body = struct sim_seal..., of a start */
    SIM_ENTER,
    SIM_DB,
    SIM_DB_ANSWER,
    SIM_SUB, /* client to tail: a = after, b = epoch of that history, tag = this attempt */
    SIM_BLOCK, /* a = after, b = how many blocks of this attempt were sent before; body = struct sim_block */
    SIM_RESYNC, /* a = after, b = as above, c = next */
    SIM_STATS, /* what has been flushed? */
    SIM_STATS_ANSWER, /* a = durable, b = flushed, c = rows flushed so far */
    SIM_SCAN, /* a = log: its blocks */
    SIM_ROWS, /* body = struct sim_block... */
    SIM_MSG_TYPES
};
enum sim_db_op {
    SIM_DB_ROW = 1,
    SIM_DB_SET_ROW,
    SIM_DB_NEWEST,
    SIM_DB_INSERT,
    SIM_DB_WATERMARK, /* answer: b = watermark, c = rows */
    SIM_DB_ROWS, /* b = log; answer: body = its blocks */
    SIM_DB_WRITE, /* b = after, c = upto, body = blocks: moves the watermark and inserts them, or CONFLICT */
    SIM_DB_OPS
};
struct sim_msg {
    uint8_t type; /* enum sim_msg_type */
    uint8_t from, to; /* nodes */
    uint64_t epoch, client, tag;
    uint64_t a, b, c;
    uint32_t status;
    union {
        struct mob_gcs_request request;
        struct mob_gcs_reply reply;
        struct mob_gcs_config config;
        struct mob_member_report report;
        struct mob_gcs_attach attach;
        struct mob_gcs_attached attached;
        struct {
            struct mob_master_row old_row, new_row;
        } row;
    };
    uint32_t body_bytes;
    uint8_t body[];
};
/* A log that the master has had sealed. */
struct sim_seal {
    uint64_t incarnation, cut; /* UINT64_MAX: nobody has heard it yet */
    bool recovered;
};
struct sim_msg *sim_msg_create(
    uint8_t type, uint32_t from, uint32_t to, const void *body, uint32_t body_bytes);
/* Takes the message. */
void sim_send(struct sim *s, struct sim_msg *message);
/* A fault that cuts links; it is counted when it is felt. 0: no more of them in this run. */
uint32_t sim_cut_begin(struct sim *s, enum sim_fault_kind kind);
void sim_cut(struct sim *s, uint32_t cut, uint32_t from, uint32_t to, int64_t until);
struct sim_net {
    double loss, doubling, reordering, corruption;
    int64_t delay_low, delay_high;
    int64_t cut_until[SIM_NODES_MAX][SIM_NODES_MAX]; /* from, to */
    uint8_t cut_by[SIM_NODES_MAX][SIM_NODES_MAX]; /* the place of the newest one in `cuts` */
    struct sim_cut {
        enum sim_fault_kind kind;
        bool felt; /* somebody spoke into it */
    } cuts[SIM_CUTS_MAX];
    uint32_t cut_count;
    struct {
        uint32_t from, to; /* between these lives it carries nothing; 0: it does */
        enum sim_cover unfelt; /* to be counted when it swallows something; SIM_COVERS: it has been */
    } mute[SIM_NODES_MAX][SIM_NODES_MAX];
    uint64_t missed[SIM_NODES_MAX]; /* the configuration of that epoch does not reach it */
    uint64_t deaf_until[SIM_NODES_MAX]; /* it hears nothing until there is a configuration of that epoch */
    uint64_t missed_felt[SIM_NODES_MAX], deaf_felt[SIM_NODES_MAX]; /* the same, when that was counted */
    int64_t last_at[SIM_NODES_MAX][SIM_NODES_MAX]; /* links keep their order unless told otherwise */
};

#endif
