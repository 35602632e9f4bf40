/* Two functions of one name: refused when it is deployed. */
#include <mobula/mobula.h>

static enum mob_status twin(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

MOB_MODULE("two_of_a_name", MOB_FUNCTION("twin", twin, "i64 v -> i64"),
    MOB_FUNCTION("other", twin, "i64 v -> i64"), MOB_FUNCTION("twin", twin, "f64 v -> f64"))
