/* Rates of requests: one token bucket for each key.
 *
 * A bucket holds at most `burst` requests and gets `rate` of them a second. It is kept as one number, the
 * instant at which it will be full again (the generic cell rate algorithm, ITU-T I.371, Annex A; with the
 * words of a bucket here): one atomic compare-and-set a request, no lock and no timer. The headers are those
 * of draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy: "key";q=BURST;w=SECONDS` says that BURST
 * requests in any SECONDS are never refused, `RateLimit: "key";r=LEFT;t=SECONDS` how many are left now, and
 * when all of them will be there again.
 *
 *   mob_rate_limit_init(&limit, 100, 200);
 *   if (!mob_rate_limit_take(&limit, &bucket, mob_now(), &left))
 *       refuse(left.retry_after_s);
 *
 * Threads: init once; take from any. A zeroed bucket is full. Pure: the caller gives the time, in monotonic
 * nanoseconds since an instant that is not later than any of them.
 */
#ifndef MOB_SERVER_API_RATE_LIMIT_H
#define MOB_SERVER_API_RATE_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MOB_RATE_LIMIT_MAX 1000000 /* requests a second: above, one takes no whole microsecond */
#define MOB_RATE_BURST_MAX 1000000

struct mob_rate_limit {
    int64_t each_ns; /* what one request takes of a bucket's time; 0: there is no limit */
    int64_t whole_ns; /* what a full bucket holds */
    uint32_t burst, window_s;
};

struct mob_rate_bucket {
    _Atomic int64_t full_at_ns;
};

struct mob_rate_left {
    uint32_t requests;
    uint32_t full_in_s; /* rounded up */
    uint32_t retry_after_s; /* of a refusal: at least 1 */
};

/* `rate` requests a second, 0: no limit; `burst` 0: as many as come in a second. Values over the maxima are
 * cut to them. */
void mob_rate_limit_init(struct mob_rate_limit *limit, uint32_t rate, uint32_t burst);
static inline bool mob_rate_limit_is_on(const struct mob_rate_limit *limit)
{
    return limit->each_ns > 0;
}
/* Takes one request from the bucket. False: there is none, and the bucket is as it was. The limit is on. */
bool mob_rate_limit_take(const struct mob_rate_limit *limit, struct mob_rate_bucket *bucket, int64_t now_ns,
    struct mob_rate_left *left_out);

#endif
