/* What the judges of `mobula doctor` write with. */
#include <stdarg.h>
#include <stdio.h>

#include "cli/doctor.h"

enum doctor_verdict doctor_worst(const struct doctor_report *report)
{
    enum doctor_verdict worst = DOCTOR_OK;
    for (int i = 0; i < report->count; i++)
        worst = report->checks[i].verdict > worst ? report->checks[i].verdict : worst;
    return worst;
}

const char *doctor_verdict_name(enum doctor_verdict verdict)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    return names[verdict];
}

struct doctor_check *doctor_add(
    struct doctor_report *out, const char *name, enum doctor_verdict verdict, const char *found, ...)
{
    va_list list;
    int at = out->count < DOCTOR_CHECKS_MAX ? out->count++ : DOCTOR_CHECKS_MAX - 1;
    struct doctor_check *check = &out->checks[at];
    *check = (struct doctor_check){.name = name, .verdict = verdict};
    va_start(list, found);
    vsnprintf(check->found, sizeof check->found, found, list);
    va_end(list);
    return check;
}

void doctor_means(struct doctor_check *check, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(check->means, sizeof check->means, format, list);
    va_end(list);
}

void doctor_todo(struct doctor_check *check, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(check->todo, sizeof check->todo, format, list);
    va_end(list);
}

const char *doctor_bytes(uint64_t bytes)
{
    static char texts[8][24];
    static unsigned next;
    char *out = texts[next++ % 8];
    if (bytes >= 1ull << 30)
        snprintf(out, sizeof texts[0], "%.1f GiB", (double)bytes / (double)(1ull << 30));
    else
        snprintf(out, sizeof texts[0], "%.0f MiB", (double)bytes / (double)(1ull << 20));
    return out;
}
