#!/usr/bin/env bash
# Installs the type checkers that tests/python runs into build/python, as tests/python/tools pins them by hash. What is there already,
# of the same pins, stays. Usage: scripts/python.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
tools=$root/tests/python/tools
place=$root/build/python

mark=$(cat "$tools"/* | sha256sum)
[[ $(cat "$place/.pins" 2>/dev/null) != "$mark" ]] || exit 0
rm -rf "$place"
mkdir -p "$place/pyright"
/usr/bin/python3 -m venv "$place/checkers"
"$place/checkers/bin/python" -m pip install -q --disable-pip-version-check --require-hashes --only-binary :all: \
    -r "$tools/checkers.txt"
cp "$tools/package.json" "$tools/package-lock.json" "$place/pyright/"
(cd "$place/pyright" && npm ci --silent --ignore-scripts --no-audit --no-fund)
printf '%s\n' "$mark" >"$place/.pins"
