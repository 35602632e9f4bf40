/* A method whose signature has no such type: refused when it is deployed, in words that say where. */
#include <mobula/mobula.h>

static enum mob_status nothing(struct mob_call *call)
{
    return mob_return_i64(call, 0);
}

MOB_MODULE("wrong_signature", MOB_FUNCTION("fine", nothing, "-> i64"),
    MOB_ACTOR_CLASS("Counter", nothing, "i64 start -> ()", NULL, MOB_METHOD("add", nothing, "i64 v -> i65")))
