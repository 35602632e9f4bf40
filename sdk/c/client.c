#include "sdk/c/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void mob_client_say(struct mob_client *client, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(client->error, sizeof client->error, format, list);
    va_end(list);
}

/* Of the last call of this thread that had no client to keep it. */
static _Thread_local char error_of_nobody[128] = "there is no client: mob_connect failed or was not called";

enum mob_status mob_say_null(struct mob_client *client, const char *what)
{
    if (client != NULL)
        return mob_client_fail(client, MOB_INVALID, "%s is NULL", what);
    snprintf(error_of_nobody, sizeof error_of_nobody, "%s is NULL", what);
    return MOB_INVALID;
}

const char *mob_client_error(const struct mob_client *client)
{
    if (client == NULL)
        return error_of_nobody;
    return client->error[0] != 0 ? client->error : "no error";
}

void mob_client_job(const struct mob_client *client, char text_out[MOB_TEXT_ID_MAX])
{
    if (text_out == NULL)
        return;
    text_out[0] = 0;
    if (client != NULL)
        mob_job_id_format(client->job, text_out);
}

struct mob_client *mob_client_new(void)
{
    struct mob_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    if (!mob_futures_open(&client->family, &client->general, &client->general_mask)) {
        free(client);
        return NULL;
    }
    client->sock = client->memfd = client->eventfd = -1;
    client->ready_tail = &client->ready_head;
    return client;
}

void mob_client_free(struct mob_client *client)
{
    if (client == NULL)
        return;
    mob_event_fd_free(client);
    mob_values_free(client);
    mob_actors_free(client);
    mob_requests_free(client);
    mob_levels_free(client);
    while (client->sets != NULL)
        mob_waitset_destroy(client->sets);
    mob_futures_free(client);
    mob_functions_free(client);
    while (client->old_stores != NULL) {
        struct mob_old_store *old = client->old_stores;
        client->old_stores = old->next;
        mob_store_detach(old->store);
        free(old);
    }
    if (client->store != NULL)
        mob_store_detach(client->store);
    if (client->sock >= 0)
        close(client->sock);
    if (client->memfd >= 0)
        close(client->memfd);
    if (client->eventfd >= 0)
        close(client->eventfd);
    free(client->sent_heads);
    free(client->error_json);
    free(client);
}

void mob_client_enter(
    struct mob_client *client, struct mob_task_id task, uint32_t generation, struct mob_job_id job)
{
    client->call_epoch = ++client->epochs_given;
    client->parent = task;
    client->parent_generation = generation;
    client->continuation = 0;
    client->next_child = 0;
    client->next_put = 0;
    client->put_continuation = 0;
    client->job = job;
    client->family->known = false;
    client->plain_epoch++; /* the parent is part of the head */
    client->error[0] = 0; /* what went wrong in the task before is not this one's */
}

void mob_client_leave(struct mob_client *client, bool keep)
{
    if (client->next_child == 0 && client->general_count == 0 && client->used_values == NULL &&
        client->actors == NULL && client->sets == NULL)
        return;
    if (keep) {
        mob_families_retire(client);
    } else {
        while (client->sets != NULL)
            mob_waitset_destroy(client->sets);
        mob_values_free(client);
        mob_futures_clear(client);
        mob_actors_free(client);
    }
    mob_actors_next_caller(client);
}
