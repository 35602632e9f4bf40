"""Thousands of functions and hundreds of jobs: all are listed, found and run; and modules whose loading does not end as it should.   ctest: timeout=120"""
import threading
import time

from lib_http_cluster import MODULES, check, main

V1 = "/api/v1"
BINARY = {"Content-Type": "application/octet-stream"}
JOBS = 400  # their list is larger than a record between node and gateway
FUNCTIONS = 10000


def upload(c, name, status):
    with open(f"{MODULES}/{name}.so", "rb") as file:
        return c.json("POST", V1 + "/functions", file.read(), BINARY, expect=status)


def listed(c, path):
    """Ids of all pages."""
    ids, cursor = [], ""
    while True:
        page = c.json("GET", f"{V1}/{path}{cursor}", expect=200)
        ids += [item["id"] for item in page.get("items", [])]
        if not page.get("next_cursor"):
            return ids
        cursor = "&cursor=" + page["next_cursor"]


def test_jobs_of_a_day(c):
    made = {c.json("POST", V1 + "/jobs", {"name": f"one-{n}"}, expect=201).get("id") for n in range(JOBS)}
    ids = listed(c, "jobs?filter=name:one-*&limit=1000")
    check(set(ids) == made and len(ids) == JOBS, "each is listed once", len(ids))
    check(c.json("GET", f"{V1}/jobs/{ids[0]}", expect=200).get("id") == ids[0], "one of them")


def test_a_module_with_thousands_of_functions(c):
    begin = time.monotonic()
    answer = upload(c, "thousands", 201)
    print(f"deployed in {time.monotonic() - begin:.2f} s")
    check(len(answer.get("functions", [])) == FUNCTIONS, "all are told", len(answer.get("functions", [])))
    check(len(set(listed(c, "functions?filter=name:thousands.*&limit=1000"))) == FUNCTIONS, "and listed")
    for name in ("thousands.function_0000", "thousands.function_9999"):
        check(c.json("GET", f"{V1}/functions/{name}", expect=200).get("newest") is True, name)
        check(c.run(name, 1, 2).get("result") == 1, name + " runs")
    c.kill("mobula-node")
    c.until("they are known to the next node", lambda: c.run("thousands.function_5000", 1, 2).get("result") == 1, 60)
    check(len(set(listed(c, "functions?filter=name:thousands.*&limit=1000"))) == FUNCTIONS, "all of them")


def test_names_that_cannot_be(c):
    document = upload(c, "odd_name", 422)
    check("of.another: a name has" in document.get("detail", ""), "which one, and why", document)
    check(c.call("GET", V1 + "/functions/odd_name.fine")[0] == 404, "nothing of it is deployed")


def test_loading_that_goes_silent_holds_nobody_up(c):
    c.deploy("arith")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(upload(c, "goes_silent", 422)))
    thread.start()
    slowest = 0.0
    while thread.is_alive():
        begin = time.monotonic()
        check(c.run("arith.add", 1, 2).get("result") == 3, "another task")
        slowest = max(slowest, time.monotonic() - begin)
    check("loading the module ended with signal 9" in answers[0].get("detail", ""), "why", answers)
    check(c.run("arith.add", 2, 2).get("result") == 4, "the node goes on")
    print(f"the slowest of the others took {slowest:.2f} s")


def test_loading_that_leaves_a_process(c):
    upload(c, "leaves_helper", 201)
    check(c.run("leaves_helper.one").get("result") == 1, "it is deployed, and runs")


if __name__ == "__main__":
    main(dict(globals()))
