#include "server/http/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct mob_http_stream {
    pthread_mutex_t lock;
    _Atomic int references;
    struct mob_http_request *request; /* NULL after detach */
    char *bytes;
    size_t begin, end, capacity; /* bytes[begin, end) are queued */
    bool waiting, ended;
};

struct mob_http_stream *mob_http_stream_create(struct mob_http_request *request, int status, const char *type)
{
    struct mob_http_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    pthread_mutex_init(&stream->lock, NULL);
    atomic_init(&stream->references, 2);
    stream->request = request;
    request->reply.status = status;
    request->reply.stream = stream;
    mob_http_reply_header(request, "Content-Type", type);
    return stream;
}

void mob_http_stream_release(struct mob_http_stream *stream)
{
    if (!stream || atomic_fetch_sub(&stream->references, 1) != 1)
        return;
    pthread_mutex_destroy(&stream->lock);
    free(stream->bytes);
    free(stream);
}

/* Lock held: room for n bytes behind `end`. */
static enum mob_status make_room(struct mob_http_stream *stream, size_t n)
{
    size_t queued = stream->end - stream->begin;
    /* What is larger than all of it is taken when nothing waits: else it, and all behind it, would never go.
     */
    if (queued > 0 && (queued >= MOB_HTTP_STREAM_BYTES_MAX || n > MOB_HTTP_STREAM_BYTES_MAX - queued))
        return MOB_QUEUE_FULL;
    if (stream->capacity - stream->end >= n)
        return MOB_OK;
    if (queued > 0)
        memmove(stream->bytes, stream->bytes + stream->begin, queued);
    stream->begin = 0;
    stream->end = queued;
    if (stream->capacity - queued >= n)
        return MOB_OK;
    size_t capacity = stream->capacity ? stream->capacity : 1024;
    while (capacity - queued < n)
        capacity *= 2;
    char *grown = realloc(stream->bytes, capacity);
    if (!grown)
        return MOB_QUEUE_FULL;
    stream->bytes = grown;
    stream->capacity = capacity;
    return MOB_OK;
}

/* Lock held. Resuming inside the lock keeps detach from freeing the connection under us. */
static void wake(struct mob_http_stream *stream)
{
    if (stream->waiting && stream->request) {
        stream->waiting = false;
        stream->request->front->resume(stream->request);
    }
}

enum mob_status mob_http_stream_write(struct mob_http_stream *stream, const void *bytes, size_t length)
{
    pthread_mutex_lock(&stream->lock);
    enum mob_status status = stream->request && !stream->ended ? make_room(stream, length) : MOB_CLOSED;
    if (status == MOB_OK) {
        memcpy(stream->bytes + stream->end, bytes, length);
        stream->end += length;
        wake(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    return status;
}

void mob_http_stream_end(struct mob_http_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->ended = true;
    wake(stream);
    pthread_mutex_unlock(&stream->lock);
}

long mob_http_stream_read(struct mob_http_stream *stream, char *out, size_t capacity)
{
    long result = 0;
    pthread_mutex_lock(&stream->lock);
    size_t n = stream->end - stream->begin;
    if (n > capacity)
        n = capacity;
    if (n > 0) {
        memcpy(out, stream->bytes + stream->begin, n);
        stream->begin += n;
        result = (long)n;
        if (stream->begin == stream->end) { /* an idle stream holds no buffer */
            free(stream->bytes);
            stream->bytes = NULL;
            stream->begin = stream->end = stream->capacity = 0;
        }
    } else if (stream->ended || !stream->request) {
        result = -1;
    } else {
        stream->request->front->suspend(stream->request);
        stream->waiting = true;
    }
    pthread_mutex_unlock(&stream->lock);
    return result;
}

void mob_http_stream_detach(struct mob_http_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->request = NULL;
    pthread_mutex_unlock(&stream->lock);
}
