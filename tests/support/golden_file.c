#include "tests/support/golden_file.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void golden_say(struct golden_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, args);
    va_end(args);
    assert_in_range(n, 0, sizeof text->bytes - text->used - 1);
    text->used += (size_t)n;
}

static void path_of(const char *name, char *out, size_t capacity)
{
    const char *root = getenv("MOBULA_SOURCE_DIR");
    snprintf(out, capacity, "%s/tests/golden/%s", root ? root : ".", name);
}

void golden_read(const char *name, struct golden_text *text_out)
{
    char path[512];
    path_of(name, path, sizeof path);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("%s is missing", path);
        return;
    }
    text_out->used = fread(text_out->bytes, 1, sizeof text_out->bytes - 1, file);
    text_out->bytes[text_out->used] = '\0';
    fclose(file);
}

static void write_missing(const char *name, const struct golden_text *text)
{
    char path[512];
    path_of(name, path, sizeof path);
    FILE *file = fopen(path, "wbx");
    if (!file)
        return;
    assert_int_equal(fwrite(text->bytes, 1, text->used, file), text->used);
    fclose(file);
}

void golden_compare(const char *name, const struct golden_text *text)
{
    static struct golden_text kept;
    if (getenv("MOBULA_GOLDEN_WRITE") != NULL)
        write_missing(name, text);
    golden_read(name, &kept);
    if (kept.used != text->used || memcmp(kept.bytes, text->bytes, kept.used) != 0)
        fail_msg("%s says:\n%s\nand now it is:\n%s", name, kept.bytes, text->bytes);
}
