#include "runtime/node/directory.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"

/* At a time; more wait for their turn, so that a recovery with many inputs to look up stays below
 * MOB_GCS_OPS_MAX. */
enum { READS_MAX = 256 };
/* A read that fails (PostgreSQL does not answer, say) tells nothing of what it asks for, and whoever asks has
 * nothing better to do than to ask again. */
#define AGAIN_NS (100 * MOB_MS)
#define PATIENCE_NS (10 * MOB_SEC)

struct group_read {
    struct group_read *next; /* waits for its turn, or to be asked again */
    struct group_read *after, **before; /* among all of the node */
    struct node *node;
    struct mob_stream stream;
    uint32_t group;
    uint64_t position; /* of the page that is asked for */
    int64_t again_ns, give_up_ns; /* of a page that failed: when it is asked for again, and until when; 0 */
    struct group_reader reader;
    struct mob_block_decoder *decoder;
};

static void ask(struct group_read *read);

static void start_waiting(struct node *node)
{
    struct group_reads *reads = &node->reads;
    while (reads->running < READS_MAX && reads->first) {
        struct group_read *read = reads->first;
        reads->first = read->next;
        reads->running++;
        ask(read);
    }
}

static void destroy(struct group_read *read)
{
    *read->before = read->after;
    if (read->after)
        read->after->before = read->before;
    mob_block_decoder_destroy(read->decoder);
    free(read);
}

static void drop(void *arg)
{
    struct group_read *read = arg;
    read->reader.drop(read->reader.arg);
    destroy(read);
}

static void finish(struct group_read *read, enum mob_status status)
{
    struct node *node = read->node;
    struct group_reader reader = read->reader;
    destroy(read);
    node->reads.running--;
    reader.done(reader.arg, status);
    start_waiting(node);
}

static void decode_block(struct group_read *read, const struct mob_gcs_block_row *row)
{
    struct mob_block_header header;
    struct mob_entry entry;
    static struct mob_zone_map zone; /* 10 KiB: not for the stack; node thread only */
    enum mob_status status = mob_block_open(read->decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(read->decoder, &entry)) == MOB_OK)
        read->reader.entry(read->reader.arg, &entry, &header);
    if (status != MOB_CLOSED)
        MOB_LOG_ERROR("directory", "block_corrupt", "incarnation=%lu number=%lu status=%s", row->incarnation,
            row->number, mob_status_code(status));
}

static void ask_later(struct group_read *read, enum mob_status status)
{
    struct node *node = read->node;
    struct group_reads *reads = &node->reads;
    int64_t patience_ns =
        node->options.look_up_patience_ns > 0 ? node->options.look_up_patience_ns : PATIENCE_NS;
    if (read->give_up_ns == 0)
        read->give_up_ns = node->now_ns + patience_ns;
    reads->unavailable |= status == MOB_UNAVAILABLE;
    if (node->now_ns > read->give_up_ns && !(read->reader.patient && status == MOB_UNAVAILABLE)) {
        finish(read, status);
        return;
    }
    read->again_ns = node->now_ns + AGAIN_NS;
    read->next = NULL;
    if (!reads->failed)
        reads->failed_end = &reads->failed;
    *reads->failed_end = read;
    reads->failed_end = &read->next;
}

static void answered(void *arg, const struct mob_gcs_answer *answer)
{
    struct group_read *read = arg;
    if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND) {
        ask_later(read, answer->status);
        return;
    }
    read->give_up_ns = 0;
    read->node->reads.unavailable = false;
    for (uint32_t i = 0; i < answer->block_count; i++)
        decode_block(read, &answer->blocks[i]);
    read->position = answer->next;
    if (answer->next != 0) /* a page of what was flushed may have nothing in it */
        ask(read);
    else
        finish(read, MOB_OK);
}

static void ask(struct group_read *read)
{
    enum mob_status status =
        mob_gcs_group_blocks(read->node->gcs, read->stream, read->group, read->position, answered, read);
    if (status != MOB_OK)
        ask_later(read, status);
}

void node_group_reads_again(struct node *node)
{
    struct group_reads *reads = &node->reads;
    while (reads->failed && node->now_ns >= reads->failed->again_ns) {
        struct group_read *read = reads->failed;
        reads->failed = read->next;
        ask(read);
    }
}

int64_t node_group_reads_next(const struct node *node)
{
    return node->reads.failed ? node->reads.failed->again_ns : INT64_MAX;
}

static void start(void *arg)
{
    struct group_read *read = arg;
    struct group_reads *reads = &read->node->reads;
    if (!reads->first)
        reads->end = &reads->first;
    *reads->end = read;
    reads->end = &read->next;
    start_waiting(read->node);
}

void node_group_read(
    struct node *node, struct mob_stream stream, uint32_t group, const struct group_reader *reader)
{
    struct group_read *read = calloc(1, sizeof *read);
    MOB_ASSERT(read);
    *read = (struct group_read){.node = node, .stream = stream, .group = group, .reader = *reader};
    read->decoder = mob_block_decoder_create();
    MOB_ASSERT(read->decoder);
    read->after = node->reads.all;
    read->before = &node->reads.all;
    if (read->after)
        read->after->before = &read->after;
    node->reads.all = read;
    lineage_log_then(node->log, start, drop, read);
}

void node_group_reads_drop(struct node *node)
{
    while (node->reads.all) {
        /* It takes itself off the list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        drop(node->reads.all);
    }
    node->reads.first = node->reads.failed = NULL;
}
