#include "runtime/worker/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/log.h"
#include "runtime/worker/module_cache.h"

enum { REASON_MAX = 640 };

static int refuse(enum mob_status status, const char *reason)
{
    printf("error\t%s\t%s\n", mob_status_code(status), reason);
    return 1;
}

#define NAMES_HAVE "a name has 1 to 127 letters, digits, \"_\" and \"-\""
_Static_assert(MOB_CALLABLE_NAME_MAX == 127, "said above");

/* Signatures must not break the lines they are printed in. */
static bool known_signature(const char *signature, struct mob_signature_error *error)
{
    static struct mob_signature parsed;
    bool plain = signature != NULL;
    for (const char *c = signature; plain && *c != 0; c++)
        plain = (unsigned char)*c >= 32;
    snprintf(error->message, sizeof error->message, "its signature is missing or has control characters");
    return plain && mob_signature_parse(signature, strlen(signature), &parsed, error) == MOB_OK;
}

/* A name in `reason`, and why it cannot be. */
static bool is_refused(const char *owner, const char *name, mob_function_main main, const char *signature,
    char reason[REASON_MAX])
{
    struct mob_signature_error error;
    const char *dot = *owner == '\0' ? "" : ".";
    if (!mob_callable_name_ok(name))
        snprintf(reason, REASON_MAX, "%.100s%s%.100s: " NAMES_HAVE, owner, dot, name);
    else if (!known_signature(signature, &error))
        snprintf(reason, REASON_MAX, "%.100s%s%.100s: %s", owner, dot, name, error.message);
    else if (main == NULL)
        snprintf(reason, REASON_MAX, "%.100s%s%.100s has no function to call", owner, dot, name);
    else
        return false;
    return true;
}

static bool methods_are_refused(const struct mob_function_entry *entry, char reason[REASON_MAX])
{
    for (const struct mob_method_entry *m = entry->methods; m != NULL && m->name != NULL; m++) {
        if (m - entry->methods == MOB_METHODS_MAX) {
            snprintf(reason, REASON_MAX, "%.100s has more than %u methods", entry->name, MOB_METHODS_MAX);
            return true;
        }
        if (is_refused(entry->name, m->name, m->main, m->signature, reason))
            return true;
        for (const struct mob_method_entry *before = entry->methods; before != m; before++)
            if (strcmp(before->name, m->name) == 0) {
                snprintf(reason, REASON_MAX, "%.100s has two methods %.100s", entry->name, m->name);
                return true;
            }
    }
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* There may be tens of thousands. */
static bool has_twins(const struct mob_function_entry *functions, char reason[REASON_MAX])
{
    size_t count = 0, i = 1;
    while (functions[count].name != NULL)
        count++;
    const char **names = calloc(count + 1, sizeof *names);
    MOB_ASSERT(names != NULL);
    for (size_t k = 0; k < count; k++)
        names[k] = functions[k].name;
    qsort(names, count, sizeof *names, by_name);
    while (i < count && strcmp(names[i - 1], names[i]) != 0)
        i++;
    if (i < count)
        snprintf(reason, REASON_MAX, "the module has two functions %.100s", names[i]);
    free(names);
    return i < count;
}

static bool entries_are_refused(const struct mob_module *module, char reason[REASON_MAX])
{
    for (const struct mob_function_entry *entry = module->functions; entry->name != NULL; entry++) {
        if (is_refused("", entry->name, entry->main, entry->signature, reason) ||
            methods_are_refused(entry, reason))
            return true;
    }
    return has_twins(module->functions, reason);
}

static void print_entry(const struct mob_function_entry *entry)
{
    if (entry->methods == NULL) {
        printf("function\t%s\t%u\t%s\n", entry->name, entry->flags, entry->signature);
        return;
    }
    printf("class\t%s\t%u\t%s\t%s%s%s\n", entry->name, entry->flags, entry->signature,
        entry->checkpoint == NULL ? "" : "c", entry->restore == NULL ? "" : "r",
        entry->checkpoint == NULL && entry->restore == NULL ? "-" : "");
    for (const struct mob_method_entry *m = entry->methods; m->name != NULL; m++)
        printf("method\t%s\t%u\t%s\n", m->name, m->flags, m->signature);
}

int mob_inspect_print(const char *path)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const struct mob_module *module;
    char reason[REASON_MAX];
    enum mob_status status = mob_module_open(path, NULL, &module, reason);
    if (status != MOB_OK)
        return refuse(status, reason);
    if (!mob_callable_name_ok(module->name)) {
        snprintf(reason, REASON_MAX, "the module %.100s: " NAMES_HAVE,
            module->name ? module->name : "without a name");
        return refuse(MOB_INVALID, reason);
    }
    if (entries_are_refused(module, reason)) /* its first line says so: nothing is printed before */
        return refuse(MOB_INVALID, reason);
    printf("module\t%s\t%u\t%s\n", module->name, module->abi, module->machine);
    for (const struct mob_function_entry *entry = module->functions; entry->name != NULL; entry++)
        print_entry(entry);
    return 0;
}
