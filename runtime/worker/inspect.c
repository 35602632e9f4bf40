#include "runtime/worker/inspect.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/worker/module_cache.h"

static int refuse(enum mob_status status, const char *reason)
{
    printf("error\t%s\t%s\n", mob_status_code(status), reason);
    return 1;
}

/* Signatures and names must not break the lines they are printed in. */
static bool printable(const char *text)
{
    if (text == NULL || *text == 0)
        return false;
    for (; *text != 0; text++)
        if ((unsigned char)*text < 32)
            return false;
    return true;
}

static bool known_signature(const char *signature, struct mob_signature_error *error)
{
    static struct mob_signature parsed;
    snprintf(
        error->message, sizeof error->message, "a name or signature is missing or has control characters");
    return printable(signature) &&
        mob_signature_parse(signature, strlen(signature), &parsed, error) == MOB_OK;
}

static int print_entry(const struct mob_function_entry *entry)
{
    struct mob_signature_error error;
    char reason[640];
    if (!printable(entry->name) || entry->main == NULL || !known_signature(entry->signature, &error)) {
        snprintf(reason, sizeof reason, "%.100s: %s", entry->name, error.message);
        return refuse(MOB_INVALID, reason);
    }
    if (entry->methods == NULL) {
        printf("function\t%s\t%u\t%s\n", entry->name, entry->flags, entry->signature);
        return 0;
    }
    printf("class\t%s\t%u\t%s\t%s%s%s\n", entry->name, entry->flags, entry->signature,
        entry->checkpoint == NULL ? "" : "c", entry->restore == NULL ? "" : "r",
        entry->checkpoint == NULL && entry->restore == NULL ? "-" : "");
    for (const struct mob_method_entry *m = entry->methods; m->name != NULL; m++) {
        if (!printable(m->name) || m->main == NULL || !known_signature(m->signature, &error)) {
            snprintf(reason, sizeof reason, "%.100s.%.100s: %s", entry->name, m->name, error.message);
            return refuse(MOB_INVALID, reason);
        }
        printf("method\t%s\t%u\t%s\n", m->name, m->flags, m->signature);
    }
    return 0;
}

int mob_inspect_print(const char *path)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const struct mob_module *module;
    char reason[256];
    enum mob_status status = mob_module_open(path, NULL, &module, reason);
    if (status != MOB_OK)
        return refuse(status, reason);
    if (!printable(module->name) || strchr(module->name, '.') != NULL)
        return refuse(MOB_INVALID, "a module's name has no dots and no control characters");
    printf("module\t%s\t%u\t%s\n", module->name, module->abi, module->machine);
    for (const struct mob_function_entry *entry = module->functions; entry->name != NULL; entry++)
        if (print_entry(entry) != 0)
            return 1;
    return 0;
}
