"""Generators over HTTP: items as they come, each an object, and an end that shows.   ctest: timeout=240 long"""
import threading
import time

from lib_http_cluster import check, main, ref, with_slot

V1 = "/api/v1"


def submit(c, *arguments, function="probe.counts", wait=None):
    headers = {"Prefer": f"wait={wait}"} if wait is not None else {}
    return c.json("POST", V1 + "/tasks", {"function": function, "arguments": list(arguments)}, headers)


def items_of(c, task, limit=100, wait=20):
    """All items by pages, and the last page."""
    items, cursor = [], None
    while True:
        page = c.json("GET", f"{V1}/tasks/{task}/items?limit={limit}&wait={wait}" + (f"&cursor={cursor}" if cursor else ""), expect=200)
        items += page.get("items", [])
        cursor = page.get("next_cursor")
        if cursor is None:
            return items, page


def test_waiting_ends_with_the_generator(c):
    c.deploy("probe")
    begin = time.monotonic()
    answer = submit(c, 3, wait=30)
    check(time.monotonic() - begin < 10, "as soon as it has ended")
    check(answer["state"] == "finished" and answer["result"] == [0, 10, 20], "values", answer)
    for slot in (3, 4, 500):
        check(c.json("GET", f"{V1}/objects/{with_slot(answer['returns'][2], slot)}?wait=2", expect=404), "no item behind the last")
    check(len(answer["returns"]) == 3 and answer["stream"] == {"items": 3, "ended": True}, "items", answer)
    check([c.value(o)["value"] for o in answer["returns"]] == [0, 10, 20], "each is an object")
    check(submit(c, 0, wait=30)["result"] == [], "none")
    many = submit(c, 5000, wait=30)
    check(many["stream"]["items"] == 5000 and len(many["returns"]) == 3000 and "result" not in many, "too many to show", many["stream"])
    check(c.value(many["returns"][2999])["value"] == 29990, "the ids are right")


def test_without_waiting(c):
    answer = submit(c, 4)
    check(answer["state"] == "submitted" and answer["returns"] == [] and answer["stream"]["ended"] is False, "acknowledged", answer)
    items, page = items_of(c, answer["id"])
    check([i["value"] for i in items] == [0, 10, 20, 30] and [i["index"] for i in items] == [0, 1, 2, 3], "items", items)
    check(page["ended"] is True, "the end", page)
    task = c.json("GET", f"{V1}/tasks/{answer['id']}", expect=200)
    check(task["stream"] == {"items": 4, "ended": True} and [r["id"] for r in task["returns"]] == [i["id"] for i in items], "its record", task)
    late = submit(c, 20, 200, 8, function="probe.counts_down", wait=0.5)
    check(late["state"] == "submitted" and late["stream"]["ended"] is False, "longer than the wait", late)
    c.call("POST", f"{V1}/tasks/{late['id']}:cancel")


def test_pages(c):
    task = submit(c, 2500)["id"]
    for limit in (1000, 333):
        items, page = items_of(c, task, limit)
        check([i["value"] for i in items] == [10 * k for k in range(2500)], f"pages of {limit}", len(items))
    first = c.json("GET", f"{V1}/tasks/{task}/items?limit=2", expect=200)
    check(len(first["items"]) == 2 and first["next_cursor"] and first["ended"] is False, "a page", first)
    for bad in ("limit=0", "limit=x", "cursor=x", "cursor=1", "wait=x", "other=1"):
        check(c.json("GET", f"{V1}/tasks/{task}/items?{bad}", expect=400)["code"] == "bad-request", bad)


def test_items_come_while_it_runs(c):
    task = submit(c, 6, 300, 100_000, function="probe.counts_down")["id"]
    arrivals, cursor, ended = [], None, False
    while not ended:
        page = c.json("GET", f"{V1}/tasks/{task}/items?wait=10" + (f"&cursor={cursor}" if cursor else ""), expect=200)
        arrivals += [(item, time.monotonic()) for item in page["items"]]
        cursor, ended = page["next_cursor"], page["ended"]
    check(len(arrivals) == 6 and arrivals[-1][1] - arrivals[0][1] > 1, "one by one", [at for _, at in arrivals])
    check(page["error"]["code"] == "task-failed" and "nothing is left of 6" in page["error"]["message"], "and then it fails", page)
    for item, _ in arrivals:
        check("value" not in item and item["size"] >= 100_000, "large ones by their id", item)
        data = c.call("GET", f"{V1}/objects/{item['id']}/data")
        check(data[0] == 200 and data[2][0] == 6 - item["index"] and len(data[2]) == 100_000, "bytes", data[0], len(data[2]))


def test_a_waiter_for_an_item_to_come(c):
    task = submit(c, 3, 700, 8, function="probe.counts_down")["id"]
    first = c.json("GET", f"{V1}/tasks/{task}/items?wait=10", expect=200)["items"][0]
    got = []
    waiter = threading.Thread(target=lambda: got.append(c.json("POST", V1 + "/tasks", {"function": "probe.echo_bytes", "arguments": [ref(first["id"])]}, {"Prefer": "wait=20"})))
    waiter.start()
    waiter.join()
    check(got[0]["state"] == "finished", "an item as an argument, while the generator runs", got)
    _, page = items_of(c, task)
    check(page["ended"] and page["error"], "ends", page)


def test_failed_generators(c):
    answer = submit(c, 2, 1, 8, function="probe.counts_down", wait=20)
    check(answer["state"] == "failed" and "nothing is left of 2" in answer["error"]["message"], "failed", answer)
    check(len(answer["returns"]) == 2, "what it gave", answer)
    check(all(c.value(o)["state"] == "ready" for o in answer["returns"]), "stands")
    for killed in (True, False):
        task = submit(c, 50, 200, 8, function="probe.counts_down")["id"]
        c.json("GET", f"{V1}/tasks/{task}/items?wait=10", expect=200)
        c.call("POST", f"{V1}/tasks/{task}:cancel", {"force": killed})
        items, page = items_of(c, task)
        check(0 < len(items) < 50 and page["error"]["code"] == "cancelled", "cancelled", len(items), page)


def test_what_is_no_generator(c):
    plain = c.run("probe.echo_i64", 1)["id"]
    document = c.json("GET", f"{V1}/tasks/{plain}/items", expect=404)
    check("not a generator" in document["detail"], "a task", document)
    check(c.json("GET", f"{V1}/tasks/task_{'a' * 26}/items?wait=5", expect=404)["code"] == "not-found", "unknown")
    check(c.json("GET", f"{V1}/tasks/nonsense/items", expect=404)["code"] == "not-found", "malformed")
    batch = c.json("POST", V1 + "/tasks:batch", {"function": "probe.counts", "rows": [[2], [3]]}, expect=202)
    check([len(items_of(c, item["id"])[0]) for item in batch["items"]] == [2, 3], "in a batch", batch)


def test_after_a_restart(c):
    answer = submit(c, 5, wait=20)
    large = submit(c, 3, 1, 100_000, function="probe.counts_down", wait=20)
    running = submit(c, 8, 400, 8, function="probe.counts_down")["id"]
    c.json("GET", f"{V1}/tasks/{running}/items?wait=10", expect=200)
    c.kill("mobula-node")
    c.until("the node is back", lambda: c.call("GET", "/readyz", key=None)[0] == 200 and c.run("probe.echo_i64", 1).get("result") == 1)
    check([c.value(o)["value"] for o in answer["returns"]] == [0, 10, 20, 30, 40], "small items are in the log")
    check(c.call("GET", f"{V1}/objects/{large['returns'][1]}/data?wait=20")[2][0] == 2, "large ones are made again")
    items, page = items_of(c, running)
    check(len(items) == 8 and "nothing is left of 8" in page["error"]["message"], "one that ran goes on", len(items), page)


if __name__ == "__main__":
    main(dict(globals()))
