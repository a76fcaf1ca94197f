#!/usr/bin/env bash
# Builds and runs every test: checks, unit tests under the sanitizers, end-to-end tests as root and as an
# ordinary user (both at once: each waits more than it computes), fuzz targets, examples of the documentation, the
# official clients (installed while the builds run), the Python SDK. clang-tidy takes, at idle priority, what the others leave. The last line counts them.
# Usage: scripts/test.sh [STAGE...]     stages: checks unit e2e e2e_user fuzz docs sdk python tidy (default: all)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

test_packages=("${fuzz_packages[@]}" clang-tidy clang-format libcmocka-dev python3 python3-pytest
    bubblewrap busybox-static uidmap procps shellcheck zstd zsh fish bash-completion
    pkg-config git rsync sqlite3 python3-venv iproute2 passt slirp4netns make chromium perl)
# Some nodejs packages bring npm along, and refuse the other one.
command -v npm >/dev/null || test_packages+=(nodejs npm)
command -v go >/dev/null || test_packages+=(golang-go)
[[ -z ${ABX_SOAK:-} ]] || test_packages+=(python3-matplotlib)
fuzz_seconds=${ABX_FUZZ_SECONDS:-5}
results=$root/build/test
here=(ABX_BUILD="$root/build/release" ABX_HELPERS="$root/build/release/tests/e2e")
python=/usr/bin/python3
passed=0 failed=0 skipped=0
complete=0 unsteady=0 user='' user_copy='' user_run='' tidy_run='' sdk_run='' python_run='' once_run=''
pytest_seconds=1500
[[ -z ${ABX_SOAK:-} ]] || pytest_seconds=14400

# Adds to the counts: passed failed skipped.
count() {
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
}

# One check: its name, then the command. 77 means skipped. Output is shown only when it fails.
check() {
    local name=$1 log="$results/check.log" rc=0
    shift
    "$@" >"$log" 2>&1 </dev/null || rc=$?
    case $rc in
    0) count 1 0 0 && say "  ok       $name" ;;
    77) count 0 0 1 && say "  skipped  $name" ;;
    *)
        count 0 1 0
        say "  FAILED   $name"
        head -n 60 "$log" | sed 's/^/    /'
        ;;
    esac
}

# Runs a stage with a header and its time.
stage() {
    local title=$1 started=$SECONDS
    shift
    printf '\n%s== %s%s\n' "$bold" "$title" "$plain"
    "$@"
    printf -- '-- %s: %d s\n' "$title" $((SECONDS - started))
}

packages() {
    need_packages "${build_packages[@]}" "${test_packages[@]}"
}

builds() {
    build_preset release
    build_preset asan
    if wanted fuzz || wanted tidy; then
        build_preset fuzz
    fi
}

size_is_small() {
    local size
    size=$(stat -c %s build/release/abx)
    ((size <= 8 * 1024 * 1024)) || {
        say "build/release/abx has $size bytes, more than 8 MiB"
        return 1
    }
}

checks() {
    local f
    check "formatting (scripts/format.sh)" scripts/format.sh --check
    check "shell scripts (shellcheck)" shellcheck -x -P SCRIPTDIR scripts/*.sh scaffold/bash/*.sh .ci/run
    check "size of the program" size_is_small
    for f in tests/checks/*.sh tests/checks/*.py; do
        [[ -f $f ]] || continue
        case $f in
        *.sh) check "$f" bash "$f" ;;
        *.py) check "$f" "$python" "$f" ;;
        esac
    done
}

# What ran beside the others (its pid, its log): waits for its end, shows its words, returns its code.
outcome_of() {
    local rc=0
    wait "$1" || rc=$?
    cat "$2"
    return "$rc"
}

tidy_starts() {
    "$python" scripts/tidy.py --beside >"$results/tidy.log" 2>&1 </dev/null &
    tidy_run=$!
}

tidy() {
    check "clang-tidy" outcome_of "$tidy_run" "$results/tidy.log"
    tidy_run=''
}

# The counts of a JUnit file as "passed failed skipped"; none or a broken one is one failure.
count_junit() {
    local numbers
    numbers=$("$python" scripts/junit.py "$1") || numbers="0 1 0"
    # shellcheck disable=SC2086
    count $numbers
}

unit() {
    local xml="$results/unit.xml" log="$results/unit.log"
    rm -f "$xml"
    if ! ctest --preset asan -j "$jobs" --output-junit "$xml" >"$log" 2>&1 </dev/null; then
        grep -vE '^\[ (RUN|      OK) ' "$log" | tail -n 80
    fi
    second_chance "$xml" unit_again
    count_junit "$xml"
    say "  $("$python" scripts/junit.py "$xml" || true) (passed failed skipped)"
}

unit_again() {
    local names
    names=$(printf '|%s' "$@")
    ctest --preset asan -R "^(${names:1})\$" </dev/null
}

# pytest on a folder: name of the run, then the command in front of python.
run_pytest() {
    local name=$1 folder=$2 xml="$results/$1.xml"
    shift 2
    rm -f "$xml"
    pytest_in "$xml" "$@" -- "$folder" || true
    second_chance "$xml" pytest_in "$xml.again" "$@" --
    count_junit "$xml"
}

# pytest, whose results go to a file: it, the command in front of python, --, what to run. in_place=(exec): instead of
# this shell.
in_place=()
pytest_in() {
    local xml=$1 front=()
    shift
    while [[ $1 != -- ]]; do
        front+=("$1")
        shift
    done
    shift
    "${in_place[@]}" timeout "$pytest_seconds" "${front[@]}" \
        "$python" -m pytest -q -p no:cacheprovider --junitxml="$xml" "$@" </dev/null
}

# A test that failed while others ran is tried once more, alone: the file of the run, then a command that runs the tests
# whose names follow. What passes then is called unsteady (a fault to be found: what it said stands above) and counts as
# passed. More than two in the whole run stay failures.
second_chance() {
    local xml=$1 names=()
    shift
    mapfile -t names < <("$python" scripts/junit.py --failed "$xml")
    ((${#names[@]} > 0 && unsteady + ${#names[@]} <= 2)) || return 0
    say "  once more, alone: ${names[*]}"
    "$@" "${names[@]}" || return 0
    unsteady=$((unsteady + ${#names[@]}))
    say "  UNSTEADY ${names[*]}"
    "$python" scripts/junit.py --steadied "$xml"
}

e2e() {
    run_pytest e2e tests/e2e env PYTEST_ADDOPTS="-m 'not once'" "${here[@]}"
    outcome_of "$once_run" "$results/e2e_once.log" || true
    once_run=''
    second_chance "$results/e2e_once.xml" pytest_in "$results/e2e_once.xml.again" env "${here[@]}" --
    count_junit "$results/e2e_once.xml"
}

# What does not depend on who calls, beside the others: it waits more than it computes.
e2e_once_starts() {
    rm -f "$results/e2e_once.xml"
    (trap - EXIT && run_pytest_once) >"$results/e2e_once.log" 2>&1 &
    once_run=$!
}

run_pytest_once() {
    in_place=(exec)
    pytest_in "$results/e2e_once.xml" env "${here[@]}" -- -m once tests/e2e
}

# The same suite as an ordinary user, from a copy that this user can read. Root makes the user, and
# removes it afterwards.
make_user() {
    user=abxtest$$
    user_copy=$(mktemp -d /var/tmp/abx-test.XXXXXX)
    useradd --create-home --shell /bin/bash "$user"
    chmod 755 "$user_copy"
    mkdir -p "$user_copy/build/release"
    cp -r tests scripts src docs examples include providers scaffold "$user_copy/"
    cp -rP build/release/abx build/release/libabx.so* build/release/tests "$user_copy/build/release/"
    chmod -R a+rX "$user_copy"
    install -o "$user" -m 644 /dev/null "$user_copy/e2e_user.xml"
    install -o "$user" -m 644 /dev/null "$user_copy/e2e_user.xml.again"
    # a tun device that an ordinary user may open, whatever the modes of the machine's are
    mknod -m 666 "$user_copy/tun" c 10 200 || say "no tun device can be made for $user"
}

# The file of the results, what to run.
run_as_user() {
    local home xml=$1
    shift
    home=$(getent passwd "$user" | cut -d: -f6)
    cd "$user_copy"
    exec setpriv --pdeathsig KILL timeout "$pytest_seconds" setpriv --pdeathsig KILL --reuid "$user" --regid "$user" --init-groups --reset-env \
        env HOME="$home" PATH="$PATH" PYTHONDONTWRITEBYTECODE=1 \
        ABX_BUILD="$user_copy/build/release" ABX_HELPERS="$user_copy/build/release/tests/e2e" \
        ABX_SOAK="${ABX_SOAK:-}" ABX_TUN="$user_copy/tun" \
        "$python" -m pytest -q -p no:cacheprovider --junitxml="$xml" "$@" </dev/null
}

e2e_user_starts() {
    if ((EUID != 0)); then
        return 0 # e2e runs as one
    fi
    make_user
    (trap - EXIT && run_as_user "$user_copy/e2e_user.xml" -m 'not once' tests/e2e) >"$results/e2e_user.log" 2>&1 &
    user_run=$!
}

again_as_user() {
    (trap - EXIT && run_as_user "$user_copy/e2e_user.xml.again" "$@")
}

e2e_user() {
    [[ -n $user_run ]] || return 0
    outcome_of "$user_run" "$results/e2e_user.log" || true
    user_run=''
    second_chance "$user_copy/e2e_user.xml" again_as_user
    count_junit "$user_copy/e2e_user.xml"
    remove_user
}

remove_user() {
    [[ -n $user ]] || return 0
    local pid
    for pid in $(ps -o pid= -u "$user" 2>/dev/null); do
        kill -KILL "$pid" 2>/dev/null || true
    done
    userdel --remove "$user" 2>/dev/null || true
    rm -rf "$user_copy"
    user=
}

# What a fuzz target said in its turn; its code.
fuzz_outcome() {
    cat "$results/$1.log"
    return "$(cat "$results/$1.code")"
}

# As many targets at once as there are processors: each is one thread.
fuzz() {
    local target name names=()
    for target in build/fuzz/tests/fuzz/fuzz_*; do
        [[ -x $target && ! -d $target ]] || continue
        names+=("${target##*/}")
    done
    # shellcheck disable=SC2016 # the inner shell expands it
    printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} sh -c \
        'scripts/fuzz.sh "$1" "$2" >"$3/$2.log" 2>&1 </dev/null; echo $? >"$3/$2.code"' \
        sh "$fuzz_seconds" {} "$results"
    for name in "${names[@]}"; do
        check "$name, $fuzz_seconds s" fuzz_outcome "$name"
    done
}

docs() {
    [[ -d tests/docs ]] || return 0
    run_pytest docs tests/docs env ABX_BUILD="$root/build/release"
}

sdk_starts() {
    scripts/sdk.sh >"$results/sdk.log" 2>&1 </dev/null &
    sdk_run=$!
}

sdk() {
    check "official clients, installed" outcome_of "$sdk_run" "$results/sdk.log"
    sdk_run=''
    run_pytest sdk tests/sdk env ABX_BUILD="$root/build/release"
}

python_starts() {
    scripts/python.sh >"$results/python.log" 2>&1 </dev/null &
    python_run=$!
}

# The SDK for Python, beside the stages that wait for clients of others.
python_beside() {
    check "type checkers, installed" outcome_of "$python_run" "$results/python.log"
    rm -f "$results/python.xml"
    (trap - EXIT && in_place=(exec) && pytest_in "$results/python.xml" env ABX_BUILD="$root/build/release" -- tests/python) \
        >"$results/python.log" 2>&1 &
    python_run=$!
}

python() {
    outcome_of "$python_run" "$results/python.log" || true
    python_run=''
    second_chance "$results/python.xml" pytest_in "$results/python.xml.again" env ABX_BUILD="$root/build/release" --
    count_junit "$results/python.xml"
}

wanted() {
    ((${#stages[@]} == 0)) && return 0
    local s
    for s in "${stages[@]}"; do
        [[ $s == "$1" ]] && return 0
    done
    return 1
}

main() {
    local s
    stages=("$@")
    mkdir -p "$results"
    stage "packages" packages
    if wanted sdk; then
        sdk_starts
    fi
    if wanted python; then
        python_starts
    fi
    stage "builds (release, asan, fuzz)" builds
    if wanted tidy; then
        tidy_starts
    fi
    if wanted e2e; then
        e2e_once_starts
    fi
    if wanted e2e_user; then
        e2e_user_starts
    fi
    for s in checks unit e2e e2e_user fuzz docs sdk python tidy; do
        if [[ $s == docs ]] && wanted python; then
            python_beside
        fi
        if wanted "$s"; then
            stage "$s" "$s"
        fi
    done
    complete=1
}

# Always the end: the throwaway user goes, the counts are printed. A stage that broke off is a failure;
# so is a skip, a hole that nobody chose.
finish() {
    local code=$? pid
    for pid in $tidy_run $user_run $sdk_run $python_run $once_run; do
        kill "$pid" 2>/dev/null || true
    done
    remove_user
    ((complete)) || failed=$((failed + 1))
    ((passed + failed > 0)) || failed=1
    printf '\nwhole run: %d s\n' "$SECONDS"
    ((unsteady == 0)) || printf 'unsteady, passed at the second try: %d\n' "$unsteady"
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    ((failed == 0 && skipped == 0)) || exit 1
    exit "$code"
}

trap finish EXIT
main "$@"
