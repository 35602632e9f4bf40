#!/usr/bin/env bash
# The paper's first program on the running cluster, over HTTP, with curl and jq only: deploy, submit, follow, serve, explain.
# `./dev up` calls it; it can be called again at any time. An argument is the seed of the training (default 1).
set -euo pipefail
export LC_ALL=C.UTF-8 # numbers have points, whatever the user speaks
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

STATE_DIR=${MOBULA_DIR:-$HOME/.mobula}
MODULE=${MOBULA_MODULE_DIR:-build/release/modules}/train_policy.so
SEED=${1:-1}
SOLVED=475
RETURN_MAX=500
BAR_COLUMNS=40

ADDRESS=$(./dev address)
TOKEN=$(./dev token)
EVENTS_WAIT_S=10

# api METHOD PATH [curl options]: the answer's body on stdout; an error answer is shown and ends the script. The key goes
# in through a file: other users can read command lines.
api() {
    local method=$1 path=$2
    shift 2
    curl -sS --fail-with-body -X "$method" -K <(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN") \
        "$@" "http://$ADDRESS$path" || { echo "$method $path failed" >&2; return 1; }
}

post_json() {
    api POST "$1" -H 'Content-Type: application/json' -d "$2"
}

# One line for an iteration: on a terminal a bar that grows in place.
show_iteration() {
    local iteration=$1 mean_return filled bar
    mean_return=$(printf '%.1f' "$2")
    if [ ! -t 1 ]; then
        echo "  iteration $iteration: mean return $mean_return"
        return
    fi
    filled=$((${mean_return%.*} * BAR_COLUMNS / RETURN_MAX))
    printf -v bar '%*s' "$filled" ''
    printf '\r  [%-*s] iteration %d, mean return %s ' "$BAR_COLUMNS" "${bar// /#}" "$iteration" "$mean_return"
}

# follow TASK POSITION: shows its events until it has ended.
follow() {
    local task=$1 position=$2 answer type iteration mean_return ended=no
    while [ "$ended" = no ]; do
        answer=$(api GET "/api/v1/events?task=$task&wait=$EVENTS_WAIT_S${position:+&after=$position}")
        position=$(jq -r '.position // empty' <<<"$answer")
        while read -r type iteration mean_return; do
            case $type in
            iteration) show_iteration "$iteration" "$mean_return" ;;
            task.finished | task.failed | task.cancelled) ended=yes ;;
            esac
        done < <(jq -r --arg task "$task" '.events[] | select(.subject == $task)
            | "\(.type) \(.data.iteration // "-") \(.data.mean_return // "-")"' <<<"$answer")
    done
    [ ! -t 1 ] || echo
}

echo "deploy $MODULE"
api POST "/api/v1/functions" -H 'Content-Type: application/octet-stream' --data-binary @"$MODULE" |
    jq -r '"  module \(.module), hash \(.hash[0:16])..."'

echo "submit train_policy.train_policy($SEED)"
position=$(api GET /api/v1/events | jq -r '.position // empty') # so that no event of the task is missed
started_us=$(date +%s%6N)
task=$(post_json /api/v1/tasks "$(jq -cn --argjson seed "$SEED" \
    '{function: "train_policy.train_policy", arguments: [$seed]}')")
policy=$(jq -r '.returns[0]' <<<"$task")
summary=$(jq -r '.returns[1]' <<<"$task")
task=$(jq -r .id <<<"$task")
echo "  $task"
follow "$task" "$position"

result=$(api GET "/api/v1/objects/$summary?wait=60")
if [ "$(jq -r .state <<<"$result")" != ready ]; then
    jq . <<<"$result" >&2
    exit 1
fi
mean_return=$(printf '%.1f' "$(jq -r .value.mean_return <<<"$result")")
trained=$(jq -r .value.policy <<<"$result")
jq -r '"  \(.value.iterations) iterations, fingerprint of the weights \(.value.fingerprint)"' <<<"$result"

echo "serve it as the model cartpole"
api PUT /api/v1/endpoints/cartpole -H 'Content-Type: application/json' \
    -d "$(jq -cn --arg policy "$policy" '{class: "train_policy.CartpolePolicy", arguments: [{"$ref": $policy}]}')" >/dev/null
observation='{"inputs":[{"name":"observation","datatype":"FP32","shape":[1,4],"data":[0.01,0.2,0.05,0.4]}]}'
echo "  curl -H \"Authorization: Bearer \$(./dev token)\" http://$ADDRESS/v2/models/cartpole/infer -d '$observation'"
post_json /v2/models/cartpole/infer "$observation" | jq -c '.outputs[0] | {name, shape, data}' | sed 's/^/  /'

timeline=$STATE_DIR/train_policy.timeline.json
api GET "/api/v1/timeline?from=$started_us&to=$(date +%s%6N)" >"$timeline"
echo "timeline: $timeline, $(jq '.traceEvents | length' "$timeline") events; open it in https://ui.perfetto.dev"

# Breadth first, a line for each distance from the policy: what made it, from what, and so on.
echo "lineage of the policy, three steps back:"
api GET "/api/v1/objects/$trained/lineage?depth=3" | jq -r '
    def indent: if . == 0 then "" else ("   " * (. - 1) // "") + "└─ " end;
    def line: (if length > 1 then "\(length) x " else "" end) + .[0].function
        + (map(.actor // empty) | unique | if length > 0 then " on \(length) actors" else "" end);
    .nodes | group_by(.depth)[] | .[0].depth as $depth
    | "  \($depth | indent)" + ([group_by(.function)[] | line] | reverse | join(", "))'
echo "the cluster stays up at http://$ADDRESS, its key is in $STATE_DIR/token; ./dev down stops it"
if jq -en --argjson got "$mean_return" --argjson solved "$SOLVED" '$got < $solved' >/dev/null; then
    echo "not solved: $mean_return is below $SOLVED" >&2
    exit 1
fi
echo "mean return $mean_return"
