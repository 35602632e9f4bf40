/* GET /api/v1/events: long-poll and server-sent events over the hub. */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/api/api.h"
#include "server/events/events.h"
#include "server/http/accept.h"

static void send(struct mob_http_request *request)
{
    mob_api_send(request);
}

static bool is_possible(const char *kind, const char *value)
{
    struct mob_task_id task;
    struct mob_job_id job;
    struct mob_actor_id actor;
    if (strcmp(kind, "task") == 0)
        return mob_task_id_parse(value, &task) == MOB_OK;
    if (strcmp(kind, "job") == 0)
        return mob_job_id_parse(value, &job) == MOB_OK;
    return strcmp(kind, "actor") == 0 ? mob_actor_id_parse(value, &actor) == MOB_OK : *value != '\0';
}

/* At most one of job, task, function and actor. False: answered with 400. */
static bool read_key(struct mob_http_request *request, struct mob_event_filter *filter)
{
    static const char *const kinds[] = {"task", "job", "function", "actor"};
    for (size_t i = 0; i < 4; i++) {
        char value[80];
        enum mob_status status = mob_http_query(request, kinds[i], value, sizeof value);
        if (status == MOB_NOT_FOUND)
            continue;
        if (status != MOB_OK || !is_possible(kinds[i], value)) {
            mob_api_fail(request, MOB_BAD_REQUEST, "%s: %s", kinds[i],
                i == 2 ? "a name of at most 79 bytes, as arith.add" : "not an id of that kind");
            return false;
        }
        if (filter->key[0]) {
            mob_api_fail(
                request, MOB_BAD_REQUEST, "%s: at most one of task, job, function and actor", kinds[i]);
            return false;
        }
        snprintf(filter->key, sizeof filter->key, "%s:%s", kinds[i], value);
    }
    return true;
}

static bool read_topics(struct mob_http_request *request, struct mob_event_filter *filter)
{
    char topics[MOB_EVENTS_TOPICS_MAX * 32];
    enum mob_status status = mob_http_query(request, "topics", topics, sizeof topics);
    if (status == MOB_NOT_FOUND)
        return true;
    char *save = NULL;
    for (char *topic = status == MOB_OK ? strtok_r(topics, ",", &save) : NULL; topic;
         topic = strtok_r(NULL, ",", &save)) {
        if (filter->topic_count == MOB_EVENTS_TOPICS_MAX || strlen(topic) >= sizeof filter->topics[0]) {
            status = MOB_INVALID;
            break;
        }
        snprintf(filter->topics[filter->topic_count++], sizeof filter->topics[0], "%s", topic);
    }
    if (status != MOB_OK)
        mob_api_fail(request, MOB_BAD_REQUEST,
            "topics: at most %d prefixes of types, of at most 31 bytes each", MOB_EVENTS_TOPICS_MAX);
    return status == MOB_OK;
}

/* ?after=, or Last-Event-ID of a stream that comes back, whose address still has the `after` that it began
 * with. False: answered with 400. */
static bool read_after(struct mob_api *api, struct mob_http_request *request,
    struct mob_event_position *after, bool *present_out)
{
    char text[MOB_EVENTS_POSITION_TEXT_MAX];
    const char *last = mob_http_header(request, "Last-Event-ID");
    if (last && !*last) /* the HTML standard's: none yet */
        last = NULL;
    enum mob_status status = mob_http_query(request, "after", text, sizeof text);
    *present_out = last != NULL || status != MOB_NOT_FOUND;
    if (!*present_out)
        return true;
    const char *position = last ? last : status == MOB_OK ? text : "";
    if (strcmp(position, "earliest") == 0) { /* before all that a log can have */
        *after = (struct mob_event_position){.shards = mob_events_shards(api->parts.events)};
        return true;
    }
    if (mob_event_position_parse(position, after) == MOB_OK &&
        after->shards == mob_events_shards(api->parts.events))
        return true;
    mob_api_fail(request, MOB_BAD_REQUEST,
        "after: neither 'earliest' nor a position that these events gave; begin without one");
    return false;
}

/* Who names it, and does not refuse it, or takes no JSON. */
static bool wants_stream(const struct mob_http_request *request)
{
    static const char stream[] = "text/event-stream";
    const char *accept = mob_http_header(request, "Accept");
    return accept && mob_http_accepts(accept, stream) &&
        (strcasestr(accept, stream) || !mob_http_accepts(accept, "application/json"));
}

void mob_api_events(struct mob_api *api, struct mob_http_request *request)
{
    struct mob_event_filter filter = {0};
    struct mob_event_position after;
    bool has_after;
    double wait;
    int64_t limit;
    if (!mob_api_query_only(request, "after\0wait\0topics\0task\0job\0function\0actor\0limit\0") ||
        !mob_api_wait_query(request, &wait) ||
        !mob_api_query_int(request, "limit", 1, MOB_EVENTS_POLL_MAX, 100, &limit) ||
        !read_key(request, &filter) || !read_topics(request, &filter) ||
        !read_after(api, request, &after, &has_after))
        return;
    enum mob_status status;
    if (wants_stream(request)) {
        status = mob_events_stream(api->parts.events, request, &filter, has_after ? &after : NULL, send);
    } else {
        int64_t deadline_ns = wait > 0 ? mob_deadline_after((int64_t)(wait * 1e9)) : 0;
        status = mob_events_poll(api->parts.events, request, &filter, has_after ? &after : NULL,
            (unsigned)limit, deadline_ns, send);
    }
    if (status != MOB_OK)
        mob_api_fail(request, status, "too many event readers (%d)", MOB_EVENTS_WATCHERS_MAX);
}
