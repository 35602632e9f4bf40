/* What opens a session, from any bytes: the hello of a client and the welcome of a node. What is taken can be
 * read as it says; what is refused leaves the outputs alone. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hello(const uint8_t *data, size_t size)
{
    struct mob_session_hello out, untouched;
    char detail[MOB_SESSION_DETAIL];
    memset(&out, 0x5a, sizeof out);
    memset(&untouched, 0x5a, sizeof untouched);
    memset(detail, 0x5a, sizeof detail);
    if (mob_session_hello_decode(data, size, &out, detail) != MOB_OK) {
        MOB_ASSERT(memcmp(&out, &untouched, sizeof out) == 0);
        MOB_ASSERT(memchr(detail, 0, sizeof detail) != NULL);
        return;
    }
    MOB_ASSERT(size == sizeof out && memcmp(&out, data, size) == 0);
    MOB_ASSERT(strlen(out.ns) < sizeof out.ns && strlen(out.job_name) < sizeof out.job_name);
    MOB_ASSERT(strlen(out.idempotency_key) < sizeof out.idempotency_key);
    MOB_ASSERT(out.version == MOB_SESSION_VERSION && out.job_weight <= MOB_JOB_WEIGHT_MAX);
}

static void welcome(const uint8_t *data, size_t size)
{
    struct mob_session_welcome out, untouched;
    memset(&out, 0x5a, sizeof out);
    memset(&untouched, 0x5a, sizeof untouched);
    enum mob_status status = mob_session_welcome_decode(data, size, &out);
    if (status == MOB_INVALID) {
        MOB_ASSERT(memcmp(&out, &untouched, sizeof out) == 0);
        return;
    }
    MOB_ASSERT((status == MOB_OK) == (out.version == MOB_SESSION_VERSION));
    MOB_ASSERT(strlen(out.detail) < sizeof out.detail && out.status < MOB_STATUS_COUNT);
}

/* The magic and the version would keep a fuzzer out: the input is tried as it is, and again with the right
 * ones. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint16_t version = MOB_SESSION_VERSION;
    static const uint32_t magic = MOB_SESSION_MAGIC;
    uint8_t copy[sizeof(struct mob_session_hello) + sizeof(struct mob_session_welcome)];
    hello(data, size);
    welcome(data, size);
    if (size < sizeof magic + sizeof version || size > sizeof copy)
        return 0;
    memcpy(copy, data, size);
    memcpy(copy, &magic, sizeof magic);
    memcpy(copy + sizeof magic, &version, sizeof version);
    hello(copy, size);
    welcome(copy, size);
    return 0;
}
