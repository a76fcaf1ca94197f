#!/usr/bin/env bash
# From a fresh clone to code running in a sandbox: installs what is missing, builds, runs.
# Usage: scripts/quickstart.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

step() {
    printf '\n%s[%s/4] %s%s\n' "$bold" "$1" "$2" "$plain"
}

started=$SECONDS
step 1 "packages for the build"
need_packages "${build_packages[@]}"
say "all there"

step 2 "source packages that the system lacks (pinned in deps/Cargo.lock)"
scripts/deps.sh
say "all there: build/deps"

step 3 "the program"
build_preset release
say "build/release/abx, $(($(stat -c %s build/release/abx) / 1024)) KiB"

step 4 "code in a sandbox of its own"
command=(build/release/abx -P local run -- sh -c 'echo hello from a sandbox; id; uname -n')
say "\$ build/release/abx -P local run -- sh -c 'echo hello from a sandbox; id; uname -n'"
if ! "${command[@]}"; then
    say
    say "This machine refuses a layer of the isolation. What to do about it:"
    say "  build/release/abx doctor"
    exit 1
fi

cat <<TEXT

Done in $((SECONDS - started)) s. Type next:
  export PATH="\$PWD/build/release:\$PATH"
  abx config set provider local        use this machine unless told otherwise
  abx create --name box                a sandbox that stays
  abx shell box                        a shell in it
  abx exec box -- python3 -c 'print(40+2)'
  abx kill box
  abx help                             everything else
TEXT
