/* Every setting there is, once: the file, the environment, the flags and `mobula config` are all made from
 * this table.
 *
 * A name is also its flag (--segment-bytes) and its variable (MOBULA_SEGMENT_BYTES). Defaults are texts, read
 * like any other; those in <angle brackets> are worked out by settings.c from the machine or from other
 * settings. Numbers carry their unit last in their name. Appending a row is all that a new setting needs.
 */
#ifndef MOB_COMMON_SETTINGS_SETTINGS_TABLE_H
#define MOB_COMMON_SETTINGS_SETTINGS_TABLE_H

#define MOB_KIB 1024ll
#define MOB_MIB (1024 * MOB_KIB)
#define MOB_GIB (1024 * MOB_MIB)
#define MOB_TIB (1024 * MOB_GIB)

/* X(ID, name, type, default, minimum, maximum, unit or choices, users, help) */
#define MOB_SETTINGS_TABLE(X) \
    X(DIR, "dir", PATH, "<home>/.mobula", 0, 0, "", ALL, "state directory of the cluster") \
    X(LISTEN, "listen", LISTEN, "127.0.0.1:0", 0, 0, "address:port", UP | GATEWAY, \
        "where the gateway listens; port 0 takes a free one") \
    X(HOSTS, "hosts", HOSTS, "", 0, 0, "NAME,...", UP | GATEWAY, \
        "more names, up to 8, under which the gateway may be addressed (Host header)") \
    X(SLOTS, "slots", NUMBER, "<cpus>", 1, 1024, "", UP | NODE, "tasks that run at once") \
    X(RESOURCES, "resources", RESOURCES, "", 0, 0, "NAME=AMOUNT,...", UP | NODE, \
        "what the node offers besides one CPU a slot, as GPU=2,camera=1") \
    X(SEGMENT_BYTES, "segment-bytes", BYTES, "<30% of memory>", 8 * MOB_MIB, 64 * MOB_TIB, "", UP | NODE, \
        "shared memory that holds the objects") \
    X(SPILL_DIR, "spill-dir", PATH, "<dir>/spill", 0, 0, "", UP | NODE, \
        "where objects go when memory is full") \
    X(SPILL_QUOTA_BYTES, "spill-quota-bytes", BYTES, "16GiB", 0, 64 * MOB_TIB, "", UP | NODE, \
        "most that the spill directory may hold; 0 = do not spill") \
    X(BLOCKED_MAX, "blocked-max", NUMBER, "2048", 1, 4000, "", UP | NODE, \
        "workers that may wait in get at once") \
    X(NEST_MAX, "nest-max", NUMBER, "0", 0, 64, "", UP | NODE, \
        "tasks that may wait on a worker's stack below one that they need; 0 = each in a worker of its own") \
    X(WORKER_MEMORY_BYTES, "worker-memory-bytes", BYTES_OR_0, "<50% of memory>", 16 * MOB_MIB, 16 * MOB_TIB, \
        "", UP | NODE, \
        "address space of one worker besides the segment: allocations fail above it; 0 = no limit") \
    X(IDLE_REAP_MS, "idle-reap-ms", MILLISECONDS, "60s", 10, 86400000, "", UP | NODE, \
        "a worker that was idle for this long ends") \
    X(GCS_DURABILITY, "gcs-durability", CHOICE, "everysec", 0, 0, "everysec|always|no", UP | GCS, \
        "when an acknowledged write is on disk") \
    X(GCS_SHARDS, "gcs-shards", NUMBER, "1", 1, 4, "", UP, \
        "chains that the control store is spread over; set when a directory is empty, for good") \
    X(GCS_REPLICAS, "gcs-replicas", NUMBER, "2", 1, 3, "", UP, \
        "members of each chain of the control store, each with its own Redis; above 1 a master replaces " \
        "what dies; 1 without PostgreSQL; a directory keeps its number") \
    X(GCS_SOFT_BYTES, "gcs-soft-bytes", BYTES, "<12% of memory>", 8 * MOB_MIB, 16 * MOB_TIB, "", UP | GCS, \
        "control store memory at which new root tasks are refused (429)") \
    X(GCS_HARD_BYTES, "gcs-hard-bytes", BYTES, "<16% of memory>", 8 * MOB_MIB, 16 * MOB_TIB, "", UP | GCS, \
        "control store memory at which everything new is refused") \
    X(GCS_REWRITE_BYTES, "gcs-rewrite-bytes", BYTES, "64MiB", 64 * MOB_KIB, 16 * MOB_TIB, "", UP | GCS, \
        "append-only file of the control store above which it is rewritten when half of it is garbage") \
    X(GCS_CPUS, "gcs-cpus", CPUS, "", 0, 0, "0-3,6", UP | GCS, \
        "cores that the members of the control store work on, away from those of their clients; none = the " \
        "kernel chooses") \
    X(GCS_COLLECT_MS, "gcs-collect-ms", MILLISECONDS, "2s", 1, 3600000, "", UP | GCS, \
        "after a restart that may have lost something, the control store waits so long for unknown clients") \
    X(GCS_EXPIRE_MS, "gcs-expire-ms", MILLISECONDS, "60s", 1, 86400000, "", UP | GCS, \
        "the control store forgets a client that is gone for so long") \
    X(GCS_START_WITHOUT_ALL, "gcs-start-without-all", CHOICE, "off", 0, 0, "on|off", UP | GCS, \
        "after everything died: members whose data is lost are waited for 10 s only, and a store that " \
        "lacks values that it had, or all of them, is started from; what nobody else had is lost") \
    X(GCS_COLD_WAIT_MS, "gcs-cold-wait-ms", MILLISECONDS, "10s", 1, 3600000, "", UP | GCS, \
        "a read of blocks that are in PostgreSQL only waits so long for it") \
    X(GCS_AWAY_MS, "gcs-away-ms", MILLISECONDS, "15s", 1, 60000, "", UP | GATEWAY, \
        "a request waits so long for a control store of which no member answers") \
    X(POSTGRES, "postgres", CHOICE, "on", 0, 0, "on|off", UP, \
        "a private PostgreSQL, where lineage goes that leaves the control store's memory") \
    X(FLUSH_DELAY_MS, "flush-delay-ms", MILLISECONDS, "5s", 1, 3600000, "", UP | FLUSH, \
        "lineage waits at most so long for more of it before it is written to PostgreSQL") \
    X(FLUSH_BATCH_BYTES, "flush-batch-bytes", BYTES, "8MiB", 64 * MOB_KIB, 256 * MOB_MIB, "", UP | FLUSH, \
        "lineage that is written to PostgreSQL in one transaction") \
    X(FLUSH_HOT_PERCENT, "flush-hot-percent", NUMBER, "50", 0, 100, "% of gcs-soft-bytes", UP | FLUSH, \
        "what PostgreSQL has leaves the control store's memory above this") \
    X(FLUSH_MAINTAIN_MS, "flush-maintain-ms", MILLISECONDS, "10s", 10, 86400000, "", UP | FLUSH, \
        "how often PostgreSQL is looked through for what may go") \
    X(RETENTION_S, "retention-s", SECONDS, "24h", 1, 3650ll * 86400, "", UP | NODE | GATEWAY | FLUSH, \
        "how long lineage stays after its job ended") \
    X(IDEMPOTENCY_S, "idempotency-s", SECONDS, "24h", 1, 3650ll * 86400, "", UP | GATEWAY, \
        "how long an Idempotency-Key stands for its first request") \
    X(RATE_LIMIT, "rate-limit", NUMBER, "0", 0, 1000000, "requests/s", UP | GATEWAY, \
        "requests that each key may send a second, over the gateway; above: 429; 0 = no limit") \
    X(RATE_BURST, "rate-burst", NUMBER, "0", 0, 1000000, "requests", UP | GATEWAY, \
        "requests that a key may send at once; 0 = those of one second") \
    X(RESTART_PAUSE_MAX_MS, "restart-pause-max-ms", MILLISECONDS, "5s", 1, 3600000, "", UP, \
        "longest pause before a process that keeps dying is started again") \
    X(LOG, "log", CHOICE, "info", 0, 0, "debug|info|warn|error", UP, "least level that is logged") \
    X(LOG_FILE_BYTES, "log-file-bytes", BYTES, "4MiB", 4 * MOB_KIB, MOB_GIB, "", UP, \
        "size at which a process' log file is rotated") \
    X(LOG_FILES, "log-files", NUMBER, "3", 1, 100, "", UP, "log files kept for each process")

#endif
