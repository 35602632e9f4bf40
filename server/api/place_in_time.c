#include "server/api/place_in_time.h"

#include <stdio.h>
#include <string.h>

static int compare_tasks(struct mob_task_id a, struct mob_task_id b)
{
    int order = memcmp(&a.stream, &b.stream, sizeof a.stream);
    return order != 0 ? order : (a.index > b.index) - (a.index < b.index);
}

bool place_is_before(struct place_in_time a, struct place_in_time b)
{
    return a.finished_us != b.finished_us ? a.finished_us > b.finished_us : compare_tasks(a.task, b.task) > 0;
}

char *place_cursor(struct place_in_time p)
{
    uint64_t high;
    uint32_t low;
    char *text = NULL;
    memcpy(&high, p.task.stream.b, sizeof high);
    memcpy(&low, p.task.stream.b + sizeof high, sizeof low);
    int n = asprintf(&text, "f%lld.%llu.%u.%u", (long long)p.finished_us, (unsigned long long)high, low,
        (unsigned)p.task.index);
    return n < 0 ? NULL : text;
}

bool place_of_cursor(const char *text, struct place_in_time *out)
{
    unsigned long long time, high;
    unsigned low, index;
    int end = 0;
    (void)!sscanf(text, "f%18llu.%20llu.%10u.%10u%n", &time, &high, &low, &index, &end);
    if (end == 0 || text[end] != '\0')
        return false;
    uint64_t first = high;
    *out = (struct place_in_time){.finished_us = (int64_t)time, .task.index = index};
    memcpy(out->task.stream.b, &first, sizeof first);
    memcpy(out->task.stream.b + sizeof first, &low, sizeof low);
    return true;
}
