#include "server/auth/token.h"

#include <sodium.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/id.h"

#define PREFIX "mob_sk_"
#define PREFIX_LENGTH 7
#define SECRET_AT (PREFIX_LENGTH + MOB_TOKEN_ID_LENGTH + 1)
#define CRC_AT (SECRET_AT + 52)

static void put_crc(char *token)
{
    uint32_t crc = mob_crc32c(token, CRC_AT);
    uint8_t bytes[4] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16), (uint8_t)(crc >> 24)};
    char text[9];
    mob_base32_encode(bytes, sizeof bytes, text);
    memcpy(token + CRC_AT, text, 7);
    token[MOB_TOKEN_LENGTH] = 0;
}

void mob_token_generate(char *out)
{
    uint8_t id[5], secret[32];
    char text[64];
    randombytes_buf(id, sizeof id);
    randombytes_buf(secret, sizeof secret);
    memcpy(out, PREFIX, PREFIX_LENGTH + 1);
    mob_base32_encode(id, sizeof id, text);
    memcpy(out + PREFIX_LENGTH, text, MOB_TOKEN_ID_LENGTH);
    out[SECRET_AT - 1] = '_';
    mob_base32_encode(secret, sizeof secret, text);
    memcpy(out + SECRET_AT, text, 52);
    put_crc(out);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
}

enum mob_status mob_token_parse(
    const char *text, size_t length, char *id_out, struct mob_token_hash *hash_out)
{
    if (length != MOB_TOKEN_LENGTH || memcmp(text, PREFIX, PREFIX_LENGTH) != 0 || text[SECRET_AT - 1] != '_')
        return MOB_UNAUTHENTICATED;
    for (size_t i = PREFIX_LENGTH; i < MOB_TOKEN_LENGTH; i++) {
        bool base32 = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '2' && text[i] <= '7');
        if (!base32 && i != SECRET_AT - 1)
            return MOB_UNAUTHENTICATED;
    }
    char expected[MOB_TOKEN_LENGTH + 1];
    memcpy(expected, text, CRC_AT);
    put_crc(expected);
    bool crc_ok = memcmp(expected + CRC_AT, text + CRC_AT, 7) == 0;
    sodium_memzero(expected, sizeof expected);
    if (!crc_ok)
        return MOB_UNAUTHENTICATED;
    memcpy(id_out, text + PREFIX_LENGTH, MOB_TOKEN_ID_LENGTH);
    id_out[MOB_TOKEN_ID_LENGTH] = 0;
    crypto_generichash(
        hash_out->b, sizeof hash_out->b, (const unsigned char *)text, MOB_TOKEN_LENGTH, NULL, 0);
    return MOB_OK;
}

bool mob_token_hash_eq(const struct mob_token_hash *a, const struct mob_token_hash *b)
{
    return sodium_memcmp(a->b, b->b, sizeof a->b) == 0;
}
