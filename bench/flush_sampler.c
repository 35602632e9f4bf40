#include "bench/flush_sampler.h"

#include <dirent.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/state_dir.h"

/* 0: it has ended. */
static double rss_bytes(int pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double directory_bytes(const char *path)
{
    DIR *d = opendir(path);
    double bytes = 0;
    struct stat st;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            bytes += (double)st.st_size;
    if (d)
        closedir(d);
    return bytes;
}

int flush_pid_of(const struct bench *b, const char *name)
{
    char path[300];
    int pid = 0;
    size_t i;
    json_t *process;
    snprintf(path, sizeof path, "%s/supervisor.json", b->directory);
    json_t *root = json_load_file(path, 0, NULL);
    json_array_foreach(json_object_get(root, "processes"), i, process)
    {
        const char *text = json_string_value(json_object_get(process, "name"));
        const char *state = json_string_value(json_object_get(process, "state"));
        if (text && strcmp(text, name) == 0 && state && strcmp(state, "ready") == 0)
            pid = (int)json_integer_value(json_object_get(process, "pid"));
    }
    json_decref(root);
    return pid;
}

static int pid_of_member(const struct bench *b, const char *kind, uint32_t replica)
{
    char name[STATE_NAME_MAX];
    return flush_pid_of(b, state_member_name(kind, 0, replica, "", name));
}

/* The processes of each member, as the supervisor names them now. */
static bool find_members(struct flush_sampler *s)
{
    bool all = true;
    for (uint32_t i = 0; i < FLUSH_REPLICAS; i++) {
        struct flush_member *m = &s->members[i];
        char name[STATE_NAME_MAX];
        m->redis = pid_of_member(s->cluster, "redis", i);
        m->gcs = pid_of_member(s->cluster, "gcs", i);
        snprintf(m->log_directory, sizeof m->log_directory, "%s/%s", s->cluster->directory,
            state_member_name(STATE_GCS_DIR_NAME, 0, i, "/appendonlydir", name));
        all = all && m->redis != 0 && m->gcs != 0;
    }
    return all;
}

/* Of the member that holds more. False: one of them has ended, and the sample says little. */
static bool sample_members(const struct flush_sampler *s, struct flush_sample *out)
{
    bool all = true;
    for (int i = 0; i < FLUSH_REPLICAS; i++) {
        const struct flush_member *m = &s->members[i];
        double redis = rss_bytes(m->redis), gcs = rss_bytes(m->gcs), log = directory_bytes(m->log_directory);
        all = all && redis > 0 && gcs > 0;
        if (redis + gcs > out->redis_bytes + out->member_bytes) {
            out->redis_bytes = redis;
            out->member_bytes = gcs;
        }
        out->log_bytes = log > out->log_bytes ? log : out->log_bytes;
    }
    return all;
}

static void *sample(void *arg)
{
    struct flush_sampler *s = arg;
    int64_t begin = bench_now();
    bool whole = true;
    while (!atomic_load(&s->stop)) {
        struct flush_sample one = {
            .seconds = (double)(bench_now() - begin) / 1e9, .tasks = (double)atomic_load(&s->taken)};
        bool was = whole;
        whole = sample_members(s, &one);
        s->replaced += was && !whole;
        if (!whole)
            (void)find_members(s); /* until the next is there */
        if (s->count < FLUSH_SAMPLES_MAX)
            s->samples[s->count++] = one;
        usleep(100000);
    }
    return NULL;
}

double flush_sampler_most(const struct flush_sampler *s, double from, double to, bool of_log)
{
    double most = 0;
    for (int i = (int)(from * s->count); i < (int)(to * s->count); i++) {
        const struct flush_sample *one = &s->samples[i];
        double bytes = of_log ? one->log_bytes : one->redis_bytes + one->member_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool flush_sampler_start(struct flush_sampler *s, const struct bench *cluster)
{
    memset(s, 0, sizeof *s);
    s->cluster = cluster;
    return find_members(s) && pthread_create(&s->thread, NULL, sample, s) == 0;
}

void flush_sampler_stop(struct flush_sampler *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
}
