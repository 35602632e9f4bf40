/* Dropping committed small objects before the table is full, least recently used first.
 *
 * Time is counted in epochs: one is 1/64 of the table in commits, or as much of the arena. Whoever makes or
 * reads an object notes the epoch in its entry, if it is not there yet. The sweep keeps a histogram of those
 * notes. When the table passes its mark, it reads off the newest epoch that has to go to get down to the
 * target, and the hand goes once round the table and drops what was not used after that epoch. Objects made
 * while it turns are younger, so they stay. What is used in the present epoch stays as well, unless nothing
 * else is left. So does an input that came before the others of its task: without it, the task would have it
 * read back from the lineage, which costs a hundred times what it costs to run.
 *
 * Most entries that the hand meets stay, and each is a line that lies cold. So the last use that is known of
 * an entry is noted beside its flags, when it is committed and when a turn looks at it: what is young by that
 * is young in fact, since uses only make it younger, and is left without a look. For the histogram it is as
 * old as the note says. A turn that has to make room looks at all of them.
 *
 * The hand always goes the whole way round, and soon: a turn that stops leaves the part that the hand has not
 * reached twice as full as the rest, and a full window somewhere long before the table is.
 */
#include "runtime/store/store_internal.h"

enum {
    STRIDE = 64,
    STEP = 256, /* tags that commits pay for at a time, */
    PACE = 32, /* this many each: a turn lasts entries / 32 commits */
    ALL_OF_GROUP = (1 << MOB_GROUP_ENTRIES) - 1
};
_Static_assert(
    MOB_GROUP_ENTRIES == 8, "count_young_group takes a group's flags for one word, its notes for two");

static uint64_t part(const struct mob_store *store, uint32_t of_64)
{
    return (uint64_t)store->view.entries / 64 * of_64;
}
/* A turn starts at half of the table and aims at 5/16. Windows of the table stay usable to 5/8. */
static uint64_t mark(const struct mob_store *store)
{
    return part(store, 32);
}
static uint64_t target(const struct mob_store *store)
{
    return part(store, 20);
}
static uint64_t pressure(const struct mob_store *store)
{
    return part(store, 36);
}

/* ---- the histogram ---- */

static uint32_t *bucket(struct mob_store *store, uint32_t ages[MOB_SWEEP_AGES], uint32_t used_epoch)
{
    uint32_t age = store->epoch - used_epoch;
    age = age < MOB_SWEEP_AGES ? age : MOB_SWEEP_AGES - 1;
    return &ages[(store->epoch - age) % MOB_SWEEP_AGES];
}

/* The bucket of the new epoch was that of the oldest: it joins the one before. */
static void shift(struct mob_store *store, uint32_t ages[MOB_SWEEP_AGES])
{
    uint32_t *newest = &ages[store->epoch % MOB_SWEEP_AGES];
    ages[(store->epoch + 1) % MOB_SWEEP_AGES] += *newest;
    *newest = 0;
}

void mob_epoch_advance(struct mob_store *store)
{
    store->commits_in_epoch = 0;
    store->epoch++;
    shift(store, store->sweep.ages);
    shift(store, store->sweep.seen);
    MOB_SEG_STORE_RELAXED(&store->view.seg_header->epoch, store->epoch);
}

/* Committed, not kept, and droppable without a trace. */
static bool sweepable(const struct mob_store *store, uint32_t index, uint32_t tag)
{
    return mob_tag_state(tag) == MOB_TAG_COMMITTED && (store->entry_flags[index] & MOB_NODE_KEEP) == 0 &&
        mob_entry_droppable(store, index, tag);
}

/* ---- notes of last uses ---- */

#define NOTED_AGE_MAX 0x8000u /* all that are older look alike: a note has 16 bits */

static void note_use(struct mob_store *store, uint32_t index, uint32_t used_epoch)
{
    bool old = store->epoch - used_epoch > NOTED_AGE_MAX;
    store->entry_epochs[index] = (uint16_t)(old ? store->epoch - NOTED_AGE_MAX : used_epoch);
}

/* A note that nobody has renewed for 65,536 epochs looks young: it stays for a turn too many, or until room
 * is needed. */
static uint32_t noted_use(const struct mob_store *store, uint32_t index)
{
    return store->epoch - (uint16_t)(store->epoch - store->entry_epochs[index]);
}

/* ---- a turn ---- */

static void recount(struct mob_store *store)
{
    store->sweep.used = mob_table_used(&store->view);
    store->sweep.commits = 0;
}

/* The newest epoch that has to go so that `need` entries do. */
static uint32_t limit_for(struct mob_store *store, uint64_t need, uint32_t newest)
{
    uint64_t sum = 0;
    uint32_t epoch = store->epoch - (MOB_SWEEP_AGES - 1);
    for (;; epoch++) {
        sum += store->sweep.ages[epoch % MOB_SWEEP_AGES];
        if (sum >= need || epoch == newest)
            return epoch;
    }
}

static void start_turn(struct mob_store *store, uint64_t need, uint32_t newest, bool trusts)
{
    struct mob_sweep *sweep = &store->sweep;
    sweep->limit = limit_for(store, need, newest);
    sweep->spares = store->options.needed != NULL && newest != store->epoch;
    sweep->trusts = trusts;
    sweep->left = store->view.entries;
    memset(sweep->seen, 0, sizeof sweep->seen);
}

static void end_turn(struct mob_store *store)
{
    struct mob_sweep *sweep = &store->sweep;
    memcpy(sweep->ages, sweep->seen, sizeof sweep->ages);
    sweep->sweepable = 0;
    for (uint32_t i = 0; i < MOB_SWEEP_AGES; i++)
        sweep->sweepable += sweep->ages[i];
    recount(store);
}

/* Something waits to run with it: used in this epoch, then. */
static bool spare(struct mob_store *store, uint32_t index)
{
    struct mob_sweep *sweep = &store->sweep;
    struct mob_seg_entry *entry = &store->view.seg_table[index];
    if ((store->entry_flags[index] & MOB_NODE_FREED) ||
        !store->options.needed(store->options.arg, mob_entry_id(entry)))
        return false;
    MOB_SEG_STORE_RELAXED(&entry->used_epoch, store->epoch);
    note_use(store, index, store->epoch);
    ++*bucket(store, sweep->seen, store->epoch);
    return true;
}

/* All of a group are committed. Neighbours mostly were in one epoch: when they are small and stay, they are
 * counted at once. Nobody but the node changes the tag of what is committed. */
static bool count_young_group(struct mob_store *store, uint32_t base)
{
    struct mob_sweep *sweep = &store->sweep;
    uint64_t flags, notes[2], first = store->entry_epochs[base] * 0x0001000100010001ull;
    uint32_t used_epoch = noted_use(store, base), small = MOB_TAG(MOB_TAG_INLINE, 0, 0);
    memcpy(&flags, &store->entry_flags[base], sizeof flags);
    memcpy(notes, &store->entry_epochs[base], sizeof notes);
    if ((int32_t)(used_epoch - sweep->limit) <= 0 || notes[0] != first || notes[1] != first ||
        (flags & MOB_NODE_KEEP * 0x0101010101010101ull) != 0 ||
        mob_group_matches(&store->view.seg_tags[base], small, small) != ALL_OF_GROUP)
        return false;
    *bucket(store, sweep->seen, used_epoch) += MOB_GROUP_ENTRIES;
    return true;
}

/* Of these STRIDE tags, those whose entries are to be looked at; they are fetched meanwhile. */
static uint32_t look_over(struct mob_store *store, uint32_t from, uint32_t found[STRIDE])
{
    const struct mob_view *view = &store->view;
    struct mob_sweep *sweep = &store->sweep;
    uint32_t count = 0;
    for (uint32_t base = from; base < from + STRIDE; base += MOB_GROUP_ENTRIES) {
        uint32_t hits = mob_group_matches(
            &view->seg_tags[base], MOB_TAG(MOB_TAG_COMMITTED, 0, 0), MOB_TAG(MOB_TAG_STATE_MASK, 0, 0));
        if (hits == ALL_OF_GROUP && sweep->trusts && count_young_group(store, base))
            continue;
        for (; hits != 0; hits &= hits - 1) {
            uint32_t i = base + (uint32_t)__builtin_ctz(hits);
            if (!sweepable(store, i, MOB_SEG_LOAD(&view->seg_tags[i].v)))
                continue;
            uint32_t used_epoch = noted_use(store, i);
            if (sweep->trusts && (int32_t)(used_epoch - sweep->limit) > 0) {
                ++*bucket(store, sweep->seen, used_epoch);
                continue;
            }
            __builtin_prefetch(&view->seg_table[i]);
            found[count++] = i;
        }
    }
    return count;
}

static void sweep_tags(struct mob_store *store, uint32_t from, struct mob_evict_batch *batch)
{
    const struct mob_view *view = &store->view;
    struct mob_sweep *sweep = &store->sweep;
    uint32_t found[STRIDE], count = look_over(store, from, found);
    bool spares = sweep->spares && store->options.needs_any(store->options.arg);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = found[k], tag = MOB_SEG_LOAD(&view->seg_tags[i].v);
        uint32_t used_epoch = MOB_SEG_LOAD_RELAXED(&view->seg_table[i].used_epoch);
        if (!sweepable(store, i, tag))
            continue;
        if ((int32_t)(used_epoch - sweep->limit) > 0) {
            note_use(store, i, used_epoch);
            ++*bucket(store, sweep->seen, used_epoch);
        } else if (spares && spare(store, i)) {
            continue;
        } else if (!mob_tag_is_inline(tag)) {
            if (mob_evict_mark(store, i))
                batch->index[batch->count++] = i;
        } else if (MOB_SEG_CAS(&view->seg_tags[i].v, &tag, 0)) {
            store->entry_flags[i] = 0;
            store->committed -= store->committed > 0;
            store->evictions++;
        }
    }
}

static void turn(struct mob_store *store, uint32_t tags)
{
    struct mob_sweep *sweep = &store->sweep;
    struct mob_evict_batch batch = {.count = 0};
    for (uint32_t done = 0; done < tags && sweep->left > 0; done += STRIDE) {
        sweep_tags(store, sweep->hand, &batch);
        sweep->hand = (sweep->hand + STRIDE) & (store->view.entries - 1);
        sweep->left -= STRIDE;
        if (batch.count > MOB_EVICT_BATCH - STRIDE)
            mob_evict_batch(store, &batch);
    }
    mob_evict_batch(store, &batch);
    if (sweep->left == 0)
        end_turn(store);
}

/* Whether the table is above its mark, and a turn would find enough: what is in use, kept or not committed
 * stays. */
static bool due(struct mob_store *store, uint32_t *newest_out)
{
    struct mob_sweep *sweep = &store->sweep;
    if (sweep->used + sweep->commits <= mark(store))
        return false;
    if (sweep->commits > 0)
        recount(store);
    bool pressed = sweep->used > pressure(store);
    uint64_t in_use = pressed ? 0 : sweep->ages[store->epoch % MOB_SWEEP_AGES];
    *newest_out = pressed ? store->epoch : store->epoch - 1;
    return sweep->used > mark(store) && sweep->sweepable - in_use >= part(store, 2);
}

bool mob_sweep_step(struct mob_store *store, uint32_t tags)
{
    struct mob_sweep *sweep = &store->sweep;
    if (sweep->left == 0) {
        uint32_t newest;
        if (!due(store, &newest))
            return false;
        start_turn(store, sweep->used - target(store), newest, newest != store->epoch);
    }
    turn(store, tags);
    return sweep->left > 0;
}

/* The hand has passed it in this turn: then it counts for the next one already. */
static bool is_behind(const struct mob_store *store, uint32_t index)
{
    const struct mob_sweep *sweep = &store->sweep;
    return sweep->left > 0 && ((index - sweep->hand) & (store->view.entries - 1)) >= sweep->left;
}

static void note(struct mob_store *store, uint32_t index, uint32_t used_epoch)
{
    struct mob_sweep *sweep = &store->sweep;
    note_use(store, index, used_epoch);
    ++*bucket(store, sweep->ages, used_epoch);
    sweep->sweepable++;
    if (is_behind(store, index))
        ++*bucket(store, sweep->seen, used_epoch);
}

/* What the histogram says of single entries may be out of date, so a count may be too low. */
static void unnote(struct mob_store *store, uint32_t index, uint32_t used_epoch)
{
    struct mob_sweep *sweep = &store->sweep;
    uint32_t *count = bucket(store, sweep->ages, used_epoch);
    sweep->sweepable -= *count > 0;
    *count -= *count > 0;
    count = bucket(store, sweep->seen, used_epoch);
    *count -= is_behind(store, index) && *count > 0;
}

void mob_sweep_make_old(struct mob_store *store, uint32_t index)
{
    const struct mob_view *view = &store->view;
    struct mob_seg_entry *entry = &view->seg_table[index];
    uint32_t before = MOB_SEG_LOAD_RELAXED(&entry->used_epoch), oldest = store->epoch - MOB_UNWANTED_AGE;
    MOB_SEG_STORE_RELAXED(&entry->used_epoch, oldest);
    note_use(store, index, oldest);
    if (!sweepable(store, index, MOB_SEG_LOAD_RELAXED(&view->seg_tags[index].v)))
        return;
    unnote(store, index, before);
    note(store, index, oldest);
}

void mob_sweep_committed(struct mob_store *store, uint32_t index)
{
    const struct mob_view *view = &store->view;
    struct mob_sweep *sweep = &store->sweep;
    sweep->commits++;
    if (sweepable(store, index, MOB_SEG_LOAD_RELAXED(&view->seg_tags[index].v)))
        note(store, index, MOB_SEG_LOAD_RELAXED(&view->seg_table[index].used_epoch));
    if (sweep->commits >= part(store, 4) && sweep->left == 0)
        recount(store); /* what is not committed yet counts as well */
    sweep->paid += PACE;
    if (sweep->paid >= STEP) {
        mob_sweep_step(store, sweep->paid);
        sweep->paid = 0;
    }
}

void mob_sweep_now(struct mob_store *store, uint64_t to_used)
{
    if (store->sweep.left > 0)
        turn(store, store->sweep.left);
    /* The histogram is of the last turn, and things were used since: the first turn may drop too few, and the
     * second knows better. */
    for (uint32_t age = 2; age-- > 0;) {
        recount(store);
        if (store->sweep.used <= to_used)
            return;
        start_turn(store, store->sweep.used - to_used, store->epoch - age, false);
        turn(store, store->view.entries);
    }
}
