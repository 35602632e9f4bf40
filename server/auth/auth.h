/* Who is asking, and may they: keys, roles, and what a browser could be tricked into.
 *
 *   mob_auth_open("state/token", &auth);                     // makes the file (0600) with one admin token if
 * there is none status = mob_auth_check(auth, request, MOB_ROLE_SUBMIT); // sets request->principal
 *
 * The key file has one line a key: `<token> [role[,role]] [name]`; no roles means all. Only hashes are kept
 * in memory. Threads: open and close once; the rest from any, without locks, since the table never changes
 * after open. Limits: MOB_AUTH_KEYS_MAX keys, MOB_AUTH_HOSTS_MAX extra host names.
 */
#ifndef MOB_SERVER_AUTH_AUTH_H
#define MOB_SERVER_AUTH_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "server/http/http.h"

#define MOB_AUTH_KEYS_MAX 256
#define MOB_AUTH_HOSTS_MAX 16
#define MOB_AUTH_FILE_BYTES_MAX 65536

enum mob_role {
    MOB_ROLE_NONE = 0, /* a route that answers without a token */
    MOB_ROLE_READ = 1,
    MOB_ROLE_SUBMIT = 2,
    MOB_ROLE_DEPLOY = 4,
    MOB_ROLE_ADMIN = 8 /* holds every other */
};

struct mob_principal {
    char key_id[16], name[48], ns[32];
    unsigned roles;
    unsigned index; /* of its key, below MOB_AUTH_KEYS_MAX */
};

struct mob_auth;

/* MOB_DENIED: the file is readable by others, or not ours; MOB_INVALID: a line is malformed; MOB_IO. */
MOB_MUST_USE enum mob_status mob_auth_open(const char *key_file, struct mob_auth **auth_out);
void mob_auth_close(struct mob_auth *auth);
/* One more host name (without port) under which we may be addressed. MOB_QUEUE_FULL at the limit. */
MOB_MUST_USE enum mob_status mob_auth_allow_host(struct mob_auth *auth, const char *host);

/* The key of `Authorization: Bearer` or `X-Mobula-Authorization`. MOB_UNAUTHENTICATED, or MOB_DENIED when its
 * roles do not hold `needed`. Sets request->principal on success. */
MOB_MUST_USE enum mob_status mob_auth_check(
    const struct mob_auth *auth, struct mob_http_request *request, enum mob_role needed);
/* Host is one of ours, against DNS rebinding. */
bool mob_auth_host_ok(const struct mob_auth *auth, const struct mob_http_request *request);
/* A state change that a browser sends comes from our own pages. */
bool mob_auth_origin_ok(const struct mob_auth *auth, const struct mob_http_request *request);
const char *mob_role_name(enum mob_role role);

#endif
