#!/usr/bin/env bash
# ctest: timeout=300
# The demonstration of `./dev up` and the quick start do what they say, twice in a row, on a cluster of their own.
set -euo pipefail
cd "${MOBULA_SOURCE_DIR:-$(dirname "${BASH_SOURCE[0]}")/../..}"

bin=${MOBULA_BIN_DIR:-$PWD/build/release/bin}
export MOBULA_DIR
MOBULA_DIR=$(mktemp -d)
output=$MOBULA_DIR/output

finish() {
    local status=$?
    [ "$status" -eq 0 ] || cat "$output" 2>/dev/null
    "$bin/mobula" down --dir "$MOBULA_DIR" >/dev/null 2>&1 || true
    rm -rf "$MOBULA_DIR"
    exit "$status"
}
trap finish EXIT

# expect PATTERN: the output has such a line.
expect() {
    grep -qE -- "$1" "$output" || { echo "no line like: $1"; return 1; }
}

"$bin/mobula" up --detach --gcs-replicas 1 --slots 2 --segment-bytes 256MiB --dir "$MOBULA_DIR" >/dev/null
for run in 1 2; do
    echo "demonstration, run $run"
    examples/train_policy/demo.sh >"$output" 2>&1
    expect '^  iteration 1: mean return [0-9]+\.[0-9]$'
    expect '^  └─ train_policy.update_policy, 10 x train_policy.Simulator.rollout on 10 actors$'
    expect "^the cluster stays up at http://$(./dev address), its key is in $MOBULA_DIR/token"
    mean_return=$(tail -n 1 "$output" | sed -nE 's/^mean return ([0-9]+\.[0-9])$/\1/p')
    jq -en --arg mean_return "${mean_return:-0}" '($mean_return | tonumber) >= 475' >/dev/null
    jq -e '[.traceEvents[] | select(.name == "train_policy.update_policy")] | length > 5' \
        "$MOBULA_DIR/train_policy.timeline.json" >/dev/null
done

echo "the printed request works as it stands"
request=$(grep -E '^  curl .*/v2/models/cartpole/infer' "$output")
bash -c "$request" 2>/dev/null | jq -e '.outputs[0] | .name == "probabilities" and (.data | length == 2)' >/dev/null

echo "quick start"
examples/quickstart.sh >"$output" 2>&1
for line in '"result":42' '^13$' '^103$' '"reason":"inputs"' '"code":"cancelled"' '^done$'; do
    expect "$line"
done
echo ok
