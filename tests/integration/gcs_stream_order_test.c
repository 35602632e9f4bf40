/* A stream whose pieces change places on the link (docs/gcs-bugs.md, "a client took the blocks of a stream as
 * they came"). A proxy between a subscriber and the member swaps the second and the third BLOCK that pass.
 * A client that does not compare what a block says it follows would take the third one, and then leave the
 * second out as old. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/wire/block.h"
#include "tests/support/gcs_box.h"

#define BLOCKS 12u
#define BUFFER_BYTES (1u << 20)
#define LINKS_MAX 16

static int64_t soon(void)
{
    return mob_now() + 60 * MOB_SEC;
}

/* ---- the proxy: one thread; a link ends with either of its ends ---- */

struct passing {
    int client, member; /* -1: free */
    uint8_t *bytes; /* of the member's, from a frame's beginning */
    size_t used;
};
struct swapper {
    char from[108];
    const char *to;
    int listen_fd, stop[2];
    pthread_t thread;
    struct passing links[LINKS_MAX];
    uint32_t blocks; /* that have passed on the first link with any */
    uint8_t *held; /* the second of them */
    size_t held_bytes;
    _Atomic uint32_t swaps, connections;
};

static int unix_socket(const char *path, bool listens)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int done = listens ? bind(fd, (struct sockaddr *)&address, sizeof address)
                       : connect(fd, (struct sockaddr *)&address, sizeof address);
    if (done == 0 && listens)
        done = listen(fd, 16);
    if (done == 0)
        return fd;
    close(fd);
    return -1;
}

static bool write_all(int fd, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

/* One whole frame for the client. The second BLOCK waits for the third. */
static bool pass_frame(struct swapper *s, struct passing *p, const uint8_t *frame, size_t length)
{
    if (frame[5] != MOB_GCS_BLOCK || atomic_load(&s->swaps) > 0)
        return write_all(p->client, frame, length);
    s->blocks++;
    if (s->blocks == 2) {
        s->held = malloc(length);
        assert_non_null(s->held);
        memcpy(s->held, frame, length);
        s->held_bytes = length;
        return true;
    }
    bool passed = write_all(p->client, frame, length);
    if (s->held == NULL || !passed)
        return passed;
    passed = write_all(p->client, s->held, s->held_bytes);
    free(s->held);
    s->held = NULL;
    atomic_fetch_add(&s->swaps, 1);
    return passed;
}

static bool from_member(struct swapper *s, struct passing *p)
{
    ssize_t n = recv(p->member, p->bytes + p->used, BUFFER_BYTES - p->used, 0);
    if (n <= 0)
        return false;
    p->used += (size_t)n;
    size_t at = 0;
    while (p->used - at >= MOB_GCS_FRAME_HEADER_BYTES) {
        uint32_t payload;
        memcpy(&payload, p->bytes + at + 8, sizeof payload);
        size_t length = MOB_GCS_FRAME_HEADER_BYTES + payload;
        assert_true(length <= BUFFER_BYTES);
        if (p->used - at < length)
            break;
        if (!pass_frame(s, p, p->bytes + at, length))
            return false;
        at += length;
    }
    memmove(p->bytes, p->bytes + at, p->used - at);
    p->used -= at;
    return true;
}

static bool from_client(struct passing *p)
{
    static uint8_t bytes[65536];
    ssize_t n = recv(p->client, bytes, sizeof bytes, 0);
    return n > 0 && write_all(p->member, bytes, (size_t)n);
}

static void end_link(struct passing *p)
{
    close(p->client);
    close(p->member);
    free(p->bytes);
    *p = (struct passing){.client = -1, .member = -1};
}

static void accept_one(struct swapper *s)
{
    int client = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC), member = unix_socket(s->to, false);
    for (int i = 0; i < LINKS_MAX && client >= 0 && member >= 0; i++)
        if (s->links[i].client < 0) {
            s->links[i] = (struct passing){.client = client, .member = member, .bytes = malloc(BUFFER_BYTES)};
            assert_non_null(s->links[i].bytes);
            atomic_fetch_add(&s->connections, 1);
            return;
        }
    close(client);
    close(member);
}

static void *run(void *arg)
{
    struct swapper *s = arg;
    for (;;) {
        struct pollfd fds[2 + 2 * LINKS_MAX] = {
            {.fd = s->stop[0], .events = POLLIN}, {.fd = s->listen_fd, .events = POLLIN}};
        for (int i = 0; i < LINKS_MAX; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = s->links[i].client, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = s->links[i].member, .events = POLLIN};
        }
        poll(fds, sizeof fds / sizeof fds[0], -1);
        if (fds[0].revents != 0)
            return NULL;
        for (int i = 0; i < LINKS_MAX; i++) {
            struct passing *p = &s->links[i];
            bool ends = (fds[2 + 2 * i].revents != 0 && !from_client(p)) ||
                (fds[3 + 2 * i].revents != 0 && !from_member(s, p));
            if (ends)
                end_link(p);
        }
        if (fds[1].revents != 0)
            accept_one(s);
    }
}

static void swapper_start(struct swapper *s, const struct gcs_box *box)
{
    *s = (struct swapper){.to = box->socket};
    for (int i = 0; i < LINKS_MAX; i++)
        s->links[i].client = s->links[i].member = -1;
    snprintf(s->from, sizeof s->from, "%s/swapped", box->directory);
    s->listen_fd = unix_socket(s->from, true);
    assert_true(s->listen_fd >= 0);
    assert_int_equal(pipe(s->stop), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void swapper_stop(struct swapper *s)
{
    assert_int_equal(write(s->stop[1], "x", 1), 1);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < LINKS_MAX; i++)
        if (s->links[i].client >= 0)
            end_link(&s->links[i]);
    close(s->listen_fd);
    close(s->stop[0]);
    close(s->stop[1]);
    free(s->held);
}

/* ---- a log, and who follows it ---- */

static void on_acked(void *arg, uint64_t count)
{
    *(uint64_t *)arg = count;
}

static void on_released(void *arg, struct mob_gcs_block *block)
{
    (void)arg;
    (void)block;
}

static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    fail_msg("sealed at %llu: %s", (unsigned long long)cut, mob_status_code(why));
}

static void append_blocks(struct mob_gcs *gcs)
{
    static uint8_t bytes[BLOCKS][4096]; /* both are kept until released */
    static struct mob_gcs_block blocks[BLOCKS];
    static uint64_t acked;
    uint64_t incarnation;
    struct mob_gcs_log *log;
    assert_int_equal(mob_gcs_node_register_wait(gcs, "node", soon(), &incarnation), MOB_OK);
    struct mob_gcs_log_events events = {
        .acked = on_acked, .released = on_released, .sealed = on_sealed, .arg = &acked};
    assert_int_equal(mob_gcs_log_open(gcs, incarnation, 0, &events, &log), MOB_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct gcs_block_spec spec = {.incarnation = incarnation,
            .sequence = i,
            .job = 1,
            .stream = 1,
            .first_index = i,
            .tasks = 1,
            .specs = true};
        uint32_t length = gcs_block_make(&spec, bytes[i], sizeof bytes[i]);
        blocks[i] = (struct mob_gcs_block){.bytes = bytes[i], .length = length};
        assert_int_equal(mob_gcs_log_append(log, &blocks[i]), MOB_OK);
    }
    for (int64_t deadline = soon(); acked < BLOCKS; poll(NULL, 0, 1)) {
        assert_true(mob_now() < deadline);
        mob_gcs_step(gcs, mob_now());
    }
}

struct seen {
    uint64_t numbers[BLOCKS];
    uint32_t count, resyncs;
};

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct seen *seen = arg;
    if (seen->count < BLOCKS)
        seen->numbers[seen->count] = row->number;
    seen->count++;
}

static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    struct seen *seen = arg;
    print_message("resync: %llu to %llu\n", (unsigned long long)after, (unsigned long long)next);
    seen->resyncs++;
}

static void blocks_that_change_places_are_all_seen_in_order(void **state)
{
    (void)state;
    static struct gcs_box box;
    static struct swapper swapper;
    struct mob_gcs *writer, *reader;
    struct mob_gcs_sub *sub;
    struct seen seen = {.count = 0};
    gcs_box_init(&box, "no");
    gcs_box_start(&box);
    writer = gcs_box_client(&box);
    append_blocks(writer);
    swapper_start(&swapper, &box);
    struct mob_gcs_options options = {.socket_path = swapper.from, .secret = gcs_box_secret};
    assert_int_equal(mob_gcs_create(&options, &reader), MOB_OK);
    struct mob_gcs_sub_events events = {.block = on_block, .resync = on_resync, .arg = &seen};
    assert_int_equal(mob_gcs_subscribe(reader, 0, &events, &sub), MOB_OK);
    uint64_t newest = BLOCKS - 1; /* the last one is the same in any order of the others */
    for (int64_t deadline = soon(); seen.count == 0 || seen.numbers[seen.count - 1] != newest;) {
        assert_true(mob_now() < deadline && seen.count <= BLOCKS);
        mob_gcs_step(reader, mob_now());
        struct pollfd fd = {.fd = mob_gcs_fd(reader), .events = POLLIN};
        poll(&fd, 1, 10);
    }
    print_message("%u blocks over %u links\n", seen.count, atomic_load(&swapper.connections));
    assert_int_equal(atomic_load(&swapper.swaps), 1);
    assert_int_equal(seen.count, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(seen.numbers[i], i);
    assert_int_equal(seen.resyncs, 0); /* nothing is missing: it was asked for again */
    mob_gcs_destroy(reader);
    mob_gcs_destroy(writer);
    swapper_stop(&swapper);
    gcs_box_fini(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_change_places_are_all_seen_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
