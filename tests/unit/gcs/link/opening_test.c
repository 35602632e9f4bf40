/* The opening of a link as two machines that are given each other's words: what is refused, and what a word
 * that was heard, changed or said twice is worth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gcs/link/opening.h"

struct two {
    struct mob_link_self near, far; /* who connects; who is connected to */
    struct mob_opening dialer, acceptor;
    struct mob_opening_say hello, challenge, proof, ready; /* as they were said */
};

static struct mob_link_self self_of(enum mob_link_kind kind)
{
    struct mob_link_self self = {.kind = kind, .shard = 3, .protocol_min = 1, .protocol_max = 1};
    memset(&self.cluster, 7, sizeof self.cluster);
    memset(self.secret, 9, sizeof self.secret);
    return self;
}

static void two_init(struct two *t, enum mob_link_kind near, enum mob_link_kind far)
{
    memset(t, 0, sizeof *t);
    t->near = self_of(near);
    t->far = self_of(far);
    mob_opening_accept(&t->acceptor, &t->far);
    mob_opening_dial(&t->dialer, &t->near, &t->hello);
}

static enum mob_status give(
    struct mob_opening *to, const struct mob_opening_say *word, struct mob_opening_say *answer_out)
{
    struct mob_gcs_frame frame = {.type = word->type, .head = word->head, .head_bytes = word->head_bytes};
    return mob_opening_take(to, &frame, answer_out);
}

static void whole(struct two *t)
{
    assert_int_equal(give(&t->acceptor, &t->hello, &t->challenge), MOB_OK);
    assert_int_equal(give(&t->dialer, &t->challenge, &t->proof), MOB_OK);
    if (t->proof.type == MOB_GCS_LINK_PROOF)
        assert_int_equal(give(&t->acceptor, &t->proof, &t->ready), MOB_OK);
}

static void two_that_know_the_secret_prove_it(void **state)
{
    (void)state;
    struct two t;
    struct mob_opening_say nothing;
    two_init(&t, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
    whole(&t);
    assert_int_equal(t.acceptor.state, MOB_OPENING_PROVED);
    assert_int_equal(give(&t.dialer, &t.ready, &nothing), MOB_OK);
    assert_int_equal(t.dialer.state, MOB_OPENING_PROVED);
    assert_int_equal(nothing.type, 0);
}

/* The words of a client's opening that somebody heard are worth nothing at the next one: its challenge is
 * another. */
static void words_that_are_said_again_prove_nothing(void **state)
{
    (void)state;
    struct two first, second;
    struct mob_opening_say answer;
    two_init(&first, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
    whole(&first);
    two_init(&second, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
    assert_int_equal(give(&second.acceptor, &first.hello, &answer), MOB_OK);
    assert_int_equal(answer.type, MOB_GCS_LINK_CHALLENGE);
    assert_int_equal(give(&second.acceptor, &first.proof, &answer), MOB_OK);
    assert_int_equal(answer.type, MOB_GCS_LINK_REFUSED);
    assert_int_equal(second.acceptor.state, MOB_OPENING_REFUSED);
    assert_int_equal(second.acceptor.refused, MOB_UNAUTHENTICATED);
    /* and the other way: a challenge that was heard does not prove the member to a client */
    assert_int_equal(give(&second.dialer, &first.challenge, &answer), MOB_OK);
    assert_int_equal(second.dialer.refused, MOB_UNAUTHENTICATED);
}

static void a_proof_of_one_kind_of_link_is_none_of_the_other(void **state)
{
    (void)state;
    static const enum mob_link_kind kinds[] = {MOB_LINK_OF_MEMBERS, MOB_LINK_OF_CLIENTS};
    for (int i = 0; i < 2; i++) {
        struct two t;
        struct mob_opening_say end;
        two_init(&t, kinds[i], kinds[1 - i]);
        whole(&t);
        assert_int_equal(t.dialer.refused, MOB_UNAUTHENTICATED);
        assert_int_equal(t.proof.type, MOB_GCS_LINK_REFUSED);
        assert_int_equal(give(&t.acceptor, &t.proof, &end), MOB_OK);
        assert_int_equal(t.acceptor.refused, MOB_UNAUTHENTICATED);
        assert_string_equal(t.acceptor.why, t.dialer.why); /* the same words on both sides */
    }
}

/* An acceptor's own proof sent back to it. */
static void a_mirror_proves_nothing(void **state)
{
    (void)state;
    struct two t;
    struct mob_opening_say answer;
    struct mob_gcs_link_challenge challenge;
    two_init(&t, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
    assert_int_equal(give(&t.acceptor, &t.hello, &t.challenge), MOB_OK);
    memcpy(&challenge, t.challenge.head, sizeof challenge);
    t.proof = (struct mob_opening_say){.type = MOB_GCS_LINK_PROOF, .head_bytes = sizeof challenge.proof};
    memcpy(t.proof.head, challenge.proof, sizeof challenge.proof);
    assert_int_equal(give(&t.acceptor, &t.proof, &answer), MOB_OK);
    assert_int_equal(t.acceptor.refused, MOB_UNAUTHENTICATED);
}

static void each_changed_byte_of_a_word_is_refused(void **state)
{
    (void)state;
    for (size_t word = 0; word < 3; word++)
        for (size_t at = 0; at < sizeof(struct mob_gcs_link_hello); at++) {
            struct two t;
            struct mob_opening_say end = {.type = 0};
            struct mob_opening_say *changed;
            two_init(&t, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
            changed = word == 0 ? &t.hello : word == 1 ? &t.challenge : &t.proof;
            struct mob_opening *to = word == 1 ? &t.dialer : &t.acceptor;
            if (word > 0)
                assert_int_equal(give(&t.acceptor, &t.hello, &t.challenge), MOB_OK);
            if (word > 1)
                assert_int_equal(give(&t.dialer, &t.challenge, &t.proof), MOB_OK);
            if (at >= changed->head_bytes)
                break;
            changed->head[at] ^= 0x80;
            enum mob_status status = give(to, changed, &end);
            if (word == 0 && status == MOB_OK && end.type == MOB_GCS_LINK_CHALLENGE)
                status = give(&t.dialer, &end, &t.proof); /* who said something else notices */
            bool noticed = status == MOB_CORRUPT || t.dialer.state == MOB_OPENING_REFUSED ||
                t.acceptor.state == MOB_OPENING_REFUSED;
            if (!noticed || t.acceptor.state == MOB_OPENING_PROVED)
                fail_msg("word %zu byte %zu", word, at);
        }
}

static void words_out_of_their_order_are_no_opening(void **state)
{
    (void)state;
    struct two t;
    struct mob_opening_say answer;
    two_init(&t, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
    whole(&t);
    const struct mob_opening_say *words[] = {&t.challenge, &t.proof, &t.ready};
    for (size_t i = 0; i < 3; i++) {
        struct mob_opening fresh;
        mob_opening_accept(&fresh, &t.far);
        assert_int_equal(give(&fresh, words[i], &answer), MOB_CORRUPT);
    }
    struct mob_opening fresh;
    mob_opening_accept(&fresh, &t.far);
    struct mob_gcs_frame put = {.type = MOB_GCS_PUT, .head = t.hello.head, .head_bytes = t.hello.head_bytes};
    assert_int_equal(mob_opening_take(&fresh, &put, &answer), MOB_CORRUPT);
    struct mob_gcs_frame body = {.type = MOB_GCS_LINK_HELLO,
        .head = t.hello.head,
        .head_bytes = t.hello.head_bytes,
        .body = t.hello.head,
        .body_bytes = 1};
    assert_int_equal(mob_opening_take(&fresh, &body, &answer), MOB_CORRUPT);
}

/* A stranger's words may stand in logs and on terminals. */
static void a_refusal_s_words_can_be_printed(void **state)
{
    (void)state;
    struct two t;
    struct mob_opening_say word = {.type = MOB_GCS_LINK_REFUSED}, answer;
    struct mob_gcs_link_refused refused = {.reason = 77777};
    memset(refused.text, 'x', sizeof refused.text);
    memcpy(refused.text, "a\n\"b\x1b[2J", 9);
    word.head_bytes = sizeof refused;
    memcpy(word.head, &refused, sizeof refused);
    two_init(&t, MOB_LINK_OF_CLIENTS, MOB_LINK_OF_CLIENTS);
    assert_int_equal(give(&t.dialer, &word, &answer), MOB_OK);
    assert_int_equal(t.dialer.refused, MOB_DENIED); /* a reason that is none of an opening's */
    assert_string_equal(t.dialer.why, "a??b?[2J");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_know_the_secret_prove_it),
        cmocka_unit_test(words_that_are_said_again_prove_nothing),
        cmocka_unit_test(a_proof_of_one_kind_of_link_is_none_of_the_other),
        cmocka_unit_test(a_mirror_proves_nothing),
        cmocka_unit_test(each_changed_byte_of_a_word_is_refused),
        cmocka_unit_test(words_out_of_their_order_are_no_opening),
        cmocka_unit_test(a_refusal_s_words_can_be_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
