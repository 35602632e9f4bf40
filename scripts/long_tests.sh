#!/usr/bin/env bash
# What takes too long for each change: every fault of tests/chaos/gcs_faults_test.c and every rule of gcs_rules_test.c with many seeds,
# long absences, more rounds.
#   long_tests.sh BUILD_DIRECTORY [PATTERN]     SEEDS=20, JOBS=2 in the environment
# One line for each; those that failed name their log. Results that stand for a version are copied into docs/status.md.
set -uo pipefail
build=$(cd "$1" && pwd) || exit 2
pattern=${2:-.}
source=$(cd "$(dirname "$0")/.." && pwd)
seeds=${SEEDS:-20} jobs=${JOBS:-2}
logs=$build/../log/long
mkdir -p "$logs"
export MOBULA_BIN_DIR=$build/bin MOBULA_MODULE_DIR=$build/modules MOBULA_SOURCE_DIR=$source

# one NAME SECONDS VARIABLE=VALUE... COMMAND...
one() {
    local name=$1 log=$logs/$1.log started=$SECONDS runs status=0
    timeout "$2" env "${@:3}" >"$log" 2>&1 </dev/null || status=$?
    runs=$(grep -c 'operations, .* unknown' "$log")
    [ "$runs" -gt 0 ] || runs=$(grep -c '^\[       OK \]' "$log") # of what has no clients of its own: tests
    [ "$runs" -gt 0 ] || runs=$(grep -c '^seed [0-9]*: ' "$log") # scripts say each seed
    printf '%-28s %s  %4d s  runs %s, longest pause %s ms\n' "$name" "$([ "$status" -eq 0 ] && echo ok || echo "FAILED ($log)")" \
        $((SECONDS - started)) "$runs" "$(grep -o 'longest pause [0-9]*' "$log" | awk '{ if ($3 > m) m = $3 } END { print m + 0 }')"
    return "$status"
}
export -f one
export logs

tests=$build/tests
{
    # Of links_are_hostile each third run has its links over TCP, of box_restarts_an_hour_off each second a chain of two.
    sed -n 's/.*\.name = "\([a-z_0-9]*\)".*/\1/p' "$source/tests/chaos/gcs_faults_test.c" | while read -r fault; do
        runs=$seeds
        [ "$fault" != links_are_hostile ] || runs=$((seeds * 3))
        echo "$fault $((runs * 60 + 120)) MOBULA_CHAOS_FAULT=$fault MOBULA_CHAOS_SEEDS=$runs $tests/test_chaos_gcs_faults"
    done
    echo "rules $((seeds * 60 + 120)) MOBULA_CHAOS_SEEDS=$seeds $tests/test_chaos_gcs_rules"
    echo "postgres_away_60_s $((seeds * 120 + 120)) MOBULA_CHAOS_FAULT=postgres_is_away MOBULA_CHAOS_SEEDS=$seeds MOBULA_CHAOS_AWAY_S=60 $tests/test_chaos_gcs_faults"
    echo "busy_loops_60_s $((seeds * 120 + 120)) MOBULA_CHAOS_FAULT=four_busy_loops MOBULA_CHAOS_SEEDS=$seeds MOBULA_CHAOS_BUSY_S=60 $tests/test_chaos_gcs_faults"
    echo "large_tail_512_mib $((seeds * 120 + 120)) MOBULA_CHAOS_FAULT=large_tail_dies MOBULA_CHAOS_SEEDS=$seeds MOBULA_CHAOS_RESIDENT_MIB=512 $tests/test_chaos_gcs_faults"
    echo "both_members_http $((seeds * 120 + 120)) MOBULA_CHAOS_SEEDS=$seeds python3 $source/tests/chaos/http_both_members.py"
    echo "losses $((seeds * 60 + 120)) MOBULA_CHAOS_SEEDS=$seeds $tests/test_chaos_gcs_losses"
    echo "busy_loops_suspicion_12_ms $((seeds * 120 + 120)) MOBULA_CHAOS_FAULT=four_busy_loops MOBULA_CHAOS_SEED=200 MOBULA_CHAOS_SEEDS=$seeds MOBULA_CHAOS_BUSY_S=60 MOBULA_CHAOS_SUSPICION_MS=12 $tests/test_chaos_gcs_faults"
    echo "dag_kill_shards $((seeds * 60 + 120)) MOBULA_CHAOS_SEED=1 MOBULA_CHAOS_SEEDS=$seeds python3 $source/tests/chaos/http_dag_kill_shards.py"
    echo "box_restarts_an_hour_off $((seeds * 120 + 120)) MOBULA_CHAOS_SEED=1 MOBULA_CHAOS_SEEDS=$((seeds * 2)) python3 $source/tests/chaos/http_whole_box.py"
    echo "chain_kills 1800 MOBULA_GCS_ROUNDS=$seeds $tests/test_chaos_gcs_chain_kills"
    for fault in flusher_dies flusher_is_a_zombie; do
        echo "$fault $((seeds * 60 + 120)) MOBULA_CHAOS_FAULT=$fault MOBULA_CHAOS_SEEDS=$seeds $tests/test_integration_gcs_flusher"
    done
    echo "flusher_away_60_s 900 MOBULA_TEST_AWAY_S=60 $tests/test_integration_gcs_flusher"
    for cap in memory_cap memory_cap_chain; do
        echo "$cap $((seeds * 90 + 300)) MOBULA_CHAOS_SEED=1 MOBULA_CHAOS_SEEDS=$seeds python3 $source/tests/long/$cap.py"
    done
} | grep -E "$pattern" | xargs -r -P "$jobs" -L 1 bash -c 'one "$@"' _
