#!/usr/bin/env bash
# run_target.sh PROGRAM CORPUS FOUND: fuzzes for MOB_FUZZ_SECONDS (30). New inputs go to FOUND and never into the tree;
# an input that fails stays in FOUND/artifacts, and is named at the end.
set -eu
program=$1 corpus=$2 found=$3
mkdir -p "$found/artifacts"
seeds=()
[ -d "$corpus" ] && seeds+=("$corpus")
exec "$program" -max_total_time="${MOB_FUZZ_SECONDS:-30}" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=1 -artifact_prefix="$found/artifacts/" "$found" "${seeds[@]}"
