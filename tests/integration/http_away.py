"""The control store is away: who asks is told in the time that `gcs-away-ms` gives, not in that of an operation, and what the answer says of
what was asked is so.   ctest: timeout=200"""
import contextlib
import json
import os
import signal
import threading
import time

from lib_http_cluster import check, ids_of, main

V1 = "/api/v1"
AWAY_MS = 1000
OPERATION_S = 60  # MOB_API_OP_TIMEOUT_S; each answer has half of it, on the slowest machine


@contextlib.contextmanager
def away(c):
    """The only member is killed, and nobody starts it again until the end."""
    with open(c.directory + "/supervisor.pid", encoding="ascii") as file:
        supervisor = int(file.read().split()[0])
    os.kill(supervisor, signal.SIGSTOP)
    try:
        c.kill("mobula-gcs")
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)


def task(i, name):
    return {"function": "arith.divmod", "arguments": [i, 7], "options": {"name": name}}


def ask_all(c, requests):
    """All at once; of each the answer and how long it took."""
    answers = [None] * len(requests)

    def one(i):
        began = time.monotonic()
        answers[i] = (*c.call(*requests[i]), time.monotonic() - began)

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(OPERATION_S * 1.5)
    return answers


def refused(answer, what, says):
    """503 in time, which says when to come again and what became of it."""
    if not check(answer is not None, f"{what}: no answer"):
        return
    code, headers, body, took = answer
    problem = json.loads(body)
    good = code == 503 and problem["code"] == "unavailable" and problem["retryable"] and int(headers["retry-after"]) > 0
    check(good, f"{what}: refused", code, headers, problem)
    check(took < OPERATION_S / 2, f"{what}: in time", took)
    check("no member of the control store answers" in problem["detail"] and says in problem["detail"], f"{what}: what it says", problem["detail"])


def told_in_time(c, gone, name, start):
    """Of a keyed and a bare task, and of a batch, while the control store is `gone`; then the keyed one again."""
    known = c.run("arith.divmod", 23, 7)
    keyed = ("POST", V1 + "/tasks", task(start, name), {"Idempotency-Key": name})
    requests = [keyed,
                ("POST", V1 + "/tasks", task(start + 1, name + "-bare"), {"Prefer": "wait=1"}),
                ("POST", V1 + "/tasks:batch", {"function": "arith.divmod", "rows": [[1, 2]]}, {"Idempotency-Key": name + "-batch"}),
                ("GET", f"{V1}/tasks?filter=name:none")]
    with gone:
        answers = ask_all(c, requests)
        code, _, body, took = ask_all(c, [("GET", f"{V1}/objects/{known['returns'][0]}")])[0]
        check(code == 200 and json.loads(body).get("value") == 3, "what the node has is answered", code, body, took)
    c.until("ready", lambda: c.call("GET", "/readyz", key=None)[0] == 200, 60)
    refused(answers[0], "with a key", "it is done once")
    refused(answers[1], "without a key", "it may still be done")
    refused(answers[2], "a batch with a key", "it is done once")
    check(all(a[3] >= AWAY_MS / 1000 for a in answers[:3] if a), "not before its time", [a[3] for a in answers if a])
    again = c.json(*keyed, expect=202)
    check(c.value(again["returns"][1]).get("value") == start % 7, "sent again", again)
    check(ids_of(c, name) == [again["id"]], "once", ids_of(c, name))
    return answers[3]


def test_who_asks_is_told_in_time(c):
    c.deploy("arith")
    refused(told_in_time(c, away(c), "keyed", 30), "a list", "")


def test_members_that_are_stopped_keep_their_links(c):
    refused(told_in_time(c, c.stopped("mobula-gcs"), "member-stopped", 50), "a list", "")


def test_a_member_whose_redis_hangs_takes_no_writes(c):
    told_in_time(c, c.stopped("redis"), "redis-stopped", 70)  # the list may be answered from memory
    with c.stopped("redis"):  # now only the node waits for the control store
        answers = ask_all(c, [("POST", V1 + "/tasks", task(80, "alone"), {"Prefer": "wait=1"})])
    refused(answers[0], "alone, without a key", "it may still be done")


def test_who_waits_for_less_hears_nothing_of_it(c):
    """It is back before the time is over: the request goes on."""
    with away(c):
        answer = []
        asked = threading.Thread(target=lambda: answer.append(c.call("POST", V1 + "/tasks", task(40, "short"), {"Prefer": "wait=20", "Idempotency-Key": "short"})), daemon=True)
        asked.start()
    asked.join(OPERATION_S * 1.5)
    check(answer and answer[0][0] == 200 and json.loads(answer[0][2])["result"] == 40 // 7, "answered", answer)


if __name__ == "__main__":
    main(globals(), "--gcs-away-ms", str(AWAY_MS))
