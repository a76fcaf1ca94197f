# shellcheck shell=bash disable=SC2034 # the other files use it
# sandbox.*: a sandbox is a folder of this machine, known by what lies in it, so that any run of this program finds it:
# ROOT/ID holds box.json (what is known of it) and home (what is in it).

ROOT=${TMPDIR:-/tmp}/abx-@NAME@-$UID
DEFAULT_LIFE_MS=3600000
declare -A BOX=() # the sandbox that was read last, as a table of json.sh

now_ms() {
    REPLY=$((${EPOCHREALTIME/[.,]/} / 1000))
}

# REPLY: so many milliseconds since 1970 as RFC 3339.
rfc3339() {
    local seconds
    TZ=UTC0 printf -v seconds '%(%Y-%m-%dT%H:%M:%S)T' $(($1 / 1000))
    printf -v REPLY '%s.%03dZ' "$seconds" $(($1 % 1000))
}

# A folder that nobody else may look into; it may be there.
make_folder() {
    [[ -d $1 ]] || mkdir -m 700 -- "$1" 2>/dev/null || [[ -d $1 ]]
}

# KILL to all that have this mark (NAME=VALUE) in their environment, until there is none.
kill_marked() {
    local folder quiet=0 word marked
    local -a words
    set +f
    while ((quiet < 2)); do # one that is just becoming another program shows no environment
        quiet=$((quiet + 1))
        for folder in /proc/[0-9]*; do
            { mapfile -d '' -t words <"$folder/environ"; } 2>/dev/null || continue
            marked=no
            for word in "${words[@]}"; do
                [[ $word != "$1" ]] || marked=yes
            done
            [[ $marked == no ]] || { kill -KILL "${folder#/proc/}" 2>/dev/null && quiet=0; }
        done
        pause 0.01
    done
    set -f
}

# Wait without a program: nothing ever comes here.
exec {NEVER}<> <(:)
pause() {
    read -r -t "$1" -u "$NEVER" || :
}

# box_read ID: is there such a living sandbox? One whose life is over is removed by whoever looks at it.
box_read() {
    local text
    [[ $1 =~ ^[A-Za-z0-9]+$ ]] || return 1
    { text=$(<"$ROOT/$1/box.json"); } 2>/dev/null || return 1
    json_read "$text" BOX || return 1
    now_ms
    ((BOX["v /expires"] == 0 || BOX["v /expires"] > REPLY)) && return 0
    box_remove "$1"
    return 1
}

box_of_call() {
    param sandboxId
    box_read "$REPLY" || fail E3001 "there is no sandbox '$REPLY'"
}

# box_save ID NAME CREATED EXPIRES METADATA ENV: the last two are JSON.
box_save() {
    local name
    json_text "$2"
    name=$REPLY
    printf '{"id":"%s","name":%s,"created":%s,"expires":%s,"metadata":%s,"env":%s}' \
        "$1" "$name" "$3" "$4" "$5" "$6" >"$ROOT/$1/box.$BASHPID.new" &&
        mv -- "$ROOT/$1/box.$BASHPID.new" "$ROOT/$1/box.json"
}

# First it is not there any more, then what runs in it is ended, then its files go.
box_remove() {
    mv -T -- "$ROOT/$1" "$ROOT/.gone-$1" 2>/dev/null || return 0 # another was faster
    kill_marked "ABX_SANDBOX=$1"
    rm -rf -- "$ROOT/.gone-$1"
}

# REPLY: the sandbox that was read last, as the host wants it.
box_describe() {
    local out
    out="{\"id\":\"${BOX["v /id"]}\",\"state\":\"running\""
    json_text "${BOX["v /name"]}"
    [[ $REPLY == '""' ]] || out+=,\"name\":$REPLY
    rfc3339 "${BOX["v /created"]}"
    out+=,\"createdAt\":\"$REPLY\"
    if ((BOX["v /expires"] > 0)); then
        rfc3339 "${BOX["v /expires"]}"
        out+=,\"expiresAt\":\"$REPLY\"
    fi
    json_members BOX /metadata
    REPLY="$out,\"metadata\":$REPLY}"
}

# The life of the sandbox that was read last ends so many milliseconds from now; 0: never.
box_set_life() {
    local expires=0 metadata
    now_ms
    (($1 == 0)) || expires=$((REPLY + $1))
    json_members BOX /metadata
    metadata=$REPLY
    json_members BOX /env
    box_save "${BOX["v /id"]}" "${BOX["v /name"]}" "${BOX["v /created"]}" "$expires" "$metadata" "$REPLY"
    BOX["v /expires"]=$expires
}

# --- methods -------------------------------------------------------------------------------------------------

create() {
    local id name life metadata env now
    accept id name metadata env timeoutMs idempotencyKey tied
    printf -v id '%08x%08x' $SRANDOM $SRANDOM
    param id "$id"
    id=$REPLY
    [[ $id =~ ^[A-Za-z0-9]+$ ]] || fail E1001 "'$id' is no id"
    param name ''
    name=$REPLY
    whole timeoutMs $DEFAULT_LIFE_MS
    life=$REPLY
    json_members MSG /params/metadata
    metadata=$REPLY
    json_members MSG /params/env
    env=$REPLY
    if ! make_folder "$ROOT" || ! mkdir -m 700 -- "$ROOT/$id" "$ROOT/$id/home"; then
        fail E6005 "'$ROOT/$id' cannot be made"
    fi
    now_ms
    now=$REPLY
    box_save "$id" "$name" "$now" $((life == 0 ? 0 : now + life)) "$metadata" "$env" || fail E6005 "'$ROOT/$id' cannot be written"
    box_read "$id" || fail E6004 "sandbox '$id' was ended"
    box_describe
    answer "$REPLY"
}

info() {
    box_of_call
    box_describe
    answer "$REPLY"
}

kill_box() {
    box_of_call
    box_remove "${BOX["v /id"]}"
    answer
}

# Renews the life of a sandbox, never shortens it.
connect() {
    local life
    box_of_call
    whole timeoutMs ''
    life=$REPLY
    now_ms
    if [[ -n $life ]] && ((BOX["v /expires"] > 0 && (life == 0 || REPLY + life > BOX["v /expires"]))); then
        box_set_life "$life"
    fi
    box_describe
    answer "$REPLY"
}

set_timeout() {
    box_of_call
    whole timeoutMs
    box_set_life "$REPLY"
    ((BOX["v /expires"] > 0)) || { answer; return; }
    rfc3339 "${BOX["v /expires"]}"
    answer "{\"expiresAt\":\"$REPLY\"}"
}

list_boxes() {
    local folder out=''
    local -a folders
    set +f
    folders=("$ROOT"/*)
    set -f
    for folder in "${folders[@]}"; do
        if box_read "${folder##*/}" && has_labels; then
            box_describe
            out+=${out:+,}$REPLY
        fi
    done
    answer "{\"sandboxes\":[$out]}"
}

# Has the sandbox that was read last all labels that the call asks for?
has_labels() {
    local i
    for ((i = 0; i < ${MSG["n /params/metadata"]:-0}; i++)); do
        json_member_name MSG /params/metadata "$i"
        [[ -n ${BOX["t /metadata/$REPLY"]-} ]] || return 1
        [[ ${BOX["v /metadata/$REPLY"]} == "${MSG["v /params/metadata/$REPLY"]-}" ]] || return 1
    done
}

HANDLERS+=([sandbox.create]=create [sandbox.info]=info [sandbox.kill]=kill_box [sandbox.connect]=connect
    [sandbox.list]=list_boxes [sandbox.set_timeout]=set_timeout)
