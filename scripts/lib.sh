# Shared by the scripts of this folder (sourced, not run): output, packages, builds.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

bold='' plain='' # how a header begins and ends
if [[ -t 1 ]]; then
    bold=$'\e[1m' plain=$'\e[0m'
fi

say() {
    printf '%s\n' "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# What every build needs.
build_packages=(build-essential cmake ninja-build git ca-certificates libssl-dev libseccomp-dev
    libarchive-dev libzstd-dev libtomlplusplus-dev)
fuzz_packages=(clang libclang-rt-14-dev)

is_debian() {
    [[ -r /etc/os-release ]] || return 1
    local ID='' ID_LIKE=''
    # shellcheck disable=SC1091
    . /etc/os-release
    [[ " $ID $ID_LIKE " == *" debian "* ]]
}

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# A cargo that reads deps/Cargo.lock: 1.85 or newer.
has_cargo() {
    local version major minor
    version=$(cargo --version 2>/dev/null | awk '{print $2}') || return 1
    IFS=. read -r major minor _ <<<"$version"
    [[ $major =~ ^[0-9]+$ && $minor =~ ^[0-9]+$ ]] && ((major > 1 || minor >= 85))
}

# The packages of "$@" that are not there, one a line.
missing_packages() {
    local p
    for p in "$@"; do
        is_installed "$p" || printf '%s\n' "$p"
    done
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo "$@"
    fi
}

# Installs what is missing of "$@" on Debian and its children; elsewhere says what is needed.
need_packages() {
    local missing
    if ! is_debian; then
        need_tools
        return
    fi
    mapfile -t missing < <(missing_packages "$@")
    if ! has_cargo; then
        missing+=("$(cargo_package)")
    fi
    ((${#missing[@]} > 0)) || return 0
    if ((EUID != 0)) && ! command -v sudo >/dev/null; then
        die "missing packages, and neither root nor sudo here; as root type:
  apt-get install ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "cannot install: ${missing[*]}"
    fi
    rm -f "$log"
}

# Debian 12's own cargo is too old; cargo-web is the same program, newer.
cargo_package() {
    if apt-cache show cargo-web >/dev/null 2>&1 || [[ $(. /etc/os-release && echo "${VERSION_ID:-}") == 12 ]]; then
        echo cargo-web
    else
        echo cargo
    fi
}

# Not Debian: names each tool and library that is missing, then stops.
need_tools() {
    local lacking=() tool lib
    for tool in cc c++ cmake ninja git; do
        command -v "$tool" >/dev/null || lacking+=("$tool")
    done
    has_cargo || lacking+=("cargo 1.85 or newer")
    for lib in ssl crypto seccomp archive zstd; do
        [[ $(cc -print-file-name="lib$lib.a" 2>/dev/null) == /* ]] || lacking+=("lib$lib.a (static, position-independent)")
    done
    echo '#include <toml++/toml.h>' | c++ -std=c++17 -fsyntax-only -xc++ - 2>/dev/null ||
        lacking+=("toml++ 3 headers")
    ((${#lacking[@]} > 0)) || return 0
    say "This is not Debian or one of its children, so nothing is installed. Missing here:"
    printf '  %s\n' "${lacking[@]}"
    die "install these, then run it again"
}

build_preset() { # preset, targets
    local preset=$1 log="$root/build/$1.log"
    shift
    mkdir -p "$root/build"
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs" "$@"; } \
        >"$log" 2>&1; then
        grep -E 'error|Error|FAILED|undefined' "$log" | head -n 40 >&2 || tail -n 40 "$log" >&2
        die "the $preset build failed; whole log: build/$preset.log"
    fi
}
