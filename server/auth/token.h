/* API tokens: `mob_sk_<id>_<secret><crc>`.
 *
 * id is 8 characters and not secret (it names the key in logs), secret is 256 bits in 52 characters of
 * lower-case base32, crc is CRC-32C of everything before it in 7 characters, so that a mistyped or cut token
 * is told from a wrong one and scanners find leaked ones. Pure except mob_token_generate (the kernel's random
 * bytes).
 */
#ifndef MOB_SERVER_AUTH_TOKEN_H
#define MOB_SERVER_AUTH_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_TOKEN_ID_LENGTH 8
#define MOB_TOKEN_LENGTH (7 + MOB_TOKEN_ID_LENGTH + 1 + 52 + 7)
#define MOB_TOKEN_HASH_BYTES 32

struct mob_token_hash {
    uint8_t b[MOB_TOKEN_HASH_BYTES];
};

/* `out` has MOB_TOKEN_LENGTH + 1 bytes. */
void mob_token_generate(char *out);
/* Form and checksum. The id (with NUL, MOB_TOKEN_ID_LENGTH + 1 bytes) and the hash are written on success. */
MOB_MUST_USE enum mob_status mob_token_parse(
    const char *text, size_t length, char *id_out, struct mob_token_hash *hash_out);
/* Constant time. */
bool mob_token_hash_eq(const struct mob_token_hash *a, const struct mob_token_hash *b);

#endif
