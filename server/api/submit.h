/* What POST /tasks, POST /actors and actor calls share: 202 with the ids, or 200 with the result under
 * Prefer: wait.
 */
#ifndef MOB_SERVER_API_SUBMIT_H
#define MOB_SERVER_API_SUBMIT_H

#include "server/api/body.h"
#include "server/api/engine.h"

/* Ends reading the body (422 if it has errors) and runs op->submit. Takes op, closes the body. */
void mob_submit_run(struct mob_body *body, struct mob_engine_op *op);
/* "obj_..","obj_.." of a task's returns; a stream (0xffff returns) has one. */
void mob_submit_write_returns(struct mob_text *text, struct mob_task_id task, uint32_t count);

#endif
