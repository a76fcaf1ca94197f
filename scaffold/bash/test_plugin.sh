#!/usr/bin/env bash
# The plugin by itself: a conversation as abx would have it, and its reader of JSON.
cd "$(dirname "$0")" || exit 1
export LC_ALL=C
set -f
. ./json.sh

check() {
    [[ $2 == "$3" ]] || { echo "$1: wanted <$3>, got <$2>"; exit 1; }
}

declare -A T
json_read '{"a":[1,-2.5e3,true,null,{}],"b":{"c/d":"x\\\"y\n\u00e9\ud83e\udd8a/\/"},"z":"\u0000"} ' T || { echo 'json: not read'; exit 1; }
check 'json: number' "${T["v /a/1"]}" -2.5e3
check 'json: length' "${T["n /a"]}" 5
check 'json: text' "${T["v /b/c~1d"]}" $'x\\"y\n\xc3\xa9\xf0\x9f\xa6\x8a//'
check 'json: zero byte' "${T["t /z"]}" S
json_text "${T["v /b/c~1d"]}"
check 'json: written' "$REPLY" $'"x\\\\\\"y\\u000a\xc3\xa9\xf0\x9f\xa6\x8a//"'
for bad in '' '{' '{"a"}' '{"a":1,}' '[1 2]' '{"a":01}' '"a' '{"a":"\x"}' '{"a":"\ud800"}' '{}{}' '[1}' $'{"a":"\t"}' 'nul' '{,}'; do
    ! json_read "$bad" T || { echo "json: '$bad' was taken"; exit 1; }
done

coproc PLUGIN { bash plugin.sh; }
last=0

# ask METHOD PARAMS WANTED: the answer, or a line before it, must hold WANTED
ask() {
    local found=no line
    last=$((last + 1))
    printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}\n' "$last" "$1" "$2" >&"${PLUGIN[1]}"
    while IFS= read -r line <&"${PLUGIN[0]}"; do
        [[ $line != *"$3"* ]] || found=yes
        [[ $line != *"\"id\":$last,"* ]] || break
    done
    [[ $found == yes ]] || { echo "$1: no $3"; exit 1; }
}

box="\"sandboxId\":\"test$$\""
ask initialize '"protocol":"epp/1","id":"@NAME@","options":{},"core":{},"secretKeys":[]' '"protocol":"epp/1"'
ask sandbox.create "\"id\":\"test$$\",\"timeoutMs\":60000" '"state":"running"'
ask process.start "$box,\"cmd\":[\"echo\",\"hi\"]" '"base64":"aGkK"'
ask process.start "$box,\"cmd\":[\"printf\",\"%b\",\"a\\\\0b\"]" '"base64":"YQBi"'
ask process.start "$box,\"cmd\":[\"sh\",\"-c\",\"exit 137\"]" '"exitCode":137'
ask process.start "$box,\"cmd\":[\"sh\",\"-c\",\"kill -9 \$\$\"]" '"signal":"SIGKILL"'
ask process.start "$box,\"cmd\":[\"sleep\",\"100\"],\"timeoutMs\":100" '"timedOut":true'
ask process.start "$box,\"cmd\":[\"no-such-program\"]" '"code":"E6006"'
ask process.start "$box,\"cmd\":[\"true\"],\"user\":\"root\"" '"code":"E8004"'
ask sandbox.kill "$box" '"result"'
ask process.start "$box,\"cmd\":[\"true\"]" '"code":"E3001"'
pid=$PLUGIN_PID
ask shutdown '' '"result"'
wait "$pid" && echo ok
