#!/usr/bin/env bash
# The tests with their full counts (gigabytes, thousands of commands, minutes of fuzzing), by hand.
# Usage: scripts/soak.sh [STAGE...]     stages as in scripts/test.sh; e2e, e2e_user and fuzz by default
set -euo pipefail
if (($# == 0)); then
    set -- e2e e2e_user fuzz
fi
ABX_SOAK=1 ABX_FUZZ_SECONDS=${ABX_FUZZ_SECONDS:-120} exec \
    "$(dirname "${BASH_SOURCE[0]}")/test.sh" "$@"
