#include "common/base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

enum { LINE_MAX_BYTES = 2048, SITE_LINES_PER_SECOND = 20 };

_Atomic int mob_log_threshold = MOB_LOG_LEVEL_INFO;

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

__attribute__((constructor)) static void read_threshold(void)
{
    const char *wanted = getenv("MOBULA_LOG");
    if (!wanted)
        return;
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(wanted, names[i]) == 0)
            mob_log_threshold = i;
}

/* True when the site may write; *muted_out = lines left out in the window that just ended. */
static int site_admits(struct mob_log_site *site, uint32_t *muted_out)
{
    int64_t now = mob_now();
    int64_t start =
        atomic_load_explicit(&site->window_start_ns, memory_order_relaxed); /* private: log site */
    *muted_out = 0;
    if (now - start >= MOB_SEC) {
        atomic_store_explicit(&site->window_start_ns, now, memory_order_relaxed); /* private */
        uint32_t seen = atomic_exchange_explicit(&site->count, 1, memory_order_relaxed); /* private */
        if (seen > SITE_LINES_PER_SECOND)
            *muted_out = seen - SITE_LINES_PER_SECOND;
        return 1;
    }
    return atomic_fetch_add_explicit(&site->count, 1, memory_order_relaxed) <
        SITE_LINES_PER_SECOND; /* private */
}

/* ---- where lines go ---- */

static struct {
    pthread_mutex_t lock;
    mob_log_sink *sink;
    void *arg;
} out = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local bool in_sink;

void mob_log_set_sink(mob_log_sink *sink, void *arg)
{
    if (!in_sink)
        pthread_mutex_lock(&out.lock);
    out.sink = sink;
    out.arg = arg;
    if (!in_sink)
        pthread_mutex_unlock(&out.lock);
}

/* False: there is none, or this line comes from within it. */
static bool give_to_sink(enum mob_log_level level, const char *line, size_t bytes)
{
    if (in_sink)
        return false;
    pthread_mutex_lock(&out.lock);
    bool given = out.sink != NULL;
    if (given) {
        in_sink = true;
        out.sink(out.arg, level, line, bytes);
        in_sink = false;
    }
    pthread_mutex_unlock(&out.lock);
    return given;
}

/* ---- lines ---- */

/* `time level `; returns its bytes. */
static size_t begin_line(char *line, size_t size, enum mob_log_level level)
{
    int64_t now_us = mob_wall_now() / MOB_US;
    struct tm tm;
    gmtime_r(&(time_t){now_us / 1000000}, &tm);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return n +
        (size_t)snprintf(line + n, size - n, ".%06dZ %s ", (int)(now_us % 1000000), level_names[level]);
}

void mob_log_write(struct mob_log_site *site, enum mob_log_level level, const char *module, const char *event,
    const char *format, ...)
{
    uint32_t muted;
    if (!site_admits(site, &muted))
        return;
    char line[LINE_MAX_BYTES];
    size_t n = begin_line(line, sizeof line, level);
    n += (size_t)snprintf(line + n, sizeof line - n, "%s %s ", module, event);
    va_list args;
    va_start(args, format);
    int body = vsnprintf(line + n, sizeof line - n, format, args);
    va_end(args);
    n += body < 0 ? 0 : (size_t)body;
    if (n > sizeof line - 40)
        n = sizeof line - 40; /* cut, keeping room for the tail */
    if (muted > 0)
        n += (size_t)snprintf(line + n, sizeof line - n, " muted=%u", muted);
    line[n] = 0;
    if (give_to_sink(level, line, n))
        return;
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* a full log disk must not stop the work */
}

bool mob_log_words(enum mob_log_level level, char *line_out, size_t size, size_t *bytes_out,
    const char *format, va_list args)
{
    if (level > MOB_LOG_LEVEL_ERROR)
        level = MOB_LOG_LEVEL_ERROR;
    size_t n = begin_line(line_out, size, level), head = n;
    int body = vsnprintf(line_out + n, size - n, format, args);
    n += body < 0 ? 0 : (size_t)body;
    if (n > size - 2) { /* cut, between characters and with room for the line end */
        n = size - 2;
        while (n > head && ((unsigned char)line_out[n] & 0xc0) == 0x80)
            n--;
    }
    for (char *c = line_out + head; c < line_out + n; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    line_out[n] = 0;
    if (give_to_sink(level, line_out, n))
        return true;
    line_out[n++] = '\n';
    line_out[n] = 0;
    *bytes_out = n;
    return false;
}

_Noreturn void mob_assert_failed(const char *file, int line, const char *what)
{
    static struct mob_log_site site;
    mob_log_write(&site, MOB_LOG_LEVEL_ERROR, "assert", "failed", "at=%s:%d what=\"%s\"", file, line, what);
    abort();
}
