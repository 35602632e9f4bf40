/* Which links and positions of a client outlive a configuration that it hears of; and good-byes for others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "gcs/client/client_internal.h"

#define HEAD_AT "/nowhere/head"
#define TAIL_AT "/nowhere/tail"

struct fixture {
    struct mob_gcs *gcs;
    int far[2]; /* the other ends of its links */
};

static struct mob_gcs_book book_of(uint64_t epoch, uint64_t started, uint32_t count)
{
    struct mob_gcs_book book = {.config = {.epoch = epoch,
                                    .term = 1,
                                    .count = count,
                                    .start = started == epoch,
                                    .started = started,
                                    .members = {epoch << 32 | 1, epoch << 32 | 2}}};
    for (uint32_t i = 0; i < count; i++)
        snprintf(book.places[i].client, sizeof book.places[i].client, "%s", i == 0 ? HEAD_AT : TAIL_AT);
    return book;
}

/* A client of a chain of two in epoch 5, which was last started with epoch 3, both links up. */
static int set_up(void **state)
{
    static struct fixture f;
    static const uint8_t secret[MOB_MAC_KEY_BYTES];
    struct mob_gcs_options options = {.socket_path = HEAD_AT "," TAIL_AT, .secret = secret};
    assert_int_equal(mob_gcs_create(&options, &f.gcs), MOB_OK);
    f.gcs->now_ns = MOB_SEC;
    f.gcs->seeks = false;
    f.gcs->book = book_of(5, 3, 2);
    f.gcs->position = (struct mob_gcs_position){.epoch = 5, .committed = 70, .durable = 60};
    f.gcs->tail = &f.gcs->links[1];
    for (size_t i = 0; i < 2; i++) {
        int ends[2];
        struct link *l = &f.gcs->links[i];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        l->fd = ends[0];
        f.far[i] = ends[1];
        l->state = LINK_UP;
        l->chain = true;
        snprintf(l->path, sizeof l->path, "%s", i == 0 ? HEAD_AT : TAIL_AT);
    }
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    mob_gcs_destroy(f->gcs);
    close(f->far[0]);
    close(f->far[1]);
    return 0;
}

static void hear_from(struct fixture *f, struct link *l, const struct mob_gcs_book *book)
{
    struct mob_gcs_nack nack = {.reason = MOB_WRONG_EPOCH};
    struct mob_gcs_frame frame = {.type = MOB_GCS_NACK,
        .head = (const uint8_t *)&nack,
        .head_bytes = sizeof nack,
        .body = (const uint8_t *)book,
        .body_bytes = mob_gcs_book_bytes(book)};
    route_nack(l, &frame);
    assert_int_equal(f->gcs->book.config.epoch, book->config.epoch);
}

static void hear_of(struct fixture *f, const struct mob_gcs_book *book)
{
    hear_from(f, &f->gcs->links[0], book);
}

static void tell(struct fixture *f, const struct mob_gcs_book *book)
{
    hear_of(f, book);
    assert_int_equal(f->gcs->links[0].state, LINK_UP); /* whoever said it lives */
}

static void links_outlive_a_reconfiguration(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_book book = book_of(8, 3, 2);
    tell(f, &book);
    assert_int_equal(f->gcs->links[1].state, LINK_UP);
    assert_int_equal(f->gcs->position.committed, 70);
    assert_int_equal(f->gcs->position.durable, 60);
    assert_int_equal(f->gcs->position.epoch, 8);
}

/* The tail's address is the same, and who was there has died: the end of that link is not noticed yet. */
static void a_start_that_was_missed_ends_what_was_before(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_book book = book_of(8, 7, 2);
    tell(f, &book);
    assert_int_equal(f->gcs->links[1].state, LINK_DOWN);
    assert_ptr_equal(f->gcs->tail, &f->gcs->links[1]);
    assert_string_equal(f->gcs->tail->path, TAIL_AT);
    assert_int_equal(f->gcs->tail->retry_ns, f->gcs->now_ns); /* to be opened anew, at once */
    assert_int_equal(f->gcs->position.committed, 0);
    assert_int_equal(f->gcs->position.durable, 0);
    f->gcs->position.committed = 75; /* and not a second time */
    book = book_of(9, 7, 2);
    tell(f, &book);
    assert_int_equal(f->gcs->position.committed, 75);
}

static void a_start_that_is_heard_does_the_same(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_book book = book_of(6, 6, 1);
    tell(f, &book);
    assert_int_equal(f->gcs->links[1].state, LINK_DOWN);
    assert_ptr_equal(f->gcs->tail, &f->gcs->links[0]);
    assert_int_equal(f->gcs->position.committed, 0);
}

/* ---- memory ---- */

static void says(struct fixture *f, size_t link, uint64_t memory_bytes)
{
    struct mob_gcs_durable d = {
        .committed = 70, .durable = 60, .memory_bytes = memory_bytes, .soft_bytes = 100, .hard_bytes = 150};
    struct mob_gcs_frame frame = {
        .type = MOB_GCS_DURABLE, .head = (const uint8_t *)&d, .head_bytes = sizeof d};
    uint8_t bytes[MOB_GCS_FRAME_HEADER_BYTES + sizeof d];
    struct link *l = &f->gcs->links[link];
    l->opening.state = MOB_OPENING_PROVED;
    if (l->in == NULL) {
        l->in_capacity = 4096;
        l->in = malloc(l->in_capacity);
    }
    mob_gcs_frame_encode(&frame, bytes);
    memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES, &d, sizeof d);
    assert_int_equal(write(f->far[link], bytes, sizeof bytes), sizeof bytes);
    links_receive(f->gcs, true);
}

static void holds(const struct fixture *f, uint64_t memory_bytes)
{
    struct mob_gcs_position p;
    mob_gcs_position(f->gcs, &p);
    assert_int_equal(p.memory_bytes, memory_bytes);
    assert_int_equal(p.pressure, memory_bytes > 100);
    assert_int_equal(p.memory_soft_bytes, 100);
    assert_int_equal(p.memory_hard_bytes, 150);
}

static void the_fuller_of_head_and_tail_counts(void **state)
{
    struct fixture *f = *state;
    says(f, 0, 40);
    holds(f, 40);
    says(f, 1, 120);
    holds(f, 120);
    says(f, 0, 50); /* whoever spoke last */
    holds(f, 120);
    says(f, 0, 130);
    says(f, 1, 30);
    holds(f, 130);
    says(f, 0, 20);
    holds(f, 30);
}

static void the_memory_of_who_is_left_out_does_not_count(void **state)
{
    struct fixture *f = *state;
    says(f, 0, 40);
    says(f, 1, 120);
    link_fail(&f->gcs->links[1], MOB_UNAVAILABLE); /* perhaps only the link */
    holds(f, 120);
    struct mob_gcs_book book = book_of(6, 3, 1);
    tell(f, &book);
    holds(f, 40);
    says(f, 0, 101);
    holds(f, 101);
    book = book_of(7, 3, 2); /* a new tail, which has not spoken yet */
    snprintf(book.places[1].client, sizeof book.places[1].client, "/nowhere/new-tail");
    tell(f, &book);
    holds(f, 101);
    says(f, 0, 60);
    holds(f, 60);
}

/* ---- good-byes of those that had no link ---- */

/* A client of the same members that is destroyed while its link is down. */
static void one_goes(uint64_t client)
{
    static const uint8_t secret[MOB_MAC_KEY_BYTES];
    struct mob_gcs_options options = {.socket_path = HEAD_AT "," TAIL_AT, .secret = secret};
    struct mob_gcs *gone;
    assert_int_equal(mob_gcs_create(&options, &gone), MOB_OK);
    gone->client = client;
    mob_gcs_destroy(gone);
}

static void hear(struct fixture *f, uint8_t type, uint64_t client)
{
    struct mob_gcs_frame frame = {.type = type, .from = client};
    left_heard(f->gcs, &frame);
}

static uint64_t attached_at(struct fixture *f, int64_t now_ns)
{
    f->gcs->now_ns = now_ns;
    left_pump(f->gcs);
    return f->gcs->left.client;
}

/* Frames of the test's own link: no more than its pieces are counted. */
static uint32_t sent(const struct fixture *f)
{
    return (uint32_t)f->gcs->head->out.count;
}

#define ONE (MOB_GCS_CLIENT_BIT | 1)
#define TWO (MOB_GCS_CLIENT_BIT | 2)

static void who_gets_no_answer_does_not_keep_the_others(void **state)
{
    struct fixture *f = *state;
    int64_t now = mob_now();
    f->gcs->stream.state = STREAM_ATTACHED;
    one_goes(ONE);
    one_goes(TWO);
    assert_int_equal(attached_at(f, now), ONE);
    assert_int_equal(left_next_ns(f->gcs), now + STREAM_PATIENCE_NS);
    assert_int_equal(attached_at(f, now + STREAM_PATIENCE_NS - 1), ONE);
    now += STREAM_PATIENCE_NS;
    assert_int_equal(attached_at(f, now), 0);
    assert_int_equal(left_next_ns(f->gcs), now + STREAM_PATIENCE_NS);
    now += STREAM_PATIENCE_NS;
    assert_int_equal(attached_at(f, now), TWO);
    hear(f, MOB_GCS_ATTACHED, TWO);
    assert_int_equal(attached_at(f, now), ONE); /* its turn again */
    now += STREAM_PATIENCE_NS;
    assert_int_equal(attached_at(f, now), 0);
    mob_out_drop(&f->gcs->head->out);
    hear(f, MOB_GCS_ATTACHED, ONE); /* late: it holds its place on this link now, and is let go */
    assert_true(sent(f) > 0);
    assert_int_equal(attached_at(f, now + MOB_SEC), 0);
    assert_int_equal(left_next_ns(f->gcs), MOB_FOREVER_NS);
}

static void who_has_gone_long_ago_is_forgotten(void **state)
{
    struct fixture *f = *state;
    f->gcs->stream.state = STREAM_ATTACHED;
    one_goes(ONE);
    assert_int_equal(attached_at(f, mob_now() + 601 * MOB_SEC), 0);
    assert_int_equal(attached_at(f, mob_now()), 0); /* nothing is there any more */
    hear(f, MOB_GCS_ATTACHED, ONE); /* nor is anything said for it */
    assert_int_equal(sent(f), 0);
}

/* The chain is elsewhere, says one that is not in it any more, and who is there dies before the client comes.
 */
static void who_reaches_nobody_of_the_configuration_seeks(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_book book = book_of(6, 3, 2);
    snprintf(book.places[0].client, sizeof book.places[0].client, "/nowhere/other-head");
    snprintf(book.places[1].client, sizeof book.places[1].client, "/nowhere/other-tail");
    hear_of(f, &book);
    assert_false(f->gcs->seeks);
    route_step(f->gcs);
    assert_true(f->gcs->seeks);
    assert_ptr_equal(f->gcs->head, f->gcs->tail);
}

/* A client that looks for the chain has come to its head under another name: it goes on under the chain's. */
static void other_names_of_the_same_places_are_no_reason_to_seek(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_book book = book_of(5, 3, 2);
    struct mob_gcs_nack nack = {.reason = MOB_WRONG_EPOCH};
    struct mob_gcs_frame frame = {.type = MOB_GCS_NACK,
        .head = (const uint8_t *)&nack,
        .head_bytes = sizeof nack,
        .body = (const uint8_t *)&book,
        .body_bytes = mob_gcs_book_bytes(&book)};
    f->gcs->seeks = true;
    f->gcs->tail = f->gcs->head;
    link_fail(&f->gcs->links[1], MOB_UNAVAILABLE);
    snprintf(f->gcs->links[0].path, sizeof f->gcs->links[0].path, "/nowhere//head");
    route_nack(&f->gcs->links[0], &frame);
    assert_false(f->gcs->seeks);
    assert_ptr_not_equal(f->gcs->head, f->gcs->tail);
    assert_string_equal(f->gcs->head->path, HEAD_AT);
    assert_string_equal(f->gcs->tail->path, TAIL_AT);
    assert_int_equal(f->gcs->head->retry_ns, f->gcs->now_ns);
    assert_int_equal(f->gcs->tail->retry_ns, f->gcs->now_ns);
}

/* The head knows the configuration first and leads the client to the tail, which does not know yet that it is
 * one: it refuses without an answer, and says when it has heard. */
static void what_a_tail_was_asked_before_it_knew_is_asked_again(void **state)
{
    struct fixture *f = *state;
    struct mob_gcs_book book = book_of(5, 3, 2);
    f->gcs->up = true;
    assert_int_equal(mob_gcs_incarnations(f->gcs, 0, NULL, NULL), MOB_OK);
    reads_pump(f->gcs);
    assert_true(f->gcs->read_first->sent);
    hear_from(f, f->gcs->head, &book);
    assert_true(f->gcs->read_first->sent);
    hear_from(f, f->gcs->tail, &book);
    assert_false(f->gcs->read_first->sent);
    reads_pump(f->gcs);
    assert_true(f->gcs->read_first->sent);
}

/* The first that waits, answered by nothing; the next step notices. */
static void answer_one(struct fixture *f)
{
    struct mob_gcs_rows head = {.kind = MOB_GCS_ROWS_NONE, .tag = f->gcs->read_first->head.tag};
    struct mob_gcs_frame frame = {.head = (const uint8_t *)&head, .head_bytes = sizeof head};
    reads_answer(f->gcs, &frame);
}

static int64_t silent_at(struct fixture *f, int64_t now_ns)
{
    (void)mob_gcs_step(f->gcs, now_ns);
    return mob_gcs_silent_since(f->gcs);
}

static void who_answers_nothing_is_silent_since_it_was_asked(void **state)
{
    struct fixture *f = *state;
    f->gcs->up = true;
    assert_int_equal(silent_at(f, 2 * MOB_SEC), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mob_gcs_incarnations(f->gcs, 0, NULL, NULL), MOB_OK);
    assert_int_equal(silent_at(f, 3 * MOB_SEC), 3 * MOB_SEC);
    assert_int_equal(silent_at(f, 7 * MOB_SEC), 3 * MOB_SEC);
    answer_one(f);
    assert_int_equal(silent_at(f, 8 * MOB_SEC), 8 * MOB_SEC); /* the other one waits */
    assert_int_equal(silent_at(f, 9 * MOB_SEC), 8 * MOB_SEC);
    assert_int_equal(silent_at(f, 99 * MOB_SEC), 99 * MOB_SEC); /* this process was stopped */
    answer_one(f);
    assert_int_equal(silent_at(f, 100 * MOB_SEC), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(links_outlive_a_reconfiguration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_that_was_missed_ends_what_was_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_that_is_heard_does_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_fuller_of_head_and_tail_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_memory_of_who_is_left_out_does_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_gets_no_answer_does_not_keep_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_gone_long_ago_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_reaches_nobody_of_the_configuration_seeks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            other_names_of_the_same_places_are_no_reason_to_seek, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_a_tail_was_asked_before_it_knew_is_asked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_answers_nothing_is_silent_since_it_was_asked, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
