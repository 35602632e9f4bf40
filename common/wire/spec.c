#include "common/wire/spec.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

struct tail_word {
    uint16_t arg_count, flags;
    uint32_t tail_bytes;
};
struct arg_head {
    uint8_t kind, type;
    uint16_t zero;
    uint32_t payload_bytes;
};
struct ext_head {
    uint16_t tag, zero;
    uint32_t payload_bytes;
};
_Static_assert(sizeof(struct tail_word) == 8 && sizeof(struct arg_head) == 8 && sizeof(struct ext_head) == 8,
    "tail layout");
enum { ARG_INLINE = 0, ARG_REF = 1, ITEM_HEAD_BYTES = 8 };

/* Bytes of a payload with its padding; checks that it lies before `end` and that the padding is zero, so that
 * equal specs have equal bytes. 0 = it does not fit (an empty payload is told apart by its payload_bytes). */
static bool payload_ok(
    const uint8_t *payload, const uint8_t *end, uint32_t payload_bytes, uint64_t *padded_out)
{
    uint64_t padded = mob_round_up(payload_bytes, 8);
    if (padded > (uint64_t)(end - payload))
        return false;
    for (uint64_t i = payload_bytes; i < padded; i++)
        if (payload[i] != 0)
            return false;
    *padded_out = padded;
    return true;
}

static bool arg_ok(const struct arg_head *arg)
{
    if (arg->zero != 0)
        return false;
    if (arg->kind == ARG_REF)
        return arg->type < MOB_TYPE_COUNT && arg->payload_bytes == sizeof(struct mob_object_id);
    return arg->kind == ARG_INLINE && mob_value_small_ok(arg->type, arg->payload_bytes);
}

static bool is_one_i64(const uint8_t *tail)
{
    static const uint8_t shape[16] = {1, 0, 0, 0, 24, 0, 0, 0, ARG_INLINE, MOB_TYPE_I64, 0, 0, 8, 0, 0, 0};
    return memcmp(tail, shape, sizeof shape) == 0;
}

enum mob_status mob_spec_tail_check(const uint8_t *tail, uint32_t tail_bytes, uint16_t *arg_count_out)
{
    if (tail_bytes == 24 && is_one_i64(tail)) {
        *arg_count_out = 1;
        return MOB_OK;
    }
    if (tail_bytes < sizeof(struct tail_word))
        return MOB_TRUNCATED;
    struct tail_word word;
    memcpy(&word, tail, sizeof word);
    if (word.tail_bytes != tail_bytes)
        return word.tail_bytes > tail_bytes ? MOB_TRUNCATED : MOB_CORRUPT;
    if (tail_bytes % 8 != 0 || tail_bytes > MOB_SPEC_TAIL_MAX)
        return MOB_CORRUPT;
    const uint8_t *at = tail + sizeof word, *end = tail + tail_bytes;
    uint64_t padded;
    for (uint16_t i = 0; i < word.arg_count; i++) {
        struct arg_head arg;
        if (at == end)
            return MOB_CORRUPT;
        memcpy(&arg, at, sizeof arg);
        at += sizeof arg;
        if (!arg_ok(&arg) || !payload_ok(at, end, arg.payload_bytes, &padded))
            return MOB_CORRUPT;
        at += padded;
    }
    while (at < end) {
        struct ext_head ext;
        memcpy(&ext, at, sizeof ext);
        at += sizeof ext;
        if (ext.zero != 0 || !payload_ok(at, end, ext.payload_bytes, &padded))
            return MOB_CORRUPT;
        at += padded;
    }
    *arg_count_out = word.arg_count;
    return MOB_OK;
}

static bool head_ok(const struct mob_spec_head *head)
{
    return head->kind >= MOB_KIND_TASK && head->kind <= MOB_KIND_ROOT && head->runtime >= MOB_RUNTIME_C &&
        head->runtime <= MOB_RUNTIME_WS && head->reserved == 0 && head->max_retries >= -1;
}

enum mob_status mob_spec_open(const void *bytes, size_t length, struct mob_spec *out)
{
    struct mob_spec_head head;
    if (length < sizeof head + sizeof(struct tail_word))
        return MOB_TRUNCATED;
    memcpy(&head, bytes, sizeof head);
    if (head.version != MOB_SPEC_VERSION) {
        MOB_LOG_WARN("wire", "spec_version", "found=%u supported=%u", head.version, MOB_SPEC_VERSION);
        return MOB_VERSION;
    }
    if (!head_ok(&head))
        return MOB_CORRUPT;
    const uint8_t *tail = (const uint8_t *)bytes + sizeof head;
    struct tail_word word;
    memcpy(&word, tail, sizeof word);
    if (word.tail_bytes > length - sizeof head)
        return MOB_TRUNCATED;
    uint16_t arg_count;
    enum mob_status status = mob_spec_tail_check(tail, word.tail_bytes, &arg_count);
    if (status != MOB_OK)
        return status;
    *out = (struct mob_spec){head, tail, word.tail_bytes, arg_count};
    return MOB_OK;
}

struct mob_tail_iter mob_spec_args(const uint8_t *checked_tail)
{
    struct tail_word word;
    memcpy(&word, checked_tail, sizeof word);
    return (struct mob_tail_iter){checked_tail + sizeof word, checked_tail + word.tail_bytes, word.arg_count};
}

bool mob_tail_next_arg(struct mob_tail_iter *it, struct mob_arg_view *out)
{
    struct arg_head arg;
    if (it->args_left == 0)
        return false;
    it->args_left--;
    memcpy(&arg, it->at, sizeof arg);
    const uint8_t *payload = it->at + sizeof arg;
    it->at = payload + mob_round_up(arg.payload_bytes, 8);
    *out = (struct mob_arg_view){
        .is_ref = arg.kind == ARG_REF,
        .type = (enum mob_value_type)arg.type,
        .payload = payload,
        .payload_bytes = arg.payload_bytes,
    };
    if (out->is_ref)
        memcpy(&out->ref, payload, sizeof out->ref);
    return true;
}

bool mob_tail_next_ext(struct mob_tail_iter *it, struct mob_ext_view *out)
{
    struct mob_arg_view skipped;
    while (mob_tail_next_arg(it, &skipped))
        ;
    if (it->at >= it->end)
        return false;
    struct ext_head ext;
    memcpy(&ext, it->at, sizeof ext);
    *out = (struct mob_ext_view){ext.tag, it->at + sizeof ext, ext.payload_bytes};
    it->at += sizeof ext + mob_round_up(ext.payload_bytes, 8);
    return true;
}

bool mob_spec_find_ext(const uint8_t *checked_tail, uint16_t tag, struct mob_ext_view *out)
{
    struct mob_tail_iter it = mob_spec_args(checked_tail);
    struct mob_ext_view ext;
    while (mob_tail_next_ext(&it, &ext)) {
        if (ext.tag == tag) {
            *out = ext;
            return true;
        }
    }
    return false;
}

uint32_t mob_spec_arg_pages(const uint8_t *checked_tail)
{
    struct mob_ext_view ext;
    uint32_t pages = 0;
    if (mob_spec_find_ext(checked_tail, MOB_EXT_ARG_PAGES, &ext) && ext.payload_bytes >= sizeof pages)
        memcpy(&pages, ext.payload, sizeof pages);
    return pages < MOB_ARG_PAGES_MAX ? pages : MOB_ARG_PAGES_MAX;
}

bool mob_arg_page_next_ref(const uint8_t *page, uint64_t bytes, uint64_t *at, struct mob_object_id *ref_out)
{
    struct arg_head arg;
    while (*at <= bytes && bytes - *at >= sizeof arg) {
        memcpy(&arg, page + *at, sizeof arg);
        uint64_t step = sizeof arg + mob_round_up(arg.payload_bytes, 8);
        if (step > bytes - *at)
            return false;
        const uint8_t *payload = page + *at + sizeof arg;
        *at += step;
        if (arg.kind == ARG_REF && arg.payload_bytes == sizeof *ref_out) {
            memcpy(ref_out, payload, sizeof *ref_out);
            return true;
        }
    }
    return false;
}

struct mob_hash128 mob_spec_digest(const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes)
{
    uint8_t bytes[sizeof *head + MOB_SPEC_TAIL_MAX];
    MOB_ASSERT(tail_bytes <= MOB_SPEC_TAIL_MAX);
    struct mob_spec_head same = *head;
    same.attempt = 0;
    memcpy(bytes, &same, sizeof same);
    memcpy(bytes + sizeof same, tail, tail_bytes);
    return mob_hash128(bytes, sizeof same + tail_bytes);
}

void mob_tail_begin(struct mob_tail_builder *b, void *buffer, uint32_t capacity)
{
    *b = (struct mob_tail_builder){
        .base = buffer,
        .used = sizeof(struct tail_word),
        .capacity = capacity < MOB_SPEC_TAIL_MAX ? capacity : MOB_SPEC_TAIL_MAX,
        .failed = capacity < sizeof(struct tail_word),
    };
}

/* Appends an 8-byte item head and its padded payload. */
static void add_item(struct mob_tail_builder *b, const void *item_head, const void *payload, uint32_t bytes)
{
    uint64_t needed = ITEM_HEAD_BYTES + mob_round_up(bytes, 8);
    if (b->failed || needed > b->capacity - b->used) {
        b->failed = true;
        return;
    }
    uint8_t *at = b->base + b->used;
    memcpy(at, item_head, ITEM_HEAD_BYTES);
    memset(at + needed - (needed > ITEM_HEAD_BYTES ? 8 : 0), 0, needed > ITEM_HEAD_BYTES ? 8 : 0);
    if (bytes > 0)
        memcpy(at + ITEM_HEAD_BYTES, payload, bytes);
    b->used += (uint32_t)needed;
}

static void add_arg(struct mob_tail_builder *b, struct arg_head arg, const void *payload)
{
    if (b->in_exts || b->arg_count == UINT16_MAX || !arg_ok(&arg)) {
        b->failed = true;
        return;
    }
    add_item(b, &arg, payload, arg.payload_bytes);
    b->arg_count++;
}

void mob_tail_add_value(
    struct mob_tail_builder *b, enum mob_value_type type, const void *payload, uint32_t bytes)
{
    add_arg(b, (struct arg_head){ARG_INLINE, (uint8_t)type, 0, bytes}, payload);
}

void mob_tail_add_ref(struct mob_tail_builder *b, struct mob_object_id id)
{
    mob_tail_add_typed_ref(b, MOB_TYPE_NONE, id);
}

void mob_tail_add_typed_ref(struct mob_tail_builder *b, enum mob_value_type type, struct mob_object_id id)
{
    add_arg(b, (struct arg_head){ARG_REF, (uint8_t)type, 0, sizeof id}, &id);
}

void mob_tail_add_ext(struct mob_tail_builder *b, uint16_t tag, const void *payload, uint32_t bytes)
{
    struct ext_head ext = {tag, 0, bytes};
    b->in_exts = true;
    add_item(b, &ext, payload, bytes);
}

uint32_t mob_tail_end(struct mob_tail_builder *b)
{
    if (b->failed)
        return 0;
    struct tail_word word = {b->arg_count, 0, b->used};
    memcpy(b->base, &word, sizeof word);
    return b->used;
}
