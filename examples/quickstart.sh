#!/usr/bin/env bash
# Mobula over HTTP in six steps: submit, wait, get, an actor, why, cancel. Needs a running cluster (./dev up), curl and jq.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MODULE=${MOBULA_MODULE_DIR:-build/release/modules}/quickstart.so
BASE=http://$(./dev address)
TOKEN=$(./dev token)

# api METHOD PATH [JSON]: prints what it does on stderr, and the answer. The key goes in through a file: other users can
# read command lines.
api() {
    echo "> $1 $2 ${3-}" >&2
    curl -sS --fail-with-body -X "$1" -K <(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN") \
        -H 'Content-Type: application/json' ${3+-d "$3"} "$BASE$2"
}
# value OBJECT: waits for it.
value() {
    api GET "/api/v1/objects/$1?wait=20" | jq -c 'if .state == "ready" then .value else .error end'
}
field() {
    jq -r "$1"
}

echo "deploy: functions are known under module.function at once"
curl -sS --fail-with-body -K <(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN") \
    -H 'Content-Type: application/octet-stream' --data-binary @"$MODULE" "$BASE/api/v1/functions" | jq -c .

echo "submit and wait in one request"
curl -sS --fail-with-body -K <(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN") \
    -H 'Content-Type: application/json' -H 'Prefer: wait=20' \
    -d '{"function": "quickstart.add", "arguments": [40, 2]}' "$BASE/api/v1/tasks" | jq -c .

echo "submit now, get later; the second task takes the first one's result by reference"
sum=$(api POST /api/v1/tasks '{"function": "quickstart.add", "arguments": [1, 2]}' | field '.returns[0]')
more=$(api POST /api/v1/tasks "{\"function\": \"quickstart.add\", \"arguments\": [{\"\$ref\": \"$sum\"}, 10]}" |
    field '.returns[0]')
value "$more"

echo "wait: which of two pauses is over first?"
short=$(api POST /api/v1/tasks '{"function": "quickstart.pause", "arguments": [50]}' | field '.returns[0]')
long=$(api POST /api/v1/tasks '{"function": "quickstart.pause", "arguments": [60000]}')
api POST /api/v1/objects:wait \
    "{\"ids\": [\"$short\", \"$(field '.returns[0]' <<<"$long")\"], \"num_returns\": 1, \"timeout_ms\": 20000}" | jq -c .

echo "an actor keeps its state between calls"
actor=$(api POST /api/v1/actors '{"class": "quickstart.Counter", "arguments": [100]}' | field .id)
api POST "/api/v1/actors/$actor/methods/add" '{"arguments": [1]}' >/dev/null
count=$(api POST "/api/v1/actors/$actor/methods/add" '{"arguments": [2]}' | field '.returns[0]')
value "$count"
api DELETE "/api/v1/actors/$actor" >/dev/null

echo "why does this task wait? It needs what the long pause returns"
waiting=$(api POST /api/v1/tasks \
    "{\"function\": \"quickstart.add\", \"arguments\": [{\"\$ref\": \"$(field '.returns[0]' <<<"$long")\"}, 1]}")
api GET "/api/v1/tasks/$(field .id <<<"$waiting")/why" | jq -c .

echo "cancel the pause; what needs it fails, with the cause in its error"
api POST "/api/v1/tasks/$(field .id <<<"$long"):cancel" '{}' >/dev/null
value "$(field '.returns[0]' <<<"$waiting")"
echo "done"
