# shellcheck shell=bash disable=SC1003
# JSON without any other program: a strict reader that makes one flat table of a text, and what writes texts.
#
# json_read TEXT TABLE    TABLE is an associative array. For the value at a path ("/params/cmd/0"; '/' in a name is
#                         '~1', '~' is '~0') it gets
#                           [t PATH]  its type: s(tring) n(umber) b(oolean) z (null) o(bject) a(rray)
#                           [v PATH]  its text, decoded (a number as it was written, true, false)
#                           [e PATH]  of a string: what printf '%b' makes its bytes of, zeros too
#                           [n PATH]  of an object or array: how many it holds
#                           [k PATH I]  of an object: its I-th name
#                         A string with a zero byte has type S and no [v]: a variable cannot hold one.
#                         Status 1 when TEXT is no JSON.
# json_text WORD          sets REPLY to WORD as a JSON string
#
# There is no loop over characters: \\ and \" become single bytes that JSON does not allow inside, then the text is
# split at the quotes, and every second piece is a string.

json_read() {
    local -n _table=$2
    local _all=$1 _i _part _want=value _depth=0 _path='' _index
    local -a _pieces _paths=() _kinds=()
    _table=()
    [[ $_all != *[$'\x01'-$'\x08\x0b\x0c\x0e'-$'\x1f']* ]] || return 1
    _all=${_all//\\\\/$'\x01'}
    _all=${_all//\\\"/$'\x02'}
    local IFS='"'
    # shellcheck disable=SC2206 # it is to be split, and 'set -f' holds
    _pieces=($_all)
    IFS=$' \t\n'
    for ((_i = 0; _i < ${#_pieces[@]}; _i++)); do
        _part=${_pieces[_i]}
        if ((_i % 2)); then
            _json_decode "$_part" || return 1
            if [[ $_want == name* ]]; then
                _json_name
            else
                _json_value s || return 1
            fi
        else
            _json_between || return 1
        fi
    done
    ((${#_pieces[@]} % 2)) && [[ $_depth == 0 && $_want == end ]]
}

# The punctuation, numbers and words between two strings: what is in _part.
_json_between() {
    while :; do
        _part=${_part#"${_part%%[!$' \t\r\n']*}"}
        case $_part in
        '') return 0 ;;
        '{'*) _json_value o && _json_open o 'name or close' ;;
        '['*) _json_value a && _json_open a 'value or close' ;;
        '}'*) [[ $_want =~ ^(name or close|comma)$ ]] && _json_close o ;;
        ']'*) [[ $_want =~ ^(value or close|comma)$ ]] && _json_close a ;;
        ':'*) [[ $_want == colon ]] && _want=value ;;
        ','*)
            [[ $_want == comma ]] || return 1
            if [[ ${_kinds[_depth - 1]} == o ]]; then _want=name; else _want=value; fi
            ;;
        *)
            [[ $_part =~ ^(true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?) ]] || return 1
            REPLY=${BASH_REMATCH[1]}
            _part=x${_part:${#REPLY}}
            case $REPLY in
            true | false) _json_value b ;;
            null) _json_value z ;;
            *) _json_value n ;;
            esac
            ;;
        esac || return 1
        _part=${_part:1}
    done
}

_json_open() {
    ((_depth < 32)) || return 1
    _paths[_depth]=$_path
    _kinds[_depth]=$1
    _table["n $_path"]=0
    _depth=$((_depth + 1))
    _want=$2
}

_json_close() {
    ((_depth > 0)) && [[ ${_kinds[_depth - 1]} == "$1" ]] || return 1
    _depth=$((_depth - 1))
    _json_after
}

_json_after() {
    if ((_depth == 0)); then
        _want=end
    else
        _path=${_paths[_depth - 1]}
        _want=comma
    fi
}

# The string in REPLY is the name of the member that comes.
_json_name() {
    local parent=${_paths[_depth - 1]}
    _index=${_table["n $parent"]}
    _table["k $parent $_index"]=$REPLY
    _table["n $parent"]=$((_index + 1))
    REPLY=${REPLY//'~'/'~0'}
    _path=$parent/${REPLY//'/'/'~1'}
    _want="colon"
}

# A value of type $1, with its text in REPLY, stands where one may stand.
_json_value() {
    [[ $_want == value* ]] || return 1
    if ((_depth > 0)) && [[ ${_kinds[_depth - 1]} == a ]]; then
        _path=${_paths[_depth - 1]}
        _index=${_table["n $_path"]}
        _table["n $_path"]=$((_index + 1))
        _path=$_path/$_index
    fi
    _table["t $_path"]=$1
    case $1 in
    [oa]) return 0 ;;
    s)
        _table["e $_path"]=$ESCAPED
        [[ $ESCAPED != *'\x00'* ]] || _table["t $_path"]=S
        ;;
    esac
    [[ ${_table["t $_path"]} == S ]] || _table["v $_path"]=$REPLY
    _json_after
}

# What stands between two quotes: REPLY, its text; ESCAPED, what printf '%b' makes the text of.
_json_decode() {
    local rest=$1 code low back='\\'
    REPLY=$rest ESCAPED=$rest
    [[ $rest != *[$'\t\r\n']* ]] || return 1
    [[ $rest == *['\'$'\x01\x02']* ]] || return 0
    low=${rest//\\[\/bfnrtu]/}
    [[ $low != *\\* ]] || return 1
    ESCAPED=''
    while [[ $rest == *\\u* ]]; do
        ESCAPED+=${rest%%\\u*}
        rest=${rest#*\\u}
        [[ $rest =~ ^[0-9A-Fa-f]{4} ]] || return 1
        code=$((16#${rest:0:4})) rest=${rest:4}
        if ((code >= 0xd800 && code < 0xdc00)); then
            [[ $rest =~ ^\\u[dD][c-fC-F][0-9A-Fa-f]{2} ]] || return 1
            low=$((16#${rest:2:4})) rest=${rest:6}
            code=$((0x10000 + ((code - 0xd800) << 10) + low - 0xdc00))
        elif ((code >= 0xdc00 && code < 0xe000)); then
            return 1
        fi
        _json_utf8 "$code"
        ESCAPED+=$REPLY
    done
    ESCAPED+=$rest
    ESCAPED=${ESCAPED//'\/'/'/'}
    ESCAPED=${ESCAPED//$'\x01'/"$back"}
    ESCAPED=${ESCAPED//$'\x02'/'"'}
    printf -v REPLY '%b' "${ESCAPED//'\x00'/}"
}

# The character number $1 as bytes, in the form that printf '%b' takes.
_json_utf8() {
    local c=$1
    if ((c < 0x80)); then
        printf -v REPLY '\\x%02x' "$c"
    elif ((c < 0x800)); then
        printf -v REPLY '\\x%02x\\x%02x' $((0xc0 | c >> 6)) $((0x80 | c & 63))
    elif ((c < 0x10000)); then
        printf -v REPLY '\\x%02x\\x%02x\\x%02x' $((0xe0 | c >> 12)) $((0x80 | c >> 6 & 63)) $((0x80 | c & 63))
    else
        printf -v REPLY '\\x%02x\\x%02x\\x%02x\\x%02x' $((0xf0 | c >> 18)) $((0x80 | c >> 12 & 63)) \
            $((0x80 | c >> 6 & 63)) $((0x80 | c & 63))
    fi
}

json_text() {
    local text=$1 out='' byte
    text=${text//'\'/'\\'}
    text=${text//'"'/'\"'}
    while [[ $text == *[$'\x01'-$'\x1f']* ]]; do
        out+=${text%%[$'\x01'-$'\x1f']*}
        text=${text#"${text%%[$'\x01'-$'\x1f']*}"}
        printf -v byte '\\u%04x' "'${text:0:1}"
        out+=$byte
        text=${text:1}
    done
    REPLY="\"$out$text\""
}

# json_members TABLE PATH: REPLY, the object of texts at PATH as JSON again; {} when there is none.
json_members() {
    local -n _from=$1
    local i name out=''
    for ((i = 0; i < ${_from["n $2"]:-0}; i++)); do
        json_member_name "$1" "$2" "$i"
        name=$REPLY
        json_text "$NAME"
        out+=${out:+,}$REPLY
        json_text "${_from["v $2/$name"]-}"
        out+=:$REPLY
    done
    REPLY="{$out}"
}

# json_member_name TABLE PATH I: NAME, the I-th name of the object; REPLY, the same as a part of a path.
json_member_name() {
    local -n _of=$1
    NAME=${_of["k $2 $3"]}
    REPLY=${NAME//'~'/'~0'}
    REPLY=${REPLY//'/'/'~1'}
}
