/* Cursors of pages belong to what was asked for: a list with its filter and order, the items of a task, the
 * lineage of an object. Each begins with a tag, eight letters that stand for that, its scope, and for what is
 * behind them, the engine's own: so one that is used elsewhere, or is not as it was given, is refused instead
 * of giving a wrong or an empty page. They are no secret, and mean the same to every gateway.
 */
#ifndef MOB_SERVER_API_CURSOR_H
#define MOB_SERVER_API_CURSOR_H

#include "server/api/engine.h"
#include "server/http/http.h"

/* Takes ?cursor= of the request into the query, with the scope of all that is asked for: kind, id, filter,
 * order and depth of the query, which are set before. Absent: the first page. False: answered with 400. */
bool mob_cursor_take(struct mob_http_request *request, struct mob_engine_query *query);

#endif
