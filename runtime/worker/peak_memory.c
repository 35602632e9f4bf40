#include "runtime/worker/peak_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_BYTES 4096

static int status_fd = -1, clear_fd = -1;
static uint32_t stuck_kb; /* the mark, where it cannot be put back */

/* Open once: proc(5) gives the opener's own, and reads afresh from the start each time. */
static void open_once(void)
{
    if (status_fd >= 0)
        return;
    status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    clear_fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
}

static uint32_t high_water_kb(void)
{
    char text[STATUS_BYTES];
    ssize_t n = pread(status_fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *at = strstr(text, "VmHWM:");
    return at ? (uint32_t)strtoul(at + strlen("VmHWM:"), NULL, 10) : 0;
}

/* proc(5): "5" resets the peak to what is resident now. */
static bool put_back(void)
{
    return clear_fd >= 0 && pwrite(clear_fd, "5", 1, 0) == 1;
}

uint32_t mob_peak_memory_take(void)
{
    open_once();
    uint32_t peak_kb = high_water_kb();
    if (put_back())
        return peak_kb;
    if (peak_kb <= stuck_kb)
        return 0;
    stuck_kb = peak_kb;
    return peak_kb;
}
