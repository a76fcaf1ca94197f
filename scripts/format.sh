#!/usr/bin/env bash
# Formats the C and C++ of src, include and tests. With --check it only says what differs (code 1).
# Usage: scripts/format.sh [--check] [FILE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(-i)
if [[ ${1:-} == --check ]]; then
    mode=(--dry-run -Werror --ferror-limit=3)
    shift
fi
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14

files=("$@")
if ((${#files[@]} == 0)); then
    mapfile -d '' files < <(find src include tests -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) -print0 | sort -z)
fi
((${#files[@]} == 0)) || "$tool" "${mode[@]}" "${files[@]}"
