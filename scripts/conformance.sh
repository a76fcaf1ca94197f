#!/usr/bin/env bash
# The conformance table: every provider over every door, with the services and doubles that it needs (docs/conformance.md).
# Wants a build (cmake --build --preset release) and what scripts/test.sh installs; scripts/sdk.sh installs the clients of E2B.
# Usage: scripts/conformance.sh [PROVIDER...] [--door DOOR]... [--only GROUP]... [--case NAME]... [--few] [--jobs N] [--json FILE]; or --from FILE...
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec /usr/bin/python3 "$root/tests/conformance/table.py" "$@"
