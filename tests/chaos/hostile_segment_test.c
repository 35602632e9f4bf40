/* A client that was let in writes over the segment of a running cluster: the node declares it damaged and
 * ends, its next incarnation has a fresh one. What had finished comes back by lineage, what had not finishes,
 * and drivers go on in the sessions they have. ctest: timeout=300
 */
#include "tests/chaos/restart_fixture.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/wire/session.h"
#include "runtime/store/store_internal.h"
#include "tests/support/xorshift.h"

enum { FINISHED = 20, BLOB_BYTES = 200000 };

/* ---- the hostile client ---- */

struct hostile {
    int sock;
    uint32_t slot;
    struct mob_view view;
    uint64_t seed;
};

/* Says hello as any driver does, and maps what it is given. */
static void break_in(struct hostile *h)
{
    struct mob_session_hello hello = {
        .magic = MOB_SESSION_MAGIC, .version = MOB_SESSION_VERSION, .kind = MOB_CLIENT_DRIVER};
    struct mob_session_welcome welcome;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec piece = {&welcome, sizeof welcome};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int fds[2];
    *h = (struct hostile){.seed = 0x1234567};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/" MOB_NODE_SOCKET_NAME, box.directory);
    h->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(h->sock, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(h->sock, &hello, sizeof hello, 0), sizeof hello);
    assert_int_equal(recvmsg(h->sock, &message, 0), sizeof welcome);
    assert_int_equal(welcome.status, MOB_OK);
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
    h->slot = welcome.slot;
    struct stat st;
    assert_int_equal(fstat(fds[0], &st), 0);
    uint8_t *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    assert_true(base != MAP_FAILED);
    const struct mob_seg_header *header = (const struct mob_seg_header *)base;
    assert_true(mob_view_layout(&h->view, base, (uint64_t)st.st_size, header->clients_max, header->entries));
    close(fds[0]);
    close(fds[1]);
}

static void leave(struct hostile *h)
{
    munmap(h->view.base, h->view.bytes);
    close(h->sock); /* which also has the node make a pass */
}

static void scribble(struct hostile *h, void *place, size_t bytes)
{
    uint8_t *at = place;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)xorshift(&h->seed);
}

static void over_the_header(struct hostile *h)
{
    scribble(h, h->view.seg_header, offsetof(struct mob_seg_header, ticket));
}

static void over_the_tickets(struct hostile *h)
{
    memset((void *)&h->view.seg_header->ticket, 0, sizeof h->view.seg_header->ticket);
}

static void over_the_object_table(struct hostile *h)
{
    scribble(h, h->view.seg_tags, h->view.entries * sizeof *h->view.seg_tags);
    scribble(h, h->view.seg_table, (size_t)h->view.entries * sizeof *h->view.seg_table);
}

/* Cursors and rings of all others, who are then looked at. */
static void over_the_rings(struct hostile *h)
{
    for (uint32_t slot = 0; slot < h->view.clients_max; slot++)
        if (slot != h->slot)
            scribble(h, &h->view.seg_clients[slot], sizeof h->view.seg_clients[slot]);
    for (uint32_t unit = 0; unit < h->view.units; unit++) {
        uint32_t mark = h->view.unit_map[unit].v;
        if (MOB_UNIT_KIND(mark) == MOB_UNIT_CLIENT && MOB_UNIT_SLOT(mark) != h->slot)
            scribble(
                h, h->view.base + h->view.arena_offset + (uint64_t)unit * MOB_UNIT_BYTES, MOB_UNIT_BYTES);
    }
    memset((void *)h->view.seg_header->dirty, 0xff, sizeof h->view.seg_header->dirty);
}

/* What the node tells the others: it keeps its own numbers and does not look here, they do. */
static void over_the_words_of_the_node(struct hostile *h)
{
    for (uint32_t slot = 0; slot < h->view.clients_max; slot++) {
        struct mob_seg_client *other = &h->view.seg_clients[slot];
        if (slot == h->slot)
            continue;
        scribble(h, (void *)&other->out_released, sizeof other->out_released);
        scribble(h, (void *)&other->in_head, sizeof other->in_head);
    }
}

/* In a process of its own, which what it does may end. */
static void attack(void (*how)(struct hostile *h))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct hostile h;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        break_in(&h);
        how(&h);
        leave(&h);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- the others ---- */

struct work {
    char finished[FINISHED][MOB_TEXT_ID_MAX], blob[MOB_TEXT_ID_MAX];
    struct mob_future *waiting, *dependent;
};

static void begin_work(struct work *w)
{
    struct mob_future *future;
    unlink(gate);
    unlink(trace);
    for (int i = 0; i < FINISHED; i++) {
        OK(mob_submit(client, "chaos.traced", MOB_ARGS(mob_utf8(trace), mob_i64(i)), NULL, &future));
        assert_int_equal(get_of(future), chaos_mix(i, 1));
        mob_future_id(future, w->finished[i]);
        mob_release(future);
    }
    OK(mob_submit(client, "chaos.blob", MOB_ARGS(mob_i64(3), mob_i64(BLOB_BYTES)), NULL, &future));
    check_bytes(future, 3, BLOB_BYTES);
    mob_future_id(future, w->blob);
    mob_release(future);
    OK(mob_submit(client, "chaos.gated", MOB_ARGS(mob_utf8(gate)), NULL, &w->waiting));
    OK(mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(1), mob_ref(w->waiting)), NULL, &w->dependent));
    OK(mob_flush(client, PATIENCE));
}

static void end_work(struct work *w)
{
    struct mob_future *future;
    open_gate();
    assert_int_equal(get_of(w->dependent), chaos_mix(chaos_mix(1, 7), 1));
    for (int i = 0; i < FINISHED; i++) {
        OK(mob_future_from_id(client, w->finished[i], &future));
        assert_int_equal(get_of(future), chaos_mix(i, 1));
        mob_release(future);
    }
    assert_int_equal(lines("ran"), FINISHED); /* from the lineage: none ran again */
    OK(mob_future_from_id(client, w->blob, &future));
    check_bytes(future, 3, BLOB_BYTES);
    mob_release(future);
    OK(mob_submit(client, "chaos.mix", MOB_ARGS(mob_i64(5)), NULL, &future)); /* and on */
    assert_int_equal(get_of(future), chaos_mix(5, 1));
    mob_release(future);
    mob_release(w->waiting);
    mob_release(w->dependent);
}

/* By itself; the supervisor's part is the test's. So nothing may be asked of the node meanwhile, as a name
 * that was looked up a second ago would be: that waits for the next node, which only this test starts. */
static void wait_for_the_nodes_end(const struct mob_function *mix)
{
    struct mob_future *future;
    int status = 0;
    OK(mob_submit_function(client, mix, MOB_ARGS(mob_i64(5)), NULL, &future)); /* it has something to do */
    mob_release(future);
    for (int64_t deadline = mob_now() + PATIENCE; waitpid(box.node, &status, WNOHANG) == 0; poll(NULL, 0, 5))
        if (mob_now() > deadline)
            fail_msg("the node goes on with a damaged segment");
    assert_true(WIFEXITED(status)); /* it declared it, it did not crash */
    assert_int_equal(WEXITSTATUS(status), 4);
    box.node = 0;
}

static void fresh_segment_after(void (*how)(struct hostile *h))
{
    struct work work;
    const struct mob_function *mix;
    begin_work(&work);
    OK(mob_function_find(client, "chaos.mix", &mix));
    attack(how);
    wait_for_the_nodes_end(mix);
    node_box_revive(&box);
    end_work(&work);
}

static void header_is_written_over(void **state)
{
    (void)state;
    fresh_segment_after(over_the_header);
}

static void tickets_are_taken_back(void **state)
{
    (void)state;
    fresh_segment_after(over_the_tickets);
}

static void object_table_is_written_over(void **state)
{
    (void)state;
    fresh_segment_after(over_the_object_table);
}

/* Whose ring does not parse is ended, one by one: workers are replaced, drivers come again. */
static void rings_of_others_are_written_over(void **state)
{
    (void)state;
    struct work work;
    begin_work(&work);
    attack(over_the_rings);
    if (gcs_box_ended(&box.node))
        node_box_revive(&box);
    end_work(&work);
}

/* The driver and the workers find it themselves: it begins a new session, they are replaced. */
static void words_of_the_node_are_written_over(void **state)
{
    (void)state;
    struct work work;
    begin_work(&work);
    attack(over_the_words_of_the_node);
    end_work(&work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_is_written_over),
        cmocka_unit_test(tickets_are_taken_back),
        cmocka_unit_test(object_table_is_written_over),
        cmocka_unit_test(rings_of_others_are_written_over),
        cmocka_unit_test(words_of_the_node_are_written_over),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("hostile_segment", tests, set_up, tear_down);
}
