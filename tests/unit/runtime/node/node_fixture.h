/* A whole node in the test's thread, between a control store and a pool that are the test's (fake_gcs.h,
 * fake_pool.h), with drivers and workers that publish what the test says. Nothing runs but in nx_turn. For
 * the tests in this folder.
 */
#ifndef MOB_TESTS_UNIT_RUNTIME_NODE_FIXTURE_H
#define MOB_TESTS_UNIT_RUNTIME_NODE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "runtime/node/actors.h"
#include "runtime/node/node_run.h"
#include "tests/unit/runtime/node/fake_gcs.h"
#include "tests/unit/runtime/node/fake_pool.h"

/* What nx_open deploys: a function and a class with two methods, the second of which is read-only. */
#define NX_FUNCTION ((struct mob_function_id){{'f', 'u', 'n'}})
#define NX_CLASS ((struct mob_function_id){{'c', 'l', 's'}})

/* Of nodes that are started from now on: tasks below another one on a worker's stack. */
static uint32_t nx_nest_max;
/* Of these too: time is real, and the test may be slow. */
static int64_t nx_take_back_ns = 3600 * MOB_SEC;

/* And these: how long they ask a lineage that does not answer; 0 = as long as a real one. */
static int64_t nx_look_up_patience_ns;
static uint32_t nx_dead_actors_max;

/* Of drivers that connect from now on: their idempotency key. */
static const char *nx_key = "";

struct nx {
    struct node *node;
    char directory[64];
};
struct nx_driver {
    int sock, memfd, eventfd;
    struct mob_store_client *store;
    struct mob_session_welcome welcome;
    uint32_t next; /* child */
    uint32_t next_put;
};
/* The worker in the test's hands. */
struct nx_worker {
    uint32_t number; /* of the process */
    struct mob_store_client *store;
    struct mob_spec_head head; /* of the task it has: last MOB_IN_SPEC or MOB_IN_SIBLING */
    struct mob_spec_head slots[MOB_HEAD_SLOTS];
    uint32_t specs; /* that came whole */
    uint64_t position;
    uint32_t flags; /* MOB_IN_SPEC_* */
};

/* Rows as runtime/node/functions.c writes them: version, kind, methods, zero, id, module; then the signature,
 * and, of a class with more than one method, that method 1 is read-only. */
static inline void nx_deploy(const char *name, uint16_t kind, uint16_t methods, struct mob_function_id id)
{
    struct {
        uint16_t version, kind, method_count, zero;
        struct mob_function_id id;
        struct mob_module_hash module;
        char signature[7];
        uint8_t ext[9]; /* u16 tag | u16 zero | u32 bytes | bits */
    } __attribute__((packed)) row = {1, kind, methods, 0, id, {{1}}, "-> i64", {1, 0, 0, 0, 1, 0, 0, 0, 2}};
    uint32_t bytes = (uint32_t)(methods > 1 ? sizeof row : offsetof(__typeof__(row), signature) + 6);
    fake_gcs_set(MOB_GCS_FUNCTIONS, name, (uint32_t)strlen(name), &row, bytes);
}

/* The next incarnation on what FAKE holds. */
static inline void nx_start(struct nx *nx, uint32_t slots)
{
    struct node *node = calloc(1, sizeof *node);
    assert_non_null(node);
    node->options = (struct node_options){.segment_bytes = 64u << 20, .slots = slots, .name = "node"};
    node->options.retention_s = 86400;
    node->options.nest_max = nx_nest_max;
    node->options.take_back_ns = nx_take_back_ns;
    node->options.look_up_patience_ns = nx_look_up_patience_ns;
    node->options.dead_actors_max = nx_dead_actors_max;
    snprintf(node->options.directory, sizeof node->options.directory, "%s", nx->directory);
    nx->node = node;
    assert_int_equal(node_open(node), MOB_OK);
}

/* `slots` 0: nothing runs. */
static inline void nx_open(struct nx *nx, uint32_t slots)
{
    fake_gcs_reset();
    *nx = (struct nx){.directory = "/tmp/mob-node-XXXXXX"};
    assert_non_null(mkdtemp(nx->directory));
    nx_deploy("t.run", MOB_KIND_TASK, 0, NX_FUNCTION);
    nx_deploy("t.Actor", MOB_KIND_ACTOR_CREATE, 2, NX_CLASS);
    nx_start(nx, slots);
}

/* Its end leaves nothing behind but what FAKE has: as after kill -9. */
static inline void nx_end(struct nx *nx)
{
    node_close(nx->node);
    free(nx->node);
    nx->node = NULL;
}

static inline void nx_restart(struct nx *nx, uint32_t slots)
{
    nx_end(nx);
    nx_start(nx, slots);
}

static inline void nx_close(struct nx *nx)
{
    char command[128];
    nx_end(nx);
    fake_gcs_reset();
    snprintf(command, sizeof command, "rm -rf -- %s", nx->directory);
    assert_int_equal(system(command), 0);
}

static inline void nx_turn(struct nx *nx, int times)
{
    for (int i = 0; i < times; i++) {
        struct lineage_log_stats log;
        node_turn(nx->node);
        /* What nobody waits for is sent when it is a millisecond old: here with the turn. */
        lineage_log_stats(nx->node->log, &log);
        lineage_log_pump(nx->node->log, mob_now(), log.in_flight == 0 ? LOG_TURN_FLUSH : LOG_TURN_QUIET);
    }
}

/* Long enough for a block to be old enough to be sent. */
static inline void nx_settle(struct nx *nx)
{
    nx_turn(nx, 5);
    usleep(2 * LOG_BLOCK_AGE_NS_MAX / 1000);
    nx_turn(nx, 5);
}

/* ---- a driver ---- */

/* `from` the session it had before, whose segment stays mapped; NULL = a new driver. The node has answered
 * when this returns. */
static inline void nx_hello(struct nx *nx, struct nx_driver *driver, const struct nx_driver *from)
{
    struct mob_session_hello hello = {.magic = MOB_SESSION_MAGIC,
        .version = MOB_SESSION_VERSION,
        .kind = MOB_CLIENT_DRIVER,
        .resume_next_child = UINT32_MAX};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(hello.idempotency_key, sizeof hello.idempotency_key, "%s", nx_key);
    *driver = (struct nx_driver){0};
    if (from) {
        hello.resume_incarnation = from->welcome.incarnation;
        hello.resume_root = from->welcome.root;
        hello.resume_stream = mob_stream_of_children(from->welcome.root, 0, 0);
        hello.resume_next_child = driver->next = from->next;
        driver->next_put = from->next_put;
    }
    snprintf(address.sun_path, sizeof address.sun_path, "%s/" MOB_NODE_SOCKET_NAME, nx->directory);
    driver->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(driver->sock, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(driver->sock, &hello, sizeof hello, 0), sizeof hello);
    nx_turn(nx, 3);
}

/* The segment of `from` stays mapped. */
static inline void nx_connect(struct nx *nx, struct nx_driver *driver, const struct nx_driver *from)
{
    nx_hello(nx, driver, from);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec piece = {&driver->welcome, sizeof driver->welcome};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    assert_int_equal(recvmsg(driver->sock, &message, MSG_DONTWAIT), sizeof driver->welcome);
    assert_int_equal(driver->welcome.status, MOB_OK);
    int fds[2] = {-1, -1};
    const struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    assert_non_null(passed);
    if (passed != NULL) /* for the linter, which does not know that the line above does not return then */
        memcpy(fds, CMSG_DATA(passed), sizeof fds);
    driver->memfd = fds[0];
    driver->eventfd = fds[1];
    assert_int_equal(mob_store_attach(fds[0], fds[1], driver->welcome.slot, &driver->store), MOB_OK);
}

static inline void nx_disconnect(struct nx_driver *driver)
{
    mob_store_detach(driver->store);
    close(driver->sock);
    close(driver->memfd);
    close(driver->eventfd);
}

/* A node with a driver, of a job of its own; and the end of both. */
static inline void nx_open_with(struct nx *nx, uint32_t slots, struct nx_driver *driver)
{
    nx_open(nx, slots);
    nx_connect(nx, driver, NULL);
}

static inline void nx_close_with(struct nx *nx, struct nx_driver *driver)
{
    nx_disconnect(driver);
    nx_close(nx);
}

static inline void nx_publish(struct mob_store_client *store, uint8_t type, const void *a, uint32_t a_bytes,
    const void *b, uint32_t b_bytes)
{
    struct mob_piece pieces[] = {{a, a_bytes}, {b, b_bytes}};
    assert_int_equal(mob_store_publish(store, type, 0, 0, pieces, 2), MOB_OK);
}

static inline void nx_promise(struct nx_driver *driver, struct mob_object_id id)
{
    struct mob_out_put promise = {.id = id, .flags = MOB_PUT_PROMISE};
    nx_publish(driver->store, MOB_OUT_PUT, &promise, sizeof promise, NULL, 0);
}

static inline void nx_keep_promise(struct nx_driver *driver, struct mob_object_id id, int64_t value)
{
    struct mob_object_ref ref;
    assert_int_equal(
        mob_store_put_small(driver->store, id, MOB_TYPE_I64, &value, sizeof value, &ref), MOB_OK);
    struct mob_out_put put = {
        .id = id, .type = MOB_TYPE_I64, .size = sizeof value, .inline_bytes = sizeof value};
    nx_publish(driver->store, MOB_OUT_PUT, &put, sizeof put, &value, sizeof value);
    mob_store_object_seal(driver->store, ref);
}

static inline void nx_watch(struct mob_store_client *store, struct mob_object_id id)
{
    struct mob_piece piece = {&id, sizeof id};
    assert_int_equal(mob_store_publish(store, MOB_OUT_WATCH, 0, 1, &piece, 1), MOB_OK);
}

static inline bool nx_in_run(const struct mob_record *record, const uint8_t *body, struct mob_object_id id)
{
    struct mob_in_ready_run run;
    memcpy(&run, body, sizeof run);
    return id.slot == 0 && mob_stream_eq(run.stream, id.task.stream) &&
        id.task.index - run.first < record->aux;
}

/* Takes notices until there is one of this object; its status. False = there is none. */
static inline bool nx_told(
    struct mob_store_client *store, struct mob_object_id id, enum mob_status *status_out)
{
    struct mob_record record;
    const uint8_t *body;
    bool found = false;
    while (!found && (body = mob_store_in_peek(store, &record)) != NULL) {
        struct mob_in_ready ready = {0};
        if (record.type == MOB_IN_READY)
            memcpy(&ready, body, sizeof ready);
        found = (record.type == MOB_IN_READY && mob_object_id_eq(ready.id, id)) ||
            (record.type == MOB_IN_READY_RUN && nx_in_run(&record, body, id));
        *status_out = (enum mob_status)ready.status;
        mob_store_in_pop(store);
    }
    mob_store_in_release(store);
    return found;
}

/* What the next submission of this parent is, without its arguments. */
static inline struct mob_spec_head nx_head(
    struct mob_task_id parent, struct mob_job_id job, uint32_t index, uint8_t kind)
{
    return (struct mob_spec_head){.version = MOB_SPEC_VERSION,
        .kind = kind,
        .runtime = MOB_RUNTIME_C,
        .num_returns = 1,
        .task = {mob_stream_of_children(parent, 0, 0), index},
        .parent = parent,
        .job = job,
        .function = kind == MOB_KIND_TASK ? NX_FUNCTION : NX_CLASS,
        .max_retries = kind == MOB_KIND_ACTOR_CREATE ? -1 : 3,
        .cpu = kind == MOB_KIND_ACTOR_CALL ? 0 : 10000,
        .attempt = 1};
}

/* With one i64 argument, or (`input`) a reference. */
static inline void nx_spec(
    struct mob_store_client *store, const struct mob_spec_head *head, const struct mob_object_id *input)
{
    uint8_t body[8 + sizeof *head + 256] __attribute__((aligned(8)));
    int64_t now = mob_now(), value = head->task.index;
    struct mob_tail_builder tail;
    memcpy(body, &now, 8);
    memcpy(body + 8, head, sizeof *head);
    mob_tail_begin(&tail, body + 8 + sizeof *head, 256);
    if (input)
        mob_tail_add_ref(&tail, *input);
    else
        mob_tail_add_value(&tail, MOB_TYPE_I64, &value, sizeof value);
    uint32_t bytes = mob_tail_end(&tail);
    nx_publish(store, MOB_OUT_SPEC, body, (uint32_t)(8 + sizeof *head) + bytes, NULL, 0);
}

static inline struct mob_spec_head nx_next(struct nx_driver *driver, uint8_t kind)
{
    return nx_head(driver->welcome.root, driver->welcome.job, driver->next++, kind);
}

static inline struct mob_task_id nx_submit(struct nx_driver *driver)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
    nx_spec(driver->store, &head, NULL);
    return head.task;
}

static inline struct mob_actor_id nx_create(struct nx_driver *driver)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_ACTOR_CREATE);
    nx_spec(driver->store, &head, NULL);
    return (struct mob_actor_id){head.task};
}

static inline struct mob_task_id nx_call(struct nx_driver *driver, struct mob_actor_id actor)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_ACTOR_CALL);
    head.actor = actor;
    nx_spec(driver->store, &head, NULL);
    return head.task;
}

/* Of the method that is read-only. */
static inline struct mob_task_id nx_read(struct nx_driver *driver, struct mob_actor_id actor)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_ACTOR_CALL);
    head.actor = actor;
    head.method = 1;
    nx_spec(driver->store, &head, NULL);
    return head.task;
}

/* What the client library does after the node's end: everything not acknowledged, once more. Only specs. */
static inline uint32_t nx_resend(struct nx_driver *driver, struct nx_driver *old)
{
    uint64_t at = mob_store_out_acked(old->store);
    struct mob_record record;
    const uint8_t *body;
    uint32_t count = 0;
    for (; mob_store_out_unacked(old->store, &at, &record, &body); count++)
        nx_publish(driver->store, record.type, body, record.bytes - (uint32_t)sizeof record, NULL, 0);
    return count;
}

/* ---- a worker ---- */

/* The newest process that the node has started. */
static inline void nx_worker(struct nx *nx, struct nx_worker *worker)
{
    struct mob_pool *pool = nx->node->pool;
    assert_true(pool->started_count > 0);
    const struct fake_worker *started = &pool->started[pool->started_count - 1];
    *worker = (struct nx_worker){.number = started->number};
    assert_int_equal(mob_store_attach(mob_store_memfd(nx->node->store), mob_store_eventfd(nx->node->store),
                         started->welcome.slot, &worker->store),
        MOB_OK);
}

/* Takes what the node gave until there is a task: into worker->head. False = there is none. */
static inline bool nx_take_task(struct nx_worker *worker)
{
    struct mob_record record;
    const uint8_t *body;
    while ((body = mob_store_in_peek(worker->store, &record)) != NULL) {
        bool spec = record.type == MOB_IN_SPEC, sibling = record.type == MOB_IN_SIBLING;
        assert_true(!(spec || sibling) || record.aux < MOB_HEAD_SLOTS);
        if (spec) {
            struct mob_in_spec in;
            memcpy(&in, body, sizeof in);
            worker->position = in.position;
            worker->flags = in.flags;
            memcpy(&worker->head, body + sizeof in, sizeof worker->head);
            worker->slots[record.aux] = worker->head;
            worker->specs++;
        } else if (sibling) {
            worker->head = worker->slots[record.aux];
            memcpy(&worker->position, body, 8);
            memcpy(&worker->head.task.index, body + 8, 4);
            memcpy(&worker->head.caller_seq, body + 12, 4);
        }
        mob_store_in_pop(worker->store);
        mob_store_in_release(worker->store);
        if (spec || sibling)
            return true;
    }
    return false;
}

/* The worker that the node starts for what it has heard of, and its first task. */
static inline bool nx_worker_takes(struct nx *nx, struct nx_worker *worker)
{
    nx_turn(nx, 5);
    nx_worker(nx, worker);
    return nx_take_task(worker);
}

#define NX_PATIENCE_NS (30 * MOB_SEC)

/* The same of a worker that is there, however many passes it takes. */
static inline void nx_await_task(struct nx *nx, struct nx_worker *worker)
{
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !nx_take_task(worker); nx_turn(nx, 1))
        assert_true(mob_now() < end);
}

/* The creation of an actor in the hands of the worker that is started for it, behind `started` others. */
static inline void nx_await_creation(struct nx *nx, struct nx_worker *worker, uint32_t started)
{
    for (int64_t end = mob_now() + NX_PATIENCE_NS; nx->node->pool->started_count == started; nx_turn(nx, 1))
        assert_true(mob_now() < end);
    nx_worker(nx, worker);
    nx_await_task(nx, worker);
    assert_int_equal(worker->head.kind, MOB_KIND_ACTOR_CREATE);
}

/* As a worker says it of a first attempt with a small result. */
static inline void nx_publish_short(struct nx_worker *worker, const struct mob_return_view *view)
{
    struct mob_completion_word word = {.task = worker->head.task,
        .generation = worker->head.generation,
        .type = (uint8_t)view->type,
        .started_ns = mob_now(),
        .finished_ns = mob_now()};
    memcpy(&word.value, view->payload, sizeof word.value);
    struct mob_piece piece = {&word, sizeof word};
    assert_int_equal(
        mob_store_publish(worker->store, MOB_OUT_COMPLETION, 0, MOB_COMPLETION_SHORT, &piece, 1), MOB_OK);
}

/* Of the task in worker->head. */
static inline struct mob_completion_head nx_completion(
    const struct nx_worker *worker, enum mob_status status, uint16_t returns)
{
    return (struct mob_completion_head){.version = MOB_COMPLETION_VERSION,
        .flags = status == MOB_OK ? MOB_COMPLETION_FINAL : 0,
        .status = (uint16_t)status,
        .return_count = returns,
        .task = worker->head.task,
        .attempt = worker->head.attempt,
        .generation = worker->head.generation,
        .started_ns = mob_now(),
        .finished_ns = mob_now(),
        .position = worker->position};
}

static inline void nx_publish_completion(
    struct nx_worker *worker, const struct mob_return_view *view, enum mob_status status)
{
    if (status == MOB_OK && view->type == MOB_TYPE_I64 && view->slot == 0 && worker->head.attempt == 1) {
        nx_publish_short(worker, view);
        return;
    }
    uint8_t body[256];
    struct mob_completion_head head = nx_completion(worker, status, 1);
    head.body_bytes = mob_return_encode(body, 0, sizeof body, view);
    nx_publish(worker->store, MOB_OUT_COMPLETION, &head, sizeof head, body, head.body_bytes);
}

/* The task in worker->head ends with `value`, or (status) fails. */
static inline void nx_complete(struct nx_worker *worker, int64_t value, enum mob_status status)
{
    struct mob_object_ref ref;
    struct mob_object_id id = mob_object_of(worker->head.task, 0);
    struct mob_error_link link = {.status = status, .task = worker->head.task, .message = "", .detail = ""};
    uint8_t error[512];
    struct mob_return_view view = {
        .type = MOB_TYPE_I64, .size = sizeof value, .payload = (const uint8_t *)&value};
    if (status != MOB_OK) {
        uint32_t bytes = mob_error_encode(error, sizeof error, &link, NULL, 0);
        view = (struct mob_return_view){.type = MOB_TYPE_ERROR, .size = bytes, .payload = error};
    }
    bool made = status == MOB_OK &&
        mob_store_put_small(worker->store, id, MOB_TYPE_I64, &value, sizeof value, &ref) == MOB_OK;
    nx_publish_completion(worker, &view, status);
    if (made)
        mob_store_object_seal(worker->store, ref);
}

/* It ends with a tail call. */
static inline void nx_complete_as(struct nx_worker *worker, struct mob_object_id target)
{
    struct mob_return_view view = {
        .type = MOB_TYPE_FUTURE, .size = sizeof target, .payload = (const uint8_t *)&target};
    nx_publish_completion(worker, &view, MOB_OK);
}

/* kill -9: what it published is in its ring. */
static inline void nx_kill(struct nx *nx, struct nx_worker *worker)
{
    fake_pool_say(nx->node->pool, MOB_POOL_EXITED, worker->number);
    nx_turn(nx, 1);
    mob_store_detach(worker->store);
}

/* The same, of the zygote: its workers go with it. */
static inline void nx_kill_zygote(struct nx *nx, struct nx_worker *worker)
{
    fake_pool_add(nx->node->pool,
        (struct mob_pool_event){
            .kind = MOB_POOL_EXITED, .worker = worker->number, .wait_status = 9, .with_zygote = true});
    nx_turn(nx, 1);
    mob_store_detach(worker->store);
}

/* The test's end of a worker that lived as long as its node. */
static inline void nx_let_go(struct nx_worker *worker)
{
    mob_store_detach(worker->store);
}

/* ---- what is in the logs ---- */

/* Calls see() for each entry, in order. */
static inline void nx_each_entry(void (*see)(void *arg, const struct mob_entry *entry), void *arg)
{
    static struct mob_zone_map zone;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    for (uint32_t i = 0; i < FAKE.block_count; i++) {
        struct mob_block_header header;
        struct mob_entry entry;
        assert_int_equal(
            mob_block_open(decoder, FAKE.blocks[i].bytes, FAKE.blocks[i].length, &header, &zone), MOB_OK);
        enum mob_status status;
        while ((status = mob_block_next(decoder, &entry)) == MOB_OK)
            see(arg, &entry);
        assert_int_equal(status, MOB_CLOSED);
    }
    mob_block_decoder_destroy(decoder);
}

/* The newest `count` blocks were not stored when the node died: the cut is before them. */
static inline void nx_cut(uint32_t count)
{
    assert_true(count <= FAKE.block_count);
    while (count-- > 0)
        free(FAKE.blocks[--FAKE.block_count].bytes);
}

#endif
