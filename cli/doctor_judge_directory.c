/* What follows from what the state directory and the programs are. Pure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"
#include "common/base/clock.h"

#define DISK_LEFT_MIN (256ull << 20)
#define REDIS_MAJOR_MIN 7 /* its append-only file is a folder of files */
/* An epoch is one insert of PostgreSQL, and `always` one sync: a fail-over takes so much longer. */
#define SYNC_SLOW_NS (10 * MOB_MS)
#define SYNC_TOO_SLOW_NS MOB_SEC /* `everysec` is not that any more */

static void judge_place(const struct doctor_directory *d, struct doctor_report *out)
{
    struct doctor_check *check;
    if (d->layout[0] != 0 && strcmp(d->layout, STATE_VERSION_TEXT) != 0) {
        check = doctor_add(out, "directory", DOCTOR_FAIL,
            "%.200s holds \"%s\", and this program knows \"%s\"", d->path, d->layout, STATE_VERSION_TEXT);
        doctor_means(check, "`mobula up` refuses it");
        doctor_todo(check, "use the version that made it, or another --dir");
    } else if (!d->writable) {
        check = doctor_add(out, "directory", DOCTOR_FAIL, "nothing can be written in %.300s", d->looked_at);
        doctor_means(check, "`mobula up` cannot keep its state there");
        doctor_todo(check, "give it to this user, or another --dir");
    } else if (d->shape[0] != 0) {
        check = doctor_add(out, "directory", DOCTOR_FAIL, "%.380s", d->shape);
        doctor_means(check, "`mobula up` refuses it");
        doctor_todo(check, "change the settings (`mobula config`), or use another --dir");
    } else if (d->exists) {
        doctor_add(out, "directory", DOCTOR_OK, "%.300s holds \"%s\"", d->path,
            d->layout[0] != 0 ? d->layout : "nothing yet");
    } else {
        doctor_add(
            out, "directory", DOCTOR_OK, "%.300s is not there yet: the first `mobula up` makes it", d->path);
    }
}

static void judge_room(
    const struct doctor_directory *d, const struct doctor_wants *wants, struct doctor_report *out)
{
    /* A member's file is rewritten when half of it is garbage, and for a moment there are both. */
    uint64_t store = 2 * wants->hard_bytes * wants->shards * wants->replicas;
    bool none = d->free_bytes < DISK_LEFT_MIN, little = d->free_bytes < store + wants->spill_bytes;
    struct doctor_check *check = doctor_add(out, "disk-room",
        none         ? DOCTOR_FAIL
            : little ? DOCTOR_WARN
                     : DOCTOR_OK,
        "%s are free at %.200s; the control store may take %s, and spilled objects %s",
        doctor_bytes(d->free_bytes), d->looked_at, doctor_bytes(store), doctor_bytes(wants->spill_bytes));
    if (!none && !little)
        return;
    doctor_means(check,
        none ? "writes are refused before long, and nothing is acknowledged"
             : "it fills up before the caps refuse work");
    doctor_todo(check, "free room, use another --dir, or lower --gcs-hard-bytes and --spill-quota-bytes");
}

static void judge_sync(
    const struct doctor_directory *d, const struct doctor_wants *wants, struct doctor_report *out)
{
    struct doctor_check *check;
    double ms = (double)d->sync_ns / (double)MOB_MS;
    if (d->sync_ns < 0) {
        if (!d->writable)
            return; /* said already */
        check = doctor_add(out, "disk-sync", DOCTOR_FAIL, "a small file at %.200s cannot be synced: %s",
            d->looked_at, strerror(d->sync_errno));
        doctor_means(check, "nothing there is safe from a power cut, and members do not start");
        doctor_todo(check, "another file system, or another --dir");
        return;
    }
    check = doctor_add(out, "disk-sync",
        d->sync_ns > SYNC_TOO_SLOW_NS   ? DOCTOR_FAIL
            : d->sync_ns > SYNC_SLOW_NS ? DOCTOR_WARN
                                        : DOCTOR_OK,
        "4 KiB are on the disk of %.200s after %.2f ms", d->looked_at, ms);
    if (check->verdict == DOCTOR_OK)
        return;
    if (check->verdict == DOCTOR_FAIL)
        doctor_means(check,
            "`everysec` is not kept: more than a second of work is lost by a power cut, unless clients live");
    else
        doctor_means(check, "each write with gcs-durability always takes that long%s",
            wants->replicas > 1 ? ", and so much longer a fail-over, which is recorded in PostgreSQL" : "");
    doctor_todo(check, "a disk with a faster flush for --dir");
}

static void judge_file(
    const struct doctor_directory *d, const struct doctor_file *f, struct doctor_report *out)
{
    struct doctor_check *check;
    if (f->foreign) {
        check = doctor_add(out, "secrets", DOCTOR_FAIL, "%s belongs to another user", f->name);
        doctor_means(check, "that user reads and changes it");
        doctor_todo(check, "chown it to who runs `mobula up` (%.200s/%s)", d->path, f->name);
    } else if ((f->mode & 077) != 0) {
        check = doctor_add(out, "secrets", DOCTOR_FAIL, "%s has mode %04o, and is to have %04o", f->name,
            f->mode, f->is_directory ? 0700u : 0600u);
        doctor_means(check, "other users of this machine get at it: whoever has it is the cluster");
        doctor_todo(check, "chmod %04o %.200s/%s, and make new keys if others were here",
            f->is_directory ? 0700u : 0600u, d->path, f->name);
    } else if (f->bytes_wanted >= 0 && f->bytes != f->bytes_wanted) {
        check = doctor_add(out, "secrets", DOCTOR_FAIL, "%s has %" PRId64 " bytes instead of %" PRId64,
            f->name, f->bytes, f->bytes_wanted);
        doctor_means(check, "`mobula up` refuses the directory");
        doctor_todo(check, "put it back from a copy");
    }
}

static void judge_files(const struct doctor_directory *d, struct doctor_report *out)
{
    int before = out->count;
    for (int i = 0; i < d->file_count; i++)
        judge_file(d, &d->files[i], out);
    if (out->count == before && d->file_count > 0)
        doctor_add(out, "secrets", DOCTOR_OK, "%d files and folders are for nobody else", d->file_count);
}

static void judge_left(const struct doctor_directory *d, struct doctor_report *out)
{
    struct doctor_check *check;
    if (d->leftovers > 0) {
        check = doctor_add(
            out, "leftovers", DOCTOR_WARN, "%d processes of a supervisor that is no more", d->leftovers);
        doctor_means(check, "they hold its memory and its files; the next `mobula up` ends them");
        doctor_todo(check, "`mobula up`, or end them");
    } else if (d->pid_file && !d->pid_lives) {
        check = doctor_add(out, "leftovers", DOCTOR_WARN, STATE_PID_NAME " names a process that is no more");
        doctor_means(check, "the cluster was killed; what was acknowledged is kept");
        doctor_todo(check, "nothing: the next `mobula up` takes its place");
    } else {
        doctor_add(
            out, "leftovers", DOCTOR_OK, "no stale " STATE_PID_NAME ", no processes without a supervisor");
    }
}

static int major_of(const char *version)
{
    const char *digit = strpbrk(version, "0123456789");
    return digit != NULL ? atoi(digit) : 0;
}

static void judge_program(const struct doctor_program *p, struct doctor_report *out)
{
    struct doctor_check *check;
    bool redis = strcmp(p->name, "redis-server") == 0;
    if (!p->found) {
        check = doctor_add(out, p->name, DOCTOR_FAIL, "there is no %.300s", p->path);
        doctor_means(check, "`mobula up` does not start");
        doctor_todo(check,
            redis                                    ? "install redis-server 7 or newer, or put it into PATH"
                : strncmp(p->name, "mobula", 6) == 0 ? "install all of Mobula's programs beside this one"
                                                     : "install postgresql-15, or --no-postgres");
    } else if (redis && major_of(p->version) < REDIS_MAJOR_MIN) {
        check = doctor_add(out, p->name, DOCTOR_FAIL, "%.200s is \"%s\", and %d or newer is needed", p->path,
            p->version, REDIS_MAJOR_MIN);
        doctor_means(check, "members cannot sync its file, and do not start");
        doctor_todo(check, "install redis-server 7 or newer, or put it into PATH");
    } else {
        doctor_add(
            out, p->name, DOCTOR_OK, "%.200s%s%s", p->path, p->version[0] != 0 ? ": " : "", p->version);
    }
}

static void judge_postgres(const struct doctor_directory *d, struct doctor_report *out)
{
    if (d->postgres_made[0] == 0 || strcmp(d->postgres_made, d->postgres_have) == 0)
        return;
    struct doctor_check *check = doctor_add(out, "postgres-data", DOCTOR_FAIL,
        "its data directory is of version %s, and the programs are of %s", d->postgres_made,
        d->postgres_have[0] != 0 ? d->postgres_have : "none");
    doctor_means(check, "PostgreSQL does not start on it: lineage stays where it is");
    doctor_todo(check, "install postgresql-%s", d->postgres_made);
}

void doctor_judge_directory(
    const struct doctor_directory *d, const struct doctor_wants *wants, struct doctor_report *out)
{
    judge_place(d, out);
    judge_room(d, wants, out);
    judge_sync(d, wants, out);
    judge_files(d, out);
    judge_left(d, out);
    for (int i = 0; i < d->program_count; i++)
        judge_program(&d->programs[i], out);
    judge_postgres(d, out);
    if (d->user_lacks == NULL)
        return;
    struct doctor_check *check = doctor_add(out, "users", DOCTOR_FAIL, "there is no user %s", d->user_lacks);
    doctor_means(check, "as root its program is run under that user, and nothing starts");
    doctor_todo(check, "install its package, or run `mobula up` as another user than root");
}
