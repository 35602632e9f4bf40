#!/usr/bin/env bash
# What `cmake --install` lays down is enough to build a driver: header, both libraries, pkg-config; in C and in C++. A driver
# and a module of C++ run against a cluster.
# ctest: plain (a user's program is not linked with our sanitizers)
set -euo pipefail

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cmake --install "$(dirname "$MOBULA_BIN_DIR")" --prefix "$prefix" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
pc=$(find "$prefix" -name mobula.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir mobula)
read -ra cflags < <(pkg-config --cflags mobula)
read -ra shared < <(pkg-config --cflags --libs mobula)
read -ra static < <(pkg-config --static --libs mobula | sed 's/-lmobula//')

for header in "$prefix"/include/mobula/*.h; do
    echo "compiles alone: $(basename "$header")"
    echo "#include <mobula/$(basename "$header")>" >"$prefix/alone.c"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$prefix/alone.c" "${cflags[@]}"
    clang -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ "$prefix/alone.c" "${cflags[@]}"
done

# Only the public API leaves the shared library.
exported() { nm -D --defined-only "$libdir/libmobula.so" | awk '$2 ~ /^[TDBRVW]$/ { print $3 }'; }
foreign=$(exported | grep -v '^mob_' || true)
[ -z "$foreign" ] || { echo "libmobula.so also exports: $foreign"; exit 1; }
symbol=$(exported | head -n 1)
[ -n "$symbol" ] || { echo "libmobula.so exports nothing"; exit 1; }

printf 'extern void %s(void);\nint main(int argc, char **argv) { (void)argv; if (argc > 1) %s(); return 0; }\n' \
    "$symbol" "$symbol" >"$prefix/user.c"
cc "$prefix/user.c" -o "$prefix/user_shared" "${shared[@]}"
LD_LIBRARY_PATH=$libdir "$prefix/user_shared"
cc "$prefix/user.c" -o "$prefix/user_static" "$libdir/libmobula.a" "${static[@]}"
"$prefix/user_static"
echo "linked with $symbol, shared and static"

# C++: the macros for argument lists and modules, without a warning, from the oldest standard that has initializer lists on.
for compiler in "g++ -std=c++11" "g++ -std=c++20" "clang++ -std=c++17"; do
    read -ra cxx <<<"$compiler"
    "${cxx[@]}" -Wall -Wextra -Wpedantic -Werror -shared -fPIC "$here/cpp/counting.cc" -o "$prefix/counting.so" "${cflags[@]}"
    "${cxx[@]}" -Wall -Wextra -Wpedantic -Werror "$here/cpp/counting_driver.cc" -o "$prefix/counting_driver" "${shared[@]}"
done
"$MOBULA_BIN_DIR/mobula" up --detach --dir "$prefix/cluster" --segment-bytes 64MiB >"$prefix/up" 2>&1 || { cat "$prefix/up"; exit 1; }
trap '"$MOBULA_BIN_DIR/mobula" down --dir "$prefix/cluster" >/dev/null 2>&1; rm -rf "$prefix"' EXIT
MOBULA_DIR=$prefix/cluster LD_LIBRARY_PATH=$libdir "$prefix/counting_driver" "$prefix/counting.so"
echo "a driver and a module of C++ ran"
