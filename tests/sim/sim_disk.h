/* What a member's Redis holds, and what of it a power cut leaves: sim_disk.c. Part of the simulator
 * (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_DISK_H
#define MOB_TESTS_SIM_SIM_DISK_H

#include "gcs/chain/chain.h"
#include "gcs/chain/chain_stream.h"
#include "tests/sim/sim.h"

struct sim_key {
    uint8_t table;
    uint32_t key_length, value_length;
    uint64_t version;
    uint8_t *bytes; /* key, then value */
};
/* What a block says of a task. */
enum sim_record_kind { SIM_RECORD_NONE = 0, SIM_RECORD_SPEC, SIM_RECORD_ACCEPT, SIM_RECORD_DONE };
struct sim_record {
    uint32_t task, attempt;
    uint32_t kind; /* enum sim_record_kind */
    uint32_t unused;
    uint64_t replaces; /* ACCEPT: version of the directory's row that it is to follow; 0: there was none */
};
struct sim_block {
    uint64_t seq, incarnation, number, hash;
    struct sim_record record;
};
struct sim_disk_client {
    uint64_t id, last;
    struct mob_gcs_reply replies[MOB_GCS_WINDOW];
};
/* Contents after some number of writes. */
struct sim_image {
    uint64_t epoch, seq; /* of the newest entry */
    uint64_t member; /* whose store it is: the last start of it; 0 = never formatted */
    bool synced;
    uint64_t part_epoch; /* the newest in which it was synced */
    uint64_t flushed;
    struct { /* the newest FLUSH, and how many rows all of them told of: the owner's notes */
        uint64_t upto, rows;
    } notes;
    struct mob_chain_stream_base bases[SIM_BASES_MAX];
    uint32_t base_count;
    struct sim_key *keys;
    size_t key_count, key_capacity;
    struct sim_block *blocks;
    size_t block_count, block_capacity;
    struct sim_disk_client *clients;
    size_t client_count, client_capacity;
    struct mob_gcs_incarnation *incarnations;
    size_t incarnation_count, incarnation_capacity;
};
/* What a member keeps besides tables and blocks. As a row of a snapshot it has another size than a block. */
struct sim_notes {
    uint64_t upto, rows;
    struct mob_chain_stream_base bases[SIM_BASES_MAX];
    uint64_t base_count;
};
_Static_assert(sizeof(struct sim_notes) != sizeof(struct sim_block), "told apart by their size");
enum sim_write_type { SIM_WRITE_ENTRY, SIM_WRITE_ROWS, SIM_WRITE_WIPE, SIM_WRITE_META, SIM_WRITE_BASE };
struct sim_write {
    enum sim_write_type type;
    struct mob_chain_entry entry; /* body and drops copied */
    uint8_t *bytes;
    uint32_t length;
    uint64_t member, seq, part_epoch; /* META; seq of a snapshot's end, 0 = as it is */
    struct mob_chain_stream_base base; /* BASE */
    bool synced;
};
/* Writes [0, durable) survive a power cut, those up to `stored` were answered. `image` holds [0, folded). */
struct sim_disk {
    struct sim_image image;
    struct sim_write *writes;
    size_t count, capacity, first; /* writes[i] is number first + i */
    uint64_t stored, durable, folded, submitted;
    int64_t last_answer_at;
};
void sim_disk_write(struct sim_disk *d, const struct sim_write *write); /* takes bytes */
/* The process or the machine ended: everything from write number `cut` on is gone. */
void sim_disk_cut(struct sim_disk *d, uint64_t cut);
void sim_disk_wipe(struct sim_disk *d);
void sim_disk_fini(struct sim_disk *d);
void sim_image_apply_entry(struct sim_image *i, const struct mob_chain_entry *e);
/* Is there a client that this nonce opened? */
bool sim_image_opened(const struct sim_image *i, uint64_t nonce);
void sim_image_add_base(struct sim_image *i, const struct mob_chain_stream_base *base);
struct sim_notes sim_image_notes(const struct sim_image *i);
void sim_image_apply_rows(struct sim_image *i, const uint8_t *rows, uint32_t length);
void sim_image_clear(struct sim_image *i);
void sim_image_copy(struct sim_image *to, const struct sim_image *from); /* to an empty one */
/* Contents that a client can see are equal. */
bool sim_image_same_blocks(const struct sim_image *a, const struct sim_image *b);

#endif
