#!/usr/bin/env bash
# Measures what docs/performance.md reports, each row against its reference in the same run.
# Usage: scripts/bench.sh [ARGUMENTS of tests/bench/bench.py, such as --json FILE]
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

need_packages "${build_packages[@]}" python3 bubblewrap wrk hyperfine
build_preset release
ABX_BUILD=$root/build/release exec /usr/bin/python3 tests/bench/bench.py "$@"
