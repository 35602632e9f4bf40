/* Log lines of programs and functions, and where the library's own go. */
#include <stdarg.h>
#include <stdio.h>

#include "sdk/c/call.h"

#define LINE_BYTES_MAX 2048u

void mob_set_log_handler(mob_log_handler *handler, void *arg)
{
    mob_log_set_sink(handler, arg);
}

void mob_set_log_level(enum mob_log_level least)
{
    mob_log_threshold = (int)least;
}

void mob_log(struct mob_call *call, enum mob_log_level level, const char *format, ...)
{
    if (format == NULL || (int)level < mob_log_threshold)
        return;
    char line[LINE_BYTES_MAX];
    size_t bytes;
    va_list args;
    va_start(args, format);
    bool given = mob_log_words(level, line, sizeof line, &bytes, format, args);
    va_end(args);
    if (given)
        return;
    if (call != NULL)
        fflush(stdout); /* what the task wrote before stands before it */
    /* In a worker stderr is its log, which notes whose line it is. */
    fwrite(line, 1, bytes, stderr);
}
