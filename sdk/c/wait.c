/* The papers' wait, wait sets and callbacks. */
#include "sdk/c/client.h"

#include <stdlib.h>

/* ---- wait ---- */

/* A call reads its array once, or three times when it has to wait, and that is all that it costs for each of
 * the futures: only for those that nobody has asked for before it asks the node, or looks into the store, and
 * what becomes ready counts itself down. */
static enum mob_status look(struct mob_client *client, struct mob_future *const *futures, size_t n,
    bool *ready_out, size_t *count_out)
{
    size_t ready = 0;
    for (size_t i = 0; i < n; i++) {
        struct mob_future *future = futures[i];
        if (future == NULL)
            return mob_say_null(client, "one of the futures");
        if (!mob_future_decided(future) && !(future->flags & MOB_FUTURE_WATCHED)) {
            enum mob_status status = mob_future_watch(client, future);
            if (status != MOB_OK)
                return status;
        }
        ready_out[i] = mob_future_decided(future);
        ready += ready_out[i];
    }
    *count_out = ready;
    return MOB_OK;
}

/* Marks those that are missing, and says how many are not. A full ring that `look` waited for may have been
 * read meanwhile. *each_once_out: none of those that are missing stands in the array twice, and counts twice.
 */
static size_t mark_missing(struct mob_future *const *futures, size_t n, bool *each_once_out)
{
    size_t ready = 0;
    *each_once_out = true;
    for (size_t i = 0; i < n; i++) {
        if (mob_future_decided(futures[i])) {
            ready++;
            continue;
        }
        if (futures[i]->flags & MOB_FUTURE_COUNTED)
            *each_once_out = false;
        futures[i]->flags |= MOB_FUTURE_COUNTED;
    }
    return ready;
}

static size_t count_and_unmark(struct mob_future *const *futures, size_t n, bool *ready_out)
{
    size_t ready = 0;
    for (size_t i = 0; i < n; i++) {
        futures[i]->flags &= (uint8_t)~MOB_FUTURE_COUNTED;
        ready_out[i] = mob_future_decided(futures[i]);
        ready += ready_out[i];
    }
    return ready;
}

static size_t count_ready(struct mob_future *const *futures, size_t n)
{
    size_t ready = 0;
    for (size_t i = 0; i < n; i++)
        ready += mob_future_decided(futures[i]);
    return ready;
}

/* A generator does not run on top of who waits for it: its items are for somebody who takes them meanwhile.
 */
static bool any_stream(struct mob_future *const *futures, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (futures[i]->state == MOB_FUTURE_STREAM)
            return true;
    return false;
}

static enum mob_status wait_for(struct mob_client *client, struct mob_future *const *futures, size_t n,
    size_t k, int64_t timeout_ns, bool *ready_out, size_t *count_out)
{
    bool each_once;
    client->wait_hits = 0;
    size_t ready = mark_missing(futures, n, &each_once);
    struct mob_waiting waiting = mob_waiting_begin(client, timeout_ns);
    if (k == n && !any_stream(futures, n))
        mob_waiting_needs(&waiting, futures, n);
    enum mob_status status = MOB_OK;
    while (status == MOB_OK && (each_once ? ready + client->wait_hits : count_ready(futures, n)) < k)
        status = mob_waiting_turn(&waiting);
    mob_waiting_end(&waiting);
    *count_out = count_and_unmark(futures, n, ready_out);
    return status;
}

/* Outcome of a wait in a task: the ready flags as bits. */
static bool replay_wait(struct mob_client *client, size_t n, bool *ready_out, size_t *count_out)
{
    uint8_t bits[MOB_WAIT_LOGGED_MAX / 8];
    uint32_t bytes;
    if (!mob_outcome_replay(client, MOB_OUTCOME_WAIT, bits, sizeof bits, &bytes))
        return false;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        ready_out[i] = i / 8 < bytes && (bits[i / 8] >> (i % 8) & 1);
        count += ready_out[i];
    }
    *count_out = count;
    return true;
}

static void log_wait(struct mob_client *client, size_t n, const bool *ready)
{
    uint8_t bits[MOB_WAIT_LOGGED_MAX / 8];
    memset(bits, 0, (n + 7) / 8);
    for (size_t i = 0; i < n; i++)
        bits[i / 8] |= (uint8_t)(ready[i] << (i % 8));
    mob_outcome_log(client, MOB_OUTCOME_WAIT, bits, (uint32_t)((n + 7) / 8));
}

enum mob_status mob_wait(struct mob_future *const *futures, size_t n, size_t k, int64_t timeout_ns,
    bool *ready_out, size_t *count_out)
{
    struct mob_client *client =
        n == 0 || futures == NULL || futures[0] == NULL ? NULL : mob_future_client(futures[0]);
    MOB_GIVEN(client, count_out);
    if (n == 0) {
        *count_out = 0;
        return MOB_OK;
    }
    MOB_GIVEN(client, futures);
    MOB_GIVEN(client, ready_out);
    if (futures[0] == NULL)
        return mob_say_null(NULL, "one of the futures");
    if (k > n)
        return mob_client_fail(client, MOB_INVALID, "cannot wait for %zu of %zu futures", k, n);
    /* Waiting for all of them for ever has one outcome only. */
    bool logged = mob_in_task(client) && (k < n || (timeout_ns >= 0 && timeout_ns != MOB_FOREVER));
    if (logged && n > MOB_WAIT_LOGGED_MAX)
        return mob_client_fail(
            client, MOB_TOO_LARGE, "a wait in a task takes at most %u futures", MOB_WAIT_LOGGED_MAX);
    if (logged && replay_wait(client, n, ready_out, count_out))
        return MOB_OK;
    mob_client_pump(client);
    size_t ready = 0;
    enum mob_status status = look(client, futures, n, ready_out, &ready);
    if (status != MOB_OK)
        return status;
    if (ready < k && timeout_ns != 0)
        status = wait_for(client, futures, n, k, timeout_ns, ready_out, &ready);
    if (status != MOB_OK && status != MOB_TIMEOUT)
        return status;
    if (logged)
        log_wait(client, n, ready_out);
    *count_out = ready;
    mob_run_callbacks(client);
    return MOB_OK;
}

bool mob_ready(struct mob_future *future)
{
    if (future == NULL)
        return false;
    struct mob_client *client = mob_future_client(future);
    bool ready = false;
    size_t count;
    if (mob_in_task(client) && replay_wait(client, 1, &ready, &count))
        return ready;
    if (!mob_future_decided(future)) {
        if (mob_client_pump(client) == 0)
            mob_session_recheck(client);
        /* A future that cannot be watched now is not ready now; the next call tries again. */
        if (!mob_future_decided(future) && mob_future_watch(client, future) == MOB_OK && client->worker)
            mob_future_probe(client, future);
    }
    ready = mob_future_decided(future);
    if (mob_in_task(client))
        log_wait(client, 1, &ready);
    return ready;
}

/* ---- wait sets ---- */

enum mob_status mob_waitset_create(struct mob_client *client, struct mob_waitset **set_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, set_out);
    struct mob_waitset *set = calloc(1, sizeof *set);
    if (set == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    set->client = client;
    set->ready_tail = &set->ready_head;
    set->next = client->sets;
    set->previous = &client->sets;
    if (set->next != NULL)
        set->next->previous = &set->next;
    client->sets = set;
    *set_out = set;
    return MOB_OK;
}

enum mob_status mob_waitset_add(struct mob_waitset *set, struct mob_future *future)
{
    MOB_GIVEN(NULL, set);
    MOB_GIVEN(set->client, future);
    enum mob_status status = mob_future_watch(set->client, future);
    return status == MOB_OK ? mob_future_add_waiter(future, set, NULL, NULL, NULL) : status;
}

static struct mob_future *set_take(struct mob_waitset *set)
{
    if (set->ready_head == NULL)
        return NULL;
    struct mob_waiter *waiter = mob_ready_pop(&set->ready_head, &set->ready_tail);
    struct mob_future *future = waiter->future;
    free(waiter);
    return future;
}

static bool set_waits_for(const struct mob_waitset *set, const struct mob_future *future)
{
    const struct mob_waiter *waiter = future->state == MOB_FUTURE_STREAM ? future->as.stream->waiters
        : future->flags & MOB_FUTURE_WAITED                              ? future->as.waiter
                                                                         : NULL;
    while (waiter != NULL && waiter->set != set)
        waiter = waiter->next;
    return waiter != NULL;
}

static struct mob_future *find_logged(struct mob_client *client, struct mob_object_id id)
{
    struct mob_future *future = id.slot == 0 ? mob_future_find_child(client, id.task) : NULL;
    struct mob_general_future *g = future == NULL ? mob_future_find_general(client, id) : NULL;
    return g != NULL ? &g->future : future;
}

/* On a replay the set gives its futures in the order of the first run, whatever is ready now. */
static enum mob_status replay_next(
    struct mob_waitset *set, struct mob_object_id id, struct mob_future **ready_out)
{
    struct mob_client *client = set->client;
    struct mob_future *future = find_logged(client, id);
    struct mob_told *entry = future == NULL ? NULL : mob_told_find(future, set);
    if (entry == NULL && (future == NULL || !set_waits_for(set, future)))
        return mob_client_fail(
            client, MOB_REPLAY_DIVERGED, "the log names a future that is not in this run's wait set");
    enum mob_status status = MOB_OK;
    struct mob_waiting waiting = mob_waiting_begin(client, MOB_FOREVER);
    if (future->state != MOB_FUTURE_STREAM)
        mob_waiting_needs(&waiting, &future, 1);
    while (status == MOB_OK && (entry = mob_told_find(future, set)) == NULL)
        status = mob_waiting_turn(&waiting);
    mob_waiting_end(&waiting);
    if (status == MOB_OK) {
        mob_told_forget(client, entry);
        *ready_out = future;
    }
    mob_run_callbacks(client);
    return status;
}

static enum mob_status set_wait(struct mob_waitset *set, int64_t timeout_ns, struct mob_future **ready_out)
{
    struct mob_client *client = set->client;
    enum mob_status status = MOB_OK;
    struct mob_future *future = set_take(set);
    if (future == NULL)
        mob_client_pump(client);
    struct mob_waiting waiting = mob_waiting_begin(client, timeout_ns);
    while (future == NULL && (future = set_take(set)) == NULL) {
        if (set->members == NULL) {
            status = mob_client_fail(client, MOB_NOT_FOUND, "the wait set is empty");
            break;
        }
        status = mob_waiting_turn(&waiting);
        if (status != MOB_OK)
            break;
    }
    mob_waiting_end(&waiting);
    mob_run_callbacks(client);
    if (status == MOB_OK)
        *ready_out = future;
    return status;
}

enum mob_status mob_waitset_next(struct mob_waitset *set, int64_t timeout_ns, struct mob_future **ready_out)
{
    MOB_GIVEN(NULL, set);
    struct mob_client *client = set->client;
    MOB_GIVEN(client, ready_out);
    if (!mob_in_task(client))
        return set_wait(set, timeout_ns, ready_out);
    struct mob_object_id id = {0};
    uint32_t bytes;
    if (mob_outcome_replay(client, MOB_OUTCOME_WAIT, &id, sizeof id, &bytes)) {
        if (bytes == sizeof id)
            return replay_next(set, id, ready_out);
        return mob_client_fail(client, MOB_TIMEOUT, "not ready before the time-out has passed");
    }
    enum mob_status status = set_wait(set, timeout_ns, ready_out);
    if (status == MOB_OK)
        id = mob_future_object(*ready_out);
    if (status == MOB_OK || status == MOB_TIMEOUT)
        mob_outcome_log(client, MOB_OUTCOME_WAIT, &id, status == MOB_OK ? (uint32_t)sizeof id : 0);
    return status;
}

void mob_waitset_destroy(struct mob_waitset *set)
{
    if (set == NULL)
        return;
    while (set->members != NULL)
        mob_told_forget(set->client, set->members);
    *set->previous = set->next;
    if (set->next != NULL)
        set->next->previous = set->previous;
    free(set);
}

/* ---- callbacks ---- */

enum mob_status mob_on_ready(
    struct mob_future *future, void (*callback)(struct mob_future *, void *), void *arg)
{
    MOB_GIVEN(NULL, future);
    struct mob_client *client = mob_future_client(future);
    MOB_GIVEN(client, callback);
    enum mob_status status = mob_future_watch(client, future);
    return status == MOB_OK ? mob_future_add_waiter(future, NULL, callback, NULL, arg) : status;
}
