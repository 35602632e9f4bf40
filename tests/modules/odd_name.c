/* A name that could not be called: refused when it is deployed. */
#include <mobula/mobula.h>

static enum mob_status nothing(struct mob_call *call)
{
    return mob_return_i64(call, 0);
}

MOB_MODULE("odd_name", MOB_FUNCTION("fine", nothing, "-> i64"), MOB_FUNCTION("of.another", nothing, "-> i64"))
