#include "runtime/node/full_store.h"

#include <stdio.h>

#include "runtime/node/large_hashes.h"

bool full_store_call_later(struct node *node, void (*fn)(void *arg), void (*drop)(void *arg), void *arg)
{
    if (lineage_log_idle(node->log) && !large_hashes_any(node))
        return false;
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = fn;
    effect.call.drop = drop;
    effect.call.arg = arg;
    if (!large_hashes_after(node, NODE_NOBODY, 0, &effect))
        lineage_log_effect_later(node->log, &effect);
    return true;
}

void full_store_text(const struct node *node, char text_out[FULL_STORE_TEXT_MAX])
{
    struct mob_store_full full;
    mob_store_full_details(node->store, &full);
    snprintf(text_out, FULL_STORE_TEXT_MAX,
        "%llu bytes needed, %llu of %llu free and %llu of them in one piece, %llu pinned, %llu spilled of at "
        "most %llu, %u of %u entries used",
        (unsigned long long)full.needed_bytes, (unsigned long long)full.free_bytes,
        (unsigned long long)full.arena_bytes, (unsigned long long)full.largest_free_bytes,
        (unsigned long long)full.pinned_bytes, (unsigned long long)full.spilled_bytes,
        (unsigned long long)full.spill_quota_bytes, full.entries_used, full.entries);
}
