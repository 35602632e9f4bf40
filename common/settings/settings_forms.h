/* Settings that are lists or addresses: one reader for each form, for the check of a setting (so that `mobula
 * up` refuses it by its name before anything starts) and for the daemon that uses it.
 *
 *   struct mob_listed_resource r;
 *   for (const char *at = text; mob_resources_next(&at, &r, message, sizeof message) == MOB_OK;)
 *       offer(r.name, r.amount);
 *
 * Pure. A message is one sentence without the setting's name, for the caller to put that before it.
 */
#ifndef MOB_COMMON_SETTINGS_SETTINGS_FORMS_H
#define MOB_COMMON_SETTINGS_SETTINGS_FORMS_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_FORM_MESSAGE_MAX 400

/* --- "GPU=2,camera=0.5" --- */
#define MOB_LISTED_RESOURCES_MAX 60u /* the scheduler knows 64 names, four of them its own */
#define MOB_LISTED_RESOURCE_NAME_MAX 63u
#define MOB_LISTED_AMOUNT_MAX 900000000000000.0 /* as of one task (common/wire/option_bounds.h) */
#define MOB_LISTED_AMOUNT_MIN 0.0001

struct mob_listed_resource {
    char name[MOB_LISTED_RESOURCE_NAME_MAX + 1];
    double amount;
};
/* The one at *at, and moves behind it. MOB_NOT_FOUND: that was the last; MOB_INVALID: with a message. */
MOB_MUST_USE enum mob_status mob_resources_next(
    const char **at, struct mob_listed_resource *out, char message[MOB_FORM_MESSAGE_MAX]);
/* All of them, their number, and that no name comes twice. */
MOB_MUST_USE enum mob_status mob_resources_check(const char *text, char message[MOB_FORM_MESSAGE_MAX]);

/* --- "127.0.0.1:0", "[::1]:8080": a numeric address of this machine --- */
#define MOB_LISTEN_HOST_MAX 64u /* with its NUL */
MOB_MUST_USE enum mob_status mob_listen_parse(const char *text, char host_out[MOB_LISTEN_HOST_MAX],
    uint16_t *port_out, char message[MOB_FORM_MESSAGE_MAX]);

/* --- "a.example,b.example" --- */
#define MOB_LISTED_HOSTS_MAX 8u
#define MOB_LISTED_HOST_NAME_MAX 253u /* of DNS */
struct mob_listed_hosts {
    char text[512];
    const char *names[MOB_LISTED_HOSTS_MAX]; /* into text */
    unsigned count;
};
MOB_MUST_USE enum mob_status mob_hosts_parse(
    const char *text, struct mob_listed_hosts *out, char message[MOB_FORM_MESSAGE_MAX]);

/* --- "0-3,6": cores by their numbers, some of which the process may use; "": none --- */
MOB_MUST_USE enum mob_status mob_cpus_parse(
    const char *text, cpu_set_t *out, char message[MOB_FORM_MESSAGE_MAX]);
/* Those that this process may use and that are not in `cpus`, as "0,1,7"; "": there are none, or `cpus` is
 * empty. */
#define MOB_CPUS_TEXT_MAX (CPU_SETSIZE * 5u)
void mob_cpus_others(const cpu_set_t *cpus, char out[MOB_CPUS_TEXT_MAX]);

#endif
