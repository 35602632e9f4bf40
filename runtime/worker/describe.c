#include "runtime/worker/describe.h"

#include <ctype.h>
#include <dlfcn.h>
#include <mobula/mobula.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/signature.h"

enum { NAME_BYTES_MAX = 120, ENTRIES_MAX = 4096 };

static int refuse(const char *what, const char *which)
{
    printf("%s%s%s\n", what, which ? ": " : "", which ? which : "");
    return 1;
}

/* Names end up in URLs, keys and lines of text. */
static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-')
            return false;
    return true;
}

static int check_signature(const char *name, const char *text)
{
    static struct mob_signature parsed; /* 5 KiB: not for the stack */
    struct mob_signature_error why = {.message = "missing"};
    if (text && mob_signature_parse(text, strlen(text), &parsed, &why) == MOB_OK)
        return 0;
    printf("signature of %s: %s\n", name, why.message);
    return 1;
}

static int check_entry(const char *name, mob_function_main main, const char *signature)
{
    if (!name_ok(name))
        return refuse("a name may have letters, digits, _ and - only", name);
    if (!main)
        return refuse("no code behind the name", name);
    return check_signature(name, signature);
}

static int check_all(const struct mob_module *module)
{
    int count = 0;
    if (!module->name || !name_ok(module->name))
        return refuse("the module's name may have letters, digits, _ and - only", module->name);
    for (const struct mob_function_entry *f = module->functions; f->name; f++) {
        if (++count > ENTRIES_MAX)
            return refuse("too many functions", NULL);
        if (check_entry(f->name, f->main, f->signature))
            return 1;
        for (const struct mob_method_entry *m = f->methods; m && m->name; m++)
            if (check_entry(m->name, m->main, m->signature))
                return 1;
    }
    return count > 0 ? 0 : refuse("the module has no functions", NULL);
}

static void print_all(const struct mob_module *module)
{
    printf("module %s\n", module->name);
    for (const struct mob_function_entry *f = module->functions; f->name; f++) {
        printf("%s %s\t%s\n", f->methods ? "class" : "function", f->name, f->signature);
        for (const struct mob_method_entry *m = f->methods; m && m->name; m++)
            printf("method %s\t%s\n", m->name, m->signature);
    }
}

int mob_worker_describe(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return refuse("it cannot be loaded", dlerror());
    const struct mob_module *module = dlsym(handle, "mob_module_v1");
    if (!module)
        return refuse("it has no MOB_MODULE", NULL);
    if (module->abi != MOB_ABI || module->struct_size != sizeof *module) {
        printf("built for module ABI %u, this is ABI %d: build it again with this mobula.h\n", module->abi,
            MOB_ABI);
        return 1;
    }
    if (strcmp(module->machine, MOB_MACHINE) != 0) {
        printf("built for machine %s, this is %s\n", module->machine, MOB_MACHINE);
        return 1;
    }
    int failed = check_all(module);
    if (!failed)
        print_all(module);
    return failed;
}
