/* Log lines: `time level module event key=value ...` on stderr, which the supervisor sends to a file per
 * process, or to a sink that the process has set.
 *
 *   MOB_LOG_INFO("node", "worker_started", "pid=%d slot=%u", pid, slot);
 *
 * The level comes from MOBULA_LOG (debug, info, warn, error; default info). A call site that repeats more
 * than 20 times a second is muted and reports how many lines it left out. Never pass secrets. Thread-safe;
 * one write(2) a line.
 */
#ifndef MOB_COMMON_BASE_LOG_H
#define MOB_COMMON_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/log_level.h"

struct mob_log_site {
    _Atomic int64_t window_start_ns;
    _Atomic uint32_t count;
};

void mob_log_write(struct mob_log_site *site, enum mob_log_level level, const char *module, const char *event,
    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Lowest level written; from the environment until somebody sets it. Private: threads of this process. */
extern _Atomic int mob_log_threshold;

/* Gets the lines instead of stderr, without their line end and with a NUL behind them; one at a time, from
 * whatever thread logs. What is logged inside of it goes to stderr. */
typedef void mob_log_sink(void *arg, enum mob_log_level level, const char *line, size_t bytes);
/* NULL = stderr again. When it returns the sink before is not called any more, except when called by it. */
void mob_log_set_sink(mob_log_sink *sink, void *arg);
/* A line of a user's own words, `time level text`: to the sink, if there is one, else false, and the line,
 * cut to `size` and with its line end, is in `line_out`, `*bytes_out` of it. Line ends in the text become
 * blanks. */
bool mob_log_words(enum mob_log_level level, char *line_out, size_t size, size_t *bytes_out,
    const char *format, va_list args) __attribute__((format(printf, 5, 0)));

#define MOB_LOG_AT(level, ...) \
    do { \
        static struct mob_log_site mob_log_site_; \
        if ((level) >= mob_log_threshold) \
            mob_log_write(&mob_log_site_, (level), __VA_ARGS__); \
    } while (0)
#define MOB_LOG_DEBUG(...) MOB_LOG_AT(MOB_LOG_LEVEL_DEBUG, __VA_ARGS__)
#define MOB_LOG_INFO(...) MOB_LOG_AT(MOB_LOG_LEVEL_INFO, __VA_ARGS__)
#define MOB_LOG_WARN(...) MOB_LOG_AT(MOB_LOG_LEVEL_WARN, __VA_ARGS__)
#define MOB_LOG_ERROR(...) MOB_LOG_AT(MOB_LOG_LEVEL_ERROR, __VA_ARGS__)

/* Invariants: asserted in release too, never on input. Logs and aborts. */
_Noreturn void mob_assert_failed(const char *file, int line, const char *what);
#define MOB_ASSERT(condition) \
    (__builtin_expect(!!(condition), 1) ? (void)0 : mob_assert_failed(__FILE__, __LINE__, #condition))

#endif
