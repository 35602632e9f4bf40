#include "server/api/trace_tracks.h"

#include <stdlib.h>

#include "common/base/log.h"

struct trace_track {
    struct trace_track *next;
    uint64_t incarnation;
    uint32_t worker, lane;
};

#define LANE_STRIDE (1u << 20)

uint32_t trace_track_of(uint32_t worker, uint32_t lane)
{
    return worker == TRACE_TRACK_OF_RUNNING ? worker - lane : worker + lane * LANE_STRIDE;
}

void trace_tracks_note(struct trace_tracks *tracks, uint64_t incarnation, uint32_t worker, uint32_t lane)
{
    struct trace_track **bucket =
        &tracks->buckets[(incarnation * 31 + worker + 7 * lane) % TRACE_TRACK_BUCKETS];
    for (const struct trace_track *t = *bucket; t; t = t->next)
        if (t->incarnation == incarnation && t->worker == worker && t->lane == lane)
            return;
    struct trace_track *track = malloc(sizeof *track);
    MOB_ASSERT(track != NULL);
    *track = (struct trace_track){*bucket, incarnation, worker, lane};
    *bucket = track;
}

/* The name of a process goes with the node's own track in it. */
static void note_nodes(struct trace_tracks *tracks)
{
    for (size_t b = 0; b < TRACE_TRACK_BUCKETS; b++)
        for (const struct trace_track *track = tracks->buckets[b]; track; track = track->next)
            trace_tracks_note(tracks, track->incarnation, TRACE_TRACK_OF_NODE, 0);
}

static void write_track(const struct trace_track *track, struct mob_text *t)
{
    unsigned long long pid = track->incarnation;
    if (track->worker == TRACE_TRACK_OF_NODE)
        mob_text_printf(t,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%llu,\"args\":{\"name\":\"node, incarnation "
            "%llu\"}},\n",
            pid, pid);
    mob_text_printf(t, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%llu,\"tid\":%u,\"args\":{\"name\":\"",
        pid, trace_track_of(track->worker, track->lane));
    if (track->worker == TRACE_TRACK_OF_NODE)
        mob_text_puts(t, "node");
    else if (track->worker == TRACE_TRACK_OF_RUNNING)
        mob_text_puts(t, "not finished");
    else
        mob_text_printf(t, "worker %u", track->worker);
    if (track->lane > 0)
        mob_text_printf(t, ", overlapping %u", track->lane);
    mob_text_puts(t, "\"}}");
}

void trace_tracks_write(struct trace_tracks *tracks, bool first, struct mob_text *out)
{
    note_nodes(tracks);
    for (size_t b = 0; b < TRACE_TRACK_BUCKETS; b++)
        for (const struct trace_track *track = tracks->buckets[b]; track; track = track->next) {
            mob_text_puts(out, first ? "" : ",\n");
            first = false;
            write_track(track, out);
        }
}

void trace_tracks_fini(struct trace_tracks *tracks)
{
    for (size_t b = 0; b < TRACE_TRACK_BUCKETS; b++)
        for (struct trace_track *track = tracks->buckets[b], *next; track; track = next) {
            next = track->next;
            free(track);
        }
    *tracks = (struct trace_tracks){0};
}
