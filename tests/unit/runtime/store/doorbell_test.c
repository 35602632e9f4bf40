/* The sleep protocol of doorbell.c as a model, all interleavings: a sleeper never sleeps on while there is
 * news. The same search finds the stall in each weakened form of the protocol, so it would find one in ours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NEWS = 3, STATES_MAX = 1 << 16 };

struct variant {
    bool look_again; /* the sleeper looks for news after it announced */
    bool bell_read_first; /* the sleeper reads the futex word before it announces */
    bool news_first; /* the waker stores the news before it looks whether anybody sleeps */
};

/* One sleeper (a client) and one waker (the node), sequentially consistent, a step is one access to shared
 * memory. */
struct model {
    /* shared */
    uint8_t news, asleep, bell;
    /* sleeper */
    uint8_t sleeper_at, seen_bell, consumed;
    bool blocked;
    /* waker */
    uint8_t waker_at, produced;
};

enum sleeper_step { LOOK, READ_BELL, ANNOUNCE, LOOK_AGAIN, WAIT, CLEAR, SLEEPER_DONE };
enum waker_step { STORE_NEWS, LOOK_ASLEEP, RESET_ASLEEP, CHANGE_BELL, WAKE, STORE_NEWS_LATE, WAKER_DONE };

static void sleeper_step(struct model *m, const struct variant *v)
{
    switch ((enum sleeper_step)m->sleeper_at) {
    case LOOK:
        if (m->news > m->consumed)
            m->consumed = m->news;
        else
            m->sleeper_at = v->bell_read_first ? READ_BELL : ANNOUNCE;
        if (m->consumed == NEWS)
            m->sleeper_at = SLEEPER_DONE;
        break;
    case READ_BELL:
        m->seen_bell = m->bell;
        m->sleeper_at = v->bell_read_first ? ANNOUNCE : WAIT;
        break;
    case ANNOUNCE:
        m->asleep = 1;
        m->sleeper_at = v->look_again ? LOOK_AGAIN : v->bell_read_first ? WAIT : READ_BELL;
        break;
    case LOOK_AGAIN:
        m->sleeper_at = m->news > m->consumed ? CLEAR : v->bell_read_first ? WAIT : READ_BELL;
        break;
    case WAIT: /* futex: compares and sleeps in one step */
        m->blocked = m->bell == m->seen_bell;
        m->sleeper_at = CLEAR;
        break;
    case CLEAR:
        m->asleep = 0;
        m->sleeper_at = LOOK;
        break;
    case SLEEPER_DONE:
        break;
    }
}

static void waker_step(struct model *m, const struct variant *v)
{
    switch ((enum waker_step)m->waker_at) {
    case STORE_NEWS:
        if (v->news_first)
            m->news = ++m->produced;
        m->waker_at = LOOK_ASLEEP;
        break;
    case LOOK_ASLEEP:
        m->waker_at = m->asleep ? RESET_ASLEEP : STORE_NEWS_LATE;
        break;
    case RESET_ASLEEP:
        m->waker_at = m->asleep ? CHANGE_BELL : STORE_NEWS_LATE;
        m->asleep = 0;
        break;
    case CHANGE_BELL:
        m->bell++;
        m->waker_at = WAKE;
        break;
    case WAKE:
        m->blocked = false;
        m->waker_at = STORE_NEWS_LATE;
        break;
    case STORE_NEWS_LATE:
        if (!v->news_first)
            m->news = ++m->produced;
        m->waker_at = m->produced == NEWS ? WAKER_DONE : STORE_NEWS;
        break;
    case WAKER_DONE:
        break;
    }
}

/* Depth-first over all states. Returns whether somebody sleeps for ever with news unread. */
static bool stalls(const struct variant *variant, size_t *states_out)
{
    static struct model seen[STATES_MAX], stack[STATES_MAX];
    size_t seen_count = 0, depth = 0;
    bool found = false;
    stack[depth++] = (struct model){0};
    while (depth > 0) {
        struct model m = stack[--depth];
        bool known = false;
        for (size_t i = 0; i < seen_count && !known; i++)
            known = memcmp(&seen[i], &m, sizeof m) == 0;
        if (known)
            continue;
        assert_true(seen_count < STATES_MAX && depth + 2 < STATES_MAX);
        seen[seen_count++] = m;
        if (m.blocked && m.waker_at == WAKER_DONE && m.consumed < NEWS)
            found = true;
        if (!m.blocked && m.sleeper_at != SLEEPER_DONE) {
            stack[depth] = m;
            sleeper_step(&stack[depth++], variant);
        }
        if (m.waker_at != WAKER_DONE) {
            stack[depth] = m;
            waker_step(&stack[depth++], variant);
        }
    }
    *states_out = seen_count;
    return found;
}

static void no_interleaving_loses_a_wake_up(void **state)
{
    (void)state;
    size_t states;
    assert_false(
        stalls(&(struct variant){.look_again = true, .bell_read_first = true, .news_first = true}, &states));
    assert_true(states > 100);
}

static void each_part_of_the_protocol_is_needed(void **state)
{
    (void)state;
    size_t states;
    assert_true(
        stalls(&(struct variant){.look_again = false, .bell_read_first = true, .news_first = true}, &states));
    assert_true(
        stalls(&(struct variant){.look_again = true, .bell_read_first = false, .news_first = true}, &states));
    assert_true(
        stalls(&(struct variant){.look_again = true, .bell_read_first = true, .news_first = false}, &states));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_interleaving_loses_a_wake_up),
        cmocka_unit_test(each_part_of_the_protocol_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
