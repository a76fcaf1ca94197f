# The bash kernel of a sandbox: text that an interactive bash reads from its standard input, a pipe. For each run
# follow three lines: __abx_next, then one that evaluates $__abx_code at the top level, then __abx_done. So an
# interrupted cell falls back to the third line, as a shell does it, and keeps its state. Descriptor 3 speaks the
# frames of the other kernels.
PS1= PS2=
unset HISTFILE
set +H +o history
__abx_names=() __abx_values=() __abx_code= __abx_last=0 __abx_count=0
__abx_env() {
    local __abx_name=${__abx_code%%=*}
    [[ $__abx_name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || return 0
    __abx_names+=("$__abx_name")
    __abx_values+=("${!__abx_name+=${!__abx_name}}")
    export "$__abx_code"
}
__abx_frame() {
    local LC_ALL=C length
    IFS=' ' read -r -u 3 __abx_word length || exit
    __abx_code=
    ((length == 0)) || IFS= read -r -N "$length" -u 3 __abx_code || exit
}
__abx_next() {
    local __abx_word=
    while [[ $__abx_word != __abx_run* ]]; do
        __abx_frame
        [[ $__abx_word == __abx_env ]] && __abx_env
    done
}
__abx_begin() {
    local __abx_line="{\"type\":\"number_of_executions\",\"execution_count\":$((++__abx_count))}"
    printf 'line %d\n%s' ${#__abx_line} "$__abx_line" >&3
    return "$__abx_last"
}
__abx_done() {
    __abx_last=$?
    local -i __abx_i=${#__abx_names[@]}
    while ((__abx_i-- > 0)); do # backwards: of a name that came twice the first value is the old one
        if [[ ${__abx_values[__abx_i]} ]]; then
            export "${__abx_names[__abx_i]}=${__abx_values[__abx_i]#=}"
        else
            unset -v "${__abx_names[__abx_i]}"
        fi
    done
    __abx_names=() __abx_values=()
    printf 'done %d\n%d' ${#__abx_last} "$__abx_last" >&3
}
exit() { { builtin exit "$@"; } 2>/dev/null; } # an interactive shell says that it exits
printf 'ready 0\n' >&3
