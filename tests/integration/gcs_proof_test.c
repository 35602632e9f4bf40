/* A real member and those who connect to it: who does not prove that he knows the cluster's secret is told
 * why, the member's log says it too, and nobody keeps others out by saying nothing. */
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/client/member_link.h"
#include "gcs/link/link.h"
#include "gcs/link/opening.h"
#include "tests/support/chain_box.h"
#include "tests/support/gcs_box.h"

#define SILENT 300 /* more than the member keeps of them */
#define FEW_DESCRIPTORS 64 /* more than it has of its own */

static struct gcs_box box;

static int64_t soon(void)
{
    return mob_now() + 60 * MOB_SEC;
}

/* ---- by hand ---- */

struct raw {
    int fd;
    uint8_t bytes[8192];
    size_t used;
};

static void raw_open_at(struct raw *r, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    r->used = 0;
    r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(r->fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void raw_open(struct raw *r)
{
    raw_open_at(r, box.socket);
}

static void raw_send(const struct raw *r, uint8_t type, const void *head, uint32_t head_bytes)
{
    uint8_t header[MOB_GCS_FRAME_HEADER_BYTES];
    struct mob_gcs_frame frame = {.type = type, .head = head, .head_bytes = head_bytes};
    mob_gcs_frame_encode(&frame, header);
    (void)send(r->fd, header, sizeof header, MSG_NOSIGNAL);
    (void)send(r->fd, head, head_bytes, MSG_NOSIGNAL);
}

static void raw_say(const struct raw *r, const struct mob_opening_say *word)
{
    raw_send(r, word->type, word->head, word->head_bytes);
}

/* The next frame, copied; false: the member closed the connection. */
static bool raw_next(struct raw *r, struct mob_opening_say *out)
{
    for (int64_t deadline = soon();;) {
        struct mob_gcs_frame frame;
        size_t used;
        enum mob_status status = mob_gcs_frame_decode(r->bytes, r->used, 4096, &frame, &used);
        if (status == MOB_OK) {
            out->type = frame.type;
            out->head_bytes = frame.head_bytes;
            assert_true(frame.head_bytes <= sizeof out->head);
            memcpy(out->head, frame.head, frame.head_bytes);
            memmove(r->bytes, r->bytes + used, r->used - used);
            r->used -= used;
            return true;
        }
        assert_int_equal(status, MOB_AGAIN);
        struct pollfd ready = {.fd = r->fd, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 60000), 1);
        ssize_t n = recv(r->fd, r->bytes + r->used, sizeof r->bytes - r->used, 0);
        if (n <= 0)
            return false;
        r->used += (size_t)n;
        assert_true(mob_now() < deadline);
    }
}

static struct mob_link_self client_self(void)
{
    struct mob_link_self self = {
        .kind = MOB_LINK_OF_CLIENTS, .protocol_min = MOB_GCS_PROTOCOL, .protocol_max = MOB_GCS_PROTOCOL};
    memcpy(self.secret, gcs_box_secret, sizeof self.secret);
    return self;
}

static uint32_t lines_with(const char *text)
{
    char path[128], line[1024];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/gcs.log", box.directory);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

static void expect_refused(struct raw *r, enum mob_status reason)
{
    struct mob_opening_say word;
    struct mob_gcs_link_refused refused;
    assert_true(raw_next(r, &word));
    assert_int_equal(word.type, MOB_GCS_LINK_REFUSED);
    memcpy(&refused, word.head, sizeof refused);
    assert_int_equal(refused.reason, reason);
    assert_true(refused.text[0] != 0);
    assert_false(raw_next(r, &word)); /* and the connection is over */
    close(r->fd);
}

/* ---- clients ---- */

/* What a client with these gets to know, and what the member's log then says of it. */
static void client_is_refused(struct mob_cluster_id cluster, const uint8_t *secret, uint32_t shard,
    enum mob_status expected, const char *why, const char *in_log)
{
    struct mob_gcs *gcs;
    uint32_t before = lines_with(in_log);
    struct mob_gcs_options options = {
        .socket_path = box.socket, .cluster = cluster, .secret = secret, .shard = shard};
    assert_int_equal(mob_gcs_create(&options, &gcs), MOB_OK);
    assert_int_equal(mob_gcs_connect_wait(gcs, soon()), expected);
    const char *told;
    assert_int_equal(mob_gcs_refusal(gcs, &told), expected);
    assert_non_null(strstr(told, why));
    assert_false(mob_gcs_connected(gcs));
    for (int64_t deadline = soon(); lines_with(in_log) == before; poll(NULL, 0, 2))
        assert_true(mob_now() < deadline);
    mob_gcs_destroy(gcs);
}

static void who_is_not_of_the_cluster_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct mob_cluster_id ours = {{0}}, foreign = {{1}};
    uint8_t wrong[32];
    memcpy(wrong, gcs_box_secret, sizeof wrong);
    wrong[31] ^= 1;
    client_is_refused(ours, wrong, 0, MOB_UNAUTHENTICATED, "secret", "reason=unauthenticated");
    client_is_refused(
        foreign, gcs_box_secret, 0, MOB_DENIED, "another cluster", "why=\"of another cluster\"");
    client_is_refused(ours, gcs_box_secret, 1, MOB_MISDIRECTED, "another shard", "why=\"of another shard\"");
    struct mob_gcs_options none = {.socket_path = box.socket};
    struct mob_gcs *gcs;
    assert_int_equal(mob_gcs_create(&none, &gcs), MOB_INVALID); /* there are no links without */
    struct mob_member_link *tool;
    assert_int_equal(
        mob_member_open(&(struct mob_member_options){.path = box.socket, .secret = wrong}, &tool),
        MOB_UNAUTHENTICATED);
    assert_int_equal(
        mob_member_open(&(struct mob_member_options){.path = box.socket, .secret = gcs_box_secret}, &tool),
        MOB_OK);
    struct mob_gcs_stats stats;
    assert_int_equal(mob_member_stats(tool, &stats), MOB_OK);
    mob_member_close(tool);
}

static void a_version_that_nobody_speaks_is_refused_on_both_sides(void **state)
{
    (void)state;
    static const uint16_t ranges[][2] = {{1, MOB_GCS_PROTOCOL - 1}, {MOB_GCS_PROTOCOL + 1, 900}};
    for (size_t i = 0; i < 2; i++) {
        struct mob_link_self self = client_self();
        struct mob_opening opening;
        struct mob_opening_say word;
        struct raw r;
        uint32_t before = lines_with("reason=unsupported-version");
        self.protocol_min = ranges[i][0];
        self.protocol_max = ranges[i][1];
        mob_opening_dial(&opening, &self, &word);
        raw_open(&r);
        raw_say(&r, &word);
        expect_refused(&r, MOB_VERSION);
        assert_true(lines_with("reason=unsupported-version") > before);
    }
}

/* Both words of who knows the secret, and the member's WELCOME; false: the connection ended before. */
static bool raw_try(struct raw *r, struct mob_opening_say *hello, struct mob_opening_say *proof,
    struct mob_gcs_welcome *welcome)
{
    struct mob_link_self self = client_self();
    struct mob_opening opening;
    struct mob_opening_say challenge, word;
    mob_opening_dial(&opening, &self, hello);
    raw_open(r);
    raw_say(r, hello);
    if (!raw_next(r, &challenge))
        return false;
    struct mob_gcs_frame frame = {
        .type = challenge.type, .head = challenge.head, .head_bytes = challenge.head_bytes};
    assert_int_equal(mob_opening_take(&opening, &frame, proof), MOB_OK);
    raw_say(r, proof);
    assert_true(raw_next(r, &word));
    assert_int_equal(word.type, MOB_GCS_LINK_READY);
    assert_true(raw_next(r, &word));
    assert_int_equal(word.type, MOB_GCS_WELCOME);
    assert_int_equal(mob_gcs_welcome_decode(word.head, word.head_bytes, welcome), MOB_OK);
    return true;
}

static void raw_prove(struct raw *r, struct mob_opening_say *hello, struct mob_opening_say *proof,
    struct mob_gcs_welcome *welcome)
{
    assert_true(raw_try(r, hello, proof, welcome));
}

static void an_opening_that_was_heard_opens_nothing(void **state)
{
    (void)state;
    struct mob_gcs_welcome welcome;
    struct mob_opening_say hello, proof, word;
    struct raw r;
    raw_prove(&r, &hello, &proof, &welcome); /* the first time it is good */
    close(r.fd);
    raw_open(&r);
    raw_say(&r, &hello);
    assert_true(raw_next(&r, &word));
    assert_int_equal(word.type, MOB_GCS_LINK_CHALLENGE);
    raw_say(&r, &proof);
    expect_refused(&r, MOB_UNAUTHENTICATED);
}

static void nothing_is_done_for_who_has_proved_nothing(void **state)
{
    (void)state;
    static const uint8_t types[] = {MOB_GCS_ATTACH, MOB_GCS_PUT, MOB_GCS_GET, MOB_GCS_SUB, MOB_GCS_LISTEN};
    uint8_t head[128] = {0};
    struct mob_opening_say word;
    for (size_t i = 0; i < sizeof types; i++) {
        struct raw r;
        raw_open(&r);
        raw_send(&r, types[i], head, sizeof head);
        assert_false(raw_next(&r, &word));
        close(r.fd);
    }
    /* nor is room made for a frame that a client may send */
    struct raw r;
    uint8_t header[MOB_GCS_FRAME_HEADER_BYTES];
    struct mob_gcs_frame large = {
        .type = MOB_GCS_LINK_HELLO, .head = head, .body = calloc(1, 1 << 20), .body_bytes = 1 << 20};
    mob_gcs_frame_encode(&large, header);
    raw_open(&r);
    assert_int_equal(send(r.fd, header, sizeof header, MSG_NOSIGNAL), sizeof header);
    assert_false(raw_next(&r, &word));
    close(r.fd);
    free((void *)(uintptr_t)large.body);
}

static void put_with(struct mob_gcs *gcs)
{
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "k",
        .key_length = 1,
        .value = "v",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, soon(), NULL), MOB_OK);
}

static void put_one(void)
{
    struct mob_gcs *gcs = gcs_box_client(&box);
    put_with(gcs);
    mob_gcs_destroy(gcs);
}

/* One that says nothing, one that stops after its first word, one in the middle of a word: each is given up
 * by and by. More of them than the member keeps: a client comes in all the same. */
static void the_silent_keep_nobody_out_and_are_given_up(void **state)
{
    (void)state;
    static struct raw silent[SILENT], halves[2];
    struct mob_link_self self = client_self();
    struct mob_opening opening;
    struct mob_opening_say hello, word;
    mob_opening_dial(&opening, &self, &hello);
    for (int i = 0; i < SILENT; i++)
        raw_open(&silent[i]);
    raw_open(&halves[0]);
    raw_say(&halves[0], &hello);
    assert_true(raw_next(&halves[0], &word));
    assert_int_equal(word.type, MOB_GCS_LINK_CHALLENGE);
    raw_open(&halves[1]);
    assert_int_equal(send(halves[1].fd, "MGCF", 4, MSG_NOSIGNAL), 4);
    put_one();
    assert_true(lines_with("too many have proved nothing") > 0);
    for (int i = 0; i < SILENT; i++) {
        assert_false(raw_next(&silent[i], &word));
        close(silent[i].fd);
    }
    for (int i = 0; i < 2; i++) {
        assert_false(raw_next(&halves[i], &word));
        close(halves[i].fd);
    }
    assert_true(lines_with("it proved nothing in time") > 0);
    put_one();
}

/* Who finds the member without descriptors is not left waiting, and when some are free again it takes who
 * comes. */
static void without_descriptors_the_member_ends_what_it_cannot_take(void **state)
{
    (void)state;
    static struct raw in[FEW_DESCRIPTORS + 1], out;
    struct mob_opening_say hello, proof, word;
    struct mob_gcs_welcome welcome;
    struct rlimit before, few;
    int n = 0;
    assert_int_equal(prlimit(box.gcs, RLIMIT_NOFILE, NULL, &before), 0);
    few = before;
    few.rlim_cur = FEW_DESCRIPTORS;
    assert_int_equal(prlimit(box.gcs, RLIMIT_NOFILE, &few, NULL), 0);
    while (raw_try(&in[n], &hello, &proof, &welcome)) {
        n++;
        assert_true(n <= FEW_DESCRIPTORS);
    }
    assert_true(n > 0);
    close(in[n].fd);
    raw_open(&out); /* nor is one that says nothing */
    assert_false(raw_next(&out, &word));
    close(out.fd);
    assert_true(lines_with("no more descriptors") > 0);
    while (n > 0)
        close(in[--n].fd);
    put_one();
    assert_int_equal(prlimit(box.gcs, RLIMIT_NOFILE, &before, NULL), 0);
}

/* ---- what is read of a connection ---- */

#define QUESTIONS 2000u /* more than a connection's share of one pass of the member's loop */

static size_t ask_bytes(uint8_t *out, uint64_t tag)
{
    struct mob_gcs_get get = {.tag = tag, .query = MOB_GCS_Q_STATS, .table = MOB_GCS_HERE};
    struct mob_gcs_frame frame = {
        .type = MOB_GCS_GET, .head = (const uint8_t *)&get, .head_bytes = sizeof get};
    mob_gcs_frame_encode(&frame, out);
    memcpy(out + MOB_GCS_FRAME_HEADER_BYTES, &get, sizeof get);
    return MOB_GCS_FRAME_HEADER_BYTES + sizeof get;
}

static void expect_rows(struct raw *r)
{
    struct mob_opening_say word;
    do
        assert_true(raw_next(r, &word));
    while (word.type != MOB_GCS_ROWS);
}

static uint32_t descriptors(void)
{
    char path[64];
    uint32_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", box.gcs);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* What came together with the end of a connection is answered, and the end is not overlooked; also when the
 * member finds both at once. */
static void who_asks_and_ends_is_answered(void **state)
{
    (void)state;
    struct mob_gcs_welcome welcome;
    struct mob_opening_say hello, proof, word;
    uint8_t bytes[512];
    uint32_t before = descriptors();
    for (int i = 0; i < 40; i++) {
        struct raw r;
        size_t length = ask_bytes(bytes, 1);
        raw_prove(&r, &hello, &proof, &welcome);
        kill(box.gcs, i % 2 == 0 ? SIGSTOP : SIGCONT);
        assert_int_equal(send(r.fd, bytes, length, MSG_NOSIGNAL), length);
        assert_int_equal(shutdown(r.fd, i % 4 < 2 ? SHUT_WR : SHUT_RDWR), 0);
        kill(box.gcs, SIGCONT);
        if (i % 4 < 2)
            expect_rows(&r);
        while (raw_next(&r, &word)) {
        }
        close(r.fd);
    }
    for (int64_t deadline = soon(); descriptors() > before; poll(NULL, 0, 2))
        assert_true(mob_now() < deadline);
}

/* Nobody wakes the member for the rest of what was there when it looked, nor for half a question. */
static void all_that_came_together_is_answered(void **state)
{
    (void)state;
    static uint8_t bytes[QUESTIONS * 256u];
    struct mob_gcs_welcome welcome;
    struct mob_opening_say hello, proof;
    struct raw r;
    size_t length = 0;
    int size = sizeof bytes;
    raw_prove(&r, &hello, &proof, &welcome);
    assert_int_equal(setsockopt(r.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    for (uint32_t i = 0; i < QUESTIONS; i++)
        length += ask_bytes(bytes + length, i);
    size_t half = length - 40;
    kill(box.gcs, SIGSTOP);
    assert_int_equal(send(r.fd, bytes, half, MSG_NOSIGNAL), half);
    kill(box.gcs, SIGCONT);
    for (uint32_t i = 0; i + 1 < QUESTIONS; i++)
        expect_rows(&r);
    assert_int_equal(send(r.fd, bytes + half, length - half, MSG_NOSIGNAL), length - half);
    expect_rows(&r);
    close(r.fd);
}

/* Comes in as a member would. */
static void link_comes_in(const char *path, uint64_t id)
{
    struct mob_link_self self = {
        .id = id, .protocol_min = MOB_GCS_PEER_PROTOCOL, .protocol_max = MOB_GCS_PEER_PROTOCOL};
    struct mob_chunk_pool pool = {0};
    struct mob_link *link;
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    memcpy(self.secret, gcs_box_secret, sizeof self.secret);
    int64_t deadline = soon();
    enum mob_status dialled;
    while ((dialled = mob_link_dial(&self, &pool, path, &link)) == MOB_UNAVAILABLE && mob_now() < deadline)
        poll(NULL, 0, 5); /* the strangers fill the queue until they are taken */
    assert_int_equal(dialled, MOB_OK);
    while (!mob_link_up(link)) {
        mob_link_io(link, true);
        assert_int_equal(mob_link_next(link, &frame, &chunk), MOB_AGAIN);
        struct pollfd ready = {.fd = mob_link_fd(link), .events = POLLIN};
        poll(&ready, 1, 1000);
        assert_true(mob_now() < deadline);
    }
    mob_link_destroy(link);
    mob_chunk_pool_fini(&pool);
}

/* Links of members are few. Strangers that take all of them keep no member from its neighbour or its master.
 */
static void strangers_keep_no_member_out(void **state)
{
    (void)state;
    static struct raw silent[2][SILENT];
    struct chain_box chain;
    chain_box_init(&chain, 1, 1, NULL);
    chain_box_start(&chain);
    const char *paths[] = {chain.link[0], chain.master_path[0]};
    assert_true(chain_box_wait_length(&chain, 1, soon()));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < SILENT; k++)
            raw_open_at(&silent[i][k], paths[i]);
        link_comes_in(paths[i], (77ull << MOB_GCS_MEMBER_LIFE_BITS) | 1);
        for (int k = 0; k < SILENT; k++)
            close(silent[i][k].fd);
    }
    chain_box_fini(&chain);
}

/* A member that collects tells who comes so, and a client that heard it sends no reads. That it is over
 * concerns that one, too, when it has not attached. */
static void who_was_told_of_collecting_is_told_of_its_end(void **state)
{
    (void)state;
    struct raw reader;
    struct mob_gcs_welcome welcome;
    struct mob_gcs_nack nack;
    struct mob_opening_say hello, proof, word;
    struct mob_gcs *awaited = gcs_box_client(&box);
    put_with(awaited);
    gcs_box_end(&box.gcs, SIGKILL);
    gcs_box_end(&box.redis, SIGKILL);
    gcs_box_start(&box);
    raw_prove(&reader, &hello, &proof, &welcome);
    assert_true((welcome.collecting & MOB_GCS_WELCOME_COLLECTING) != 0);
    put_with(awaited); /* answered when what it has kept is collected */
    do
        assert_true(raw_next(&reader, &word));
    while (word.type != MOB_GCS_NACK);
    assert_int_equal(mob_gcs_nack_decode(word.head, word.head_bytes, &nack), MOB_OK);
    assert_int_equal(nack.reason, MOB_WRONG_EPOCH);
    close(reader.fd);
    mob_gcs_destroy(awaited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_not_of_the_cluster_is_refused_on_both_sides),
        cmocka_unit_test(a_version_that_nobody_speaks_is_refused_on_both_sides),
        cmocka_unit_test(an_opening_that_was_heard_opens_nothing),
        cmocka_unit_test(nothing_is_done_for_who_has_proved_nothing),
        cmocka_unit_test(the_silent_keep_nobody_out_and_are_given_up),
        cmocka_unit_test(without_descriptors_the_member_ends_what_it_cannot_take),
        cmocka_unit_test(who_asks_and_ends_is_answered),
        cmocka_unit_test(all_that_came_together_is_answered),
        cmocka_unit_test(strangers_keep_no_member_out),
        cmocka_unit_test(who_was_told_of_collecting_is_told_of_its_end),
    };
    gcs_box_init(&box, NULL);
    box.args[0] = "--gcs-collect-ms";
    box.args[1] = "200";
    gcs_box_start(&box);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gcs_box_fini(&box);
    return failed;
}
