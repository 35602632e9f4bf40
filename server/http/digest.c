#include "server/http/digest.h"

#include <stdio.h>
#include <string.h>

#include "common/base/sha2.h"
#include "server/http/text.h"

/* The digest in base64, as text that is freed with mob_text_fini. */
static struct mob_text base64_of(bool sha512, const void *bytes, size_t length)
{
    uint8_t digest[MOB_SHA512_BYTES];
    struct mob_text text = {0};
    if (sha512)
        mob_sha512(bytes, length, digest);
    else
        mob_sha256(bytes, length, digest);
    mob_text_base64(&text, digest, sha512 ? MOB_SHA512_BYTES : MOB_SHA256_BYTES);
    return text;
}

static size_t without_padding(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == '=')
        length--;
    return length;
}

/* `at` is behind the "=". */
static enum mob_digest_result check_one(
    bool sha512, const char *at, size_t size, const void *bytes, size_t length)
{
    if (size < 2 || at[0] != ':' || at[size - 1] != ':')
        return MOB_DIGEST_MALFORMED;
    struct mob_text right = base64_of(sha512, bytes, length);
    size = without_padding(++at, size - 2);
    bool same = !right.failed && size == without_padding(right.bytes, right.length) &&
        memcmp(at, right.bytes, size) == 0;
    mob_text_fini(&right);
    return same ? MOB_DIGEST_RIGHT : MOB_DIGEST_WRONG;
}

/* Next member of the list: its key, and what is behind the "=". */
static bool next_member(
    const char **list, const char **key, size_t *key_size, const char **value, size_t *value_size)
{
    const char *at = *list + strspn(*list, ", \t");
    if (!*at)
        return false;
    size_t whole = strcspn(at, ",");
    *list = at + whole;
    while (whole > 0 && (at[whole - 1] == ' ' || at[whole - 1] == '\t'))
        whole--;
    const char *equals = memchr(at, '=', whole);
    *key = at;
    *key_size = equals ? (size_t)(equals - at) : whole;
    *value = equals ? equals + 1 : at + whole;
    *value_size = equals ? whole - *key_size - 1 : 0;
    return true;
}

enum mob_digest_result mob_digest_check(const char *field, const void *bytes, size_t length)
{
    const char *key, *value;
    size_t key_size, value_size;
    enum mob_digest_result result = MOB_DIGEST_NONE;
    while (next_member(&field, &key, &key_size, &value, &value_size)) {
        if (key_size != 7 || (memcmp(key, "sha-256", 7) != 0 && memcmp(key, "sha-512", 7) != 0))
            continue;
        result = check_one(key[4] == '5', value, value_size, bytes, length);
        if (result != MOB_DIGEST_RIGHT)
            return result;
    }
    return result;
}

bool mob_digest_wanted(const char *field)
{
    const char *key, *value;
    size_t key_size, value_size;
    while (field && next_member(&field, &key, &key_size, &value, &value_size))
        if (key_size == 7 && memcmp(key, "sha-256", 7) == 0 && !(value_size == 1 && *value == '0'))
            return true;
    return false;
}

void mob_digest_write(const void *bytes, size_t length, char out[MOB_DIGEST_TEXT_MAX])
{
    struct mob_text text = base64_of(false, bytes, length);
    snprintf(out, MOB_DIGEST_TEXT_MAX, "sha-256=:%.*s:", (int)text.length, text.bytes ? text.bytes : "");
    mob_text_fini(&text);
}
