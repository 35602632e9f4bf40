/* Load over HTTP by wrk, one thread, whose requests and answers are a Lua script's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/harness.h"

/* Before every script: where we are, and what the scripts share. A script that sends a certain number of
 * requests sets `first` at the first, asks for /livez when it has sent all, so that no more are ever made,
 * and calls finish() at the last answer. Times are microseconds of the clock of bench_now.
 */
static const char prelude[] =
    "local threads = {}\n"
    "function setup(thread) table.insert(threads, thread) end\n"
    "counted, sum, bad, first, last = 0, 0, 0, 0, 0\n"
    "local ffi = require('ffi')\n"
    "ffi.cdef('typedef struct { long s, ns; } bench_time; int clock_gettime(int, bench_time *); '\n"
    "  .. 'int getpid(void); int kill(int, int);')\n"
    "local time = ffi.new('bench_time')\n"
    "function now()\n"
    "  ffi.C.clock_gettime(1, time)\n"
    "  return tonumber(time.s) * 1e6 + tonumber(time.ns) / 1e3\n"
    "end\n"
    "function finish()\n"
    "  last = now()\n"
    "  ffi.C.kill(ffi.C.getpid(), 2)\n" /* wrk then ends as if its time were over */
    "end\n"
    "function done(summary, latency, requests)\n"
    "  local t, e = threads[1], summary.errors\n"
    "  io.write(string.format('RESULT %d %d %d %d %d %.0f %.0f %.0f %.3f %.3f\\n', summary.requests, "
    "summary.duration,\n"
    "    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + "
    "e.timeout,\n"
    "    tonumber(t:get('counted')), tonumber(t:get('sum')), tonumber(t:get('bad')),\n"
    "    tonumber(t:get('first')), tonumber(t:get('last'))))\n"
    "end\n";

static bool write_script(struct bench *b, const struct bench_load *load, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fprintf(f, "directory = '%s'\ntoken = '%s'\n%s%s", b->directory, b->token, prelude, load->script);
    return fclose(f) == 0;
}

/* Since the machine is up, in seconds of a core; 0 where the kernel does not say. */
static double stolen_seconds(void)
{
    double ticks = 0;
    FILE *f = fopen("/proc/stat", "r");
    if (f && fscanf(f, "cpu %*f %*f %*f %*f %*f %*f %*f %lf", &ticks) != 1)
        ticks = 0;
    if (f)
        fclose(f);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

bool bench_load(
    struct bench *b, const char *row, const struct bench_load *load, struct bench_load_result *out)
{
    char program[512], script[320], url[256], connections[32], seconds[32], authorization[320];
    static char text[65536];
    if (!bench_find_program("wrk", program, sizeof program)) {
        bench_miss(b, row, "wrk is not installed");
        return false;
    }
    snprintf(script, sizeof script, "%s/load.lua", b->directory);
    snprintf(url, sizeof url, "http://%s%s", b->address, load->path);
    snprintf(connections, sizeof connections, "-c%d", load->connections);
    snprintf(seconds, sizeof seconds, "-d%ds", load->seconds_max);
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", b->token);
    if (!write_script(b, load, script)) {
        bench_miss(b, row, "the load's script cannot be written");
        return false;
    }
    char *argv[] = {program, (char *)"-t1", connections, seconds, (char *)"--timeout", (char *)"30s",
        (char *)"-H", authorization, (char *)"-s", script, url, NULL};
    double microseconds = 0, first = 0, last = 0, stolen = stolen_seconds();
    int status = bench_run(argv, text, sizeof text);
    stolen = stolen_seconds() - stolen;
    const char *result = strstr(text, "RESULT ");
    if (status != 0 || !result ||
        sscanf(result, "RESULT %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", &out->requests, &microseconds,
            &out->p50_us, &out->p99_us, &out->failed, &out->counted, &out->sum, &out->bad, &first,
            &last) != 10) {
        fprintf(stderr, "%s", text);
        bench_miss(b, row, "wrk did not end well");
        return false;
    }
    out->seconds = microseconds / 1e6;
    out->stolen_percent = 100 * stolen / (out->seconds * (double)sysconf(_SC_NPROCESSORS_ONLN));
    out->first_ns = (int64_t)(first * 1e3);
    out->last_ns = (int64_t)(last * 1e3);
    if (out->failed > 0 || out->bad > 0) {
        char why[160];
        snprintf(why, sizeof why, "of %.0f requests %.0f failed and %.0f had a wrong answer", out->requests,
            out->failed, out->bad);
        bench_miss(b, row, why);
        return false;
    }
    return true;
}

void bench_http_baseline(struct bench *b)
{
    const struct bench_load load = {
        .script = "", .path = "/livez", .connections = 16, .seconds_max = b->options.quick ? 1 : 5};
    struct bench_load_result result;
    char extra[64];
    if (b->http_rate > 0 || !bench_load(b, "limit_http", &load, &result))
        return;
    b->http_rate = result.requests / result.seconds;
    snprintf(extra, sizeof extra, "\"stolen_percent\": %.2f", result.stolen_percent);
    bench_row(b,
        &(struct bench_row){.name = "limit_http",
            .value = b->http_rate,
            .unit = "1/s",
            .n = result.requests,
            .p50_us = result.p50_us,
            .p99_us = result.p99_us,
            .extra = extra});
}
