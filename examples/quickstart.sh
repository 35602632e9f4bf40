#!/usr/bin/env bash
# Mobula over HTTP: submit, wait, get, an actor, why, cancel. Needs a running cluster (./dev up), curl and jq.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MODULE=${MOBULA_MODULE_DIR:-build/release/modules}/quickstart.so
BASE=http://$(./dev address)
TOKEN=$(./dev token)

# api METHOD PATH [JSON [curl options]]: shows the request on stderr, prints the answer. The key goes in through a file,
# since other users can read command lines.
api() {
    local method=$1 path=$2 body=${3-}
    shift $(($# < 3 ? $# : 3))
    echo "  $method $path $body" >&2
    curl -sS --fail-with-body -X "$method" -K <(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN") \
        ${body:+-H 'Content-Type: application/json' -d "$body"} "$@" "$BASE$path"
}
# submit FUNCTION ARGUMENTS: the task.
submit() {
    api POST /api/v1/tasks "{\"function\": \"quickstart.$1\", \"arguments\": $2}"
}
id() {
    jq -r .id
}
result_id() {
    jq -r '.returns[0]'
}
# value OBJECT: waits for it; a failed one has an error instead.
value() {
    api GET "/api/v1/objects/$1?wait=20" | jq -c 'if .state == "ready" then .value else {state, error} end'
}

echo "deploy a module: its functions are known at once"
api POST /api/v1/functions '' -H 'Content-Type: application/octet-stream' --data-binary @"$MODULE" |
    jq -r '.functions[] | "\(.name)(\(.signature | split("\n")[0]))"'

echo "submit and wait in one request"
api POST /api/v1/tasks '{"function": "quickstart.add", "arguments": [40, 2]}' -H 'Prefer: wait=20' | jq -c '{state, result}'

echo "submit now, get later; the second task takes the first one's result by reference"
sum=$(submit add '[1, 2]' | result_id)
more=$(submit add "[{\"\$ref\": \"$sum\"}, 10]" | result_id)
value "$more"

echo "wait for the first of two pauses"
short=$(submit pause '[50]' | result_id)
long=$(submit pause '[60000]')
long_result=$(result_id <<<"$long")
api POST /api/v1/objects:wait "{\"ids\": [\"$short\", \"$long_result\"], \"num_returns\": 1, \"timeout_ms\": 20000}" | jq -c .

echo "an actor keeps its state between calls"
actor=$(api POST /api/v1/actors '{"class": "quickstart.Counter", "arguments": [100]}' | id)
api POST "/api/v1/actors/$actor/methods/add" '{"arguments": [1]}' >/dev/null
count=$(api POST "/api/v1/actors/$actor/methods/add" '{"arguments": [2]}' | result_id)
value "$count"
api DELETE "/api/v1/actors/$actor" >/dev/null

echo "why does this task wait? it needs what the long pause returns"
waiting=$(submit add "[{\"\$ref\": \"$long_result\"}, 1]")
api GET "/api/v1/tasks/$(id <<<"$waiting")/why" | jq -c .

echo "cancel the pause: what needs it fails, with the cause in its error"
api POST "/api/v1/tasks/$(id <<<"$long"):cancel" '{}' >/dev/null
value "$(result_id <<<"$waiting")"
echo "done"
