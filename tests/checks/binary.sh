#!/usr/bin/env bash
# What is built: one file that needs glibc alone, hardened; a library that shows nothing but abx_*.
set -euo pipefail

program=build/release/abx
library=build/release/libabx.so
bad=0

complain() {
    printf '%s\n' "$*"
    bad=1
}

only_glibc() {
    local needed
    needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc\.so\.6|ld-linux-.*|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2)$' || true)
    [[ -z $needed ]] || complain "$1 needs ${needed//$'\n'/ }"
}

hardened() {
    readelf -h "$1" | grep -q 'Type:.*DYN' || complain "$1 is not position-independent"
    readelf -d "$1" | grep -qE 'BIND_NOW|Flags:.*NOW' || complain "$1 binds lazily"
    readelf -lW "$1" | grep -q GNU_RELRO || complain "$1 has no RELRO"
    readelf -lW "$1" | grep GNU_STACK | grep -q 'RW ' || complain "$1 has an executable stack"
    readelf -d "$1" | grep -qE 'R(UN)?PATH' && complain "$1 has a library path"
    return 0
}

only_glibc "$program"
hardened "$program"
readelf -d "$program" | grep -q 'NEEDED.*libm\.so' &&
    complain "$program loads libm at every start: name the function in cmake/lazy/libm.c and left_out.txt"
readelf -SW "$program" | grep -qE ' \.(symtab|debug_info)' && complain "$program is not stripped"

if [[ -e $library ]]; then
    only_glibc "$library"
    hardened "$library"
    readelf -d "$library" | grep -q 'SONAME.*\[libabx\.so\.0\]' || complain "$library: wrong SONAME"
    foreign=$(nm -D --defined-only "$library" | awk '{print $3}' |
        grep -vE '^(abx_[a-z0-9_]+@@ABX_[0-9]+|ABX_[0-9]+)$' || true)
    [[ -z $foreign ]] || complain "$library shows ${foreign//$'\n'/ }"
else
    complain "no $library"
fi
exit "$bad"
