/* Small text parsers of the HTTP layer: paths and queries, ranges, filters, event positions, tokens. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/api/api.h"
#include "server/api/filter.h"
#include "server/api/range.h"
#include "server/auth/token.h"
#include "server/events/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    struct mob_http_request *request = mob_http_request_create(text, strlen(text));
    if (request) {
        const struct mob_route *route;
        char allow[64], value[64];
        (void)!mob_route_find(request, &route, allow, sizeof allow);
        if (mob_http_query(request, "a", value, sizeof value) == MOB_OK)
            MOB_ASSERT(strlen(value) < sizeof value);
        mob_http_release(request);
    }
    struct mob_range range;
    if (mob_range_parse(text, 1000, &range) == MOB_RANGE_PART)
        MOB_ASSERT(range.length > 0 && range.first + range.length <= 1000);
    struct mob_filter filter;
    if (mob_filter_parse(text, &filter) == MOB_OK)
        for (size_t i = 0; i < filter.count; i++)
            mob_glob(filter.terms[i].value, text);
    struct mob_event_position position;
    if (mob_event_position_parse(text, &position) == MOB_OK) {
        char again[MOB_EVENTS_POSITION_TEXT_MAX];
        mob_event_position_format(&position, again);
        struct mob_event_position same;
        MOB_ASSERT(mob_event_position_parse(again, &same) == MOB_OK && same.shards == position.shards &&
            memcmp(same.at, position.at, sizeof same.at) == 0);
    }
    char id[MOB_TOKEN_ID_LENGTH + 1];
    struct mob_token_hash hash;
    (void)!mob_token_parse(text, strlen(text), id, &hash);
    free(text);
    return 0;
}
