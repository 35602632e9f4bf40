/* A member of the chain, and its duties around the machine: sim_member.c, sim_owner.c. Part of the simulator
 * (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_MEMBER_H
#define MOB_TESTS_SIM_SIM_MEMBER_H

#include "tests/sim/sim_core.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_net.h"

struct sim_hist {
    uint64_t seq, digest;
};
struct sim_read { /* waits until what it saw is committed */
    uint64_t gate, client, tag, version, value, more; /* more: the value's next 8 bytes */
    uint32_t status;
    uint8_t node;
    bool by_chain;
};
struct sim_client_seen {
    uint64_t client;
    int64_t heard_ns; /* true time */
    uint64_t last_request; /* in this life's history */
    bool answered; /* collecting */
    bool awaited;
};
struct sim_subscriber {
    uint8_t node;
    uint64_t tag, after, sent;
};
struct hold;
struct sim_member {
    struct sim *sim;
    struct sim_node *node;
    uint32_t slot;
    uint64_t id;
    struct mob_state *state;
    struct mob_chain *chain;
    struct sim_disk disk; /* survives the process */
    struct sim_image memory; /* what the owner keeps: blocks and keys as its Redis will have them */
    uint64_t stored_epoch, stored_seq;
    bool stored_synced, formatted;
    uint64_t written_seq; /* newest seq that the store answered */
    uint64_t sync_number, sync_seq; /* of the sync under way */
    uint64_t disk_seq; /* newest seq that the machine was told to be on its disk in this life */
    int64_t heard_ns[SIM_MASTERS];
    bool rests; /* its last heartbeat said that it will be quiet */
    int64_t hurried_ns, spoke_ns,
        worked_ns; /* heartbeats: by a master; last sent; when there was last work */
    uint64_t worked_to; /* applied, then */
    uint32_t dies_at; /* at so many actions from now; 0: not planned */
    uint32_t log_muted; /* the life in which it has its snapshot and the log behind it stops coming */
    uint64_t wiped_at; /* writes below this number are of what was forgotten */
    bool told_synced; /* META with synced was written */
    uint64_t synced_write; /* its number + 1 */

    struct sim_hist *hist;
    size_t hist_count, hist_capacity;
    uint64_t base_seq, base_digest;
    uint64_t seen_epoch, seen_committed;
    uint32_t table_checks;

    struct sim_read *reads;
    size_t read_count, read_capacity;
    struct sim_client_seen *clients;
    size_t client_count, client_capacity;
    int64_t collect_since, collect_until;
    struct sim_subscriber subs[SIM_SUBS_MAX];
    uint32_t sub_count;
    struct hold *holds; /* memory that the machine has not given back */
    int64_t expire_check;
    uint32_t places; /* of clients that left while this was the head, and that no other has taken since */
    struct {
        uint64_t joiner, token;
        uint8_t cursor[16];
        uint32_t cursor_bytes;
    } rows;
};
void sim_member_start(struct sim *s, struct sim_member *m);
void sim_member_stop(struct sim *s, struct sim_member *m);
void sim_member_message(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_member_event(struct sim *s, struct sim_member *m, const struct sim_event *event);
void sim_member_fini(struct sim_member *m);
/* The process ends by itself, and its supervisor starts it again. */
void sim_member_ends(struct sim *s, struct sim_member *m);
/* sim_owner.c: reads, clients' comings and goings, collecting, rows of a snapshot. */
void sim_owner_get(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_chain_read(struct sim *s, struct sim_member *m, const struct mob_gcs_link_msg *read);
void sim_owner_committed(struct sim *s, struct sim_member *m);
void sim_owner_attach(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_bye(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_resent(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_tick(struct sim *s, struct sim_member *m);
void sim_owner_state(struct sim *s, struct sim_member *m, enum mob_chain_state from, enum mob_chain_state to);
void sim_owner_rows(struct sim *s, struct sim_member *m);
struct sim_client_seen *sim_owner_client(struct sim *s, struct sim_member *m, uint64_t client);
void sim_member_drain(struct sim *s, struct sim_member *m);

#endif
