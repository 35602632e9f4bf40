/* Names of nodes: blocks, and so records, know the number of an incarnation only, and the control store whose
 * it is. What it says is remembered, since it never changes. */
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_inner.h"

struct node_question {
    struct engine *engine;
    void (*then)(void *arg);
    void *arg;
};

const char *engine_node_name(const struct engine *engine, uint64_t incarnation)
{
    const struct known_node *node = &engine->nodes[incarnation % ENGINE_KNOWN_NODES];
    return node->name[0] && node->incarnation == incarnation ? node->name : NULL;
}

static void on_incarnations(void *arg, const struct mob_gcs_answer *answer)
{
    struct node_question *question = arg;
    struct engine *engine = question->engine;
    engine->worked++;
    /* From the one that was asked for on: were there more than places, the first must stay. */
    uint32_t count = answer->status == MOB_OK ? answer->incarnation_count : 0;
    for (uint32_t i = count < ENGINE_KNOWN_NODES ? count : ENGINE_KNOWN_NODES; i-- > 0;) {
        const struct mob_gcs_incarnation *row = &answer->incarnations[i];
        struct known_node *node = &engine->nodes[row->id % ENGINE_KNOWN_NODES];
        node->incarnation = row->id;
        memcpy(node->name, row->name, sizeof node->name);
        node->name[sizeof node->name - 1] = 0;
    }
    question->then(question->arg);
    free(question);
}

void engine_node_learn(struct engine *engine, uint64_t incarnation, void (*then)(void *arg), void *arg)
{
    struct node_question *question = malloc(sizeof *question);
    MOB_ASSERT(question != NULL);
    *question = (struct node_question){engine, then, arg};
    if (incarnation > 0 &&
        mob_gcs_incarnations(engine->gcs, incarnation - 1, on_incarnations, question) == MOB_OK)
        return;
    free(question); /* told without */
    then(arg);
}
