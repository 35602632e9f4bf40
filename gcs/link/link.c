#include "gcs/link/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/link/link_internal.h"

#define RECV_LOOPS 8 /* a link's share of one pass */

static void link_queue(struct mob_link *link, const struct mob_link_message *message);

static void say(struct mob_link *link, const struct mob_opening_say *what)
{
    link->heard_ns = mob_now();
    if (what->type != 0)
        link_queue(link,
            &(struct mob_link_message){
                .type = what->type, .head = what->head, .head_bytes = what->head_bytes});
}

static void release_chunk(void *chunk)
{
    mob_chunk_release(chunk);
}

static enum mob_status make(
    const struct mob_link_self *self, struct mob_chunk_pool *pool, int fd, struct mob_link **link_out)
{
    struct mob_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        close(fd);
        return MOB_NO_MEMORY;
    }
    link->self = self;
    link->pool = pool;
    link->fd = fd;
    link->out.let_go = release_chunk;
    link->heard_ns = mob_now();
    mob_opening_accept(&link->opening, self);
    *link_out = link;
    return MOB_OK;
}

enum mob_status mob_link_dial(const struct mob_link_self *self, struct mob_chunk_pool *pool,
    const char *address, struct mob_link **link_out)
{
    int fd;
    enum mob_status status = link_connect(address, &fd);
    if (status == MOB_OK)
        status = make(self, pool, fd, link_out);
    if (status != MOB_OK)
        return status;
    struct mob_opening_say hello;
    mob_opening_dial(&(*link_out)->opening, self, &hello);
    say(*link_out, &hello);
    return MOB_OK;
}

enum mob_status mob_link_accept(const struct mob_link_self *self, struct mob_chunk_pool *pool,
    struct mob_listener *listener, struct mob_link **link_out)
{
    int fd = mob_listener_take(listener, mob_now());
    if (fd < 0)
        return MOB_AGAIN;
    link_tune(fd);
    return make(self, pool, fd, link_out);
}

void mob_link_destroy(struct mob_link *link)
{
    if (link == NULL)
        return;
    mob_out_fini(&link->out);
    mob_chunk_release(link->in);
    close(link->fd);
    free(link);
}

int mob_link_fd(const struct mob_link *link)
{
    return link->fd;
}
bool mob_link_up(const struct mob_link *link)
{
    return link->opening.state == MOB_OPENING_PROVED;
}
uint64_t mob_link_peer(const struct mob_link *link)
{
    return link->opening.peer;
}
const struct mob_gcs_place *mob_link_peer_place(const struct mob_link *link)
{
    return &link->opening.place;
}
bool mob_link_silent(const struct mob_link *link, int64_t now_ns)
{
    return !mob_link_up(link) && now_ns - link->heard_ns > MOB_OPENING_SILENCE_NS;
}
bool mob_link_more_silent(const struct mob_link *link, const struct mob_link *than)
{
    return !mob_link_up(link) && (than == NULL || link->heard_ns < than->heard_ns);
}
size_t mob_link_unsent(const struct mob_link *link)
{
    return link->out.unsent;
}
bool mob_link_wants_write(const struct mob_link *link)
{
    return link->wants_write;
}

/* ---- out ---- */

static void frame_header(struct mob_link *link, const struct mob_link_message *m, const void *body)
{
    uint8_t header[MOB_GCS_FRAME_HEADER_BYTES];
    struct mob_gcs_frame frame = {.type = m->type,
        .shard = link->self->shard,
        .epoch = m->epoch,
        .from = link->self->id,
        .head_bytes = m->head_bytes,
        .body_bytes = m->body_bytes + m->more_bytes,
        .head = m->head,
        .body = body};
    mob_gcs_frame_encode(&frame, header);
    mob_out_copy(&link->out, header, sizeof header);
    mob_out_copy(&link->out, m->head, m->head_bytes);
}

static void link_queue(struct mob_link *link, const struct mob_link_message *m)
{
    if (m->more_bytes > 0) { /* rare: the checksum wants them in one piece */
        uint8_t *joined = malloc((size_t)m->body_bytes + m->more_bytes);
        MOB_ASSERT(joined != NULL);
        if (m->body_bytes > 0)
            memcpy(joined, m->body, m->body_bytes);
        memcpy(joined + m->body_bytes, m->more, m->more_bytes);
        frame_header(link, m, joined);
        mob_out_copy(&link->out, joined, (size_t)m->body_bytes + m->more_bytes);
        free(joined);
        return;
    }
    frame_header(link, m, m->body);
    if (m->chunk == NULL || m->body_bytes <= MOB_LINK_COPY_MAX) {
        mob_out_copy(&link->out, m->body, m->body_bytes);
        return;
    }
    mob_chunk_hold(m->chunk);
    mob_out_keep(&link->out, m->body, m->body_bytes, m->chunk);
}

enum mob_status mob_link_send(struct mob_link *link, const struct mob_link_message *m)
{
    size_t length = (size_t)m->head_bytes + m->body_bytes + m->more_bytes;
    if (!mob_link_up(link) || link->out.unsent + length > MOB_LINK_OUT_MAX)
        return MOB_UNAVAILABLE;
    link_queue(link, m);
    return MOB_OK;
}

static enum mob_status write_out(struct mob_link *link)
{
    enum mob_status status = mob_out_write(&link->out, link->fd);
    link->wants_write = status == MOB_AGAIN || (status == MOB_IO && errno == ENOTCONN);
    return status == MOB_OK || link->wants_write ? MOB_OK : MOB_CLOSED;
}

/* ---- in ---- */

/* A chunk with room for the rest of the frame that has begun; what is of it moves along. */
static bool make_room(struct mob_link *link, size_t need)
{
    uint32_t left = link->in == NULL ? 0 : link->in->used - link->parsed;
    if (link->in != NULL && link->in->refs == 1 && left == 0)
        link->in->used = link->parsed = 0; /* nobody holds it */
    if (link->in != NULL && link->parsed + need <= link->in->capacity && link->in->used < link->in->capacity)
        return true;
    struct mob_chunk *fresh = mob_chunk_create(link->pool, (uint32_t)need);
    if (fresh == NULL)
        return false;
    if (left > 0)
        memcpy(fresh->bytes, link->in->bytes + link->parsed, left);
    fresh->used = left;
    mob_chunk_release(link->in);
    link->in = fresh;
    link->parsed = 0;
    return true;
}

static uint32_t payload_max(const struct mob_link *link)
{
    return mob_link_up(link) ? MOB_GCS_FRAME_CHAIN_MAX : MOB_OPENING_BYTES_MAX;
}

/* Bytes that the frame which has begun needs in all. */
static enum mob_status needed(const struct mob_link *link, size_t *need_out)
{
    struct mob_gcs_frame frame;
    *need_out = MOB_GCS_FRAME_HEADER_BYTES;
    if (link->in == NULL)
        return MOB_OK;
    enum mob_status status = mob_gcs_frame_decode(
        link->in->bytes + link->parsed, link->in->used - link->parsed, payload_max(link), &frame, need_out);
    return status == MOB_AGAIN ? MOB_OK : status;
}

static enum mob_status read_in(struct mob_link *link)
{
    for (int i = 0; i < RECV_LOOPS; i++) {
        size_t need;
        enum mob_status status = needed(link, &need);
        if (status != MOB_OK)
            return status;
        /* A whole frame waits: the owner takes it first, unless the chunk has room behind it. */
        if (link->in != NULL && link->in->used - link->parsed >= need && link->in->used == link->in->capacity)
            return MOB_OK;
        if (!make_room(link, need))
            return MOB_NO_MEMORY;
        size_t room = link->in->capacity - link->in->used;
        ssize_t n = recv(link->fd, link->in->bytes + link->in->used, room, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
            return MOB_OK;
        if (n <= 0)
            return MOB_CLOSED;
        link->in->used += (uint32_t)n;
        if ((size_t)n < room)
            return MOB_OK;
    }
    return MOB_OK;
}

/* Nothing more comes: why. */
static enum mob_status at_the_end(const struct mob_link *link)
{
    bool refused = link->opening.state == MOB_OPENING_REFUSED;
    if (refused && (link->out.count == 0 || link->ended != MOB_OK))
        return link->opening.refused;
    return link->ended != MOB_OK ? link->ended : MOB_AGAIN;
}

static void write_or_end(struct mob_link *link)
{
    enum mob_status status = write_out(link);
    if (link->ended == MOB_OK)
        link->ended = status;
}

enum mob_status mob_link_next(
    struct mob_link *link, struct mob_gcs_frame *frame_out, struct mob_chunk **chunk_out)
{
    while (link->in != NULL && link->opening.state != MOB_OPENING_REFUSED) {
        size_t used;
        enum mob_status status = mob_gcs_frame_decode(link->in->bytes + link->parsed,
            link->in->used - link->parsed, payload_max(link), frame_out, &used);
        if (status == MOB_AGAIN)
            break;
        if (status != MOB_OK)
            return status;
        link->parsed += (uint32_t)used;
        if (mob_link_up(link)) {
            bool theirs = frame_out->from == link->opening.peer && frame_out->shard == link->self->shard;
            *chunk_out = link->in;
            return theirs ? MOB_OK : MOB_CORRUPT;
        }
        struct mob_opening_say answer;
        status = mob_opening_take(&link->opening, frame_out, &answer);
        if (status != MOB_OK)
            return status;
        say(link, &answer);
        write_or_end(link);
    }
    return at_the_end(link);
}

const uint8_t *mob_link_ahead(const struct mob_link *link, size_t *length_out)
{
    *length_out = link->in == NULL ? 0 : link->in->used - link->parsed;
    return link->in == NULL ? NULL : link->in->bytes + link->parsed;
}

void mob_link_io(struct mob_link *link, bool readable)
{
    if (readable && link->ended == MOB_OK)
        link->ended = read_in(link);
    write_or_end(link);
}
