#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/security/files_test.sh BIN - files that Oriel's programs write: links that another user put
# in a shared folder are not followed, and a job leaves no file behind.
set -euo pipefail
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
	echo "FAILED: $*"
	failed=1
}

# A program's temporary name has its process number.  exec keeps the number of the shell, so the
# link is there before the program starts.
echo precious >"$work/victim"
mkdir "$work/shared"
bash -c 'ln -s "$1/victim" "$1/shared/out.json.$$.tmp"
	exec "$2/oriel-perf" put --quick --json "$1/shared/out.json"' \
	_ "$work" "$bin" >"$work/log" 2>&1 || fail "oriel-perf ended with $?: $(cat "$work/log")"
[ "$(cat "$work/victim")" = precious ] || fail "oriel-perf wrote through a link"
[ -f "$work/shared/out.json" ] && [ ! -L "$work/shared/out.json" ] || fail "no JSON file"

# A job leaves nothing in the places where shared memory, sockets and temporary files would be.
mkdir "$work/tmp" "$work/run"
shared() { find /dev/shm -name '*oriel*' 2>/dev/null | wc -l; }
before=$(shared)
TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/run ORIEL_TOPOLOGY=2x1 \
	"$bin/oriel-run" -n 2 "$bin/oriel-perf" put --quick >"$work/log" 2>&1 ||
	fail "the job ended with $?: $(cat "$work/log")"
[ "$before" -eq "$(shared)" ] || fail "the job left files in /dev/shm"
left=$(find "$work/tmp" "$work/run" -mindepth 1 ! -path "$work/run/oriel")
[ -z "$left" ] || fail "the job left files: $left"
# oriel-doctor's directory stays for the next job, empty and private.
[ "$(stat -c %a "$work/run/oriel")" = 700 ] || fail "$work/run/oriel is not private"

# The secret of a job is in the environment, not in a command line that every user can read.
"$bin/oriel-run" -n 2 bash -c 'cat /proc/$$/cmdline /proc/$PPID/cmdline | tr "\0" "\n"
	echo "has $ORIEL_SECRET"' >"$work/log"
secret=$(sed -nE 's/.*has ([0-9a-f]+)$/\1/p' "$work/log" | sed -n 1p)
[ ${#secret} -eq 64 ] || fail "the job has no secret of 64 digits: '$secret'"
[ "$(grep -c "${secret:-none}" "$work/log")" -eq 2 ] || fail "the secret is in a command line"
exit $failed
