#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests oriel-tune: command line, a short run, the file that it writes, and that later runs load it.
# Usage: tune_test.sh ORIEL_TUNE ORIEL_RUN      (ORIEL_RUN is beside ORIEL_TUNE, which starts it)
set -u
tune=$1 run=$2
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
tail -1 "$file" | grep -Eq '^check [0-9a-f]{16}$' || fail "the file has no end"

# has COUNT LINE: so many lines of the last output begin with this extended expression.
has() {
	local n
	n=$(grep -cE "^# $2" "$dir/out")
	# A sweep that runs out of time on a slow machine says so, and measures fewer sizes.
	[ "$n" -lt "$1" ] && [ "$n" -gt 0 ] && grep -q 'no time was left' "$dir/out" && return
	[ "$n" -eq "$1" ] || fail "$n lines, not $1, begin with '$2'"
}

# Two ranks, queued: each collective, and packets, has one line that says why nothing is tuned.
has 0 '[a-z-]+ of [0-9]+K? (in a kernel|of the host): '
most='broadcast, all-gather, all-to-all, all-to-all-v, reduce-scatter in a kernel'
has 1 "$most: nothing to tune, because cells need"
has 1 'all-reduce in a kernel: nothing to tune, because with two ranks'
has 1 'all-reduce of the host: nothing to tune, because some peers are queued'
has 1 'broadcast, reduce-scatter of the host: nothing to tune, because some peers are queued'
has 1 'all-to-all and all-to-all-v of the host: the plans above'
has 1 'packets: nothing to tune, because'
grep -q '^cells 0 once 65536 host_once 16384 long_from 131072$' "$file" ||
	fail "the file has other limits than the first guess: $(grep ^cells "$file")"

# -o: the file is written there; if that is impossible, nothing is measured.
# Ranks that map each other: all limits of a CPU are measured and chosen.
chosen='(up to [0-9]+K? .*, longer .*|all .*) [(](measured|the first guess)[)]$'
want 0 "written to $dir/table" "$tune" -n 4 --quick -o "$dir/table"
[ -s "$dir/table" ] || fail "-o wrote nothing"
has 4 'all-gather of .* in a kernel: .* us in cells, .* us with signals$'
has 7 'all-reduce of .* in a kernel: .* us in one round, .* us in pieces$'
has 5 'all-reduce of .* of the host: .* us in one step, .* us in pieces$'
has 1 "$most: $chosen"
has 1 "all-reduce in a kernel: $chosen"
has 1 "all-reduce of the host: $chosen"
grep -Eq '^cells (0|64|256|1024|4096) once [0-9]+ host_once [0-9]+ long_from 131072$' \
	"$dir/table" || fail "the table has no limits: $(grep ^cells "$dir/table")"

# Both kinds of peers: cells are no choice, rounds are.
want 0 "written to $dir/mixed" "$tune" -n 4 --topology 2x2 --quick -o "$dir/mixed"
has 7 'all-reduce of .* in a kernel: .* us in one round, .* us in pieces$'
has 1 "all-reduce in a kernel: $chosen"
has 1 "$most: nothing to tune, because"
grep -Eq '^cells 0 once [0-9]+ host_once 21845 long_from 131072$' "$dir/mixed" ||
	fail "the table has no limits: $(grep ^cells "$dir/mixed")"
want 1 'cannot write' "$tune" -n 2 --quick -o "$dir/table/below"

# Ranks with different numbers of cores guess differently, and measure the same plans all the same.
cpu=$(taskset -pc $$ 2>/dev/null | sed 's/.*: *//; s/[,-].*//')
if [ "$(nproc)" -gt 1 ] && [ -n "$cpu" ]; then
	export cpu
	# shellcheck disable=SC2016 # the shell of each rank expands it
	want 0 "written to $dir/uneven" "$run" -n 2 bash -c \
		'[ "$RANK" -eq 1 ] && exec taskset -c "$cpu" "$0" "$@"; exec "$0" "$@"' \
		"$tune" --quick -o "$dir/uneven"
fi

exit $failed
