#!/bin/bash
# sim_seeds.sh PROGRAM SEED.. [-- PROGRAM SEED..]..: each simulator must be clean on each of its seeds.
# ctest: timeout=300
set -u
failed=0
while [ $# -gt 0 ]; do
    program=$1
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        "$program" --seed "$1" || failed=1
        shift
    done
    shift $(($# > 0))
done
exit $failed
