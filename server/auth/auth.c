#include "server/auth/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/auth/token.h"

struct key {
    struct mob_token_hash hash;
    struct mob_principal principal;
};

struct mob_auth {
    struct key keys[MOB_AUTH_KEYS_MAX];
    size_t key_count;
    char hosts[MOB_AUTH_HOSTS_MAX][256];
    size_t host_count;
};

static const struct {
    const char *name;
    enum mob_role role;
} role_names[] = {
    {"read", MOB_ROLE_READ},
    {"submit", MOB_ROLE_SUBMIT},
    {"deploy", MOB_ROLE_DEPLOY},
    {"admin", MOB_ROLE_ADMIN},
};

const char *mob_role_name(enum mob_role role)
{
    for (size_t i = 0; i < sizeof role_names / sizeof *role_names; i++)
        if (role_names[i].role == role)
            return role_names[i].name;
    return "none";
}

static enum mob_status parse_roles(char *text, unsigned *roles_out)
{
    unsigned roles = 0;
    char *save = NULL;
    for (char *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        unsigned role = 0;
        for (size_t i = 0; i < sizeof role_names / sizeof *role_names; i++)
            if (strcmp(name, role_names[i].name) == 0)
                role = role_names[i].role;
        if (role == 0)
            return MOB_INVALID;
        roles |= role;
    }
    *roles_out = roles;
    return MOB_OK;
}

/* `<token> [roles] [name]` */
static enum mob_status add_line(struct mob_auth *auth, char *line)
{
    char *save = NULL;
    char *token = strtok_r(line, " \t\r", &save);
    if (!token || token[0] == '#')
        return MOB_OK;
    if (auth->key_count == MOB_AUTH_KEYS_MAX)
        return MOB_INVALID;
    char *roles = strtok_r(NULL, " \t\r", &save);
    char *name = roles ? strtok_r(NULL, " \t\r", &save) : NULL;
    struct key *key = &auth->keys[auth->key_count];
    *key = (struct key){0};
    if (mob_token_parse(token, strlen(token), key->principal.key_id, &key->hash) != MOB_OK)
        return MOB_INVALID;
    key->principal.roles = MOB_ROLE_ADMIN;
    key->principal.index = (unsigned)auth->key_count;
    if (roles && parse_roles(roles, &key->principal.roles) != MOB_OK)
        return MOB_INVALID;
    if (key->principal.roles & MOB_ROLE_ADMIN)
        key->principal.roles |= MOB_ROLE_READ | MOB_ROLE_SUBMIT | MOB_ROLE_DEPLOY;
    snprintf(key->principal.name, sizeof key->principal.name, "%s", name ? name : key->principal.key_id);
    snprintf(key->principal.ns, sizeof key->principal.ns, "default");
    auth->key_count++;
    return MOB_OK;
}

static enum mob_status create_file(const char *path)
{
    char line[MOB_TOKEN_LENGTH + 2];
    mob_token_generate(line);
    line[MOB_TOKEN_LENGTH] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno == EEXIST ? MOB_OK : MOB_IO; /* somebody else made it meanwhile */
    ssize_t n = write(fd, line, MOB_TOKEN_LENGTH + 1);
    sodium_memzero(line, sizeof line);
    int synced = fsync(fd);
    close(fd);
    return n == MOB_TOKEN_LENGTH + 1 && synced == 0 ? MOB_OK : MOB_IO;
}

static enum mob_status read_file(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return MOB_IO;
    struct stat info;
    enum mob_status status = MOB_IO;
    if (fstat(fd, &info) == 0) {
        status = MOB_OK;
        if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0 || info.st_uid != geteuid())
            status = MOB_DENIED;
    }
    ssize_t n = status == MOB_OK ? read(fd, text, capacity - 1) : -1;
    close(fd);
    if (n < 0)
        return status == MOB_OK ? MOB_IO : status;
    text[n] = 0;
    return MOB_OK;
}

enum mob_status mob_auth_open(const char *key_file, struct mob_auth **auth_out)
{
    if (sodium_init() < 0)
        return MOB_INTERNAL;
    struct mob_auth *auth = calloc(1, sizeof *auth);
    char *text = calloc(1, MOB_AUTH_FILE_BYTES_MAX);
    enum mob_status status = auth && text ? MOB_OK : MOB_NO_MEMORY;
    if (status == MOB_OK && access(key_file, F_OK) != 0)
        status = create_file(key_file);
    if (status == MOB_OK)
        status = read_file(key_file, text, MOB_AUTH_FILE_BYTES_MAX);
    char *save = NULL;
    for (char *line = status == MOB_OK ? strtok_r(text, "\n", &save) : NULL; line && status == MOB_OK;
         line = strtok_r(NULL, "\n", &save))
        status = add_line(auth, line);
    if (status == MOB_OK && auth->key_count == 0)
        status = MOB_INVALID;
    if (text)
        sodium_memzero(text, MOB_AUTH_FILE_BYTES_MAX);
    free(text);
    if (status != MOB_OK) {
        MOB_LOG_ERROR("auth", "key_file_refused", "path=%s code=%s", key_file, mob_status_code(status));
        mob_auth_close(auth);
        return status;
    }
    *auth_out = auth;
    return MOB_OK;
}

void mob_auth_close(struct mob_auth *auth)
{
    if (!auth)
        return;
    sodium_memzero(auth, sizeof *auth);
    free(auth);
}

enum mob_status mob_auth_allow_host(struct mob_auth *auth, const char *host)
{
    if (auth->host_count == MOB_AUTH_HOSTS_MAX || strlen(host) >= sizeof auth->hosts[0])
        return MOB_QUEUE_FULL;
    snprintf(auth->hosts[auth->host_count++], sizeof auth->hosts[0], "%s", host);
    return MOB_OK;
}

static const char *bearer(const struct mob_http_request *request)
{
    static const char *const names[] = {"Authorization", "X-Mobula-Authorization"};
    for (int i = 0; i < 2; i++) {
        const char *value = mob_http_header(request, names[i]);
        if (value && strncasecmp(value, "Bearer ", 7) == 0)
            return value + 7 + strspn(value + 7, " ");
    }
    return NULL;
}

enum mob_status mob_auth_check(
    const struct mob_auth *auth, struct mob_http_request *request, enum mob_role needed)
{
    if (needed == MOB_ROLE_NONE)
        return MOB_OK;
    const char *token = bearer(request);
    char id[MOB_TOKEN_ID_LENGTH + 1];
    struct mob_token_hash hash;
    if (!token || mob_token_parse(token, strlen(token), id, &hash) != MOB_OK)
        return MOB_UNAUTHENTICATED;
    /* The id is public, so finding its line may take a time that depends on it; comparing the hash may not.
     */
    const struct key *found = NULL;
    for (size_t i = 0; i < auth->key_count && !found; i++)
        if (strcmp(auth->keys[i].principal.key_id, id) == 0)
            found = &auth->keys[i];
    if (!found || !mob_token_hash_eq(&found->hash, &hash))
        return MOB_UNAUTHENTICATED;
    if ((found->principal.roles & (unsigned)needed) == 0)
        return MOB_DENIED;
    request->principal = &found->principal;
    return MOB_OK;
}

/* Length of the host in host[:port]; 0 when malformed. */
static size_t host_length(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    size_t length = end ? (size_t)(end - text) + 1 : strcspn(text, ":");
    const char *port = text + length;
    if (*port == ':') {
        port++;
        size_t digits = strspn(port, "0123456789");
        if (digits > 5)
            return 0;
        port += digits;
    }
    return *port == 0 ? length : 0;
}

static bool host_is(const char *host, size_t length, const char *name)
{
    return strlen(name) == length && strncasecmp(host, name, length) == 0;
}

static bool host_allowed(const struct mob_auth *auth, const char *text)
{
    size_t length = host_length(text);
    if (length == 0)
        return false;
    if (host_is(text, length, "localhost") || host_is(text, length, "127.0.0.1") ||
        host_is(text, length, "[::1]"))
        return true;
    for (size_t i = 0; i < auth->host_count; i++)
        if (host_is(text, length, auth->hosts[i]))
            return true;
    return false;
}

bool mob_auth_host_ok(const struct mob_auth *auth, const struct mob_http_request *request)
{
    const char *host = mob_http_header(request, "Host");
    return host && host_allowed(auth, host);
}

bool mob_auth_origin_ok(const struct mob_auth *auth, const struct mob_http_request *request)
{
    (void)auth;
    const char *site = mob_http_header(request, "Sec-Fetch-Site");
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return false;
    const char *origin = mob_http_header(request, "Origin");
    if (!origin)
        return true;
    const char *host = mob_http_header(request, "Host");
    const char *authority = strncmp(origin, "http://", 7) == 0 ? origin + 7
        : strncmp(origin, "https://", 8) == 0                  ? origin + 8
                                                               : NULL;
    return host && authority && strcasecmp(authority, host) == 0;
}
