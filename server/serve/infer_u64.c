#include "server/serve/infer_u64.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/json_text.h"

static enum json_kind find_data(struct json_slice root, size_t at, struct json_slice *data_out)
{
    struct json_slice inputs, key, input;
    enum json_kind kind = json_find(root, "inputs", &inputs);
    if (kind != JSON_ARRAY)
        return JSON_NONE;
    struct json_iter it = json_members(inputs);
    for (size_t i = 0; i <= at; i++)
        kind = json_next(&it, &key, &input);
    return kind == JSON_OBJECT ? json_find(input, "data", data_out) : JSON_NONE;
}

static bool read_u64(struct json_slice text, enum json_kind kind, uint64_t *out)
{
    uint64_t v = kind == JSON_TRUE;
    if (kind == JSON_NUMBER && text.end - text.at == 2 && memcmp(text.at, "-0", 2) == 0) {
        *out = 0; /* as for every other integer's type */
        return true;
    }
    for (const char *at = text.at; kind == JSON_NUMBER && at < text.end; at++)
        if (*at < '0' || *at > '9' || mob_mul_overflows(v, 10, &v) ||
            mob_add_overflows(v, (uint64_t)(*at - '0'), &v))
            return false;
    *out = v;
    return kind == JSON_NUMBER || kind == JSON_TRUE || kind == JSON_FALSE;
}

static bool put(struct json_slice data, enum json_kind kind, uint8_t **at)
{
    if (kind == JSON_ARRAY) {
        struct json_iter it = json_members(data);
        struct json_slice key, value;
        while ((kind = json_next(&it, &key, &value)) != JSON_NONE)
            if (!put(value, kind, at))
                return false;
        return true;
    }
    uint64_t v;
    if (!read_u64(data, kind, &v))
        return false;
    memcpy(*at, &v, sizeof v);
    *at += sizeof v;
    return true;
}

bool mob_infer_put_u64s(const char *json, size_t length, size_t input, uint8_t **at)
{
    struct json_slice root, data = {0};
    if (json_whole((struct json_slice){json, json + length}, &root) != JSON_OBJECT)
        return false;
    enum json_kind kind = find_data(root, input, &data);
    return kind != JSON_NONE && put(data, kind, at);
}
