/*
 * Replays a corpus through a fuzz target without libFuzzer, so that every build and every compiler runs the
 * inputs that once mattered: replay CORPUS... where each argument is a file or a folder. Each input is given
 * whole and, when it is small, cut at every length: in a buffer of exactly that size, so that the address
 * sanitizer sees one byte too many.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOB_REPLAY_CUT_BYTES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static size_t inputs;

static void run_exact(const uint8_t *data, size_t size_bytes)
{
    uint8_t *exact = malloc(size_bytes > 0 ? size_bytes : 1);
    if (exact == NULL)
        abort();
    if (size_bytes > 0)
        memcpy(exact, data, size_bytes);
    (void)LLVMFuzzerTestOneInput(exact, size_bytes);
    free(exact);
}

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    uint8_t *data = NULL;
    size_t size_bytes = 0, room_bytes = 0;
    for (;;) {
        if (size_bytes == room_bytes) {
            room_bytes = room_bytes > 0 ? room_bytes * 2 : 65536;
            data = realloc(data, room_bytes);
            if (data == NULL)
                abort();
        }
        size_t got = fread(data + size_bytes, 1, room_bytes - size_bytes, file);
        if (got == 0)
            break;
        size_bytes += got;
    }
    fclose(file);
    run_exact(data, size_bytes);
    for (size_t cut = 0; size_bytes <= MOB_REPLAY_CUT_BYTES_MAX && cut < size_bytes; cut++)
        run_exact(data, cut);
    free(data);
    inputs++;
    return 0;
}

static int replay(const char *path)
{
    struct stat about;
    /* A target without a corpus yet still runs on the empty input. */
    if (stat(path, &about) != 0)
        return errno == ENOENT ? 0 : 1;
    if (!S_ISDIR(about.st_mode))
        return replay_file(path);

    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    int failed = 0;
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            char *inner = NULL;
            if (asprintf(&inner, "%s/%s", path, names[i]->d_name) < 0)
                abort();
            failed |= replay(inner);
            free(inner);
        }
        free(names[i]);
    }
    free(names);
    return failed;
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    run_exact(NULL, 0);
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    printf("%zu inputs replayed\n", inputs);
    return failed;
}
