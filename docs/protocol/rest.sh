#!/bin/sh
# The life of a session over HTTP, with curl: prints each call and its answer. The transcript in rest.md is made by it.
#   WHARF_URL=$(wharf status --url) WHARF_TOKEN=$(cat ~/.local/state/wharf/token) docs/protocol/rest.sh [DIRECTORY]
set -eu
url=$WHARF_URL
dir=${1:-$(pwd)}
id=
newline='
'

api() {
    curl -sS -H "Authorization: Bearer $WHARF_TOKEN" -H 'Content-Type: application/json' "$@"
}

# call PATH [CURL ARGUMENTS]: shows the call, the status and the body.
call() {
    path=$1
    shift
    shown='$ api'
    for argument in "$@"; do
        case $argument in
            -*) shown="$shown $argument" ;;
            *[!A-Za-z0-9]*) shown="$shown '$argument'" ;;
            *) shown="$shown $argument" ;;
        esac
    done
    printf '%s "$URL%s"\n' "$shown" "$path"
    answer=$(api -w '\n%{http_code}' "$@" "$url$path")
    printf '%s\n%s\n\n' "${answer##*"$newline"}" "${answer%"$newline"*}"
}

# until_it_has MEMBER [VALUE]: waits until the session has the member, with that value.
until_it_has() {
    tries=0
    while ! api "$url/sessions/$id" | grep -q "\"$1\":${2:-}"; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "the session never had $1 ${2:-}" >&2; exit 1; }
        sleep 0.05
    done
}

call /sessions/agent -d "{\"adapter\":\"demo\",\"cwd\":\"$dir\",\"label\":\"first\"}"
id=$(api "$url/sessions?label=first" | sed 's/.*"id":"\(sess_[^"]*\)".*/\1/')
until_it_has lastOutputAt
call "/sessions?label=first&alive=true"
call "/sessions/$id/prompt" -d '{"prompt":"echo hello"}'
until_it_has turn '"idle"'
call "/sessions/$id/output?lastN=10"
call "/sessions/$id/prompt" -d '{"prompt":"ask"}'
until_it_has turn '"awaiting_input"'
call "/sessions/$id/prompt" -d '{"prompt":"echo too early"}'
call "/sessions/$id/prompt" -d '{"prompt":"hang","queue":true}'
call "/sessions/$id/asks"
ask=$(api "$url/sessions/$id/asks" | sed 's/.*"askId":\([0-9]*\).*/\1/')
call "/sessions/$id/asks/$ask" -d '{"optionId":"reject_once"}'
call "/sessions/$id/asks/$ask" -d '{"optionId":"reject_once"}'
until_it_has queued 0
call "/sessions/$id/prompt" -d '{"prompt":"echo waiting","queue":true}' -H 'Idempotency-Key: 7f3a'
call "/sessions/$id/prompt" -d '{"prompt":"echo waiting","queue":true}' -H 'Idempotency-Key: 7f3a'
call "/sessions/$id/queue"
call "/sessions/$id/interrupt" -X POST
until_it_has turn '"idle"'
call "/sessions/$id/kill" -X POST
call "/sessions/$id/prompt" -d '{"prompt":"echo anyone?"}'
call "/sessions/$id/stream" -N
call "/sessions/$id/events?limit=2"
call "/sessions/$id/resume" -X POST
call "/sessions/$id" -X DELETE
call "/sessions/$id" -X DELETE
call "/sessions/$id"
