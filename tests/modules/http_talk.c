/* Functions that write, for tests of logs over HTTP. */
#include <mobula/mobula.h>

#include <stdio.h>

static enum mob_status say(struct mob_call *call)
{
    size_t length;
    const char *text = mob_arg_utf8(call, 0, &length);
    printf("said %.*s\n", (int)length, text);
    return mob_return_i64(call, (int64_t)length);
}

static enum mob_status create(struct mob_call *call)
{
    static int instance;
    mob_call_set_self(call, &instance);
    printf("made\n");
    return MOB_OK;
}

/* clang-format off */
MOB_MODULE("http_talk",
    MOB_FUNCTION("say", say, "utf8 text -> i64"),
    {.name = "Talker", .main = create, .signature = "-> ()",
     .methods = MOB_METHODS(MOB_METHOD("say", say, "utf8 text -> i64"))})
/* clang-format on */
