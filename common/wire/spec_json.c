#include "common/wire/spec_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json_text.h"
#include "common/wire/option_bounds.h"

/* Each byte of a tail becomes at most six of JSON. */
#define OPTIONS_JSON_MAX (6u * MOB_SPEC_TAIL_MAX + 1024u)

static void add_member(struct json_out *out, const char *name, int64_t value)
{
    json_add_text(out, name);
    json_add_i64(out, value);
}

/* 1/10000 as a decimal number that says all of it. */
static void add_amount(struct json_out *out, uint64_t amount)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%llu.%04llu", (unsigned long long)(amount / MOB_AMOUNT_UNITS),
        (unsigned long long)(amount % MOB_AMOUNT_UNITS));
    while (text[length - 1] == '0')
        length--;
    if (text[length - 1] == '.')
        length--;
    json_add(out, text, (uint64_t)length);
}

struct amount_view {
    const uint8_t *name;
    uint32_t name_bytes;
    uint64_t amount;
};

static bool amount_of(const struct mob_ext_view *ext, struct amount_view *view_out)
{
    uint32_t size = ext->tag == MOB_EXT_RESOURCES ? sizeof(uint32_t)
        : ext->tag == MOB_EXT_WIDE_RESOURCES      ? sizeof(uint64_t)
                                                  : UINT32_MAX;
    if (ext->payload_bytes <= size)
        return false;
    *view_out = (struct amount_view){ext->payload + size, ext->payload_bytes - size, 0};
    memcpy(&view_out->amount, ext->payload, size);
    return true;
}

/* The extensions of a tail, behind its arguments. */
static struct mob_tail_iter extensions_of(const uint8_t *checked_tail)
{
    struct mob_tail_iter it = mob_spec_args(checked_tail);
    struct mob_arg_view arg;
    while (mob_tail_next_arg(&it, &arg))
        continue;
    return it;
}

static bool same_name(const struct amount_view *a, const struct amount_view *b)
{
    return a->name_bytes == b->name_bytes && memcmp(a->name, b->name, a->name_bytes) == 0;
}

/* A name may stand there several times: the demand is their sum. False: this one was counted with another
 * before it. */
static bool sum_of(const uint8_t *checked_tail, struct amount_view *view)
{
    struct mob_tail_iter it = extensions_of(checked_tail);
    struct mob_ext_view ext;
    struct amount_view other;
    while (mob_tail_next_ext(&it, &ext)) {
        if (!amount_of(&ext, &other) || !same_name(view, &other) || other.name == view->name)
            continue;
        if (other.name < view->name)
            return false;
        view->amount += other.amount;
    }
    return true;
}

static void add_resources(struct json_out *out, uint32_t cpu, const uint8_t *checked_tail)
{
    struct mob_tail_iter it = extensions_of(checked_tail);
    struct mob_ext_view ext;
    struct amount_view view;
    json_add_text(out, ",\"resources\":{\"CPU\":");
    add_amount(out, cpu);
    while (mob_tail_next_ext(&it, &ext)) {
        if (!amount_of(&ext, &view) || !sum_of(checked_tail, &view))
            continue;
        json_add_text(out, ",");
        json_add_string(out, view.name, view.name_bytes);
        json_add_text(out, ":");
        add_amount(out, view.amount);
    }
    json_add_text(out, "}");
}

static void add_labels(struct json_out *out, const uint8_t *checked_tail)
{
    struct mob_tail_iter it = extensions_of(checked_tail);
    struct mob_ext_view ext;
    bool any = false;
    while (mob_tail_next_ext(&it, &ext)) {
        const uint8_t *nul = ext.tag == MOB_EXT_LABEL ? memchr(ext.payload, 0, ext.payload_bytes) : NULL;
        if (!nul)
            continue;
        uint64_t key_bytes = (uint64_t)(nul - ext.payload);
        json_add_text(out, any ? "," : ",\"labels\":{");
        json_add_string(out, ext.payload, key_bytes);
        json_add_text(out, ":");
        json_add_string(out, nul + 1, ext.payload_bytes - key_bytes - 1);
        any = true;
    }
    if (any)
        json_add_text(out, "}");
}

static void add_flags(struct json_out *out, uint16_t flags)
{
    static const struct {
        uint16_t flag;
        const char *member;
    } names[] = {{MOB_SPEC_RETRY_ON_ERROR, ",\"retry_on_error\":true"},
        {MOB_SPEC_RESTART_ON_DIVERGENCE, ",\"restart_on_divergence\":true"},
        {MOB_SPEC_DETACHED, ",\"detached\":true"}, {MOB_SPEC_DETERMINISTIC, ",\"deterministic\":true"},
        {MOB_SPEC_READ_ONLY, ",\"read_only\":true"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (flags & names[i].flag)
            json_add_text(out, names[i].member);
}

static void add_text(struct json_out *out, const char *member, uint16_t tag, const uint8_t *checked_tail)
{
    struct mob_ext_view ext;
    if (!mob_spec_find_ext(checked_tail, tag, &ext))
        return;
    json_add_text(out, member);
    json_add_string(out, ext.payload, ext.payload_bytes);
}

static void add_backoff(struct json_out *out, const uint8_t *checked_tail)
{
    struct mob_ext_view ext;
    uint64_t ns[2];
    if (!mob_spec_find_ext(checked_tail, MOB_EXT_BACKOFF, &ext) || ext.payload_bytes < sizeof ns)
        return;
    memcpy(ns, ext.payload, sizeof ns);
    if (ns[0] > 0) /* zero: the default */
        add_member(out, ",\"backoff_initial_us\":", (int64_t)(ns[0] / 1000));
    if (ns[1] > 0)
        add_member(out, ",\"backoff_max_us\":", (int64_t)(ns[1] / 1000));
}

static void add_restarts(struct json_out *out, const struct mob_spec_head *head, const uint8_t *checked_tail)
{
    struct mob_ext_view ext;
    uint32_t every = 0;
    add_member(out, ",\"max_restarts\":", head->max_retries);
    if (mob_spec_find_ext(checked_tail, MOB_EXT_CHECKPOINT, &ext) && ext.payload_bytes == sizeof every) {
        memcpy(&every, ext.payload, sizeof every);
        add_member(out, ",\"checkpoint_every\":", every);
    }
}

static void add_options(struct json_out *out, const struct mob_spec_head *head, const uint8_t *checked_tail)
{
    add_member(out, "{\"priority\":", head->priority);
    if (head->kind == MOB_KIND_ACTOR_CREATE)
        add_restarts(out, head, checked_tail);
    else
        add_member(out, ",\"max_retries\":", head->max_retries);
    if (head->kind != MOB_KIND_ACTOR_CALL)
        add_resources(out, head->cpu, checked_tail);
    if (head->kind != MOB_KIND_ACTOR_CREATE && head->num_returns != MOB_RETURNS_STREAM)
        add_member(out, ",\"num_returns\":", head->num_returns);
    if (head->deadline_wall_ns > 0)
        add_member(out, ",\"deadline_us\":", head->deadline_wall_ns / 1000);
    if (head->not_before_wall_ns > 0)
        add_member(out, ",\"not_before_us\":", head->not_before_wall_ns / 1000);
    add_flags(out, head->flags);
    add_backoff(out, checked_tail);
    add_text(out, ",\"name\":", MOB_EXT_NAME, checked_tail);
    add_labels(out, checked_tail);
    add_text(out, ",\"traceparent\":", MOB_EXT_TRACEPARENT, checked_tail);
    json_add_text(out, "}");
}

enum mob_status mob_spec_options_json(
    const struct mob_spec_head *head, const uint8_t *checked_tail, char **json_out, uint64_t *length_out)
{
    struct json_out out = {.most = OPTIONS_JSON_MAX};
    add_options(&out, head, checked_tail);
    json_add(&out, "", 1);
    if (out.status != MOB_OK) {
        free(out.bytes);
        return out.status;
    }
    *json_out = out.bytes;
    *length_out = out.used - 1;
    return MOB_OK;
}
