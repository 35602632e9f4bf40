/* The pass over rings whose clients stand anywhere between two stores (ARCHITECTURE "Tickets"): what a client
 * has seen before it completed a record is never behind that record in the log, wherever the log ends, and
 * nothing that others may have seen is left out, whoever dies in between.
 *
 * Clients are coroutines. Where stores are failpoints (all builds but release) each of them may hand over to
 * another client or to the node, and the node's own stores let clients go on in the middle of its pass; in
 * release they change places between records. One seed a run; MOBULA_SEED=n replays one. */
#include "tests/unit/runtime/store/store_support.h"

#include <ucontext.h>

#include "tests/support/xorshift.h"

/* Dirty bits lie 64 in a word, and the node takes a word at a time: clients stand on both sides of a border.
 */
enum { CLIENTS = 4, FIRST_SLOT = 62, STACK_BYTES = 64 << 10 };
enum { SEEDS = 100, STEPS = 2000, RECORDS_MAX = STEPS * 4, WORDS_MAX = 6, BATCH_MAX = 4, NOBODY = -1 };

struct writer {
    ucontext_t context;
    struct mob_store_client *client;
    uint32_t slot;
    char stack[STACK_BYTES];
};
struct record {
    uint32_t needs; /* 1 + the record that its writer had seen; 0 = none */
    int writer, life;
    bool visible; /* its publication is over, so what it tells may be seen by anybody */
    bool logged;
};
static struct model {
    uint64_t seed, random;
    struct mob_store *store;
    struct writer writers[CLIENTS];
    int running; /* the writer whose turn it is; NOBODY: the node's */
    ucontext_t others; /* who let it run */
    uint32_t handed_over;
    struct record records[RECORDS_MAX];
    uint32_t count, logged, last[CLIENTS]; /* of each writer's: 1 + the newest in the log */
    int lives[CLIENTS];
    uint64_t last_ticket; /* of this pass */
} M;

static uint32_t below(uint32_t n)
{
    return (uint32_t)((xorshift(&M.random) >> 33) % n);
}

/* ---- clients ---- */

static void hand_over(void)
{
    struct writer *w = &M.writers[M.running];
    M.running = NOBODY;
    swapcontext(&w->context, &M.others);
}

static void let_run(int writer)
{
    M.running = writer;
    swapcontext(&M.others, &M.writers[writer].context);
}

/* Before each store, of clients as of the node. */
static void at_a_store(const struct mob_segment_site *site, void *arg)
{
    (void)site;
    (void)arg;
    if (below(3) > 0)
        return;
    mob_segment_set_rival(at_a_store, NULL); /* the stores of whoever runs now count, too */
    M.handed_over++;
    if (M.running != NOBODY) {
        hand_over();
        return;
    }
    for (uint32_t turns = below(30); turns > 0; turns--)
        let_run((int)below(CLIENTS));
}

static uint32_t something_visible(void)
{
    uint32_t back = 0;
    for (uint32_t i = M.count; i > 0 && back < 40; i--, back++)
        if (M.records[i - 1].visible && below(3) == 0)
            return i;
    return 0;
}

/* All its words say which one it is, so a torn copy is noticed. */
static uint32_t complete_one(int writer, uint32_t words[WORDS_MAX])
{
    uint32_t needs = something_visible(), id = M.count++, n = 1 + below(WORDS_MAX);
    M.records[id] = (struct record){.needs = needs, .writer = writer, .life = M.lives[writer]};
    for (uint32_t i = 0; i < n; i++)
        words[i] = id;
    return n;
}

static uint32_t publish_one(struct writer *w, int writer)
{
    uint32_t words[WORDS_MAX], n = complete_one(writer, words);
    struct mob_piece piece = {words, n * sizeof *words};
    while (mob_store_publish(w->client, MOB_OUT_EVENT, 0, 0, &piece, 1) != MOB_OK)
        hand_over();
    return words[0];
}

static void write_for_ever(int writer)
{
    struct writer *w = &M.writers[writer];
    for (;;) {
        for (uint32_t size = 1 + below(BATCH_MAX); size > 0 && M.count < RECORDS_MAX; size--)
            M.records[publish_one(w, writer)].visible = true;
        hand_over();
    }
}

static void begin(int writer)
{
    struct writer *w = &M.writers[writer];
    enum mob_client_kind kind = writer % 2 ? MOB_CLIENT_DRIVER : MOB_CLIENT_WORKER;
    w->slot = test_open(M.store, kind);
    w->client = test_attach(M.store, w->slot);
    M.lives[writer]++;
    getcontext(&w->context);
    w->context.uc_stack = (stack_t){.ss_sp = w->stack, .ss_size = sizeof w->stack};
    makecontext(&w->context, (void (*)(void))write_for_ever, 1, writer);
}

/* ---- the node ---- */

static void log_record(const struct mob_record *record, const uint8_t *body)
{
    uint32_t words[WORDS_MAX], n = (record->bytes - (uint32_t)sizeof *record) / (uint32_t)sizeof *words;
    assert_in_range(n, 1, WORDS_MAX);
    memcpy(words, body, n * sizeof *words);
    uint32_t id = words[0];
    assert_in_range(id, 0, M.count - 1);
    struct record *r = &M.records[id];
    for (uint32_t i = 1; i + 1 < n; i++) /* the last one may be padding */
        assert_int_equal(words[i], id);
    if (r->logged || M.last[r->writer] > id)
        fail_msg("seed %llu: record %u of client %d comes again, or late", (unsigned long long)M.seed, id,
            r->writer);
    if (r->needs && !M.records[r->needs - 1].logged)
        fail_msg("seed %llu: record %u is logged before %u, which its client had seen",
            (unsigned long long)M.seed, id, r->needs - 1);
    assert_true(record->ticket >= M.last_ticket);
    M.last_ticket = record->ticket;
    M.last[r->writer] = id + 1;
    r->logged = true;
    M.logged++;
}

static void pass(bool others_run)
{
    uint32_t slot, damaged;
    struct mob_record record;
    const uint8_t *body;
    M.last_ticket = 0;
    mob_store_pass_begin(M.store);
    while (mob_store_next(M.store, &slot, &record, &body, &damaged)) {
        assert_int_equal(damaged, UINT32_MAX);
        log_record(&record, body);
        if (others_run && below(4) == 0)
            let_run((int)below(CLIENTS));
    }
    assert_int_equal(damaged, UINT32_MAX);
    mob_store_pass_end(M.store);
    for (int i = 0; i < CLIENTS; i++)
        mob_store_ack(M.store, M.writers[i].slot, mob_store_taken(M.store, M.writers[i].slot));
}

/* It dies where it stands; another one comes in its place. */
static void die(int writer)
{
    struct writer *w = &M.writers[writer];
    mob_store_client_ended(M.store, w->slot);
    mob_segment_kill_at(0);
    pass(false);
    mob_store_client_close(M.store, w->slot);
    mob_store_detach(w->client);
    begin(writer);
    mob_segment_kill_at(UINT64_MAX);
}

static void run_seed(uint64_t seed)
{
    memset(&M, 0, sizeof M);
    M.seed = seed;
    M.random = seed * 0x9e3779b97f4a7c15ull | 1;
    M.running = NOBODY;
    M.store = test_store(8 << 20, NULL, 0);
    for (int i = 0; i < FIRST_SLOT; i++)
        test_open(M.store, MOB_CLIENT_WORKER);
    for (int i = 0; i < CLIENTS; i++)
        begin(i);
    mob_segment_set_rival(at_a_store, NULL);
    mob_segment_kill_at(UINT64_MAX);
    for (int step = 0; step < STEPS; step++) {
        uint32_t what = below(100);
        if (what < 80)
            let_run((int)below(CLIENTS));
        else if (what < 99)
            pass(true);
        else
            die((int)below(CLIENTS));
    }
    mob_segment_kill_at(0); /* they stand where they are; nobody moves any more */
    mob_segment_set_rival(NULL, NULL);
    while (mob_store_has_news(M.store))
        pass(false);
    for (uint32_t i = 0; i < M.count; i++)
        if (M.records[i].visible && !M.records[i].logged)
            fail_msg("seed %llu: record %u was seen and is not in the log", (unsigned long long)seed, i);
    assert_true(M.logged > STEPS / 10);
    for (int i = 0; i < CLIENTS; i++)
        mob_store_detach(M.writers[i].client);
    mob_store_destroy(M.store);
}

static void the_log_is_closed_wherever_clients_stand(void **state)
{
    (void)state;
    const char *seed = getenv("MOBULA_SEED");
    if (seed)
        run_seed(strtoull(seed, NULL, 10));
    for (uint64_t i = 1; !seed && i <= SEEDS; i++)
        run_seed(i);
#ifdef MOB_SEGMENT_FAILPOINTS
    assert_true(M.handed_over > 100);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_log_is_closed_wherever_clients_stand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
