#!/usr/bin/env bash
# Formats the C and C++ of src, include and tests. With --check it only names the files that differ, and
# ends with code 1 if there are any.
# Usage: scripts/format.sh [--check] [FILE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=0
if [[ ${1:-} == --check ]]; then
    check=1
    shift
fi
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14

files=("$@")
if ((${#files[@]} == 0)); then
    mapfile -d '' files < <(find src include tests -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) -print0 2>/dev/null | sort -z)
fi
((${#files[@]} > 0)) || exit 0
if ((check == 0)); then
    exec "$tool" -i "${files[@]}"
fi

bad=0
for file in "${files[@]}"; do
    if ! "$tool" --dry-run -Werror "$file" 2>/dev/null; then
        printf '%s: not formatted (scripts/format.sh %s)\n' "$file" "$file"
        bad=1
    fi
done
exit "$bad"
