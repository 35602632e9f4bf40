#include "common/base/sha2.h"

#include <sodium.h>

void mob_sha256(const void *bytes, size_t length, uint8_t out[MOB_SHA256_BYTES])
{
    crypto_hash_sha256(out, bytes, length);
}

void mob_sha512(const void *bytes, size_t length, uint8_t out[MOB_SHA512_BYTES])
{
    crypto_hash_sha512(out, bytes, length);
}
