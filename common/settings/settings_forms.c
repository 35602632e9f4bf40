#include "common/settings/settings_forms.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- resources --- */

/* strtod takes blanks, signs, "inf" and hexadecimal digits; an amount is digits, a point, and perhaps an
 * exponent. */
static bool parse_amount(const char *text, size_t length, double *out)
{
    char copy[64], *end;
    if (length == 0 || length >= sizeof copy || strspn(text, "0123456789.eE+-") < length ||
        !(isdigit((unsigned char)text[0]) || text[0] == '.'))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = strtod(copy, &end);
    return *end == '\0' && *out <= MOB_LISTED_AMOUNT_MAX && (*out == 0 || *out >= MOB_LISTED_AMOUNT_MIN);
}

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)text[i]))
            return false;
    return length > 0 && length <= MOB_LISTED_RESOURCE_NAME_MAX;
}

enum mob_status mob_resources_next(
    const char **at, struct mob_listed_resource *out, char message[MOB_FORM_MESSAGE_MAX])
{
    const char *text = *at;
    if (*text == '\0')
        return MOB_NOT_FOUND;
    size_t length = strcspn(text, ",");
    const char *equals = memchr(text, '=', length);
    size_t name_bytes = equals ? (size_t)(equals - text) : length;
    if (!is_name(text, name_bytes)) {
        snprintf(message, MOB_FORM_MESSAGE_MAX,
            "a resource is NAME=AMOUNT, as GPU=2; \"%.64s\" has no name of 1 to %u letters before its \"=\"",
            text, MOB_LISTED_RESOURCE_NAME_MAX);
        return MOB_INVALID;
    }
    if (!equals || !parse_amount(equals + 1, length - name_bytes - 1, &out->amount)) {
        snprintf(message, MOB_FORM_MESSAGE_MAX,
            "a resource is NAME=AMOUNT, as %.*s=2, with an amount of 0, or from %g to %.0f; this is %.*s",
            (int)name_bytes, text, MOB_LISTED_AMOUNT_MIN, MOB_LISTED_AMOUNT_MAX, (int)length, text);
        return MOB_INVALID;
    }
    memcpy(out->name, text, name_bytes);
    out->name[name_bytes] = '\0';
    *at = text + length + (text[length] == ',' && text[length + 1] != '\0');
    if (**at == ',') {
        snprintf(message, MOB_FORM_MESSAGE_MAX, "between two commas, or behind the last one, is no resource");
        return MOB_INVALID;
    }
    return MOB_OK;
}

enum mob_status mob_resources_check(const char *text, char message[MOB_FORM_MESSAGE_MAX])
{
    struct mob_listed_resource one, other;
    enum mob_status status;
    unsigned count = 0;
    for (const char *at = text; (status = mob_resources_next(&at, &one, message)) == MOB_OK; count++) {
        const char *before = text;
        for (unsigned i = 0; i < count && mob_resources_next(&before, &other, message) == MOB_OK; i++)
            if (strcmp(one.name, other.name) == 0) {
                snprintf(message, MOB_FORM_MESSAGE_MAX, "%s stands there twice", one.name);
                return MOB_INVALID;
            }
    }
    if (status == MOB_NOT_FOUND && count > MOB_LISTED_RESOURCES_MAX) {
        snprintf(
            message, MOB_FORM_MESSAGE_MAX, "at most %u resources, not %u", MOB_LISTED_RESOURCES_MAX, count);
        return MOB_INVALID;
    }
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

/* --- listen --- */

static bool is_address(const char *host, bool bracketed)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return bracketed ? inet_pton(AF_INET6, host, bytes) == 1 : inet_pton(AF_INET, host, bytes) == 1;
}

enum mob_status mob_listen_parse(const char *text, char host_out[MOB_LISTEN_HOST_MAX], uint16_t *port_out,
    char message[MOB_FORM_MESSAGE_MAX])
{
    const char *colon = strrchr(text, ':');
    char host[MOB_LISTEN_HOST_MAX];
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    unsigned long port = digits > 0 && digits < 6 ? strtoul(colon + 1, NULL, 10) : UINT16_MAX + 1ul;
    bool bracketed = colon && colon > text + 1 && text[0] == '[' && colon[-1] == ']';
    size_t length = colon ? (size_t)(colon - text) - (bracketed ? 2 : 0) : 0;
    if (length > 0 && length < sizeof host) {
        memcpy(host, text + bracketed, length);
        host[length] = '\0';
    }
    if (length == 0 || length >= sizeof host || port > UINT16_MAX || colon[1 + digits] != '\0' ||
        !is_address(host, bracketed)) {
        snprintf(message, MOB_FORM_MESSAGE_MAX,
            "an address of this machine and a port, as 127.0.0.1:8080 or [::1]:0; this is %.200s", text);
        return MOB_INVALID;
    }
    memcpy(host_out, host, length + 1);
    *port_out = (uint16_t)port;
    return MOB_OK;
}

/* --- hosts --- */

/* What a Host header may have as its name: letters of DNS, or an address. */
static bool is_host(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= MOB_LISTED_HOST_NAME_MAX &&
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_[]:") == length;
}

enum mob_status mob_hosts_parse(
    const char *text, struct mob_listed_hosts *out, char message[MOB_FORM_MESSAGE_MAX])
{
    char *rest = out->text;
    if ((size_t)snprintf(out->text, sizeof out->text, "%s", text) >= sizeof out->text) {
        snprintf(message, MOB_FORM_MESSAGE_MAX, "too long");
        return MOB_INVALID;
    }
    out->count = 0;
    while (*text != '\0' && rest != NULL) {
        char *name = strsep(&rest, ",");
        if (!is_host(name)) {
            snprintf(message, MOB_FORM_MESSAGE_MAX,
                "names as in a Host header, with a comma between two; \"%.64s\" is none", name);
            return MOB_INVALID;
        }
        if (out->count == MOB_LISTED_HOSTS_MAX) {
            snprintf(message, MOB_FORM_MESSAGE_MAX, "at most %u names", MOB_LISTED_HOSTS_MAX);
            return MOB_INVALID;
        }
        out->names[out->count++] = name;
    }
    return MOB_OK;
}

/* --- cpus --- */

/* "3" or "0-3" at *at, which moves behind it. */
static bool cpus_add(const char **at, cpu_set_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    unsigned long first = strtoul(*at, &end, 10), last = first;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        last = strtoul(end + 1, &end, 10);
    *at = end;
    if (last < first || last >= CPU_SETSIZE)
        return false;
    for (unsigned long cpu = first; cpu <= last; cpu++)
        CPU_SET(cpu, out);
    return true;
}

enum mob_status mob_cpus_parse(const char *text, cpu_set_t *out, char message[MOB_FORM_MESSAGE_MAX])
{
    cpu_set_t allowed, both;
    const char *at = text;
    CPU_ZERO(out);
    if (*text == '\0')
        return MOB_OK;
    bool good = cpus_add(&at, out);
    while (good && *at == ',') {
        at++;
        good = cpus_add(&at, out);
    }
    if (!good || *at != '\0') {
        snprintf(message, MOB_FORM_MESSAGE_MAX, "numbers of cores below %d, as 0-3,6; this is \"%.200s\"",
            CPU_SETSIZE, text);
        return MOB_INVALID;
    }
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return MOB_OK;
    CPU_AND(&both, &allowed, out);
    if (CPU_COUNT(&both) > 0)
        return MOB_OK;
    snprintf(message, MOB_FORM_MESSAGE_MAX,
        "no core of \"%.200s\" may be used here (`nproc` says how many may, `taskset -cp $$` which)", text);
    return MOB_INVALID;
}

void mob_cpus_others(const cpu_set_t *cpus, char out[MOB_CPUS_TEXT_MAX])
{
    cpu_set_t allowed;
    size_t at = 0;
    out[0] = '\0';
    if (CPU_COUNT(cpus) == 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && !CPU_ISSET(cpu, cpus))
            at += (size_t)snprintf(out + at, MOB_CPUS_TEXT_MAX - at, "%s%u", at > 0 ? "," : "", cpu);
}
