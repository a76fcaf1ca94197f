#!/usr/bin/env bash
# Runs tests of a checkout of web-platform-tests in the runtime of modules and counts what passes.
# Usage: scripts/wpt.sh DIR [-v] [PATH …]    DIR: the checkout; PATH: a folder or file in it
#        -v: name what fails. Environment: ABX_BUILD (build/release), WPT_JOBS (2); WPT_PYTHON: a Python with wptserve and pywebsocket3,
#        then the tests of fetch() and WebSocket run, against their servers
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec /usr/bin/python3 "$root/tests/js/wpt.py" "${ABX_BUILD:-$root/build/release}/tests/e2e/js_run" "$@"
