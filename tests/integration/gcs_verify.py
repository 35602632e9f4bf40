"""`mobula gcs verify` names what is wrong: one thing at a time is spoiled in a member's Redis, its index, PostgreSQL.   ctest: timeout=600 long"""
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading

import lib_http_cluster
from lib_http_cluster import BIN, Cluster, check, sql

V1 = "/api/v1"


def verify(c, failpoints=""):
    """Exit code, what it says of what is wrong, and its checks by name."""
    done = subprocess.run([BIN + "/mobula", "gcs", "verify", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "MOBULA_FAILPOINTS": failpoints})
    return done.returncode, done.stderr, {line["check"]: line for line in map(json.loads, done.stdout.splitlines())}


def good(c, why, failpoints=""):
    code, said, checks = verify(c, failpoints)
    check(code == 0 and all(line["ok"] for line in checks.values()), f"good: {why}", code, said, checks)


def bad(c, why, of, words, found=None):
    code, said, checks = found or verify(c)
    check(code == 1 and not checks.get(of, {"ok": True})["ok"], f"found: {why}", code, said, checks)
    check(words in said, f"named: {why}", words, said)


def status(c):
    done = subprocess.run([BIN + "/mobula", "gcs", "status", "-o", "json", "--dir", c.directory], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)


def flushed(c, name):
    """What the flusher says; -1 while it has not answered in time, as on a busy machine."""
    return status(c).get("postgres", {}).get(name, -1)


def log_of_member(c):
    with open(c.directory + "/logs/gcs.log", encoding="utf-8", errors="replace") as file:
        return file.read()


def refused(c):
    """A directory with another cluster's secret: the tool says why at once, and so does the member's log."""
    path = c.directory + "/cluster-secret"
    with open(path, "rb") as file:
        secret = file.read()
    with open(path, "wb") as file:
        file.write(bytes(32))
    done = [subprocess.run([BIN + "/mobula", "gcs", what, "--dir", c.directory], capture_output=True, text=True, timeout=60)
            for what in ("status", "verify")]
    with open(path, "wb") as file:
        file.write(secret)
    for one in done:
        check(one.returncode == 6 and "refuse each other" in one.stderr and "secret" in one.stderr, "refused", one)
    c.until("the member's log says it, too", lambda: "reason=unauthenticated" in log_of_member(c))  # the supervisor writes it


class Redis:
    """Of one member."""

    def __init__(self, c, member):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"{c.directory}/{member}/redis.sock")
        self.file = self.socket.makefile("rb")
        with open(f"{c.directory}/{member}/redis.pass", "rb") as file:
            self.call(b"AUTH", b"mobula", file.readline().strip())

    def send(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def call(self, *words):
        self.send(*words)
        return self.reply()

    def refusal(self, command):
        self.send(*command.split())
        return self.file.readline().rstrip()

    def reply(self):
        line = self.file.readline().rstrip()
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        if line[:1] != b"$":
            check(line[:1] != b"-", "Redis", line)
            return line
        return None if line == b"$-1" else self.file.read(int(line[1:]) + 2)[:-2]

    def blocks(self):
        cursor, keys = b"0", []
        while True:
            cursor, some = self.call(b"SCAN", cursor, b"MATCH", b"b*", b"COUNT", b"1000")
            keys += [key for key in some if len(key) == 9]
            if cursor == b"0":
                return sorted(keys)


def some_tasks(c):
    c.submitted = getattr(c, "submitted", 0) + 600
    c.deploy("arith")
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": [[i, i % 3] for i in range(600)], "options": {"max_retries": 0}}, expect=202)
    c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": 600, "timeout_ms": 60000}, expect=200)


def settled(c):
    """Everything is in the members' Redis, durable, and in PostgreSQL: nothing changes any more by itself."""
    applied = status(c)["member"]["applied"]
    c.until("durable", lambda: status(c)["member"]["durable"] >= applied and flushed(c, "watermark") > 0, 60)
    c.until("written", lambda: flushed(c, "tasks") >= c.submitted and verify(c)[0] == 0, 60)
    # and stays there: who asks is an entry, too, but none that is flushed
    c.until("nothing is behind", lambda: flushed(c, "behind") == 0, 60)


def whole(c):
    """Epoch of the chain when all of its members serve in it, else None: then one is missing, or takes its copy."""
    chain = status(c)["chain"]
    serve = [m.get("state") == "serving" and m.get("epoch") == chain["epoch"] and m.get("role") in ("head", "tail") for m in chain["members"]]
    return chain["epoch"] if serve == [True, True] else None


def spoil_member(c, member, spoil, mend, why, words):
    """In its Redis. A member that is slow is left out, and who joins may copy what is spoiled: so the master is held meanwhile, and
    only members of a whole chain are spoiled. What was found while a member was replaced is asked again."""
    for _ in range(25):
        c.until("whole", lambda: whole(c), 60)
        master = c.until("a master", lambda: pid_of(c, "master"), 60)
        os.kill(master, signal.SIGSTOP)
        try:
            epoch, found = whole(c), None
            if epoch is not None:
                redis = Redis(c, member)
                spoil(redis)
                found = verify(c)
                mend(redis)
            same = epoch is not None and whole(c) == epoch
        finally:
            with contextlib.suppress(ProcessLookupError):  # after some seconds the supervisor has another one
                os.kill(master, signal.SIGCONT)
        if not same:
            settled(c)
        elif not any(line["ok"] is None for line in found[2].values()):
            break
    if check(found is not None, f"the chain stays whole: {why}", status(c)):
        bad(c, why, "blocks of each member", words, found)


def pid_of(c, name):
    with open(c.directory + "/supervisor.json", encoding="utf-8") as file:
        return next(p["pid"] for p in json.load(file)["processes"] if p["name"] == name)


def test_a_member_that_is_being_replaced(c):
    """It is not there for a moment, and then an empty one that takes its copy: waited for."""
    with open(c.directory + "/supervisor.pid", encoding="ascii") as file:
        supervisor = int(file.read().split()[0])
    for member in ("gcs", "gcs-1"):
        os.kill(supervisor, signal.SIGSTOP)  # so nobody starts another one
        os.kill(pid_of(c, member), signal.SIGKILL)
        asked = subprocess.Popen([BIN + "/mobula", "gcs", "verify", "--dir", c.directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            early = asked.wait(timeout=1)  # long enough to find the member gone
        except subprocess.TimeoutExpired:
            early = None
        os.kill(supervisor, signal.SIGCONT)
        said = asked.communicate(timeout=120)[0]
        check(early is None and asked.returncode == 0, f"while {member} is replaced", early, asked.returncode, said)


def test_the_store_is_the_members_alone(c):
    """What redis.acl says, by the Redis that runs: no script, no command of an operator, nobody without the password."""
    for member in ("gcs", "gcs-1"):
        store = Redis(c, member)
        for command in (b"EVAL return(1) 0", b"FUNCTION LIST", b"SCRIPT FLUSH", b"CONFIG GET dir", b"FLUSHALL", b"SHUTDOWN", b"ACL LIST", b"SAVE", b"SLAVEOF no one",
                        b"MODULE LIST", b"MONITOR", b"CLIENT LIST", b"DEL x", b"SUBSCRIBE x"):
            said = store.refusal(command)
            check(said.startswith(b"-NOPERM"), f"{member}: {command.decode()}", said)
        stranger = socket.socket(socket.AF_UNIX)
        path = f"{c.directory}/{member}/redis.sock"
        stranger.connect(path)
        for command in (b"PING\r\n", b"GET x\r\n", b"SET x y\r\n"):
            stranger.sendall(command)
            check(stranger.recv(100).startswith(b"-NOAUTH"), f"{member}: a stranger's {command}")
        stranger.close()
        mode = os.stat(path).st_mode
        check(stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, f"{member}: its socket", oct(mode))


def test_a_chain(c):
    for _ in range(2):  # two batches
        some_tasks(c)
        settled(c)
    good(c, "as it is")
    refused(c)
    for member in ("gcs", "gcs-1"):
        c.until("whole", lambda: whole(c), 60)
        redis = Redis(c, member)
        keys = redis.blocks()
        key = keys[len(keys) // 2]
        at, value = int.from_bytes(key[1:], "big"), redis.call(b"GET", key)
        more = b"b" + (at + (1 << 40)).to_bytes(8, "big")
        spoil_member(c, member, lambda r: r.call(b"SET", key, value[:-9] + bytes([value[-9] ^ 4]) + value[-8:]), lambda r: r.call(b"SET", key, value),
                     "a byte", f"{member}.sock: the block at {at} does not decode")
        spoil_member(c, member, lambda r: r.call(b"UNLINK", key), lambda r: r.call(b"SET", key, value),
                     "a block that is not there", f"{member}.sock: the block at {at} is in the index and not in Redis")
        good(c, "put back")
        spoil_member(c, member, lambda r: r.call(b"SET", more, value), lambda r: r.call(b"UNLINK", more),
                     "a block that is not indexed", f"{member}.sock: the block at {at + (1 << 40)} is in Redis and not in the index")
    good(c, "all put back")


@contextlib.contextmanager
def writing(c):
    """Others write: some thousand entries a second."""
    stop, failed = threading.Event(), []

    def write():
        while not stop.is_set():
            code, _, body = c.call("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": [[i, 3] for i in range(50)]})
            if code != 202:
                failed.append(code)
                continue
            c.submitted += 50
            ids = [item["returns"][0] for item in json.loads(body)["items"]]
            c.call("POST", V1 + "/objects:wait", {"ids": ids, "num_returns": 50, "timeout_ms": 60000})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    check(not failed, "the writer", failed[:3])


def test_while_others_write(c):
    """Everything is compared, as of positions that all have."""
    with writing(c):
        before = status(c)["member"]["applied"]
        for i in range(4):
            good(c, f"while others write, {i}", "verify.next_member=delay:300" if i % 2 else "")
        after = status(c)["member"]["applied"]
        check(after > before + 50, "they do", before, after)
        row = "(upto, row_number) = (SELECT upto, row_number FROM mobula.bucket ORDER BY upto LIMIT 1)"
        sql(c, f"CREATE TABLE one AS SELECT * FROM mobula.bucket WHERE {row}; DELETE FROM mobula.bucket WHERE {row}")
        bad(c, "a row less, while others write", "rows of PostgreSQL", "its rows are not what it took in")
        sql(c, "INSERT INTO mobula.bucket SELECT * FROM one")
        redis = Redis(c, "gcs-1")
        key = redis.blocks()[0]
        at, value = int.from_bytes(key[1:], "big"), redis.call(b"GET", key)
        spoil_member(c, "gcs-1", lambda r: r.call(b"UNLINK", key), lambda r: r.call(b"SET", key, value),
                     "a block that is not there", f"gcs-1.sock: the block at {at} is in the index and not in Redis")
    settled(c)
    good(c, "and afterwards")


def test_after_a_job_was_deleted(c):
    """What went with it is known, to the row: nothing else may be missing."""
    def tasks_of(job):
        rows = [[i, 3] for i in range(1000)]
        batch = c.json("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": rows, "job": job}, expect=202)
        c.json("POST", V1 + "/objects:wait", {"ids": [item["returns"][0] for item in batch["items"]], "num_returns": len(rows), "timeout_ms": 60000}, expect=200)
        c.submitted += len(rows)
    jobs = [c.json("POST", V1 + "/jobs", {"name": name}, expect=201)["id"] for name in ("kept", "deleted")]
    for job in jobs:  # rows of one cut are shared by small jobs
        tasks_of(job)
        settled(c)
    for query in ("", "?purge=true"):
        check(c.call("DELETE", f"{V1}/jobs/{jobs[1]}{query}")[0] == 202, "it ends, and is purged", query)
    c.until("PostgreSQL has nothing of it", lambda: int(sql(c, "SELECT count(*) FROM mobula.deleted")) > 0, 60)
    good(c, "with what a job's deletion left")
    own = "job = (SELECT job FROM mobula.bucket WHERE job IS NOT NULL LIMIT 1)"
    sql(c, f"CREATE TABLE others AS SELECT * FROM mobula.bucket WHERE {own}; DELETE FROM mobula.bucket WHERE {own}")
    check(int(sql(c, "SELECT count(*) FROM others")) > 0, "rows of another job")
    bad(c, "another job's rows are missing", "rows of PostgreSQL", "its rows are not what it took in")
    sql(c, "INSERT INTO mobula.bucket SELECT * FROM others")
    good(c, "put back, and the deleted ones stay away")
    sql(c, "UPDATE mobula.deleted SET specs = specs - 1 WHERE specs > 0")
    bad(c, "one more is missing than was deleted", "rows of PostgreSQL", "its rows are not what it took in")
    sql(c, "UPDATE mobula.deleted SET specs = specs + 1 WHERE specs > 0")


def test_what_cannot_be_compared(c):
    code, said, checks = verify(c)
    check(code == 8 and checks["digests of the members"]["ok"] is None, "a code of its own", code, said, checks)
    check("not compared" in checks["digests of the members"]["figures"] and checks["blocks of each member"]["ok"], "and which it is", checks)


def spoil_database(c):
    row = "(upto, row_number) = (SELECT upto, row_number FROM mobula.bucket ORDER BY octet_length(payload) DESC LIMIT 1)"
    columns = sql(c, "SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = 'mobula' AND table_name = 'bucket'")
    sql(c, "CREATE TABLE kept AS SELECT * FROM mobula.bucket; CREATE TABLE kept_failures AS SELECT * FROM mobula.failure; CREATE TABLE kept_days AS SELECT * FROM mobula.stream_day")
    for why, spoil, words in (
        ("a row less", f"DELETE FROM mobula.bucket WHERE {row}", "its rows are not what it took in"),
        ("a row changed", f"UPDATE mobula.bucket SET payload = set_byte(payload, 300, get_byte(payload, 300) # 1) WHERE {row}", "row "),
        ("a row twice", f"INSERT INTO mobula.bucket SELECT {columns.replace('row_number', 'row_number + 10000')} FROM mobula.bucket WHERE {row}", "is there twice"),
        ("a summary changed", f"UPDATE mobula.bucket SET finals = finals + 1 WHERE {row}", "it does not hold what it says"),
        ("a row of no batch", f"INSERT INTO mobula.bucket SELECT {columns.replace('upto', 'upto + 100000000')} FROM mobula.bucket WHERE {row}", ""),
    ):
        sql(c, spoil)
        bad(c, why, "rows of PostgreSQL", words)
        sql(c, "TRUNCATE mobula.bucket; INSERT INTO mobula.bucket SELECT * FROM kept")
    for why, spoil, words in (
        ("a failure less", "DELETE FROM mobula.failure WHERE ctid = (SELECT min(ctid) FROM mobula.failure)", "mobula.failure has not each"),
        ("a failure twice", "INSERT INTO mobula.failure SELECT * FROM mobula.failure WHERE ctid = (SELECT min(ctid) FROM mobula.failure)", "mobula.failure has not each"),
    ):
        sql(c, spoil)
        bad(c, why, "rows of PostgreSQL", words)
        sql(c, "TRUNCATE mobula.failure; INSERT INTO mobula.failure SELECT * FROM kept_failures")
    sql(c, "DELETE FROM mobula.stream_day")
    bad(c, "streams without their day", "rows of PostgreSQL", "not found by their id")
    sql(c, "INSERT INTO mobula.stream_day SELECT * FROM kept_days")
    good(c, "PostgreSQL put back")


def test_the_database(c):
    spoil_database(c)


def test_what_is_in_both(c):
    """A batch that is as good as any, but holds another task's entries than the members have."""
    swap = "UPDATE mobula.bucket b SET payload = k.payload FROM kept k WHERE"
    pair = sql(c, "SELECT a.upto, a.row_number, b.upto, b.row_number FROM kept a, kept b WHERE a.upto < b.upto LIMIT 1").split("|")
    if not check(len(pair) == 4, "two batches", pair):
        return
    sql(c, f"{swap} (b.upto, b.row_number) = ({pair[0]}, {pair[1]}) AND (k.upto, k.row_number) = ({pair[2]}, {pair[3]})")
    bad(c, "another task's", "what is in both places, entry by entry", "in PostgreSQL")
    sql(c, "TRUNCATE mobula.bucket; INSERT INTO mobula.bucket SELECT * FROM kept")
    good(c, "and back")


def index_of(failpoint, words):
    os.environ["MOBULA_FAILPOINTS"] = failpoint
    c = Cluster()
    del os.environ["MOBULA_FAILPOINTS"]
    try:
        some_tasks(c)
        found = verify(c)
        bad(c, failpoint, "index of the member", words, found)
        bad(c, failpoint, "index of each member", "gcs.sock: " + words, found)
    finally:
        c.end()


def index_of_the_head():
    """Clients are answered by the tail, so none would notice. A head that is left out meanwhile is another member then: anew."""
    for _ in range(10):
        os.environ["MOBULA_FAILPOINTS"] = "gcs.head_index_lacks=error@5"
        c = Cluster("--postgres", "on", "--flush-delay-ms", "100")
        del os.environ["MOBULA_FAILPOINTS"]
        try:
            epoch = c.until("whole", lambda: whole(c), 60)
            head = next((m["member"] for m in status(c)["chain"]["members"] if m["role"] == "head"), None)
            if head is None:  # left out since
                continue
            some_tasks(c)
            found = verify(c)
            if whole(c) != epoch or found[2]["index of each member"]["ok"] is None:
                continue
            bad(c, "the head's index", "index of each member", f"{head}: the index lacks the block at", found)
            check(all(line["ok"] for name, line in found[2].items() if name != "index of each member"), "and nothing else is wrong", found)
            return
        finally:
            c.end()
    check(False, "a head that stays")


def main():
    c = Cluster("--postgres", "on", "--flush-delay-ms", "100")
    try:
        for test in (test_the_store_is_the_members_alone, test_a_chain, test_a_member_that_is_being_replaced, test_the_database, test_what_is_in_both, test_after_a_job_was_deleted, test_while_others_write):
            before = len(lib_http_cluster.failures)
            test(c)
            print("ok" if len(lib_http_cluster.failures) == before else "not ok", test.__name__, flush=True)
    finally:
        c.end()
    os.environ["MOBULA_FAILPOINTS"] = "gcs.says_it_joins=error"
    c = Cluster()
    del os.environ["MOBULA_FAILPOINTS"]
    try:
        some_tasks(c)
        test_what_cannot_be_compared(c)
    finally:
        c.end()
    index_of("index.lacks=error@5", "the index lacks the block at")
    index_of("index.has_more=error", "the index has the block at")
    index_of_the_head()
    sys.exit(1 if lib_http_cluster.failures else 0)


if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main()
