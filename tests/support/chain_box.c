#include "tests/support/chain_box.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/scratch.h"

static const char cluster[] = CHAIN_BOX_CLUSTER;

static void clients_flag(struct chain_box *box)
{
    box->clients[0] = 0;
    for (uint32_t i = 0; i < box->members; i++) {
        size_t used = strlen(box->clients);
        snprintf(box->clients + used, sizeof box->clients - used, "%s%s", i == 0 ? "" : ",",
            box->proxy != NULL ? box->client_told[i] : box->member[i].socket);
    }
}

void chain_box_init(struct chain_box *box, uint32_t members, uint32_t replicas, const char *durability)
{
    MOB_ASSERT(members <= CHAIN_BOX_MEMBERS_MAX);
    *box = (struct chain_box){.members = members,
        .masters = 1,
        .replicas = replicas,
        .lease_ms = 90, /* of a machine that others use, too */
        .suspicion_ms = 100,
        .silence_ms = 3000};
    scratch_make(box->directory, sizeof box->directory, "mob-chain");
    snprintf(box->table, sizeof box->table, "%s/table", box->directory);
    snprintf(box->secret, sizeof box->secret, "%s/cluster-secret", box->directory);
    gcs_box_write_identity(box->directory);
    for (uint32_t i = 0; i < CHAIN_BOX_MASTERS_MAX; i++)
        snprintf(box->master_path[i], sizeof box->master_path[i], "%s/master.%u", box->directory, i);
    snprintf(box->masters_flag, sizeof box->masters_flag, "%s,%s", box->master_path[0], box->master_path[1]);
    for (uint32_t i = 0; i < members; i++) {
        struct gcs_box *m = &box->member[i];
        gcs_box_init(m, durability);
        snprintf(box->link[i], sizeof box->link[i], "%s/link", m->directory);
    }
    clients_flag(box);
}

static void append(char *out, size_t capacity, const char *text, const char *more)
{
    size_t length = strlen(text);
    MOB_ASSERT(length + strlen(more) < capacity);
    memcpy(out, text, length);
    memcpy(out + length, more, strlen(more) + 1);
}

/* Bound and never listening: the member that has it may bind it, too, in each of its lives, and the kernel
 * gives it to nobody who asks for a free one. */
static void hold_port(struct chain_box *box, char *out, size_t capacity)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MOB_ASSERT(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    MOB_ASSERT(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    MOB_ASSERT(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    snprintf(out, capacity, "127.0.0.1:%u", ntohs(address.sin_port));
    box->held[box->held_count++] = fd;
}

void chain_box_over_tcp(struct chain_box *box)
{
    MOB_ASSERT(box->proxy == NULL && box->held_count == 0);
    for (uint32_t i = 0; i < CHAIN_BOX_MASTERS_MAX; i++)
        hold_port(box, box->master_path[i], sizeof box->master_path[i]);
    snprintf(box->masters_flag, sizeof box->masters_flag, "%s,%s", box->master_path[0], box->master_path[1]);
    for (uint32_t i = 0; i < box->members; i++)
        hold_port(box, box->link[i], sizeof box->link[i]);
}

static void route_link(struct chain_box *box, const char *to, char *told, size_t capacity)
{
    if (box->held_count > 0) {
        MOB_ASSERT(capacity >= FAULT_ADDRESS_MAX);
        fault_proxy_route_net(box->proxy, to, told);
        return;
    }
    append(told, capacity, to, ".p");
    fault_proxy_route(box->proxy, told, to);
}

void chain_box_proxied(struct chain_box *box, struct fault_proxy *proxy)
{
    char masters[CHAIN_BOX_MASTERS_MAX][104];
    box->proxy = proxy;
    for (uint32_t i = 0; i < CHAIN_BOX_MASTERS_MAX; i++)
        route_link(box, box->master_path[i], masters[i], sizeof masters[i]);
    snprintf(box->masters_proxied, sizeof box->masters_proxied, "%s,%s", masters[0], masters[1]);
    for (uint32_t i = 0; i < box->members; i++) {
        route_link(box, box->link[i], box->link_told[i], sizeof box->link_told[i]);
        append(box->client_told[i], sizeof box->client_told[i], box->member[i].socket, ".p");
        fault_proxy_route(proxy, box->client_told[i], box->member[i].socket);
    }
    clients_flag(box);
}

static void member_args(struct chain_box *box, uint32_t i)
{
    static char lease[16], suspicion[16], shard[16];
    snprintf(shard, sizeof shard, "%u", box->shard);
    snprintf(lease, sizeof lease, "%d", box->lease_ms);
    snprintf(suspicion, sizeof suspicion, "%d", box->suspicion_ms);
    const char *args[GCS_BOX_ARGS_MAX] = {"--masters",
        box->proxy != NULL ? box->masters_proxied : box->masters_flag, "--link", box->link[i], "--cluster",
        cluster, "--lease-ms", lease, "--suspicion-ms", suspicion, "--shard", shard};
    if (box->proxy != NULL) {
        args[12] = "--link-advertised";
        args[13] = box->link_told[i];
        args[14] = "--socket-advertised";
        args[15] = box->client_told[i];
    }
    size_t used = box->proxy != NULL ? 16 : 12;
    if (box->start_without_all) {
        args[used] = "--gcs-start-without-all";
        args[used + 1] = "on";
        used += 2;
    }
    if (box->soft_bytes != NULL) {
        args[used] = "--gcs-soft-bytes";
        args[used + 1] = box->soft_bytes;
        args[used + 2] = "--gcs-hard-bytes";
        args[used + 3] = box->hard_bytes;
    }
    memcpy(box->member[i].args, args, sizeof args);
}

void chain_box_start_master(struct chain_box *box, uint32_t i)
{
    char program[512], replicas[16], lease[16], suspicion[16], log[128], shard[16], silence[16];
    snprintf(silence, sizeof silence, "%d", box->silence_ms);
    snprintf(shard, sizeof shard, "%u", box->shard);
    const char *directory = getenv("MOBULA_BIN_DIR");
    snprintf(
        program, sizeof program, "%s/mobula-master", directory == NULL ? "build/release/bin" : directory);
    snprintf(replicas, sizeof replicas, "%u", box->replicas);
    snprintf(lease, sizeof lease, "%d", box->lease_ms);
    snprintf(suspicion, sizeof suspicion, "%d", box->suspicion_ms);
    snprintf(log, sizeof log, "%s/master.%u.log", box->directory, i);
    const char *argv[] = {program, "--dir", box->directory, "--listen", box->master_path[i],
        box->postgres != NULL ? "--postgres" : "--table-file",
        box->postgres != NULL ? box->postgres : box->table, "--cluster", cluster, "--secret-file",
        box->secret, "--replicas", replicas, "--lease-ms", lease, "--suspicion-ms", suspicion, "--shard",
        shard, "--gcs-socket", box->clients, "--node-silence-ms", silence, NULL};
    pid_t parent = getpid(), pid = fork();
    MOB_ASSERT(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (getppid() != parent || fd < 0)
            _exit(126);
        dup2(fd, 1);
        dup2(fd, 2);
        setenv("MOBULA_FAILPOINTS", box->master_failpoints[i] == NULL ? "" : box->master_failpoints[i], 1);
        execv(program, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    box->master[i] = pid;
}

void chain_box_start_member(struct chain_box *box, uint32_t i)
{
    member_args(box, i);
    if (box->member[i].redis == 0)
        gcs_box_start_redis(&box->member[i]);
    if (box->member[i].gcs == 0)
        gcs_box_spawn_gcs(&box->member[i]);
}

void chain_box_start(struct chain_box *box)
{
    for (uint32_t i = 0; i < box->masters; i++)
        chain_box_start_master(box, i);
    for (uint32_t i = 0; i < box->members; i++)
        chain_box_start_member(box, i);
}

void chain_box_tend(struct chain_box *box)
{
    for (uint32_t i = 0; i < box->members; i++) {
        bool redis_ended = gcs_box_ended(&box->member[i].redis);
        if (gcs_box_ended(&box->member[i].gcs) || redis_ended)
            chain_box_start_member(box, i);
    }
    for (uint32_t i = 0; i < box->masters; i++)
        if (gcs_box_ended(&box->master[i]))
            chain_box_start_master(box, i);
}

struct mob_gcs *chain_box_client(struct chain_box *box)
{
    struct mob_gcs *gcs;
    struct mob_gcs_options options = {.socket_path = box->clients, .secret = gcs_box_secret};
    MOB_ASSERT(mob_gcs_create(&options, &gcs) == MOB_OK);
    return gcs;
}

/* ---- what the processes' logs say ---- */

/* The last line of a file that has `text` in it. */
static bool last_line(const char *path, const char *text, char *out, size_t capacity)
{
    char line[1024];
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strstr(line, text) != NULL) {
            snprintf(out, capacity, "%s", line);
            found = true;
        }
    if (file != NULL)
        fclose(file);
    return found;
}

struct newest {
    uint64_t epoch, members, head, tail;
    int64_t wall_ns;
};

/* 2026-01-31T23:59:59.123456Z, of a line of a log; 0: it has none. */
static int64_t wall_of(const char *line)
{
    struct tm t = {0};
    int us = 0;
    if (sscanf(line, "%d-%d-%dT%d:%d:%d.%dZ", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min,
            &t.tm_sec, &us) != 7)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    return timegm(&t) * MOB_SEC + us * MOB_US;
}

static void parse_line(const char *line, struct newest *n)
{
    sscanf(strstr(line, "epoch="), "epoch=%lu members=%lu start=%*u head=%lx tail=%lx", &n->epoch,
        &n->members, &n->head, &n->tail);
    n->wall_ns = wall_of(line);
}

static struct newest newest_of(struct chain_box *box)
{
    struct newest best = {0};
    for (uint32_t i = 0; i < box->masters; i++) {
        char path[128], line[1024];
        snprintf(path, sizeof path, "%s/master.%u.log", box->directory, i);
        if (!last_line(path, "configuration status=ok", line, sizeof line))
            continue;
        struct newest n = {0};
        parse_line(line, &n);
        if (n.epoch > best.epoch)
            best = n;
    }
    return best;
}

/* The slot whose process is that member. */
static int slot_of(struct chain_box *box, uint64_t member)
{
    char text[64], path[128], line[1024];
    snprintf(text, sizeof text, "self=%lx ", member);
    for (uint32_t i = 0; i < box->members; i++) {
        snprintf(path, sizeof path, "%s/gcs.log", box->member[i].directory);
        if (last_line(path, text, line, sizeof line))
            return (int)i;
    }
    return -1;
}

static bool serves(struct chain_box *box, uint64_t member)
{
    char text[64], path[128], line[1024];
    int slot = slot_of(box, member);
    if (slot < 0)
        return false;
    snprintf(text, sizeof text, "self=%lx ", member);
    snprintf(path, sizeof path, "%s/gcs.log", box->member[slot].directory);
    return last_line(path, text, line, sizeof line) && strstr(line, "to=serving") != NULL;
}

bool chain_box_wait_length(struct chain_box *box, uint32_t length, int64_t deadline_ns)
{
    for (;;) {
        struct newest n = newest_of(box);
        if (n.members == length && serves(box, n.head) && serves(box, n.tail))
            return true;
        if (mob_now() > deadline_ns)
            return false;
        chain_box_tend(box);
        poll(NULL, 0, 10);
    }
}

int chain_box_place(struct chain_box *box, bool tail)
{
    struct newest n = newest_of(box);
    return n.epoch == 0 ? -1 : slot_of(box, tail ? n.tail : n.head);
}

/* ` epoch=7 `: no other line of a master's log about a configuration has it. */
static struct newest of_epoch(struct chain_box *box, uint64_t epoch)
{
    struct newest n = {0};
    char text[64], path[128], line[1024];
    snprintf(text, sizeof text, "configuration status=ok epoch=%lu ", epoch);
    for (uint32_t i = 0; i < box->masters && n.epoch == 0; i++) {
        snprintf(path, sizeof path, "%s/master.%u.log", box->directory, i);
        if (last_line(path, text, line, sizeof line))
            parse_line(line, &n);
    }
    return n;
}

struct chain_box_config chain_box_config(struct chain_box *box, uint64_t epoch)
{
    struct newest n = epoch == 0 ? newest_of(box) : of_epoch(box, epoch);
    struct chain_box_config c = {.epoch = n.epoch,
        .members = (uint32_t)n.members,
        .head_id = n.head,
        .tail_id = n.tail,
        .wall_ns = n.wall_ns,
        .head = -1,
        .tail = -1};
    if (n.epoch != 0) {
        c.head = slot_of(box, n.head);
        c.tail = slot_of(box, n.tail);
    }
    return c;
}

void chain_box_fini(struct chain_box *box)
{
    for (uint32_t i = 0; i < CHAIN_BOX_MASTERS_MAX; i++)
        gcs_box_end(&box->master[i], SIGKILL);
    for (uint32_t i = 0; i < box->members; i++)
        gcs_box_fini(&box->member[i]);
    for (uint32_t i = 0; i < box->held_count; i++)
        close(box->held[i]);
    if (getenv("MOBULA_KEEP") == NULL)
        (void)scratch_remove(box->directory); /* what a process writes while it is killed may stay */
}
