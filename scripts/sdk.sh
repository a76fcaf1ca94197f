#!/usr/bin/env bash
# Installs the official clients that tests/sdk drives into build/sdk, as tests/sdk/clients pins them by hash: an older
# version of each of E2B's and a newer one, and OpenSandbox's; Schemathesis; and the Node.js versions that providers run on.
# What is there already, of the same pins, stays. Usage: scripts/sdk.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clients=$root/tests/sdk/clients
place=$root/build/sdk

# Is a client there, made of these files? Else clears the place for it.
is_there() { # name, file of pins...
    local name=$1 mark
    shift
    mark=$(cat "$@" | sha256sum)
    [[ $(cat "$place/$name/.pins" 2>/dev/null) == "$mark" ]] && return 0
    rm -rf "${place:?}/$name"
    mkdir -p "$place/$name"
    return 1
}

mark() { # name, file of pins...
    local name=$1
    shift
    cat "$@" | sha256sum >"$place/$name/.pins"
}

python_client() { # name, modules
    is_there "$1" "$clients/$1.txt" && return 0
    "$place/pip/bin/python" -m pip install -q --disable-pip-version-check --no-compile --require-hashes \
        --only-binary :all: --target "$place/$1" -r "$clients/$1.txt"
    # compiled here, since whoever runs it may not write into it
    PYTHONPATH=$place/$1 /usr/bin/python3 -c "import $2"
    mark "$1" "$clients/$1.txt"
}

js_client() {
    local pins=("$clients/$1/package.json" "$clients/$1/package-lock.json")
    is_there "$1" "${pins[@]}" && return 0
    cp "${pins[@]}" "$place/$1/"
    (cd "$place/$1" && npm ci --silent --ignore-scripts --no-audit --no-fund)
    mark "$1" "${pins[@]}"
}

mkdir -p "$place"
[[ -x $place/pip/bin/pip ]] || /usr/bin/python3 -m venv "$place/pip"
started=()
for name in python-new python-old; do
    python_client "$name" "e2b, e2b_code_interpreter" &
    started+=($!)
done
python_client opensandbox "opensandbox, code_interpreter" &
started+=($!)
python_client schemathesis schemathesis & # asks the engine what its OpenAPI document says
started+=($!)
for name in js-new js-old node; do
    js_client "$name" &
    started+=($!)
done
bad=0
for pid in "${started[@]}"; do
    wait "$pid" || bad=1
done
((bad == 0)) || die "a client could not be installed"
