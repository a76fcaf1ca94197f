#!/usr/bin/env bash
# Fetches the source packages pinned by deps/Cargo.lock and compiles their C into build/deps.
# All presets share the result. With nothing to do it ends at once; once fetched it works offline.
# Usage: scripts/deps.sh [--fetch-only]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/build/deps
src=$out/src
stage=$out/stage # where the new libraries are put together before they replace the old ones
cc=${ABX_DEPS_CC:-cc}

die() {
    printf 'deps: %s\n' "$*" >&2
    exit 1
}

say() {
    printf 'deps: %s\n' "$*"
}

# The packages whose sources are kept; the rest of the lock file is Rust that nobody compiles.
packages=(ada-url curl-sys libnghttp2-sys libuv-sys2 libz-sys rquickjs-sys wslay-sys yyjson-sys)

digest_of() {
    cat "$@" | sha256sum | cut -d' ' -f1
}

sources_wanted() {
    digest_of "$root/deps/Cargo.toml" "$root/deps/Cargo.lock"
}

build_wanted() {
    {
        sources_wanted
        digest_of "$root/deps/CMakeLists.txt" "${BASH_SOURCE[0]}"
        "$cc" -dumpfullversion 2>/dev/null || true
        "$cc" -dumpmachine
    } | sha256sum | cut -d' ' -f1
}

stamp_is() {
    [[ -f $1 && $(<"$1") == "$2" ]]
}

# A cargo that reads the lock file: 1.85 or newer.
find_cargo() {
    local candidate version major minor
    for candidate in "${CARGO:-}" cargo /usr/bin/cargo /usr/share/cargo/bin/cargo; do
        command -v "${candidate:-none}" >/dev/null || continue
        version=$("$candidate" --version 2>/dev/null | awk '{print $2}') || continue
        IFS=. read -r major minor _ <<<"$version"
        if [[ $major =~ ^[0-9]+$ && $minor =~ ^[0-9]+$ ]] && ((major > 1 || minor >= 85)); then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

fetch() {
    local cargo part="$out/src.part" p
    cargo=$(find_cargo) ||
        die "no cargo 1.85 or newer (Debian 12: apt-get install cargo-web)"
    say "fetching ${#packages[@]} source packages"
    rm -rf "$part" "$src"
    mkdir -p "$out"
    (cd "$root/deps" && "$cargo" vendor --quiet --locked "$part" >/dev/null) ||
        die "cannot fetch the source packages of deps/Cargo.lock"
    mkdir -p "$src"
    for p in "${packages[@]}"; do
        mv "$part/$p" "$src/$p"
    done
    rm -rf "$part"
    sources_wanted >"$out/src.stamp"
}

# Runs a command with its output in a log that is shown only when it fails.
quiet() {
    local log="$out/build.log"
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        die "failed: $* (whole log: $log)"
    fi
}

cmake_build() { # source folder, build folder, cmake arguments
    local from=$1 to=$2
    shift 2
    quiet cmake -S "$from" -B "$to" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" \
        -DCMAKE_CXX_FLAGS_RELEASE="-DNDEBUG" \
        -DCMAKE_INSTALL_PREFIX="$stage" -DCMAKE_INSTALL_LIBDIR=lib "$@"
    quiet cmake --build "$to"
    quiet cmake --install "$to"
}

# HTTP, HTTPS and WebSocket only. HTTP_ONLY would also remove WebSocket, so each protocol is named.
curl_options() {
    local p
    for p in DICT FILE FTP GOPHER IMAP IPFS LDAP LDAPS MQTT POP3 RTSP SMTP TELNET TFTP \
        ALTSVC AWS COOKIES DOH HSTS KERBEROS_AUTH NEGOTIATE_AUTH NETRC FORM_API MIME \
        LIBCURL_OPTION OPENSSL_AUTO_LOAD_CONFIG BEARER_AUTH DIGEST_AUTH SRP PARSEDATE \
        SHUFFLE_DNS GETOPTIONS HEADERS_API BINDLOCAL PROGRESS_METER; do
        printf -- '-DCURL_DISABLE_%s=ON\n' "$p"
    done
    printf -- '-D%s\n' \
        BUILD_CURL_EXE=OFF BUILD_SHARED_LIBS=OFF BUILD_STATIC_LIBS=ON BUILD_TESTING=OFF \
        BUILD_EXAMPLES=OFF BUILD_LIBCURL_DOCS=OFF BUILD_MISC_DOCS=OFF ENABLE_CURL_MANUAL=OFF \
        CMAKE_DISABLE_FIND_PACKAGE_Perl=ON CMAKE_POSITION_INDEPENDENT_CODE=ON \
        CURL_USE_OPENSSL=ON OPENSSL_USE_STATIC_LIBS=ON ENABLE_THREADED_RESOLVER=ON \
        CURL_ZLIB=ON CURL_BROTLI=OFF CURL_ZSTD=OFF USE_NGHTTP2=OFF USE_LIBIDN2=OFF \
        CURL_USE_LIBPSL=OFF CURL_USE_LIBSSH2=OFF CURL_USE_GSSAPI=OFF \
        CURL_DISABLE_WEBSOCKETS=OFF ENABLE_UNIX_SOCKETS=ON \
        CURL_CA_BUNDLE=none CURL_CA_PATH=none CURL_CA_FALLBACK=OFF \
        "ZLIB_INCLUDE_DIR=$stage/include" "ZLIB_LIBRARY=$stage/lib/libz.a"
    printf -- '-DCMAKE_C_FLAGS=%s\n' \
        "-ffunction-sections -fdata-sections -fvisibility=hidden -fstack-protector-strong -w \
-DOPENSSL_NO_ENGINE -DOPENSSL_NO_OCSP"
    printf -- '-DCMAKE_C_FLAGS_RELEASE=%s\n' "-Os -DNDEBUG"
}

build() {
    local options part
    command -v "$cc" >/dev/null || die "no C compiler '$cc' (Debian: apt-get install build-essential)"
    command -v ninja >/dev/null || die "no ninja (Debian: apt-get install ninja-build)"
    command -v cmake >/dev/null || die "no cmake (Debian: apt-get install cmake)"
    rm -rf "$out/obj" "$stage"
    say "compiling ada, zlib, libuv, llhttp, QuickJS, wslay, yyjson"
    cmake_build "$root/deps" "$out/obj/small" -DABX_SRC="$src"
    say "compiling curl"
    mapfile -t options < <(curl_options)
    cmake_build "$src/curl-sys/curl" "$out/obj/curl" "${options[@]}"
    for part in include lib; do
        rm -rf "${out:?}/$part"
        mv "$stage/$part" "$out/$part"
    done
    rm -rf "$out/obj" "$stage"
    build_wanted >"$out/build.stamp"
    say "ready in build/deps"
}

main() {
    mkdir -p "$out"
    exec 9>"$out/lock"
    flock 9
    stamp_is "$out/src.stamp" "$(sources_wanted)" || fetch
    [[ ${1:-} == --fetch-only ]] && return 0
    if ! stamp_is "$out/build.stamp" "$(build_wanted)"; then
        rm -f "$out/build.stamp"
        build
    fi
}

main "$@"
