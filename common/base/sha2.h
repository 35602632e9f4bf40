/* SHA-256 and SHA-512 (FIPS 180-4), for what others compute too: digests of HTTP bodies. Our own hashes are
 * in hash.h. Pure. */
#ifndef MOB_COMMON_BASE_SHA2_H
#define MOB_COMMON_BASE_SHA2_H

#include <stddef.h>
#include <stdint.h>

#define MOB_SHA256_BYTES 32
#define MOB_SHA512_BYTES 64

void mob_sha256(const void *bytes, size_t length, uint8_t out[MOB_SHA256_BYTES]);
void mob_sha512(const void *bytes, size_t length, uint8_t out[MOB_SHA512_BYTES]);

#endif
