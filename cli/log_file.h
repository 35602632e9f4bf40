/* A log file of bounded size: PATH, and PATH.1 (newest) to PATH.n of what was before.
 *
 * What cannot be written (full disk) is dropped and counted: a log must not stop the work. One thread.
 */
#ifndef MOB_CLI_LOG_FILE_H
#define MOB_CLI_LOG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define LOG_FILE_PATH_MAX 512

struct log_file {
    char path[LOG_FILE_PATH_MAX];
    int fd; /* -1 when closed */
    uint64_t size, size_max;
    uint32_t files; /* kept, the present one included */
    uint64_t dropped_bytes;
};

/* Appends to what is there (0600). MOB_TOO_LARGE: path; MOB_IO. */
MOB_MUST_USE enum mob_status log_file_open(
    struct log_file *log, const char *path, uint64_t size_max, uint32_t files);
void log_file_write(struct log_file *log, const char *bytes, size_t length);
/* Starts a new file when this one is at its bound: for a file that others write through its descriptor. */
void log_file_check(struct log_file *log);
void log_file_close(struct log_file *log);

#endif
