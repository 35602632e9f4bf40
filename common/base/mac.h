/* Proof that both sides know one secret, and random numbers nobody can guess (libsodium). Thread-safe.
 */
#ifndef MOB_COMMON_BASE_MAC_H
#define MOB_COMMON_BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOB_MAC_KEY_BYTES 32u
#define MOB_MAC_BYTES 32u

/* Keyed BLAKE2b-256 of `bytes`. */
void mob_mac(
    const uint8_t key[MOB_MAC_KEY_BYTES], const void *bytes, size_t length, uint8_t mac_out[MOB_MAC_BYTES]);
/* In a time that does not depend on where they differ. */
bool mob_mac_equal(const uint8_t a[MOB_MAC_BYTES], const uint8_t b[MOB_MAC_BYTES]);
void mob_random_bytes(void *out, size_t length);

#endif
