#include "tests/support/pg_box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/system_user.h"
#include "common/base/clock.h"
#include "common/base/process.h"
#include "gcs/flush/postgres_conf.h"
#include "tests/support/scratch.h"

#define READY_NS (60 * MOB_SEC)
#define PROGRAMS "/usr/lib/postgresql/15/bin"
#define DATA_FD 3
#define DATA "/proc/self/fd/3"

static void die(const char *what, const char *of)
{
    fprintf(stderr, "pg_box: %s: %s: %s\n", what, of, strerror(errno));
    abort();
}

bool pg_box_available(void)
{
    struct system_user user;
    if (access(PROGRAMS "/postgres", X_OK) == 0 && system_user_find("postgres", &user) == MOB_OK)
        return true;
    fprintf(stderr, "there is no PostgreSQL 15 here: skipped\n");
    return false;
}

/* Runs a program of PostgreSQL in `data`, as its user. */
static pid_t spawn(const char *data, const char *log, char *const *argv)
{
    struct system_user user;
    if (system_user_find("postgres", &user) != MOB_OK)
        die("user", "postgres");
    int directory = open(data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (directory < 0 || output < 0)
        die("open", data);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        bool other = system_user_become(&user);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!other || getppid() != parent || dup2(output, 1) < 0 || dup2(output, 2) < 0)
            _exit(126);
        if (directory != DATA_FD && dup2(directory, DATA_FD) < 0)
            _exit(126);
        fcntl(DATA_FD, F_SETFD, 0);
        if (chdir("/") != 0)
            _exit(126);
        execv(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        die("fork", argv[0]);
    close(directory);
    close(output);
    return pid;
}

static void run(char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        die("run", argv[0]);
}

static void own(const char *directory, const char *name)
{
    struct system_user user;
    if (system_user_find("postgres", &user) != MOB_OK ||
        system_user_own_tree(directory, name, &user) != MOB_OK)
        die("own", directory);
}

/* What initdb makes, once in a build tree. */
static void make_template(const char *place, char *out, size_t capacity)
{
    char lock_path[512], part[512], log[512];
    snprintf(out, capacity, "%s/pg-template", place);
    snprintf(lock_path, sizeof lock_path, "%s/pg-template.lock", place);
    snprintf(part, sizeof part, "%s/pg-template.new", place);
    snprintf(log, sizeof log, "%s/pg-template.log", place);
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        die("lock", lock_path);
    if (access(out, F_OK) != 0) {
        char *argv[] = {PROGRAMS "/initdb", "-D", DATA, "-U", MOB_POSTGRES_ROLE, "-A", "peer", "-E", "UTF8",
            "--locale=C", "--no-sync", NULL};
        int status = 0;
        if (system_user_remove_tree(place, "pg-template.new") != MOB_OK)
            die("remove", part);
        own(place, "pg-template.new");
        pid_t pid = spawn(part, log, argv);
        if (waitpid(pid, &status, 0) != pid || status != 0 || rename(part, out) != 0)
            die("initdb", log);
    }
    close(lock);
}

/* What begins as an empty folder. */
static void fill(struct pg_box *box)
{
    char template[512], user[64];
    const char *bin = getenv("MOBULA_BIN_DIR");
    char build[480];
    snprintf(build, sizeof build, "%s/..", bin == NULL ? "build/release/bin" : bin);
    make_template(build, template, sizeof template);
    snprintf(box->data, sizeof box->data, "%s/pg", box->directory);
    char *copy[] = {"cp", "-a", "--reflink=auto", template, box->data, NULL};
    run(copy);
    struct mob_postgres_conf conf = {.title = box->directory, .user = user};
    if (!system_user_own_name(user, sizeof user) || mob_postgres_conf_write(box->data, &conf) != MOB_OK)
        die("configure", box->data);
    own(box->directory, "pg");
}

void pg_box_init(struct pg_box *box)
{
    *box = (struct pg_box){.pid = 0};
    scratch_make(box->directory, sizeof box->directory, "mob-pg");
    fill(box);
}

void pg_box_init_in(struct pg_box *box, const char *place)
{
    *box = (struct pg_box){.pid = 0};
    scratch_make_in(box->directory, sizeof box->directory, place, "mob-pg");
    fill(box);
}

void pg_box_spawn(struct pg_box *box)
{
    char log[128];
    char *argv[] = {
        PROGRAMS "/postgres", "-D", DATA, "-c", "config_file=" DATA "/" MOB_POSTGRES_CONF_NAME, NULL};
    snprintf(log, sizeof log, "%s/log", box->directory);
    box->pid = spawn(box->data, log, argv);
}

struct mob_database *pg_box_open(struct pg_box *box)
{
    struct mob_database *db = NULL;
    for (int64_t deadline = mob_now() + READY_NS; mob_database_open(box->data, &db) != MOB_OK;
         poll(NULL, 0, 20)) {
        if (mob_now() > deadline)
            die("not ready", box->directory);
        /* The children of a killed one may live on for a moment: then the next one ends at once. */
        if (box->pid > 0 && waitpid(box->pid, NULL, WNOHANG) == box->pid)
            pg_box_spawn(box);
    }
    return db;
}

void pg_box_start(struct pg_box *box)
{
    pg_box_spawn(box);
    mob_database_close(pg_box_open(box));
}

void pg_box_end(struct pg_box *box, int signal)
{
    if (box->pid <= 0)
        return;
    kill(box->pid, signal);
    if (waitpid(box->pid, NULL, 0) != box->pid)
        die("waitpid", box->directory);
    box->pid = 0;
}

static bool is_of(const struct pg_box *box, pid_t pid)
{
    char path[64], place[128];
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    ssize_t length = readlink(path, place, sizeof place - 1);
    return length > 0 && (size_t)length == strlen(box->data) && memcmp(place, box->data, (size_t)length) == 0;
}

/* The first process and its children all work in the data directory. Signals those that are not as the signal
 * makes them (0: none); how many those were. */
static uint32_t reach(const struct pg_box *box, int signal)
{
    DIR *processes = opendir("/proc");
    uint32_t met = 0;
    if (processes == NULL)
        die("open", "/proc");
    for (const struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !is_of(box, pid))
            continue;
        if (signal == 0 || mob_process_is_stopped(pid) != (signal == SIGSTOP))
            met += kill(pid, signal) == 0;
    }
    closedir(processes);
    return met;
}

/* Until there is nobody left who is to be reached. */
static void reach_all(const struct pg_box *box, int signal)
{
    for (int64_t deadline = mob_now() + READY_NS; reach(box, signal) > 0; poll(NULL, 0, 1))
        if (mob_now() > deadline)
            die("not all reached", box->directory);
}

void pg_box_signal_all(struct pg_box *box, int signal)
{
    if (box->pid <= 0 || kill(box->pid, signal) != 0) /* the first one first: it makes no more of them */
        die("signal", box->directory);
    reach_all(box, signal);
}

void pg_box_end_all(struct pg_box *box, int signal)
{
    pg_box_end(box, signal);
    reach_all(box, 0);
}

void pg_box_fini(struct pg_box *box)
{
    pg_box_end(box, SIGQUIT);
    if (getenv("MOBULA_KEEP") == NULL) {
        char *remove[] = {"rm", "-rf", box->directory, NULL};
        run(remove);
    }
}

int64_t pg_box_number(struct mob_database *db, const char *sql)
{
    struct mob_database_result *r = NULL;
    if (mob_database_query_once(db, sql, NULL, 0, &r) != MOB_OK || mob_database_rows(r) < 1)
        die("query", sql);
    int64_t v = mob_database_number(r, 0, 0);
    mob_database_result_destroy(r);
    return v;
}
