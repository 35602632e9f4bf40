/* Deploying a module: the file goes into the store as a value, the node takes it from there. */
#include "sdk/c/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODULE_BYTES_MAX (256ll << 20)

enum mob_status mob_deploy_bytes(struct mob_client *client, const void *bytes, size_t size, char *hash_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, bytes);
    struct mob_future *file;
    if (size == 0 || size > MODULE_BYTES_MAX)
        return mob_client_fail(
            client, MOB_INVALID, "a module has 1 byte to %lld MiB", MODULE_BYTES_MAX >> 20);
    enum mob_status status = mob_put(client, mob_bytes(bytes, size), &file);
    if (status != MOB_OK)
        return status;
    struct mob_object_id id = mob_future_object(file);
    status = mob_request(client, MOB_REQ_DEPLOY, &id, sizeof id, MOB_FOREVER, NULL, NULL);
    mob_release(file);
    if (status != MOB_OK)
        return status;
    for (struct mob_function *f = client->functions; f != NULL; f = f->next)
        f->asked_ns = 0; /* names may mean something newer now */
    if (hash_out != NULL) {
        struct mob_module_hash hash = mob_module_hash(bytes, size);
        mob_base32_encode(hash.b, sizeof hash.b, hash_out);
    }
    return MOB_OK;
}

static enum mob_status read_file(
    struct mob_client *client, const char *path, uint8_t **bytes_out, size_t *size_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return mob_client_fail(client, MOB_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || st.st_size > MODULE_BYTES_MAX) {
        close(fd);
        return mob_client_fail(
            client, MOB_TOO_LARGE, "%s is larger than %lld MiB", path, MODULE_BYTES_MAX >> 20);
    }
    size_t size = (size_t)st.st_size, got = 0;
    uint8_t *bytes = malloc(size + 1);
    while (bytes != NULL && got < size) {
        ssize_t n = read(fd, bytes + got, size - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    if (bytes == NULL || got < size) {
        free(bytes);
        return mob_client_fail(client, MOB_IO, "%s could not be read", path);
    }
    *bytes_out = bytes;
    *size_out = size;
    return MOB_OK;
}

enum mob_status mob_deploy(struct mob_client *client, const char *path, char *hash_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, path);
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum mob_status status = read_file(client, path, &bytes, &size);
    if (status != MOB_OK)
        return status;
    status = mob_deploy_bytes(client, bytes, size, hash_out);
    free(bytes);
    return status;
}
