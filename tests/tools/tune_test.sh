#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests oriel-tune: command line, a short run, the file that it writes, and that later runs load it.
# Usage: tune_test.sh ORIEL_TUNE ORIEL_RUN      (ORIEL_RUN is beside ORIEL_TUNE, which starts it)
set -u
tune=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset ORIEL_TUNE_FILE ORIEL_A2A_PLAN RANK WORLD_SIZE
export ORIEL_TIMEOUT=60 XDG_CACHE_HOME=$dir/cache
failed=0

fail() {
	echo "FAILED: $*"
	failed=1
}

# want STATUS WORDS COMMAND...: exit status, and words that standard output or error has.
want() {
	local status=$1 words=$2 got
	shift 2
	timeout 100 "$@" >"$dir/out" 2>&1
	got=$?
	[ $got -eq "$status" ] || fail "$* gave status $got, not $status: $(tail -3 "$dir/out")"
	grep -qF -- "$words" "$dir/out" || fail "$* did not say '$words': $(tail -3 "$dir/out")"
}

want 0 'Usage: oriel-tune' "$tune" --help
want 0 'Usage: oriel-tune' "$tune" -h
want 0 'oriel-tune 0.' "$tune" --version
want 2 "'--nonsense'" "$tune" --nonsense
want 2 "'1'" "$tune" -n 1
want 2 "'x'" "$tune" x

# Two queued peers: the file is where later runs look for it, complete, and there is no other file.
want 0 'tuned' "$tune" -n 2 --topology 2x1 --quick --explain
grep -q '^# written to' "$dir/out" || fail "no file was named"
grep -q 'predicted .* measured .* error' "$dir/out" || fail "--explain names no prediction"
[ "$(find "$dir/cache" -type f | wc -l)" -eq 1 ] ||
	fail "not one file: $(find "$dir/cache" -type f)"
file=$(find "$dir/cache" -type f)
grep -q '^shape 2x1 on 1 host$' "$file" || fail "the file is for another shape"
grep -q 'no choice of cells was measured' "$dir/out" || fail "queued peers have cells"
tail -1 "$file" | grep -Eq '^check [0-9a-f]{16}$' || fail "the file has no end"

# -o: the file is written there; if that is impossible, nothing is measured.
want 0 "written to $dir/table" "$tune" -n 2 --quick -o "$dir/table"
[ -s "$dir/table" ] || fail "-o wrote nothing"
[ "$(grep -cE '^# all-gather of .* with signals, .* with cells$' "$dir/out")" -eq 4 ] ||
	fail "short collectives were not measured"
grep -Eq '^cells (0|64|256|1024|4096)$' "$dir/table" || fail "the table does not choose cells"
want 1 'cannot write' "$tune" -n 2 --quick -o "$dir/table/below"

exit $failed
