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

/* The same around stdio. */
static enum mob_status count_directly(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 0); i++) {
        char line[32];
        int bytes = snprintf(line, sizeof line, "line %ld\n", (long)i);
        if (write(1, line, (size_t)bytes) != bytes)
            return mob_fail(call, "line %ld could not be written", (long)i);
        usleep((useconds_t)mob_arg_i64(call, 1) * 1000);
    }
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

/* Lines of the API's log, between others. */
static enum mob_status logs(struct mob_call *call)
{
    printf("half a line, ");
    mob_log(call, MOB_LOG_LEVEL_DEBUG, "below the threshold");
    mob_log(call, MOB_LOG_LEVEL_WARN, "reward %g\nin line %d", 0.5, 2);
    mob_log(NULL, MOB_LOG_LEVEL_ERROR, "of nobody");
    return mob_return_i64(call, 0);
}

static enum mob_status last_words_directly(struct mob_call *call)
{
    static const char text[] = "no more stdio\n";
    (void)call;
    if (write(2, text, sizeof text - 1) < 0)
        return MOB_IO;
    abort();
}

/* Words of a process that does not end well. */
static enum mob_status last_words(struct mob_call *call)
{
    (void)call;
    printf("the end is near\n");
    fflush(stdout);
    abort();
}

/* Attempts that end badly, by turns with an error and with the worker; from `good` on they pause and are
 * well. Half a line is left behind by those that fail. */
static enum mob_status try_again(struct mob_call *call)
{
    int64_t attempt = mob_call_attempt(call), good = mob_arg_i64(call, 0);
    char json[32];
    int64_t begin = mob_span_begin(call);
    printf("try %ld\n%s", (long)attempt, attempt < good ? "then" : "");
    fflush(stdout);
    snprintf(json, sizeof json, "{\"try\":%ld}", (long)attempt);
    if (mob_event(call, "talk.try", json) != MOB_OK || mob_progress(call, 0.5, "half") != MOB_OK ||
        mob_span_end(call, begin, "talk.span") != MOB_OK)
        return mob_fail(call, "it cannot tell of it");
    if (attempt < good && attempt % 2 == 0)
        abort();
    if (attempt < good)
        return mob_fail(call, "try %ld", (long)attempt);
    for (int64_t i = 0; i < mob_arg_i64(call, 1) && !mob_call_cancelled(call); i++)
        usleep(1000);
    printf("well\n");
    return mob_return_i64(call, attempt);
}

static enum mob_status create(struct mob_call *call)
{
    static int instance;
    mob_call_set_self(call, &instance);
    printf("made\n");
    return MOB_OK;
}

/* The event has what the caller gave, so that it is known again. */
static enum mob_status tell(struct mob_call *call)
{
    char json[48];
    snprintf(json, sizeof json, "{\"told\":%ld}", (long)mob_arg_i64(call, 0));
    if (mob_event(call, "talk.told", json) != MOB_OK)
        return mob_fail(call, "it cannot tell of it");
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

/* clang-format off */
MOB_MODULE("http_talk",
    MOB_FUNCTION("say", say, "utf8 text -> i64"),
    MOB_FUNCTION("count", count, "i64 lines, i64 pause_ms -> i64"),
    MOB_FUNCTION("count_directly", count_directly, "i64 lines, i64 pause_ms -> i64"),
    MOB_FUNCTION("logs", logs, "-> i64"),
    MOB_FUNCTION("try_again", try_again, "i64 good, i64 pause_ms -> i64"),
    MOB_FUNCTION("last_words", last_words, "-> i64"),
    MOB_FUNCTION("last_words_directly", last_words_directly, "-> i64"),
    {.name = "Talker", .main = create, .signature = "-> ()",
     .methods = MOB_METHODS(MOB_METHOD("say", say, "utf8 text -> i64"),
         MOB_METHOD("tell", tell, "i64 what -> i64"),
         MOB_METHOD("count", count, "i64 lines, i64 pause_ms -> i64"))})
/* clang-format on */
