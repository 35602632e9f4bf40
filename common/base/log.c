#include "common/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

enum { LINE_MAX_BYTES = 2048, SITE_LINES_PER_SECOND = 20 };

enum mob_log_level mob_log_threshold = MOB_LOG_LEVEL_INFO;

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

__attribute__((constructor)) static void read_threshold(void)
{
    const char *wanted = getenv("MOBULA_LOG");
    if (!wanted)
        return;
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(wanted, names[i]) == 0)
            mob_log_threshold = (enum mob_log_level)i;
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

void mob_log_write(struct mob_log_site *site, enum mob_log_level level, const char *module, const char *event,
    const char *format, ...)
{
    uint32_t muted;
    if (!site_admits(site, &muted))
        return;
    char line[LINE_MAX_BYTES];
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(
        line + n, sizeof line - n, ".%06ldZ %s %s %s ", t.tv_nsec / 1000, level_names[level], module, event);
    va_list args;
    va_start(args, format);
    int body = vsnprintf(line + n, sizeof line - n, format, args);
    va_end(args);
    n += body < 0 ? 0 : (size_t)body;
    if (n > sizeof line - 40)
        n = sizeof line - 40; /* cut, keeping room for the tail */
    if (muted > 0)
        n += (size_t)snprintf(line + n, sizeof line - n, " muted=%u", muted);
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* a full log disk must not stop the work */
}

_Noreturn void mob_assert_failed(const char *file, int line, const char *what)
{
    static struct mob_log_site site;
    mob_log_write(&site, MOB_LOG_LEVEL_ERROR, "assert", "failed", "at=%s:%d what=\"%s\"", file, line, what);
    abort();
}
