# shellcheck shell=bash disable=SC2034 # the other files use it
# The plugin's end of EPP/1: one message a line, on stdin and stdout. Nothing here knows a backend.
#
# serve FEATURES     the loop. A request METHOD calls the function that HANDLERS[METHOD] names, in a shell of its own, with
#                    the message in the table MSG (json.sh) and the id in ID. It answers once: with 'answer', or by 'fail',
#                    which ends that shell.
# BEFORE[METHOD]     a function that is called in the loop itself, before that shell is made
# ON_CANCEL ID, ON_END   functions of the backend: the host gives a request up; the host goes
#
# Nothing else may write to stdout. stderr is the log.

declare -A HANDLERS=() BEFORE=() MSG=()
ID=0
# One byte that goes round: who has taken it may write to stdout.
exec {TOKEN}<> <(:)
printf x >&"$TOKEN"

send() {
    read -rN1 -u "$TOKEN" TAKEN
    printf '%s\n' "$1"
    printf x >&"$TOKEN"
}

# notify METHOD MEMBERS: an event of this request's stream, before its answer.
notify() {
    send "{\"jsonrpc\":\"2.0\",\"method\":\"$1\",\"params\":{\"stream\":$ID,$2}}"
}

answer() {
    send "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":${1:-"{}"}}"
}

# fail CODE MESSAGE: the answer, and the end of this shell.
fail() {
    json_text "$2"
    send "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32000,\"message\":$REPLY,\"data\":{\"code\":\"$1\"}}}"
    exit 0
}

# A parameter that cannot be honoured is an error, never ignored: accept NAME...
accept() {
    local i name
    for ((i = 0; i < ${MSG["n /params"]:-0}; i++)); do
        name=${MSG["k /params $i"]}
        [[ " $* " == *" $name "* ]] || fail E8004 "this provider has no '$name' here"
        [[ ${MSG["t /params/$name"]-} != S ]] || fail E1001 "'$name' holds a zero byte"
    done
}

# param NAME [DEFAULT]: REPLY, its text. Fails when it is not there and there is no default.
param() {
    if [[ -n ${MSG["t /params/$1"]-} ]]; then
        REPLY=${MSG["v /params/$1"]-}
    elif (($# > 1)); then
        REPLY=$2
    else
        fail E1001 "the parameter '$1' is needed"
    fi
}

# whole NAME [DEFAULT]: the same of a whole number.
whole() {
    param "$@"
    [[ $REPLY =~ ^(0|[1-9][0-9]{0,15})?$ ]] || fail E1001 "'$1' is no whole number: '$REPLY'"
}

hello() {
    local name list=''
    for name in $FEATURES; do
        list+=${list:+,}\"$name\"
    done
    answer "{\"protocol\":\"epp/1\",\"features\":[$list]}"
}

serve() {
    local line method
    FEATURES=$1
    while IFS= read -r line; do
        line=${line%$'\r'}
        [[ -n $line ]] || continue
        if ! json_read "$line" MSG || [[ ${MSG["t /method"]-} != s ]]; then
            echo "this is no message: ${line:0:200}" >&2
            break
        fi
        method=${MSG["v /method"]}
        ID=${MSG["v /id"]-}
        if [[ $method == cancel ]]; then
            ON_CANCEL "${MSG["v /params/stream"]-}"
        elif [[ ! $ID =~ ^[0-9]+$ ]]; then
            : # a notification that is not known
        elif [[ $method == shutdown ]]; then
            ON_END
            answer
            return
        elif [[ $method == initialize ]]; then
            hello
        elif [[ -n ${HANDLERS[$method]-} ]]; then
            ${BEFORE[$method]:-:}
            ("${HANDLERS[$method]}") </dev/null &
        else
            json_text "there is no method '$method'"
            send "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32601,\"message\":$REPLY}}"
        fi
    done
    ON_END
}
