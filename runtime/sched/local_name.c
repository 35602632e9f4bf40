/* Things that are looked up once and then are numbers: resources, demand classes, jobs, lanes, functions. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

void sched_names_fini(struct mob_sched *s)
{
    free(s->kinds);
    free(s->classes);
    free(s->jobs);
    free(s->lanes);
    free(s->lane_slots);
    free(s->functions);
    free(s->function_slots);
}

/* ---- resources ---- */

static bool kind_take(struct mob_sched *s, uint32_t *kind_out)
{
    if (s->kind_count < MOB_SCHED_RESOURCES_MAX) {
        *kind_out = s->kind_count++;
        return true;
    }
    sched_kinds_sweep(s);
    for (uint32_t i = 0; i < s->kind_count; i++)
        if (s->kinds[i].name[0] == '\0') {
            *kind_out = i;
            return true;
        }
    return false;
}

enum mob_status mob_sched_resource(struct mob_sched *s, const char *name, size_t length, uint16_t *kind_out)
{
    if (length == 0 || length >= sizeof s->kinds[0].name || memchr(name, 0, length))
        return MOB_INVALID;
    uint32_t kind;
    for (kind = 0; kind < s->kind_count; kind++)
        if (!strncmp(s->kinds[kind].name, name, length) && !s->kinds[kind].name[length])
            break;
    if (kind == s->kind_count && !kind_take(s, &kind))
        return MOB_QUEUE_FULL;
    if (s->kinds[kind].name[0] == '\0')
        memcpy(s->kinds[kind].name, name, length);
    s->kinds_asked |= 1ull << kind;
    *kind_out = (uint16_t)kind;
    return MOB_OK;
}

void mob_sched_resource_total(struct mob_sched *s, uint16_t kind, int64_t total)
{
    MOB_ASSERT(kind < s->kind_count && total >= 0);
    s->kinds[kind].total = total;
    s->dirty = true;
}

void mob_sched_resource_get(const struct mob_sched *s, uint16_t kind, int64_t *total_out, int64_t *free_out)
{
    MOB_ASSERT(kind < s->kind_count);
    *total_out = s->kinds[kind].total;
    *free_out = s->kinds[kind].total - s->kinds[kind].taken;
}

const char *mob_sched_resource_name(const struct mob_sched *s, uint16_t kind)
{
    return kind < s->kind_count ? s->kinds[kind].name : NULL;
}

/* ---- classes ---- */

static int demand_by_kind(const void *a, const void *b)
{
    const struct mob_sched_demand *x = a, *y = b;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Sorted, summed, without zeros. */
static enum mob_status class_normalize(
    const struct mob_sched *s, const struct mob_sched_demand *demands, uint32_t count, struct sched_class *c)
{
    if (count > MOB_SCHED_DEMANDS_MAX)
        return MOB_INVALID;
    struct mob_sched_demand sorted[MOB_SCHED_DEMANDS_MAX];
    if (count)
        memcpy(sorted, demands, count * sizeof *demands);
    qsort(sorted, count, sizeof *sorted, demand_by_kind);
    for (uint32_t i = 0; i < count; i++) {
        const struct mob_sched_demand *d = &sorted[i];
        if (d->kind >= s->kind_count || d->amount < 0 || d->amount > MOB_SCHED_AMOUNT_MAX)
            return MOB_INVALID;
        if (d->amount == 0)
            continue;
        if (c->count && c->demands[c->count - 1].kind == d->kind) {
            int64_t *sum = &c->demands[c->count - 1].amount;
            if (*sum > MOB_SCHED_AMOUNT_MAX - d->amount)
                return MOB_INVALID;
            *sum += d->amount;
        } else {
            c->demands[c->count++] = *d;
        }
        c->mask |= 1ull << d->kind;
        if (d->kind == MOB_SCHED_CPU)
            c->cpu = c->demands[c->count - 1].amount;
    }
    return MOB_OK;
}

static bool class_same(const struct sched_class *a, const struct sched_class *b)
{
    if (a->runtime != b->runtime || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->demands[i].kind != b->demands[i].kind || a->demands[i].amount != b->demands[i].amount)
            return false;
    return true;
}

/* A number for a new demand; its place in the table is to be written. */
static enum mob_status class_take(struct mob_sched *s, uint32_t *class_out)
{
    if (s->class_count == MOB_SCHED_CLASSES_MAX && s->classes_free == 0)
        sched_classes_sweep(s);
    for (uint32_t i = 0; s->classes_free > 0; i++)
        if (!s->classes[i].used) {
            s->classes_free--;
            *class_out = i;
            return MOB_OK;
        }
    if (s->class_count == MOB_SCHED_CLASSES_MAX)
        return MOB_QUEUE_FULL;
    if ((s->class_count & (s->class_count - 1)) == 0) {
        uint32_t capacity = s->class_count ? 2 * s->class_count : 1;
        struct sched_class *classes = realloc(s->classes, capacity * sizeof *classes);
        if (!classes)
            return MOB_NO_MEMORY;
        s->classes = classes;
    }
    *class_out = s->class_count++;
    return MOB_OK;
}

static enum mob_status class_find(struct mob_sched *s, const struct sched_class *c, uint32_t *class_out)
{
    for (uint32_t i = 0; i < s->class_count; i++)
        if (s->classes[i].used && class_same(&s->classes[i], c)) {
            *class_out = i;
            return MOB_OK;
        }
    enum mob_status status = class_take(s, class_out);
    if (status == MOB_OK)
        s->classes[*class_out] = *c;
    return status;
}

enum mob_status mob_sched_class(struct mob_sched *s, uint8_t runtime, const struct mob_sched_demand *demands,
    uint32_t count, uint16_t *class_out)
{
    if (runtime >= MOB_SCHED_RUNTIMES_MAX)
        return MOB_INVALID;
    struct sched_class c = {.runtime = runtime, .hungry = SCHED_NIL16, .used = true};
    uint32_t class_id;
    enum mob_status status = class_normalize(s, demands, count, &c);
    if (status == MOB_OK)
        status = class_find(s, &c, &class_id);
    s->kinds_asked = 0; /* the class has them now */
    if (status != MOB_OK)
        return status;
    s->classes[class_id].users++;
    *class_out = (uint16_t)class_id;
    return MOB_OK;
}

enum mob_status mob_sched_class_check(const struct mob_sched *s, uint16_t class_id, uint16_t *kind_out)
{
    MOB_ASSERT(class_id < s->class_count);
    const struct sched_class *c = &s->classes[class_id];
    for (uint32_t i = 0; i < c->count; i++)
        if (c->demands[i].amount > s->kinds[c->demands[i].kind].total) {
            *kind_out = c->demands[i].kind;
            return MOB_UNSATISFIABLE;
        }
    return MOB_OK;
}

bool sched_class_fits(const struct mob_sched *s, const struct sched_class *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const struct sched_kind *k = &s->kinds[c->demands[i].kind];
        if (k->total - k->taken < c->demands[i].amount)
            return false;
    }
    return true;
}

uint32_t sched_class_fit_count(const struct mob_sched *s, const struct sched_class *c)
{
    int64_t fit = MOB_SCHED_WORKERS_MAX;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct sched_kind *k = &s->kinds[c->demands[i].kind];
        int64_t n = (k->total - k->taken) / c->demands[i].amount;
        fit = n < fit ? n : fit;
    }
    return fit > 0 ? (uint32_t)fit : 0;
}

/* ---- jobs ---- */

enum mob_status mob_sched_job_open(struct mob_sched *s, uint32_t weight, uint16_t *job_out)
{
    if (weight < 1 || weight > MOB_SCHED_WEIGHT_MAX)
        return MOB_INVALID;
    uint32_t i = 0;
    while (i < s->job_count && s->jobs[i].used)
        i++;
    if (i == MOB_SCHED_JOBS_MAX)
        return MOB_QUEUE_FULL;
    if (i == s->job_count) {
        if ((i & (i - 1)) == 0) {
            struct sched_job *jobs = realloc(s->jobs, (i ? 2 * i : 1) * sizeof *jobs);
            if (!jobs)
                return MOB_NO_MEMORY;
            s->jobs = jobs;
        }
        s->job_count++;
    }
    s->jobs[i] = (struct sched_job){.weight = weight,
        .stride = SCHED_STRIDE / weight,
        .first = SCHED_NIL16,
        .last = SCHED_NIL16,
        .last_lane = SCHED_NIL16,
        .open = true,
        .used = true};
    *job_out = (uint16_t)i;
    return MOB_OK;
}

enum mob_status mob_sched_job_weight(struct mob_sched *s, uint16_t job, uint32_t weight)
{
    if (weight < 1 || weight > MOB_SCHED_WEIGHT_MAX || job >= s->job_count || !s->jobs[job].open)
        return MOB_INVALID;
    s->jobs[job].weight = weight;
    s->jobs[job].stride = SCHED_STRIDE / weight;
    return MOB_OK;
}

/* ---- lanes ---- */

static uint32_t lane_hash(const struct sched_lane_key *key)
{
    uint64_t x = (uint64_t)key->job << 40 | (uint64_t)key->class_id << 24 |
        (uint64_t)(uint16_t)key->priority << 1 | key->create;
    x ^= (uint64_t)key->tree * 0xd6e8feb86659fd93ull;
    return (uint32_t)(x * 0x9e3779b97f4a7c15ull >> 32);
}

bool sched_lane_is(const struct sched_lane *l, const struct sched_lane_key *key)
{
    return l->tree == key->tree && l->class_id == key->class_id && l->priority == key->priority &&
        l->job == key->job && l->create == key->create;
}

static void lane_index(struct mob_sched *s, uint32_t lane)
{
    const struct sched_lane *l = &s->lanes[lane];
    struct sched_lane_key key = {l->job, l->class_id, l->priority, l->create, l->tree};
    uint32_t i = lane_hash(&key) & (s->lane_slot_count - 1);
    while (s->lane_slots[i])
        i = (i + 1) & (s->lane_slot_count - 1);
    s->lane_slots[i] = (uint16_t)(lane + 1);
}

/* Forget lanes without tasks (of one job, or of all), and rebuild the index. */
static void lanes_sweep(struct mob_sched *s, uint32_t job)
{
    if (s->lane_slot_count == 0)
        return;
    memset(s->lane_slots, 0, s->lane_slot_count * sizeof *s->lane_slots);
    for (uint32_t i = 0; i < s->lane_count; i++) {
        struct sched_lane *l = &s->lanes[i];
        if (!l->used)
            continue;
        if (l->refs == 0 && (job == UINT32_MAX || l->job == job)) {
            s->jobs[l->job].lanes--;
            s->jobs[l->job].last_lane = SCHED_NIL16;
            s->lanes_unused--;
            l->used = false;
            l->next = (uint16_t)s->lane_free;
            s->lane_free = i + 1;
        } else {
            lane_index(s, i);
        }
    }
}

void sched_lanes_sweep(struct mob_sched *s)
{
    lanes_sweep(s, UINT32_MAX);
}

static bool lanes_grow(struct mob_sched *s)
{
    uint32_t capacity = s->lane_capacity ? 2 * s->lane_capacity : 32;
    struct sched_lane *lanes = realloc(s->lanes, capacity * sizeof *lanes);
    if (!lanes)
        return false;
    s->lanes = lanes;
    uint16_t *slots = calloc(2ul * capacity, sizeof *slots);
    if (!slots)
        return false;
    free(s->lane_slots);
    s->lane_slots = slots;
    s->lane_slot_count = 2 * capacity;
    s->lane_capacity = capacity;
    for (uint32_t i = 0; i < s->lane_count; i++)
        if (lanes[i].used)
            lane_index(s, i);
    return true;
}

/* Trees come and go, so unused lanes are collected, but only when a good part of them is: each collection
 * looks at all. */
static enum mob_status lane_take(struct mob_sched *s, bool of_tree, uint32_t *lane_out)
{
    bool full = s->lane_count >= (of_tree ? SCHED_TREE_LANES_MAX : MOB_SCHED_LANES_MAX - 1);
    if (!s->lane_free && (full || s->lane_count == s->lane_capacity)) {
        if (s->lanes_unused > (full ? SCHED_SWEEP_WORTH : s->lane_capacity / 4))
            lanes_sweep(s, UINT32_MAX);
        else if (full)
            return MOB_QUEUE_FULL;
        else if (!lanes_grow(s))
            return MOB_NO_MEMORY;
    }
    if (s->lane_free) {
        *lane_out = s->lane_free - 1;
        s->lane_free = s->lanes[*lane_out].next;
    } else {
        *lane_out = s->lane_count++;
    }
    return MOB_OK;
}

enum mob_status sched_lane_get(struct mob_sched *s, const struct sched_lane_key *key, uint16_t *lane_out)
{
    if (key->job >= s->job_count || !s->jobs[key->job].open || key->class_id >= s->class_count)
        return MOB_NOT_FOUND;
    if (s->lane_slot_count) {
        uint32_t i = lane_hash(key) & (s->lane_slot_count - 1);
        for (; s->lane_slots[i]; i = (i + 1) & (s->lane_slot_count - 1)) {
            uint16_t lane = (uint16_t)(s->lane_slots[i] - 1);
            if (sched_lane_is(&s->lanes[lane], key)) {
                *lane_out = s->jobs[key->job].last_lane = lane;
                return MOB_OK;
            }
        }
    }
    uint32_t lane;
    enum mob_status status = lane_take(s, key->tree > SCHED_TREE_SHARED, &lane);
    if (status)
        return status;
    s->lanes[lane] = (struct sched_lane){.job = key->job,
        .class_id = key->class_id,
        .priority = key->priority,
        .create = key->create,
        .tree = key->tree,
        .used = true,
        .next = SCHED_NIL16,
        .prev = SCHED_NIL16};
    lane_index(s, lane);
    s->lanes_unused++;
    s->jobs[key->job].lanes++;
    *lane_out = s->jobs[key->job].last_lane = (uint16_t)lane;
    return MOB_OK;
}

static void job_end(struct mob_sched *s, uint16_t job)
{
    if (s->jobs[job].lanes_live)
        return;
    if (s->jobs[job].lanes)
        lanes_sweep(s, job);
    MOB_ASSERT(s->jobs[job].lanes == 0);
    s->jobs[job].used = false;
}

void sched_lane_hold(struct mob_sched *s, uint16_t lane)
{
    struct sched_lane *l = &s->lanes[lane];
    if (l->refs++ == 0) {
        s->lanes_unused--;
        s->jobs[l->job].lanes_live++;
    }
}

void sched_lane_release(struct mob_sched *s, uint16_t lane)
{
    struct sched_lane *l = &s->lanes[lane];
    if (--l->refs)
        return;
    s->lanes_unused++;
    s->jobs[l->job].lanes_live--;
    if (!s->jobs[l->job].open)
        job_end(s, l->job);
}

bool mob_sched_job_idle(const struct mob_sched *s, uint16_t job)
{
    MOB_ASSERT(job < s->job_count && s->jobs[job].open);
    return s->jobs[job].lanes_live == 0;
}

void mob_sched_job_close(struct mob_sched *s, uint16_t job)
{
    MOB_ASSERT(job < s->job_count && s->jobs[job].open);
    s->jobs[job].open = false;
    job_end(s, job);
}

/* ---- functions ---- */

static bool functions_grow(struct mob_sched *s)
{
    uint32_t capacity = s->function_capacity ? 2 * s->function_capacity : 64;
    struct sched_function *functions = realloc(s->functions, capacity * sizeof *functions);
    if (!functions)
        return false;
    s->functions = functions;
    uint16_t *slots = calloc(2ul * capacity, sizeof *slots);
    if (!slots)
        return false;
    free(s->function_slots);
    s->function_slots = slots;
    s->function_slot_count = 2 * capacity;
    s->function_capacity = capacity;
    for (uint32_t i = 1; i < s->function_count; i++) {
        uint32_t j;
        memcpy(&j, functions[i].id.b, sizeof j);
        for (j &= s->function_slot_count - 1; slots[j]; j = (j + 1) & (s->function_slot_count - 1))
            ;
        slots[j] = (uint16_t)i;
    }
    return true;
}

uint16_t mob_sched_function(struct mob_sched *s, struct mob_function_id function)
{
    uint32_t hash;
    memcpy(&hash, function.b, sizeof hash); /* ids are hashes already */
    uint32_t i = 0;
    if (s->function_slot_count)
        for (i = hash & (s->function_slot_count - 1); s->function_slots[i];
             i = (i + 1) & (s->function_slot_count - 1))
            if (!memcmp(&s->functions[s->function_slots[i]].id, &function, sizeof function))
                return s->function_slots[i];
    if (s->function_count == MOB_SCHED_FUNCTIONS_MAX)
        return 0;
    if (s->function_count >= s->function_capacity) {
        if (!functions_grow(s))
            return 0;
        for (i = hash & (s->function_slot_count - 1); s->function_slots[i];
             i = (i + 1) & (s->function_slot_count - 1))
            ;
    }
    s->functions[s->function_count] =
        (struct sched_function){.id = function, .estimate_ns = (uint32_t)s->options.batch_ns_max};
    s->function_slots[i] = (uint16_t)s->function_count;
    return (uint16_t)s->function_count++;
}

/* As TCP estimates round trips: one long run in thousands makes the next batches short at once, not the mean.
 */
void sched_measure(struct mob_sched *s, uint16_t function, int64_t run_ns)
{
    struct sched_function *f = &s->functions[function];
    int64_t run = run_ns < INT32_MAX ? run_ns : INT32_MAX;
    if (f->measured) {
        int64_t error = run - f->mean_ns;
        int64_t size = error < 0 ? -error : error;
        f->mean_ns = (uint32_t)(f->mean_ns + error / 8);
        f->deviation_ns = (uint32_t)(f->deviation_ns + (size - f->deviation_ns) / 4);
    } else {
        f->measured = true;
        f->mean_ns = (uint32_t)run;
        f->deviation_ns = (uint32_t)run / 2;
    }
    uint64_t estimate = (uint64_t)f->mean_ns + 4ull * f->deviation_ns;
    uint64_t most = (uint64_t)s->options.batch_ns_max;
    f->estimate_ns = (uint32_t)(estimate < most ? estimate : most);
}

void mob_sched_function_defers(struct mob_sched *s, uint16_t function)
{
    MOB_ASSERT(function < s->function_count);
    s->functions[function].defers = true;
}
