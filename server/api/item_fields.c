#include "server/api/item_fields.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *plural;
    const char *fields; /* each with a blank behind it */
} kinds[] = {
    [MOB_ITEM_TASK] = {"tasks",
        "id function name job parent actor state submitted_us started_us finished_us worker attempt code "},
    [MOB_ITEM_OBJECT] = {"objects", "id task job state type size "},
    [MOB_ITEM_ACTOR] = {"actors",
        "id class name state job namespace incarnation calls next_position restarts_left pid detached why "},
    [MOB_ITEM_FUNCTION] = {"functions", "name id module_hash kind signature newest "},
    [MOB_ITEM_JOB] = {"jobs",
        "id namespace name state standing detached over_http root weight submitted finished failed "
        "started_us "
        "ended_us "},
    [MOB_ITEM_NODE] = {"nodes",
        "id name state incarnation passes submitted finished failed retried duplicates "},
    [MOB_ITEM_ENDPOINT] = {"endpoints", "name class max_batch_size max_queue_delay_us state actor error "},
};

static bool has_field(enum mob_engine_kind kind, const char *field)
{
    size_t length = strlen(field);
    for (const char *at = kinds[kind].fields; *at; at += strcspn(at, " ") + 1)
        if (strcspn(at, " ") == length && memcmp(at, field, length) == 0)
            return true;
    return false;
}

bool mob_item_fields_check(enum mob_engine_kind kind, const struct mob_filter *filter, const char *sort,
    char *message, size_t capacity)
{
    const char *wrong = NULL;
    for (size_t i = 0; i < filter->count && !wrong; i++)
        if (!has_field(kind, filter->terms[i].field))
            wrong = filter->terms[i].field;
    if (!wrong && sort && *sort && !has_field(kind, sort + (*sort == '-')))
        wrong = sort + (*sort == '-');
    if (!wrong)
        return true;
    snprintf(message, capacity, "%s have no field \"%.64s\"; filter and sort take: %.*s", kinds[kind].plural,
        wrong, (int)strlen(kinds[kind].fields) - 1, kinds[kind].fields);
    return false;
}
