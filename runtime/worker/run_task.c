/* One task: copy its spec, find the function, load the arguments, run, complete. */
#include "runtime/worker/worker.h"

#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "runtime/worker/forked.h"
#include "runtime/worker/peak_memory.h"
#include "runtime/worker/worker_log.h"

/* Below this a task's CPU time is its wall time: reading the CPU clock costs more than many tasks. */
#define CPU_MEASURED_NS (20 * MOB_US)
#define PEAK_MEASURED_NS MOB_MS
#define LOG_EVENT_BYTES 1024u

/* ---- before ---- */

/* The outcomes of the run that this one repeats, each once: a task that was given back unstarted and sent
 * again brought them twice. */
static struct mob_logged_outcome *take_outcomes(struct mob_worker *worker, const struct mob_spec_head *head)
{
    struct mob_logged_outcome *taken = NULL, **taken_tail = &taken;
    struct mob_logged_outcome **place = &worker->outcomes;
    uint32_t next = 0;
    while (*place != NULL) {
        struct mob_logged_outcome *outcome = *place;
        if (!mob_task_id_eq(outcome->head.task, head->task) || outcome->head.generation != head->generation) {
            place = &outcome->next;
            continue;
        }
        *place = outcome->next;
        if (outcome->head.sequence < next) {
            free(outcome);
            continue;
        }
        next = outcome->head.sequence + 1;
        outcome->next = NULL;
        *taken_tail = outcome;
        taken_tail = &outcome->next;
    }
    worker->outcomes_tail = place;
    return taken;
}

static bool reset_returns(struct mob_call *call, uint32_t count)
{
    if (count > call->return_capacity) {
        struct mob_call_return *returns = malloc(count * sizeof *returns);
        if (returns == NULL)
            return false;
        if (call->returns != call->few_returns)
            free(call->returns);
        call->returns = returns;
        call->return_capacity = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        call->returns[i].type = MOB_TYPE_NONE;
        call->returns[i].stored = call->returns[i].exists = false;
    }
    call->return_count = count;
    return true;
}

/* First a private copy, then checks: user code may hold pointers into it while the ring goes on. */
static enum mob_status copy_tail(struct mob_call *call, const uint8_t *tail, uint32_t bytes)
{
    uint64_t words[MOB_SPEC_WORD_TAIL / 8];
    uint16_t arg_count;
    call->tail_bytes = bytes;
    if (bytes == sizeof words) {
        memcpy(words, tail, sizeof words);
        memcpy(call->tail, words, sizeof words);
        if (mob_spec_tail_is_word(words))
            return MOB_OK;
    }
    memcpy(call->tail, tail, bytes);
    return mob_spec_tail_check(call->tail, bytes, &arg_count);
}

static void prepare(struct mob_worker *worker, const struct mob_in_spec *in, const struct mob_spec_head *head,
    const uint8_t *tail, uint32_t tail_bytes)
{
    struct mob_call *call = worker->call;
    call->head = *head;
    call->in = *in;
    call->failure = MOB_OK;
    call->failed_by_function = false;
    call->message[0] = 0;
    call->cause = NULL;
    call->cause_bytes = 0;
    call->yielded = 0;
    call->sequence = 0;
    call->random_state = 0;
    call->signature = NULL;
    call->module = NULL;
    call->self = NULL;
    call->cancelled = false;
    call->outcomes = worker->outcomes != NULL ? take_outcomes(worker, head) : NULL;
    worker->client->cause_bytes = 0;
    mob_client_enter(worker->client, head->task, head->generation, head->job);
    worker->client->call = call;
    worker->client->look_up = (in->flags & MOB_IN_SPEC_LOOK_UP) != 0;
    if (tail_bytes > MOB_SPEC_TAIL_MAX) {
        mob_call_fail(call, MOB_CORRUPT, "the spec's arguments are too long");
        return;
    }
    enum mob_status status = copy_tail(call, tail, tail_bytes);
    if (status != MOB_OK)
        mob_call_fail(call, status, "the spec's arguments are damaged");
    uint32_t returns = head->num_returns == MOB_RETURNS_STREAM ? 0 : head->num_returns;
    if (!reset_returns(call, returns))
        mob_call_fail(call, MOB_NO_MEMORY, "no memory for %u returns", returns);
}

/* ---- which function ---- */

static const struct mob_loaded_function *find_function(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    struct mob_loaded_function *function =
        mob_module_cache_find(&worker->modules, worker->client, call->head.function);
    if (function == NULL) {
        mob_call_fail(call, MOB_NOT_FOUND, "the node named no module for this function");
        return NULL;
    }
    if (function->refused != MOB_OK) {
        mob_call_fail(call, function->refused, "%s", function->reason);
        return NULL;
    }
    call->module = function->module;
    call->module_hash = function->hash;
    return function;
}

static mob_function_main main_of_create(struct mob_worker *worker, const struct mob_loaded_function *function)
{
    struct mob_call *call = worker->call;
    struct mob_worker_actor *actor = &worker->actor;
    if (actor->lives) {
        mob_call_fail(call, MOB_INTERNAL, "this worker has an actor already");
        return NULL;
    }
    *actor = (struct mob_worker_actor){.id = {call->head.task}, .function = function};
    struct mob_ext_view ext;
    if (mob_spec_find_ext(call->tail, MOB_EXT_CHECKPOINT, &ext) && ext.payload_bytes == 4)
        memcpy(&actor->checkpoint_every, ext.payload, 4);
    call->self = &actor->instance;
    if (!(call->in.flags & MOB_IN_SPEC_RESTORE))
        return function->entry->main;
    if (function->entry->restore == NULL)
        mob_call_fail(call, MOB_INVALID, "the class has no restore hook");
    return function->entry->restore;
}

static mob_function_main main_of_method(struct mob_worker *worker, const struct mob_loaded_function *function)
{
    struct mob_call *call = worker->call;
    struct mob_worker_actor *actor = &worker->actor;
    if (!actor->lives || !mob_actor_id_eq(actor->id, call->head.actor)) {
        mob_call_fail(call, MOB_ACTOR_DIED, "the actor is not in this worker");
        return NULL;
    }
    if (call->head.method >= function->info->method_count) {
        mob_call_fail(call, MOB_NOT_FOUND, "the class has no method %u", call->head.method);
        return NULL;
    }
    call->self = &actor->instance;
    call->signature = &function->info->methods[call->head.method].signature;
    return function->entry->methods[call->head.method].main;
}

static mob_function_main choose(struct mob_worker *worker)
{
    const struct mob_loaded_function *function = find_function(worker);
    if (function == NULL)
        return NULL;
    worker->call->signature = &function->info->signature;
    switch ((enum mob_task_kind)worker->call->head.kind) {
    case MOB_KIND_TASK:
        if (function->entry->methods == NULL)
            return function->entry->main;
        mob_call_fail(worker->call, MOB_INVALID, "%s is a class", function->name);
        return NULL;
    case MOB_KIND_ACTOR_CREATE:
        return main_of_create(worker, function);
    case MOB_KIND_ACTOR_CALL:
        return main_of_method(worker, function);
    case MOB_KIND_ROOT:
        break;
    }
    mob_call_fail(worker->call, MOB_INVALID, "a task of kind %u cannot run", worker->call->head.kind);
    return NULL;
}

/* ---- the run ---- */

/* The function returned a status and no words: those of the call that failed in it, or its name. */
static void say_status(struct mob_worker *worker, enum mob_status status)
{
    struct mob_call *call = worker->call;
    if ((unsigned)status >= MOB_STATUS_COUNT)
        mob_call_fail(
            call, MOB_TASK_FAILED, "the function returned %d, which is no status of Mobula", (int)status);
    else if (worker->client->error[0] != 0)
        mob_call_fail(call, status, "%s", worker->client->error);
    else
        mob_call_fail(
            call, status, "the function returned %s: %s", mob_status_code(status), mob_status_text(status));
}

/* Asked to stop, by somebody or by its deadline, and it did. */
static void say_stopped(struct mob_call *call)
{
    int64_t deadline = call->head.deadline_wall_ns;
    call->failure = deadline != 0 && mob_wall_now() >= deadline ? MOB_DEADLINE : MOB_CANCELLED;
    if (!call->failed_by_function)
        snprintf(call->message, sizeof call->message, "%s", mob_status_text(call->failure));
}

/* A replay that wants to start over when it differs: the node says whether each child that it asked for is
 * the one of the first run. Before anything of this run can be seen. */
static void check_replay(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    if (!(call->head.flags & MOB_SPEC_RESTART_ON_DIVERGENCE) || !worker->client->look_up || call->cancelled ||
        call->head.kind != MOB_KIND_TASK || call->failure == MOB_REPLAY_DIVERGED)
        return;
    enum mob_status status = mob_flush(worker->client, MOB_FOREVER);
    if (status == MOB_OK)
        return;
    call->failure = MOB_OK; /* what it made of the wrong child's answer says nothing */
    call->failed_by_function = false;
    mob_call_fail(call, status, "%s",
        status == MOB_REPLAY_DIVERGED ? "this run asked for another child than the first"
                                      : mob_client_error(worker->client));
}

static void run_main(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    mob_function_main run = call->failure == MOB_OK ? choose(worker) : NULL;
    if (run == NULL)
        return;
    if (mob_worker_load_args(worker) == MOB_OK) {
        enum mob_status status = run(call);
        if (mob_worker_is_forked())
            _exit(0); /* a child of the function came back from it too */
        if (status != MOB_OK && call->failure == MOB_OK)
            say_status(worker, status);
        if (call->failure == MOB_OK && call->outcomes != NULL)
            mob_call_fail(call, MOB_REPLAY_DIVERGED, "the first run asked for more than this one");
        check_replay(worker);
        if (call->cancelled && call->failure != MOB_OK)
            say_stopped(call);
    }
    if (call->head.kind == MOB_KIND_ACTOR_CREATE)
        worker->actor.lives = call->failure == MOB_OK;
}

/* Where the one before it ended, if it follows without a pause. */
static int64_t task_start(struct mob_worker *worker)
{
    return worker->finished_ns != 0 ? worker->finished_ns : mob_near_now(&worker->clock);
}

/* CPU time of the running task since it began, or went on. */
static int64_t piece_cpu(struct mob_worker *worker, int64_t until_ns)
{
    int64_t wall = until_ns - worker->frame->piece_from_ns, used = wall;
    if (wall < CPU_MEASURED_NS) {
        worker->cpu_short_ns += wall;
        return wall;
    }
    int64_t now = mob_thread_cpu_now();
    if (worker->cpu_mark_ns > 0) {
        int64_t cpu = now - worker->cpu_mark_ns - worker->cpu_short_ns;
        used = cpu < 0 ? 0 : cpu < wall ? cpu : wall;
    }
    worker->cpu_mark_ns = now;
    worker->cpu_short_ns = 0;
    return used;
}

/* Tasks that are too short for it leave the mark where it is: they touch little new memory in their time. */
static void note_peak(struct mob_frame *frame)
{
    uint32_t peak_kb = mob_peak_memory_take();
    if (peak_kb > frame->peak_kb)
        frame->peak_kb = peak_kb;
}

static void measure(struct mob_worker *worker, struct mob_task_times *times)
{
    times->cpu_ns = worker->frame->cpu_ns + piece_cpu(worker, times->finished_ns);
    if (times->finished_ns - times->started_ns < PEAK_MEASURED_NS)
        return;
    note_peak(worker->frame);
    times->peak_kb = worker->frame->peak_kb;
    mob_worker_log_measure();
}

/* What the task wrote to stdout and stderr: noted in the index, and its end in the event log. */
static void note_log(struct mob_worker *worker)
{
    uint64_t written = mob_worker_log_written();
    if (written == worker->log_written)
        return;
    char tail[LOG_EVENT_BYTES];
    uint32_t bytes = mob_worker_log_note(worker->log_written, tail, sizeof tail);
    worker->log_written = written;
    mob_call_log_event(worker->call, tail, bytes);
}

void mob_worker_pause_task(struct mob_worker *worker)
{
    int64_t now = mob_near_now(&worker->clock);
    if (now - worker->frame->piece_from_ns >= PEAK_MEASURED_NS) {
        note_peak(worker->frame);
        mob_worker_log_measure();
    }
    worker->frame->cpu_ns += piece_cpu(worker, now);
    fflush(stdout); /* half a line is the task's, too */
    note_log(worker);
    worker->finished_ns = 0; /* the next one does not begin where the one before this ended */
}

void mob_worker_resume_task(struct mob_worker *worker)
{
    worker->frame->piece_from_ns = task_start(worker);
    worker->finished_ns = 0;
    mob_worker_log_task(worker->call->head.task, worker->call->head.attempt);
}

static void end(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    struct mob_client *client = worker->client;
    while (call->outcomes != NULL) {
        struct mob_logged_outcome *outcome = call->outcomes;
        call->outcomes = outcome->next;
        free(outcome);
    }
    mob_worker_drop_args(worker);
    client->call = NULL;
    mob_client_leave(client, worker->actor.lives);
}

/* Checkpoints are taken behind positions, and those that only read have none. */
static void checkpoint(struct mob_worker *worker)
{
    const struct mob_spec_head *head = &worker->call->head;
    if (head->kind == MOB_KIND_ACTOR_CALL && !(head->flags & MOB_SPEC_READ_ONLY))
        mob_worker_checkpoint(worker);
}

void mob_worker_run_task(struct mob_worker *worker, const struct mob_in_spec *in,
    const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes)
{
    struct mob_task_times times = {.started_ns = task_start(worker)};
    if (worker->cpu_mark_ns == 0) {
        worker->cpu_mark_ns = mob_thread_cpu_now();
        worker->cpu_short_ns = 0;
    }
    worker->frame->cpu_ns = 0;
    worker->frame->peak_kb = 0;
    worker->frame->piece_from_ns = times.started_ns;
    prepare(worker, in, head, tail, tail_bytes);
    mob_worker_log_task(head->task, head->attempt);
    if (MOB_FAILPOINT("worker.before_run"))
        return;
    run_main(worker);
    times.finished_ns = mob_near_now(&worker->clock);
    worker->finished_ns = times.finished_ns;
    measure(worker, &times);
    note_log(worker);
    mob_worker_complete(worker, &times);
    checkpoint(worker);
    end(worker);
}

void mob_worker_end_unstarted(struct mob_worker *worker, const struct mob_in_spec *in,
    const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes)
{
    struct mob_task_times times = {.finished_ns = mob_near_now(&worker->clock)}; /* no start */
    prepare(worker, in, head, tail, tail_bytes);
    worker->call->failed_by_function = false;
    worker->call->cancelled = true;
    say_stopped(worker->call);
    mob_worker_complete(worker, &times);
    checkpoint(worker);
    end(worker);
}

void mob_worker_destroy_actor(struct mob_worker *worker)
{
    struct mob_worker_actor *actor = &worker->actor;
    if (actor->lives && actor->function->entry->destroy != NULL)
        actor->function->entry->destroy(actor->instance);
    actor->lives = false;
}
