/* The opening of a link: whatever a stranger says, nobody who does not know the secret is let in, and nothing
 * that he says is more than a refusal. The first byte chooses the end and what it waits for; the rest are
 * words: type, two bytes of length, head. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "gcs/link/opening.h"

enum { FRONT_BYTES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR + 1; /* each input would write a line */
    return 0;
}

static struct mob_link_self self_of(uint8_t choice)
{
    struct mob_link_self self = {
        .kind = choice & 1 ? MOB_LINK_OF_CLIENTS : MOB_LINK_OF_MEMBERS, .protocol_min = 1, .protocol_max = 3};
    memset(self.secret, 9, sizeof self.secret);
    return self;
}

static void check(const struct mob_opening *o, const struct mob_opening_say *answer, enum mob_status status)
{
    MOB_ASSERT(status == MOB_OK || status == MOB_CORRUPT);
    MOB_ASSERT(o->state != MOB_OPENING_PROVED);
    MOB_ASSERT(answer->type == 0 || answer->head_bytes <= sizeof answer->head);
    MOB_ASSERT(memchr(o->why, 0, sizeof o->why) != NULL);
    if (o->state == MOB_OPENING_REFUSED)
        MOB_ASSERT(o->refused != MOB_OK);
    for (const char *at = o->why; *at != 0; at++)
        MOB_ASSERT(*at >= ' ' && *at <= '~');
}

/* An honest other end up to its last word, which is the stranger's. */
static bool go_on(struct mob_opening *o, const struct mob_link_self *self, struct mob_opening_say *hello)
{
    struct mob_opening other;
    struct mob_opening_say word, answer;
    if (o->state == MOB_OPENING_AWAITS_HELLO) { /* then it waits for a proof */
        mob_opening_dial(&other, self, &word);
    } else { /* then it waits for READY; only who proved itself is believed that */
        mob_opening_accept(&other, self);
        struct mob_gcs_frame f = {.type = hello->type, .head = hello->head, .head_bytes = hello->head_bytes};
        if (mob_opening_take(&other, &f, &word) != MOB_OK)
            return false;
    }
    struct mob_gcs_frame f = {.type = word.type, .head = word.head, .head_bytes = word.head_bytes};
    return mob_opening_take(o, &f, &answer) == MOB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct mob_link_self self = self_of(data[0]);
    struct mob_opening o;
    struct mob_opening_say hello = {.type = 0}, answer;
    bool dials = (data[0] & 2) != 0, proved_other = (data[0] & 4) != 0;
    if (dials)
        mob_opening_dial(&o, &self, &hello);
    else
        mob_opening_accept(&o, &self);
    if (proved_other)
        MOB_ASSERT(go_on(&o, &self, &hello));
    for (size_t at = 1; at + FRONT_BYTES <= size && o.state != MOB_OPENING_REFUSED;) {
        size_t head = (size_t)(data[at + 1] | data[at + 2] << 8), left = size - at - FRONT_BYTES;
        head = head < left ? head : left;
        struct mob_gcs_frame f = {
            .type = data[at], .head = data + at + FRONT_BYTES, .head_bytes = (uint32_t)head};
        /* the other end of this one has proved the secret: READY is its to say */
        if (dials && proved_other && f.type == MOB_GCS_LINK_READY)
            return 0;
        enum mob_status status = mob_opening_take(&o, &f, &answer);
        check(&o, &answer, status);
        if (status != MOB_OK)
            return 0;
        at += FRONT_BYTES + head;
    }
    return 0;
}
