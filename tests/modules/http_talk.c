/* Functions that write, for tests of logs over HTTP. */
#include <mobula/mobula.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum mob_status say(struct mob_call *call)
{
    size_t length;
    const char *text = mob_arg_utf8(call, 0, &length);
    printf("said %.*s\n", (int)length, text);
    return mob_return_i64(call, (int64_t)length);
}

/* Lines with a pause behind each. */
static enum mob_status count(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 0); i++) {
        printf("line %ld\n", (long)i);
        usleep((useconds_t)mob_arg_i64(call, 1) * 1000);
    }
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

/* Words of a process that does not end well. */
static enum mob_status last_words(struct mob_call *call)
{
    (void)call;
    printf("the end is near\n");
    fflush(stdout);
    abort();
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
    MOB_FUNCTION("count", count, "i64 lines, i64 pause_ms -> i64"),
    MOB_FUNCTION("last_words", last_words, "-> i64"),
    {.name = "Talker", .main = create, .signature = "-> ()",
     .methods = MOB_METHODS(MOB_METHOD("say", say, "utf8 text -> i64"),
         MOB_METHOD("count", count, "i64 lines, i64 pause_ms -> i64"))})
/* clang-format on */
