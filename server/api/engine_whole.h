/* Turns of readings that look at all there is for one answer, as a sorted list does. Few are under way at
 * once, the others wait in order; each works in slices of the engine's thread, one in a round that has
 * nothing else to do, or that comes WHOLE_REST_NS behind the slice before, so that other requests go on
 * beside it; and each has WHOLE_NS from when it began, or to begin.
 *
 *   whole_begin(&whole, flight, begin, refused, context);   // calls one of them, now or later
 *   if (whole_is_late(&whole)) ...                          // the caller ends with whole_fail_late
 *   if (whole_slice_is_over(&whole)) { whole_pause(&whole, go_on); return; }
 *   whole_end(&whole);                                      // others may begin inside of this call
 *
 * The caller keeps it where it does not move, and ends it before that goes; ended twice is ended once. The
 * engine's thread only.
 */
#ifndef MOB_SERVER_API_ENGINE_WHOLE_H
#define MOB_SERVER_API_ENGINE_WHOLE_H

#include "server/api/engine_inner.h"

/* Turn and wait together stay below the 30 s that the command line tool waits for an answer. */
#define WHOLE_NS (10 * MOB_SEC)
#define WHOLE_SLICE_NS (1 * MOB_MS)
#define WHOLE_REST_NS (1 * MOB_MS)
/* Of each: what a scan remembers (engine_scan.h), some tens of MiB. */
#define WHOLE_AT_ONCE 2u
#define WHOLE_WAITING_MAX 32u

enum whole_state { WHOLE_NONE, WHOLE_WAITS, WHOLE_RUNS, WHOLE_PAUSED };

struct whole {
    struct whole *next, *prev; /* of the engine's; the order in which they get their turns and slices */
    struct flight *flight;
    enum whole_state state;
    int64_t deadline_ns, slice_end_ns;
    void (*begin)(void *context);
    void (*refused)(void *context, enum mob_status status); /* ends the flight */
    void (*go_on)(void *context);
    void *context;
};

/* `refused`: MOB_QUEUE_FULL, there are too many or its time to wait is over; MOB_UNAVAILABLE, the engine ends
 * (also while it runs). It is ended then. */
void whole_begin(struct whole *whole, struct flight *flight, void (*begin)(void *context),
    void (*refused)(void *context, enum mob_status status), void *context);
bool whole_is_late(const struct whole *whole);
bool whole_slice_is_over(const struct whole *whole);
/* `go_on` is called in one of the engine's next rounds. */
void whole_pause(struct whole *whole, void (*go_on)(void *context));
void whole_end(struct whole *whole);
/* Ends the flight of one that was refused or is late, with words that say what helps. */
void whole_fail(struct flight *flight, enum mob_status status);

/* Once a round. `busy`: it had something else to do. */
void engine_whole_step(struct engine *engine, int64_t now_ns, bool busy);
/* Nothing calls back any more: all are refused. */
void engine_whole_close(struct engine *engine);

#endif
