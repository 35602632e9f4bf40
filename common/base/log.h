/* Log lines: `time level module event key=value ...` on stderr, which the supervisor sends to a file per
 * process.
 *
 *   MOB_LOG_INFO("node", "worker_started", "pid=%d slot=%u", pid, slot);
 *
 * The level comes from MOBULA_LOG (debug, info, warn, error; default info). A call site that repeats more
 * than 20 times a second is muted and reports how many lines it left out. Never pass secrets. Thread-safe;
 * one write(2) a line.
 */
#ifndef MOB_COMMON_BASE_LOG_H
#define MOB_COMMON_BASE_LOG_H

#include <stdint.h>

enum mob_log_level { MOB_LOG_LEVEL_DEBUG, MOB_LOG_LEVEL_INFO, MOB_LOG_LEVEL_WARN, MOB_LOG_LEVEL_ERROR };

struct mob_log_site {
    _Atomic int64_t window_start_ns;
    _Atomic uint32_t count;
};

void mob_log_write(struct mob_log_site *site, enum mob_log_level level, const char *module, const char *event,
    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Lowest level written; read once from the environment. */
extern enum mob_log_level mob_log_threshold;

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
