"""Pages of actors, jobs and functions on two shards: each item that stays is given once and in order, while others come and go and the
node is killed between two pages. And what a name means there when its module goes.   ctest: timeout=200"""
from lib_http_cluster import MODULES, check, main

V1 = "/api/v1"
KEPT = 24


def pages(c, path, between):
    items, cursor = [], None
    for number in range(500):
        page = c.json("GET", path + (f"&cursor={cursor}" if cursor else ""), expect=200)
        items += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            check(number > 2, "several pages", number)
            return items
        between(number)
    check(False, f"{path} ends", len(items))
    return items


def restart_node(c):
    known = c.json("GET", V1 + "/jobs?limit=1000", expect=200)["total_estimate"]
    c.kill("mobula-node")
    # 503 while it is away; then it has read its tables
    c.until("the node is back", lambda: c.call("GET", V1 + "/jobs?limit=1")[0] == 200 and
            c.json("GET", V1 + "/jobs?limit=1000")["total_estimate"] >= known, 60)


def walk(c, path, kept, come, go):
    """What was there at first is there once, in the order of one big page."""
    wanted = [i["id"] for i in c.json("GET", path + "&limit=1000", expect=200)["items"] if i["id"] in kept]
    check(len(wanted) == len(kept), path + ": all there", len(wanted))
    others = []

    def between(number):
        others.append(come(number))
        if number % 3 == 1:
            go(others.pop(0))
        if number == 2:
            restart_node(c)

    found = [i["id"] for i in pages(c, path + "&limit=3", between) if i["id"] in kept]
    check(found == wanted, path + ": each once, in order", len(found), len(set(found)), len(wanted))
    c.until(path + ": all are there behind it, too", lambda: kept <= {
        i["id"] for i in c.json("GET", path + "&limit=1000", expect=200)["items"]}, 30)


def open_job(c, number):
    return c.json("POST", V1 + "/jobs", {"name": f"paged-{number}"}, expect=201)["id"]


def delete_job(c, job):
    for _ in range(2):  # ends it, then lets it go
        check(c.call("DELETE", f"{V1}/jobs/{job}")[0] // 100 == 2, "a job is deleted")


def test_jobs(c):
    kept = {open_job(c, n) for n in range(KEPT)}
    for order in ("", "&sort=name", "&sort=-started_us", "&sort=detached"):
        walk(c, f"{V1}/jobs?filter=name:paged-*{order}", kept, lambda n: open_job(c, n), lambda job: delete_job(c, job))


def make_actor(c, number):
    body = {"class": "quickstart.Counter", "arguments": [number], "options": {"name": f"paged-{number}", "detached": True}}
    return c.json("POST", V1 + "/actors", body, {"Prefer": "wait=30"}, expect=201)["id"]


def test_actors(c):
    c.deploy("quickstart")
    kept = {make_actor(c, n) for n in range(12)}
    fresh = iter(range(100, 1000))

    def end(actor):
        check(c.call("DELETE", f"{V1}/actors/{actor}")[0] == 202, "an actor is ended")

    for order in ("", "&sort=name"):
        walk(c, f"{V1}/actors?filter=name:paged-*{order}", kept, lambda n: make_actor(c, next(fresh)), end)


def test_functions(c):
    for module in ("arith", "quickstart", "probe"):
        c.deploy(module)
    path = f"{V1}/functions?filter=name:*"
    kept = {f["id"] for f in c.json("GET", path + "&limit=1000", expect=200)["items"]}

    def come(number):
        hundred = c.deploy("noop" if number % 2 else "nested_tasks")
        return hundred["hash"]

    def go(module):
        check(c.call("DELETE", f"{V1}/functions/{module}")[0] // 100 == 2, "a module is deleted")

    for order in ("", "&sort=-name", "&sort=newest", "&sort=signature"):
        walk(c, path + order, kept, come, go)


def test_a_name_means_the_module_deployed_before(c):
    """Their rows lie on both shards, of which one is far ahead of the other."""
    c.deploy("quickstart")
    with open(f"{MODULES}/search_wait.so", "rb") as file:
        module = file.read()
    hashes = []
    for n in range(8):
        hashes.append(c.json("POST", V1 + "/functions", module + b"%d" % n, {"Content-Type": "application/octet-stream"}, expect=201)["hash"])
        make_actor(c, 1000 + n)
    name = next(f["name"] for f in c.json("GET", f"{V1}/functions?filter=module_hash:{hashes[0]}", expect=200)["items"])
    again = c.json("POST", V1 + "/functions", module + b"3", {"Content-Type": "application/octet-stream"}, expect=200)["hash"]
    order = [hash for hash in hashes if hash != again] + [again]
    while order:
        newest = c.json("GET", f"{V1}/functions/{name}", expect=200)["module_hash"]
        if not check(newest == order[-1], "the last deployed of those that are left", len(order), hashes.index(newest)):
            return
        if len(order) == 5:
            c.kill("mobula-node")
            c.until("the node is back", lambda: c.call("GET", f"{V1}/functions/{name}")[0] == 200, 60)
            check(c.json("GET", f"{V1}/functions/{name}", expect=200)["module_hash"] == order[-1], "and after a restart")
        c.until("it goes", lambda: c.call("DELETE", f"{V1}/functions/{order[-1]}")[0] == 204, 60)
        order.pop()


if __name__ == "__main__":
    main(globals(), "--gcs-shards", "2")
