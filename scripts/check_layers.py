#!/usr/bin/env python3
"""Refuses includes that are not an edge of the architecture.

An include is written from the root, so each one names the layer it reaches. MAY_INCLUDE says which folders each folder may
reach, LIBRARY_OWNERS who may see which library, PURE which folders must stay without clocks, sockets and threads.

    check_layers.py [ROOT]      prints file:line: reason, exit status 1 when there is any
"""
import re
import sys
from pathlib import Path

BASE = ["common/base"]
WIRE = BASE + ["common/wire"]
CLIENT = WIRE + ["sdk/c", "gcs/client"]  # what a program outside of the node stands on
SERVER_PARTS = ["http", "edge", "h1", "h2", "ws", "auth", "events", "serve", "api"]
ANYTHING = None

# folder: what it may include besides itself. The longest folder that holds a file decides. Arrows point down only.
MAY_INCLUDE = {
    "common/base": [],
    "common/settings": BASE,
    "common/wire": BASE,
    "gcs/chain": WIRE,
    "gcs/client": WIRE + ["gcs/link"],
    "gcs/link": WIRE,
    # What a node says to the master of its home shard.
    "gcs/life": WIRE + ["gcs/client", "gcs/link"],
    "gcs/shard": WIRE + ["common/settings", "gcs/chain", "gcs/link"],
    "gcs/flush": WIRE + ["common/settings", "gcs/client"],
    # The connection to PostgreSQL is gcs/flush's.
    "gcs/master": WIRE + ["common/settings", "gcs/chain", "gcs/client", "gcs/flush", "gcs/link"],
    "runtime/store": WIRE,
    "runtime/sched": WIRE,
    "runtime/actor": WIRE,
    "runtime/xfer": WIRE + ["runtime/store"],
    "sdk/c": WIRE + ["gcs/client", "runtime/store"],
    "runtime/worker": CLIENT + ["runtime/store"],
    "runtime/scheduler": WIRE + ["gcs/client", "runtime/sched"],
    "runtime/node": CLIENT + ["common/settings", "gcs/life", "runtime/store", "runtime/sched", "runtime/actor", "runtime/xfer", "runtime/worker"],
    # Every front makes the one struct request of server/http, and the router reads it.
    "server/http": BASE,
    "server/edge": BASE + ["server/http"],
    "server/h1": BASE + ["server/http"],
    "server/h2": BASE + ["server/http"],
    "server/ws": BASE + ["server/http"],
    "server/auth": CLIENT + ["server/http"],
    "server/events": CLIENT + ["server/http"],
    "server/serve": CLIENT + ["server/http"],
    "server/api": CLIENT + ["server/http", "server/auth", "server/events", "server/serve"],
    "server": CLIENT + ["common/settings"] + [f"server/{part}" for part in SERVER_PARTS],
    # The supervisor writes the configurations of Redis and PostgreSQL, which are gcs/shard's and gcs/flush's to know.
    "cli": WIRE + ["common/settings", "gcs/client", "gcs/shard", "gcs/flush", "sdk/c"],
    # Outside of the walls: the public C API and nothing else.
    "examples": [],
    "rl": [],
    "modules": [],
    "tests": ANYTHING,
    "bench": ANYTHING,
}

# Headers of a folder that others may see, and who; the rest of that folder's headers is its own. CLOSED ones give nothing
# of the inside away: they include no other header of their folder.
OFFERED = {
    "sdk/c": {
        "sdk/c/embed.h": ["server", "cli"],
        # The worker is the other half of the C API: it runs the calls that functions see.
        "sdk/c/call.h": ["runtime/worker"],
        "sdk/c/function.h": ["runtime/worker"],
    },
}
CLOSED = ["sdk/c/embed.h"]

PUBLIC_HEADERS = "mobula/"  # <mobula/mobula.h>, found in sdk/c/include
PUBLIC_USERS = ["sdk/c", "runtime/worker", "runtime/node", "server", "cli", "examples", "rl", "modules", "tests", "bench"]

# library's header: the only folders that see it.
LIBRARY_OWNERS = {
    "hiredis": ["gcs/shard"],
    "microhttpd.h": ["server/h1"],
    "nghttp2": ["server/h2"],
    "libwebsockets": ["server/ws"],
    "openssl": ["server/edge"],
    "libpq": ["gcs/flush", "gcs/master"],
    "sodium": ["common/base", "server/auth"],
    # The store hashes large objects in steps, which takes the library's streaming state.
    "xxhash": ["common/base", "runtime/store"],
    "lz4": ["common/wire"],
    "zlib.h": ["server/http"],
    "uv.h": ["runtime/node", "runtime/scheduler", "gcs/shard", "gcs/master", "server", "cli"],
    "jansson.h": ["server", "cli", "runtime/node", "gcs/flush"],
}
OWNERS_EXEMPT = ["tests", "bench"]

# (state, event) -> actions: the simulator brings the clock, the network and the disk.
PURE = ["common/wire", "gcs/chain", "runtime/sched", "runtime/actor"]
IMPURE_HEADERS = re.compile(
    r"^(uv\.h|pthread\.h|threads\.h|time\.h|unistd\.h|fcntl\.h|poll\.h|signal\.h|netdb\.h"
    r"|sys/(socket|epoll|eventfd|time|timerfd|mman|wait|un|syscall)\.h|netinet/.*|arpa/.*)$"
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
ANY_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
SKIPPED = {"build", ".git", "reference", "node_modules"}


def without_comments(text):
    """Comments become blanks, line by line, so that line numbers stay. (// inside a string is no include.)"""
    return COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def layer_of(path):
    """The longest folder of the table that holds path, or None."""
    holders = [folder for folder in MAY_INCLUDE if within(path, folder)]
    return max(holders, key=len) if holders else None


def quoted_problem(root, path, layer, target):
    if target.startswith(PUBLIC_HEADERS):
        return f'"{target}" is public: write <{target}>'
    if "/" not in target or ".." in target.split("/") or not (root / target).is_file():
        return f'"{target}" is not a file written from the root'
    allowed = MAY_INCLUDE[layer]
    if path in CLOSED and layer_of(target) == layer:
        return f"{path} is offered to others and includes nothing of {layer}"
    if allowed is ANYTHING or layer_of(target) == layer:
        return None
    offers = OFFERED.get(layer_of(target))
    if offers is not None and not any(within(path, user) for user in offers.get(target, [])):
        return f"{target} is private to {layer_of(target)}, or not offered to {layer}"
    if any(within(target, entry) for entry in allowed):
        return None
    return f"{layer} may not include {layer_of(target) or target} (it may: {', '.join(allowed) or 'only <mobula/mobula.h>'})"


def system_problem(path, layer, target):
    if target.startswith(PUBLIC_HEADERS):
        if not any(within(path, user) for user in PUBLIC_USERS):
            return f"{layer} lies below <{target}>"
        return None
    if layer in PURE and IMPURE_HEADERS.match(target):
        return f"{layer} is a pure core: no <{target}>"
    if any(within(path, folder) for folder in OWNERS_EXEMPT):
        return None
    for library, owners in LIBRARY_OWNERS.items():
        named = target == library or target.startswith((library + "/", library + "-", library + ".", library + "_"))
        if named and not any(within(path, owner) for owner in owners):
            return f"only {', '.join(owners)} may see <{target}>"
    return None


def file_problems(root, path):
    """Yields (line, reason) of one file; path is relative to root, with slashes."""
    layer = layer_of(path)
    if layer is None:
        yield 1, "no layer holds this file: give its folder a row in scripts/check_layers.py"
        return
    text = without_comments((root / path).read_text(encoding="utf-8", errors="replace"))
    for line in ANY_INCLUDE.finditer(text):
        number = text.count("\n", 0, line.start()) + 1
        include = INCLUDE.match(line.group())
        if include is None:
            yield number, "an include that names no header cannot be checked"
            continue
        quoted, system = include.groups()
        problem = quoted_problem(root, path, layer, quoted) if quoted else system_problem(path, layer, system)
        if problem:
            yield number, problem


def source_files(root):
    for path in sorted(root.rglob("*.[ch]")):
        relative = path.relative_to(root)
        if path.is_file() and not SKIPPED.intersection(relative.parts):
            yield relative.as_posix()


def main(arguments):
    root = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).resolve().parent.parent
    files, problems = 0, 0
    for path in source_files(root):
        files += 1
        for line, reason in file_problems(root, path):
            print(f"{path}:{line}: {reason}")
            problems += 1
    print(f"{files} files, {problems} includes against the layers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
