#!/usr/bin/env bash
# A provider of sandboxes for abx: it isolates nothing, see README.md. Here it begins: the parts, and what it has.
((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || { echo "bash 5.1 or newer is needed" >&2; exit 1; }
# shellcheck disable=SC2034 # processes.sh uses it
USER_LANG=${LANG-}
export LC_ALL=C # text is bytes here
set -f
trap '' PIPE

. ./json.sh
. ./epp.sh
. ./boxes.sh
. ./processes.sh

serve 'connect list timeout process.start'
