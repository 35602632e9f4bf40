/* Specs that came by last, by task: a table of fixed size, in sets of a few places each, where the newest one
 * of a set takes the place of the one that was noted longest ago. So all of some ten thousands stay, and
 * neighbours that came by together go together. One owner, no locks.
 *
 *   struct recent_specs *recent = recent_specs_create();
 *   recent_specs_note(recent, &spec);
 *   const struct event_spec *spec = recent_specs_find(recent, task);   // until the next note
 */
#ifndef MOB_SERVER_API_RECENT_SPECS_H
#define MOB_SERVER_API_RECENT_SPECS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

#define RECENT_SPECS_SETS 8192u
#define RECENT_SPECS_WAYS 8u /* 65,536 places of 48 bytes: 3 MiB, touched as they come */

struct event_spec {
    struct mob_task_id task;
    struct mob_function_id function; /* of a call its class */
    struct mob_actor_id actor; /* that it is a call of, or makes; zero: none */
    uint16_t method; /* of a call, in its class */
    bool is_call;
};

struct recent_specs;
/* NULL: out of memory. */
struct recent_specs *recent_specs_create(void);
void recent_specs_destroy(struct recent_specs *recent);
/* Copies; of a task that is there already the newer one stays. */
void recent_specs_note(struct recent_specs *recent, const struct event_spec *spec);
/* NULL: it is not there. */
const struct event_spec *recent_specs_find(const struct recent_specs *recent, struct mob_task_id task);

#endif
