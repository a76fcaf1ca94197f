#!/usr/bin/env bash
# Runs the fuzz targets, each for some seconds, from its seeds; what it learns stays in build/corpus.
# A crashing input is left in build/fuzz/crashes and its path is printed.
# Usage: scripts/fuzz.sh [SECONDS [TARGET...]]     60 seconds and all targets unless told otherwise
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

seconds=${1:-60}
shift || true
[[ $seconds =~ ^[0-9]+$ ]] || die "'$seconds' is not a number of seconds"
if [[ ! -d build/fuzz/tests/fuzz ]]; then
    need_packages "${build_packages[@]}" "${fuzz_packages[@]}"
    build_preset fuzz
fi

targets=("$@")
if ((${#targets[@]} == 0)); then
    for f in build/fuzz/tests/fuzz/fuzz_*; do
        [[ -x $f ]] && targets+=("${f##*/}")
    done
fi

bad=0
mkdir -p build/fuzz/crashes
for name in "${targets[@]}"; do
    corpus=build/corpus/$name
    seeds=tests/fuzz/seeds/${name#fuzz_}
    mkdir -p "$corpus"
    folders=("$corpus")
    [[ ! -d $seeds ]] || folders+=("$seeds")
    say "== $name, $seconds s"
    "build/fuzz/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="build/fuzz/crashes/$name-" -print_final_stats=0 "${folders[@]}" 2>&1 |
        tail -n 30 || bad=1
done
exit "$bad"
