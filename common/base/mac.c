#include "common/base/mac.h"

#include <sodium.h>

#include "common/base/log.h"

void mob_mac(
    const uint8_t key[MOB_MAC_KEY_BYTES], const void *bytes, size_t length, uint8_t mac_out[MOB_MAC_BYTES])
{
    int status = crypto_generichash(mac_out, MOB_MAC_BYTES, bytes, length, key, MOB_MAC_KEY_BYTES);
    MOB_ASSERT(status == 0);
}

bool mob_mac_equal(const uint8_t a[MOB_MAC_BYTES], const uint8_t b[MOB_MAC_BYTES])
{
    return sodium_memcmp(a, b, MOB_MAC_BYTES) == 0;
}

void mob_random_bytes(void *out, size_t length)
{
    randombytes_buf(out, length);
}
