/* mob_completion_open on any bytes, as they are and as the short form says them; its returns can be walked,
 * encoded again, and are the same then. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/completion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR;
    return 0;
}

static void check(const uint8_t *data, size_t size)
{
    static uint8_t body[1 << 20];
    struct mob_completion c;
    struct mob_return_view r;
    uint32_t at = 0, used = 0, returns = 0;
    if (mob_completion_open(data, size, &c) != MOB_OK)
        return;
    while (mob_completion_next(&c, &at, &r)) {
        used = mob_return_encode(body, used, sizeof body, &r);
        MOB_ASSERT(used > 0);
        returns++;
    }
    MOB_ASSERT(returns == c.head.return_count && used == c.head.body_bytes);
    MOB_ASSERT(memcmp(body, c.body, used) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mob_completion_word word;
    struct mob_return_word place;
    check(data, size);
    if (mob_completion_word_open(data, size, &word) != MOB_OK)
        return 0;
    struct mob_completion c = mob_completion_of_word(&word, &place);
    uint8_t whole[sizeof c.head + sizeof place];
    memcpy(whole, &c.head, sizeof c.head);
    memcpy(whole + sizeof c.head, c.body, c.head.body_bytes);
    MOB_ASSERT(mob_completion_open(whole, sizeof whole, &c) == MOB_OK);
    check(whole, sizeof whole);
    return 0;
}
