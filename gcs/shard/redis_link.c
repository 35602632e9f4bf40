#include "gcs/shard/redis_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_value.h"

#define IOV_PER_WRITE 512
#define READ_BYTES (256u << 10)
#define SOCKET_BUFFER_BYTES (4 << 20)
#define CONNECT_TIMEOUT_US 500000
#define LOADING_WAIT_MS 20
#define LOADING_TRIES 50

struct mob_redis_link {
    redisContext *context;
    redisReader *reader;
    int fd;
    /* In order; those before `unsent` are written whole and unanswered. */
    struct mob_redis_batch *first, *last, *unsent;
    uint32_t piece; /* of unsent: pieces written */
    size_t piece_offset; /* of that piece */
    uint8_t *input;
};

/* ---- batches ---- */

struct mob_redis_batch *mob_redis_batch_create(void)
{
    struct mob_redis_batch *batch = calloc(1, sizeof *batch);
    MOB_ASSERT(batch != NULL);
    return batch;
}

void mob_redis_batch_destroy(struct mob_redis_batch *batch)
{
    if (batch == NULL)
        return;
    free(batch->text);
    free(batch->owned);
    free(batch->pieces);
    free(batch);
}

static struct mob_redis_piece *piece_add(struct mob_redis_batch *b)
{
    if (b->piece_count == b->piece_capacity) {
        b->piece_capacity = b->piece_capacity == 0 ? 64 : b->piece_capacity * 2;
        b->pieces = realloc(b->pieces, b->piece_capacity * sizeof *b->pieces);
        MOB_ASSERT(b->pieces != NULL);
    }
    return &b->pieces[b->piece_count++];
}

/* Room for `length` more bytes of text, which belong to the last piece. The caller fills them. */
static uint8_t *text_extend(struct mob_redis_batch *b, size_t length)
{
    if (b->text_length + length > b->text_capacity) {
        b->text_capacity = b->text_capacity == 0 ? 4096 : b->text_capacity;
        while (b->text_length + length > b->text_capacity)
            b->text_capacity *= 2;
        b->text = realloc(b->text, b->text_capacity);
        MOB_ASSERT(b->text != NULL);
    }
    struct mob_redis_piece *last = b->piece_count > 0 ? &b->pieces[b->piece_count - 1] : NULL;
    if (last != NULL && last->ref == NULL && last->offset + last->length == b->text_length &&
        last->length > 0)
        last->length += length;
    else
        *piece_add(b) = (struct mob_redis_piece){.offset = b->text_length, .length = length};
    uint8_t *at = b->text + b->text_length;
    b->text_length += length;
    b->bytes += length;
    return at;
}

static void text_add(struct mob_redis_batch *b, const void *bytes, size_t length)
{
    if (length > 0)
        memcpy(text_extend(b, length), bytes, length);
}

#define LINE_MAX_BYTES 23u /* sign, 20 digits, CR LF */

/* "$512\r\n". By hand: a put has two such lines at least, and snprintf takes longer than the rest of them. */
static size_t number_line(char line[LINE_MAX_BYTES], char sign, size_t n)
{
    char digits[20];
    size_t count = 0, at = 0;
    do
        digits[count++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    line[at++] = sign;
    while (count > 0)
        line[at++] = digits[--count];
    line[at++] = '\r';
    line[at++] = '\n';
    return at;
}

static void text_number(struct mob_redis_batch *b, char sign, size_t n)
{
    char line[LINE_MAX_BYTES];
    text_add(b, line, number_line(line, sign, n));
}

void mob_redis_command(struct mob_redis_batch *batch, uint32_t args)
{
    text_number(batch, '*', args);
    batch->commands++;
}

void mob_redis_arg(struct mob_redis_batch *batch, const void *bytes, size_t length)
{
    char line[LINE_MAX_BYTES];
    size_t head = number_line(line, '$', length);
    uint8_t *at = text_extend(batch, head + length + 2);
    memcpy(at, line, head);
    if (length > 0)
        memcpy(at + head, bytes, length);
    memcpy(at + head + length, "\r\n", 2);
}

void mob_redis_arg_ref(
    struct mob_redis_batch *batch, const void *head, size_t head_length, const void *ref, size_t ref_length)
{
    text_number(batch, '$', head_length + ref_length);
    text_add(batch, head, head_length);
    if (ref_length > 0) {
        *piece_add(batch) = (struct mob_redis_piece){.ref = ref, .length = ref_length};
        batch->bytes += ref_length;
    }
    text_add(batch, "\r\n", 2);
}

void mob_redis_arg_own(struct mob_redis_batch *batch, void *bytes, size_t length)
{
    MOB_ASSERT(batch->owned == NULL);
    batch->owned = bytes;
    mob_redis_arg_ref(batch, NULL, 0, bytes, length);
}

void mob_redis_mset_begin(struct mob_redis_batch *batch)
{
    MOB_ASSERT(batch->piece_count == 0);
    *piece_add(batch) = (struct mob_redis_piece){0}; /* filled by mset_end */
}

void mob_redis_mset_end(struct mob_redis_batch *batch, uint32_t pairs, bool multi)
{
    char line[64] = "";
    int n = multi ? snprintf(line, sizeof line, "*1\r\n$5\r\nMULTI\r\n") : 0;
    if (pairs > 0)
        n += snprintf(line + n, sizeof line - (size_t)n, "*%llu\r\n$4\r\nMSET\r\n", 1ull + 2ull * pairs);
    batch->commands += (multi ? 1u : 0u) + (pairs > 0 ? 1u : 0u);
    if (n == 0)
        return; /* an empty piece, and nothing behind it yet */
    struct mob_redis_piece mark = batch->pieces[0];
    MOB_ASSERT(mark.ref == NULL && mark.length == 0);
    /* Its text is at the end of the buffer, its piece at the front. */
    uint32_t pieces = batch->piece_count;
    *piece_add(batch) = (struct mob_redis_piece){0};
    text_add(batch, line, (size_t)n);
    batch->pieces[0] = batch->pieces[batch->piece_count - 1];
    batch->piece_count = pieces;
}

/* ---- connecting ---- */

static enum mob_status wait_loaded(redisContext *context)
{
    for (int i = 0; i < LOADING_TRIES; i++) {
        redisReply *reply = redisCommand(context, "GET format");
        if (reply == NULL)
            return MOB_UNAVAILABLE;
        bool loading = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "LOADING", 7) == 0;
        bool failed = reply->type == REDIS_REPLY_ERROR && !loading;
        if (failed)
            MOB_LOG_ERROR("gcs", "redis_refuses", "error=\"%s\"", MOB_LOG_VALUE(reply->str));
        freeReplyObject(reply);
        if (failed)
            return MOB_DENIED;
        if (!loading)
            return MOB_OK;
        poll(NULL, 0, LOADING_WAIT_MS);
    }
    return MOB_UNAVAILABLE;
}

enum mob_status mob_redis_connect(const struct mob_redis_options *options, redisContext **context_out)
{
    struct timeval timeout = {.tv_usec = CONNECT_TIMEOUT_US};
    redisContext *context = redisConnectUnixWithTimeout(options->socket_path, timeout);
    if (context == NULL)
        return MOB_NO_MEMORY;
    enum mob_status status = MOB_UNAVAILABLE;
    if (context->err != 0)
        goto err_context;
    struct timeval long_timeout = {.tv_sec = 30};
    redisSetTimeout(context, long_timeout);
    if (options->password != NULL) {
        redisReply *reply = redisCommand(context, "AUTH %s %s", options->user, options->password);
        if (reply == NULL)
            goto err_context;
        bool denied = reply->type == REDIS_REPLY_ERROR;
        if (denied)
            MOB_LOG_ERROR(
                "gcs", "redis_denies", "user=%s error=\"%s\"", options->user, MOB_LOG_VALUE(reply->str));
        freeReplyObject(reply);
        status = denied ? MOB_DENIED : status;
        if (denied)
            goto err_context;
    }
    status = wait_loaded(context);
    if (status != MOB_OK)
        goto err_context;
    *context_out = context;
    return MOB_OK;
err_context:
    redisFree(context);
    return status;
}

struct mob_redis_link *mob_redis_link_create(redisContext *context)
{
    struct mob_redis_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->input = malloc(READ_BYTES);
    link->reader = redisReaderCreate();
    if (link->input == NULL || link->reader == NULL) {
        free(link->input);
        free(link);
        return NULL;
    }
    link->context = context;
    link->fd = context->fd;
    int size = SOCKET_BUFFER_BYTES;
    setsockopt(link->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    fcntl(link->fd, F_SETFL, fcntl(link->fd, F_GETFL) | O_NONBLOCK);
    return link;
}

struct mob_redis_batch *mob_redis_link_destroy(struct mob_redis_link *link)
{
    if (link == NULL)
        return NULL;
    struct mob_redis_batch *kept = NULL, **tail = &kept;
    for (struct mob_redis_batch *b = link->first, *next; b != NULL; b = next) {
        next = b->next;
        b->next = NULL;
        if (b->keep && b->answered == 0) {
            *tail = b;
            tail = &b->next;
        } else {
            b->done(b->arg, b, MOB_UNAVAILABLE);
            mob_redis_batch_destroy(b);
        }
    }
    redisReaderFree(link->reader);
    redisFree(link->context);
    free(link->input);
    free(link);
    return kept;
}

struct mob_redis_batch *mob_redis_link_batches(const struct mob_redis_link *link)
{
    return link->first;
}

int mob_redis_fd(const struct mob_redis_link *link)
{
    return link->fd;
}

bool mob_redis_unsent(const struct mob_redis_link *link)
{
    return link->unsent != NULL;
}

void mob_redis_submit(struct mob_redis_link *link, struct mob_redis_batch *batch)
{
    batch->next = NULL;
    if (link->last != NULL)
        link->last->next = batch;
    else
        link->first = batch;
    link->last = batch;
    if (link->unsent == NULL) {
        link->unsent = batch;
        link->piece = 0;
        link->piece_offset = 0;
    }
}

/* ---- writing ---- */

static int gather(const struct mob_redis_link *link, struct iovec iov[IOV_PER_WRITE])
{
    int n = 0;
    uint32_t piece = link->piece;
    size_t offset = link->piece_offset;
    for (const struct mob_redis_batch *b = link->unsent; b != NULL && n < IOV_PER_WRITE;
         b = b->next, piece = 0) {
        for (; piece < b->piece_count && n < IOV_PER_WRITE; piece++, offset = 0) {
            const struct mob_redis_piece *p = &b->pieces[piece];
            const uint8_t *base = p->ref != NULL ? p->ref : b->text + p->offset;
            iov[n++] = (struct iovec){(void *)(uintptr_t)(base + offset), p->length - offset};
        }
    }
    return n;
}

static void advance(struct mob_redis_link *link, size_t written)
{
    while (link->unsent != NULL) {
        struct mob_redis_batch *b = link->unsent;
        if (link->piece == b->piece_count) {
            link->unsent = b->next;
            link->piece = 0;
            continue;
        }
        size_t left = b->pieces[link->piece].length - link->piece_offset;
        if (written < left) {
            link->piece_offset += written;
            return;
        }
        written -= left;
        link->piece++;
        link->piece_offset = 0;
    }
}

static enum mob_status write_some(struct mob_redis_link *link)
{
    while (link->unsent != NULL) {
        struct iovec iov[IOV_PER_WRITE];
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)gather(link, iov)};
        ssize_t n = sendmsg(link->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? MOB_OK : MOB_UNAVAILABLE;
        advance(link, (size_t)n);
    }
    return MOB_OK;
}

/* ---- reading ---- */

static enum mob_status take_reply(struct mob_redis_link *link, redisReply *reply)
{
    struct mob_redis_batch *b = link->first;
    if (b == NULL)
        return MOB_UNAVAILABLE; /* an answer to nothing */
    if (reply->type == REDIS_REPLY_ERROR) {
        MOB_LOG_ERROR("gcs", "redis_error", "error=\"%s\"", MOB_LOG_VALUE(reply->str));
        b->failed = true;
    }
    if (b->reply != NULL)
        b->reply(b->arg, reply, b->answered);
    if (++b->answered < b->commands)
        return MOB_OK;
    link->first = b->next;
    if (link->first == NULL)
        link->last = NULL;
    b->done(b->arg, b, b->failed ? MOB_IO : MOB_OK);
    mob_redis_batch_destroy(b);
    return MOB_OK;
}

static enum mob_status parse(struct mob_redis_link *link)
{
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK)
            return MOB_UNAVAILABLE;
        if (reply == NULL)
            return MOB_OK;
        enum mob_status status = take_reply(link, reply);
        freeReplyObject(reply);
        if (status != MOB_OK)
            return status;
    }
}

static enum mob_status read_some(struct mob_redis_link *link)
{
    for (;;) {
        ssize_t n = recv(link->fd, link->input, READ_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? MOB_OK : MOB_UNAVAILABLE;
        if (n == 0 || redisReaderFeed(link->reader, (const char *)link->input, (size_t)n) != REDIS_OK)
            return MOB_UNAVAILABLE;
        enum mob_status status = parse(link);
        if (status != MOB_OK || (size_t)n < READ_BYTES)
            return status;
    }
}

enum mob_status mob_redis_io(struct mob_redis_link *link, bool readable, bool *want_write_out)
{
    enum mob_status status = write_some(link);
    if (status == MOB_OK && readable)
        status = read_some(link);
    *want_write_out = link->unsent != NULL;
    return status;
}
