#include "common/base/failpoint.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAILPOINTS_MAX = 16, NAME_MAX_BYTES = 64 };
enum action { ACTION_KILL, ACTION_STOP, ACTION_ERROR, ACTION_DELAY };

struct failpoint {
    char name[NAME_MAX_BYTES];
    enum action action;
    long delay_ms;
    long only_passage; /* 0 = every one */
    atomic_long passages;
};

bool mob_failpoints_armed;
static struct failpoint points[FAILPOINTS_MAX];
static int point_count;

static bool parse_action(const char *text, struct failpoint *out)
{
    if (strcmp(text, "kill") == 0)
        out->action = ACTION_KILL;
    else if (strcmp(text, "stop") == 0)
        out->action = ACTION_STOP;
    else if (strcmp(text, "error") == 0)
        out->action = ACTION_ERROR;
    else if (sscanf(text, "delay:%ld", &out->delay_ms) == 1 && out->delay_ms >= 0)
        out->action = ACTION_DELAY;
    else
        return false;
    return true;
}

static bool parse_one(char *item, struct failpoint *out)
{
    char *equals = strchr(item, '=');
    if (!equals || equals == item || (size_t)(equals - item) >= NAME_MAX_BYTES)
        return false;
    *equals = '\0';
    memset(out, 0, sizeof *out);
    memcpy(out->name, item, (size_t)(equals - item));
    char *at = strchr(equals + 1, '@');
    if (at) {
        *at = '\0';
        out->only_passage = strtol(at + 1, NULL, 10);
        if (out->only_passage <= 0)
            return false;
    }
    return parse_action(equals + 1, out);
}

bool mob_failpoints_configure(const char *text)
{
    static struct failpoint parsed[FAILPOINTS_MAX];
    char copy[1024];
    int count = 0;
    size_t length = text ? strlen(text) : 0;
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text ? text : "", length + 1);
    char *save = NULL;
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (count == FAILPOINTS_MAX || !parse_one(item, &parsed[count]))
            return false;
        count++;
    }
    mob_failpoints_armed = false;
    memcpy(points, parsed, sizeof points);
    point_count = count;
    mob_failpoints_armed = count > 0;
    return true;
}

__attribute__((constructor)) static void configure_from_environment(void)
{
    const char *text = getenv("MOBULA_FAILPOINTS");
    if (text && !mob_failpoints_configure(text)) {
        fprintf(stderr,
            "MOBULA_FAILPOINTS: cannot parse \"%s\"; expected name=kill|stop|error|delay:<ms>[@n],...\n",
            text);
        _exit(2);
    }
}

bool mob_failpoint_hit(const char *name)
{
    for (int i = 0; i < point_count; i++) {
        struct failpoint *p = &points[i];
        if (strcmp(p->name, name) != 0)
            continue;
        long passage = atomic_fetch_add(&p->passages, 1) + 1; /* private: this process' own counter */
        if (p->only_passage && passage != p->only_passage)
            return false;
        switch (p->action) {
        case ACTION_KILL:
            kill(getpid(), SIGKILL);
            pause();
            return false;
        case ACTION_STOP:
            raise(SIGSTOP); /* to this thread: it would run on while another takes what is for the process */
            return false;
        case ACTION_DELAY:
            nanosleep(&(struct timespec){p->delay_ms / 1000, p->delay_ms % 1000 * 1000000}, NULL);
            return false;
        case ACTION_ERROR:
            return true;
        }
    }
    return false;
}
