/* Entries of committed blocks to events: for the stream of what is committed now (engine_events.c), and for
 * readers of the past (engine_history.c). The engine's thread only.
 */
#ifndef MOB_SERVER_API_ENGINE_EVENT_ENTRIES_H
#define MOB_SERVER_API_ENGINE_EVENT_ENTRIES_H

#include "server/api/engine_event_specs.h"
#include "server/api/engine_inner.h"
#include "server/events/events.h"

struct event_sink {
    struct engine *engine;
    struct event_specs *specs;
    bool (*give)(void *arg, const struct mob_event *event); /* false: stop */
    void *arg;
};
enum event_block_end {
    EVENT_BLOCK_DONE,
    EVENT_BLOCK_LACKS_SPECS, /* before entry *from: to be read (event_specs_read); they are wanted */
    EVENT_BLOCK_STOPPED /* by give, of which there may be a rest in the block */
};
/* Gives the events of a block from entry *from on, and moves that. */
enum event_block_end engine_event_block(
    const struct event_sink *sink, const struct event_block *block, uint32_t *from);
/* It has functions whose names are not known, and may be in a moment: engine_functions_refresh. Says so once
 * for each. */
bool engine_event_names_missing(struct engine *engine, const uint8_t *bytes, size_t length);

#endif
