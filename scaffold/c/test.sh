#!/bin/sh
# The plugin by itself: a conversation as abx would have it.
cd "$(dirname "$0")" || exit 1
dir=$(mktemp -d) && mkfifo "$dir/in" "$dir/out" || exit 1
./plugin < "$dir/in" > "$dir/out" &
exec 3> "$dir/in" 4< "$dir/out"
rm -r "$dir"
last=0

# ask METHOD PARAMS WANTED: the answer, or a line before it, must hold WANTED
ask() {
    last=$((last + 1))
    found=no
    printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}\n' "$last" "$1" "$2" >&3
    while read -r line <&4; do
        case $line in *"$3"*) found=yes ;; esac
        case $line in *"\"id\":$last,"*) break ;; esac
    done
    [ $found = yes ] || { echo "$1: no $3"; exit 1; }
}

box='"sandboxId":"test'$$'"'
ask initialize '"protocol":"epp/1","id":"@NAME@","options":{},"core":{},"secretKeys":[]' '"protocol":"epp/1"'
ask sandbox.create "\"id\":\"test$$\",\"timeoutMs\":60000" '"state":"running"'
ask process.start "$box,\"cmd\":[\"echo\",\"hi\"]" '"text":"hi\u000a"'
ask process.start "$box,\"cmd\":[\"sh\",\"-c\",\"exit 7\"]" '"exitCode":7'
ask sandbox.kill "$box" '"result"'
ask process.start "$box,\"cmd\":[\"true\"]" '"code":"E3001"'
ask shutdown '' '"result"'
exec 3>&-
wait $! && echo ok
