/* Figures of the control store's members and of the node, for /metrics. Everything in the engine's thread. */
#ifndef MOB_SERVER_API_ENGINE_METRICS_H
#define MOB_SERVER_API_ENGINE_METRICS_H

#include "server/api/engine_inner.h"

struct member_figures;
/* Asks each member of each shard; `then` is called once, within little more than a second. Gives (free() it
 * when `then` has been called, or in it). */
struct member_figures *engine_ask_members(struct engine *engine, void (*then)(void *arg), void *arg);
/* In Prometheus' text format. Who has not answered (before `then`: all) is mobula_gcs_member_up 0, and has no
 * figures. */
void engine_write_members(const struct member_figures *figures, struct mob_text *t);
/* The word of a shard's tail (or only member) for what keeps its Redis from keeping what it is given
 * (mob_gcs_stats.store); NULL: it has not answered. */
const char *engine_tail_store(const struct member_figures *figures, uint32_t shard);
/* What the node answers to MOB_REQ_STATS, in the same format. */
void engine_write_node(const json_t *stats, struct mob_text *t);
/* A question to the node that is not answered any more, by the callback it would have come to: frees what is
 * this module's. */
void engine_metrics_forget(mob_answer_fn *answer, void *arg);

#endif
