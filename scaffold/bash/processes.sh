# shellcheck shell=bash disable=SC2034 # the other files use it
# process.start: a process of this machine, in the folder of a sandbox.
#
# Each call has a folder RUN/ID with three pipes: out and err are those of the process, and what the call's shell waits for
# comes as a line in ctl ("pid N;", "end STATUS;", "cancel;"). Two more shells pass the output on as it comes. The process
# leads a session of its own; marks in its environment find all that it started.

RUN=$ROOT/.run-$$ # this program's own; no sandbox has such a name

# What programs like this one left that were killed.
remove_left_over() {
    local folder
    local -a folders
    set +f
    folders=("$ROOT"/.run-*)
    set -f
    for folder in "${folders[@]}"; do
        [[ ! -d $folder || -d /proc/${folder##*-} ]] || rm -rf -- "$folder"
    done
}

# In the loop: a cancel must find the call, however soon it comes.
prepare_call() {
    [[ -d $RUN ]] || remove_left_over
    make_folder "$ROOT" && make_folder "$RUN" && make_folder "$RUN/$ID" &&
        mkfifo -m 600 -- "$RUN/$ID/ctl" "$RUN/$ID/out" "$RUN/$ID/err"
}

ON_CANCEL() {
    [[ -p $RUN/$1/ctl ]] || return 0
    : >"$RUN/$1/cancelled"
    poke "$RUN/$1" cancel
}

# A line for the shell of a call. Opened to read and write, a pipe never blocks; when it is gone nothing is made.
poke() {
    { printf '%s;\n' "$2" 1<>"$1/ctl"; } 2>/dev/null || :
}

ON_END() {
    local folder until first=yes
    local -a calls
    now_ms
    until=$((REPLY + 1000))
    while ((REPLY < until)); do
        set +f
        calls=("$RUN"/*)
        set -f
        [[ -e ${calls[0]} ]] || break
        for folder in "${calls[@]}"; do
            [[ -z $first ]] || ON_CANCEL "${folder##*/}"
        done
        first=''
        pause 0.01
        now_ms
    done
    rm -rf -- "$RUN"
}

# What becomes the process: says its number, closes all that is not its own, sets the signals to what they are by default.
# shellcheck disable=SC2016 # it is another shell that reads it
BECOME='dir=$1 cwd=$2; shift 2; exec 2>"$dir/err"; printf "pid %s;\n" $$ 1<>"$dir/ctl"
for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd < 3)) || exec {fd}>&-; done
exec env -i --default-signal -C "$cwd" -- "$@"'

# Sets COMMAND and ENVIRONMENT (words NAME=VALUE), CWD.
plan_process() {
    local i path=${PATH} home=$ROOT/${BOX["v /id"]}/home table base
    ENVIRONMENT=("PATH=$path" "HOME=$home" "USER=$(id -un)" "LANG=${USER_LANG:-C.UTF-8}")
    for table in BOX MSG; do
        base=/env
        [[ $table == BOX ]] || base=/params/env
        local -n from=$table
        for ((i = 0; i < ${from["n $base"]:-0}; i++)); do
            json_member_name "$table" "$base" "$i"
            [[ -n $NAME && $NAME != *=* ]] || fail E1001 "'$NAME' is no name of a variable"
            [[ ${from["t $base/$REPLY"]} == s ]] || fail E1001 "the variable '$NAME' is no text, or has a zero byte"
            ENVIRONMENT+=("$NAME=${from["v $base/$REPLY"]}")
            [[ $NAME != PATH ]] || path=${from["v $base/$REPLY"]}
        done
    done
    ENVIRONMENT+=("ABX_SANDBOX=${BOX["v /id"]}" "ABX_JOB=$MARK")
    COMMAND=()
    if [[ ${MSG["v /params/shell"]-} == true ]]; then
        COMMAND=(sh -c "${MSG["v /params/cmd"]-}")
    else
        for ((i = 0; i < ${MSG["n /params/cmd"]:-0}; i++)); do
            [[ ${MSG["t /params/cmd/$i"]} == s ]] || fail E1001 "an argument is no text, or has a zero byte"
            COMMAND+=("${MSG["v /params/cmd/$i"]}")
        done
    fi
    param cwd "$home"
    CWD=$REPLY
    [[ $CWD == /* ]] || CWD=$home/$CWD
    [[ -d $CWD ]] || fail E6006 "'$CWD' is no folder"
    is_program "${COMMAND[0]-}" "$path" || fail E6006 "'${COMMAND[0]-}' cannot be run: there is no such program"
}

# is_program NAME PATH
is_program() {
    local folder found
    local -a folders
    case $1 in
    '' | *=*) return 1 ;; # env would take the second for a variable
    /*) found=$1 ;;
    */*) found=$CWD/$1 ;;
    *)
        IFS=: read -r -d '' -a folders < <(printf '%s\0' "$2")
        for folder in "${folders[@]}"; do
            found=$folder/$1
            [[ ! -f $found || ! -x $found ]] || return 0
        done
        return 1
        ;;
    esac
    [[ -f $found && -x $found ]]
}

# relay CHANNEL PIPE: passes on what comes, in base64, until nobody has the pipe open; or until the process has ended
# and the pipe is empty: what others still hold open does not delay the end. A USR1 interrupts the wait for a byte, and
# nothing else: it is ignored while something is sent. (With a time limit 'read' may drop a byte that it has taken.)
relay() {
    local byte status number left=8 data
    set -o posix # 'read' returns when a signal comes
    exec {source}<"$2"
    while ((left > 0)); do
        trap : USR1
        IFS= read -r -d '' -n1 -u "$source" byte
        status=$?
        trap '' USR1
        if ((status > 128)); then
            read -r -t 0 -u "$source" || return 0
            continue
        fi
        ((status == 0)) || return 0
        [[ ! -e $RUN/$ID/ended ]] || left=$((left - 1))
        number=0 # a zero byte is the end of a word for 'read'
        [[ -z $byte ]] || printf -v number '%d' "'$byte"
        printf -v byte '\\x%02x' $((number & 255))
        data=$({
            printf '%b' "$byte"
            ! read -r -t 0 -u "$source" || dd bs=47999 count=1 status=none <&"$source"
        } | base64 -w0)
        until [[ -e $RUN/$ID/started || ! -d $RUN/$ID ]]; do
            pause 0.002 # 'process.started' comes first
        done
        notify process.output "\"channel\":\"$1\",\"base64\":\"$data\""
    done
}

# The whole standard input lies in a file.
take_input() {
    if [[ -n ${MSG["t /params/input/base64"]-} ]]; then
        base64 -d <<<"${MSG["v /params/input/base64"]}"
    else
        printf '%b' "${MSG["e /params/input/text"]-}"
    fi
}

# Whatever becomes of the shell that does it, the folder of the call goes.
start() {
    (start_process)
    rm -rf -- "${RUN:?}/$ID"
}

start_process() {
    local dir=$RUN/$ID limit input=/dev/null
    exec {CTL}<>"$dir/ctl"
    accept sandboxId cmd shell cwd env input stdin timeoutMs
    param stdin closed
    [[ $REPLY == closed ]] || fail E8004 "this provider has no 'stdin' here"
    box_of_call
    printf -v MARK '%08x%08x' $SRANDOM $SRANDOM
    plan_process
    whole timeoutMs 0
    limit=$REPLY
    if [[ -n ${MSG["t /params/input"]-} ]]; then
        input=$dir/in
        take_input >"$input"
    fi
    trap '' USR1
    relay stdout "$dir/out" &
    RELAYS=($!)
    relay stderr "$dir/err" &
    RELAYS+=($!)
    {
        setsid --fork --wait bash -c "$BECOME" bash "$dir" "$CWD" "${ENVIRONMENT[@]}" "${COMMAND[@]}" \
            <"$input" >"$dir/out" 2>"$dir/how"
        poke "$dir" "end $?"
    } &
    [[ ! -e $dir/cancelled ]] || poke "$dir" cancel
    follow "$dir" "$limit"
}

# Waits for the end of the process and tells it.
follow() {
    local dir=$1 what value pid='' ended='' cancelled='' timed_out='' deadline=0 left line='' part
    now_ms
    (($2 == 0)) || deadline=$((REPLY + $2))
    while [[ -z $ended ]]; do
        left=1000
        if ((deadline > 0)) && [[ -z $timed_out ]]; then
            now_ms
            left=$((deadline > REPLY + 1000 ? 1000 : deadline > REPLY ? deadline - REPLY : 1))
        fi
        printf -v left '%d.%03d' $((left / 1000)) $((left % 1000))
        # When the time is over in the middle of a line, the rest comes with the next 'read'.
        IFS= read -r -t "$left" -u "$CTL" part || :
        line+=$part what='' value=''
        if [[ $line == *';' ]]; then
            IFS='; ' read -r what value <<<"$line"
            line=''
        elif [[ ! -d /proc/$$ ]]; then
            what=cancel # the program itself was killed: what it ran ends, too
        elif ((deadline > 0)) && now_ms && ((REPLY >= deadline)); then
            what=limit
        fi
        case $what in
        pid)
            pid=$value
            notify process.started "\"id\":\"p$pid\",\"pid\":$pid"
            : >"$dir/started"
            ;;
        cancel) cancelled=yes ;;
        limit) timed_out=yes ;;
        end) ended=$value ;;
        esac
        [[ -z $pid || -z $cancelled$timed_out || -n $ended ]] || end_process "$pid"
    done
    : >"$dir/ended"
    : 1<>"$dir/out" 2<>"$dir/err" # had it not got so far, those who wait to open them go on
    while kill -USR1 "${RELAYS[@]}" 2>/dev/null; do
        pause 0.01
    done
    wait
    [[ -z $cancelled ]] || fail E5002 'cancelled'
    box_read "${BOX["v /id"]}" || fail E6004 'the sandbox was ended'
    tell_end "$dir" "$ended" "$timed_out"
}

end_process() {
    kill -KILL -- "-$1" 2>/dev/null
    kill_marked "ABX_JOB=$MARK"
}

# A shell cannot tell the code 137 from a KILL; setsid can: of a process that a signal has ended it says so on its standard
# error, which is not that of the process, and its status is the number of the signal.
tell_end() {
    local end="\"exitCode\":$2"
    [[ ! -s $1/how ]] || end="\"signal\":\"SIG$(kill -l $(($2 & 127)))\""
    [[ -z $3 ]] || end+=',"timedOut":true'
    notify process.exit "$end"
    answer
}

HANDLERS+=(["process.start"]=start)
BEFORE+=(["process.start"]=prepare_call)
