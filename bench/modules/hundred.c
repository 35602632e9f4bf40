/* A hundred functions, hundred.f0 to hundred.f99: names for rows that look for the tasks of one of many. Each
 * gives its argument back. */
#include <mobula/mobula.h>

static enum mob_status echo(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

#define ONE(n) MOB_FUNCTION("f" #n, echo, "i64 x -> i64")
#define TEN(n) \
    ONE(n##0), ONE(n##1), ONE(n##2), ONE(n##3), ONE(n##4), ONE(n##5), ONE(n##6), ONE(n##7), ONE(n##8), \
        ONE(n##9)

MOB_MODULE("hundred", TEN(), TEN(1), TEN(2), TEN(3), TEN(4), TEN(5), TEN(6), TEN(7), TEN(8), TEN(9))
