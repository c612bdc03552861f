#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests traces of kernels on a GPU: trace_ranks, compiled with ORIEL_TRACE_DEVICE.  The library's
# own kernels, for calls of the host, are not traced there.
# Usage: trace_gpu_test.sh ORIEL_TRACE TRACE_RANKS
# Exit status: 0 all passed, 1 something failed.
set -u
trace=${1:?usage: trace_gpu_test.sh ORIEL_TRACE TRACE_RANKS}
ranks=${2:?usage: trace_gpu_test.sh ORIEL_TRACE TRACE_RANKS}
here=$(dirname "$0")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_DEVICE=cuda ORIEL_TIMEOUT=40 ORIEL_TRACE=$dir/t

fail() {
	echo "FAILED: $*"
	head -20 "$dir/out"
	exit 1
}

# 3 ranks: 20 rounds of put_signal and wait, a signal to all and a wait for the sum, a barrier
for variables in ORIEL_MAPPED=1 ORIEL_MAPPED=0 ORIEL_CHECKED=1; do
	for how in '' exit; do
		rm -rf "$dir/t"
		# shellcheck disable=SC2086 # perhaps no word
		env $variables timeout 60 "$ranks" $how >"$dir/out" 2>&1 ||
			fail "status $?: $variables $how"
		"$trace" merge "$dir/t" -o "$dir/merged.json" >"$dir/out" 2>&1 ||
			fail "merge: $variables $how"
		python3 "$here/trace_check.py" "$dir/merged.json" put_signal=60 \
			wait_signal_from=60 signal_all=3 wait_signal=3 barrier=3 arrows=63 \
			>"$dir/out" 2>&1 || fail "$variables $how"
		[ "$(grep -l '"lost":0}' "$dir"/t/*.json | wc -l)" -eq 3 ] ||
			fail "$variables $how: lost events"
	done
done

# Too few places: what is missing is counted.
rm -rf "$dir/t"
ORIEL_TRACE_EVENTS=16 timeout 60 "$ranks" >"$dir/out" 2>&1 || fail "status $?: few places"
"$trace" report "$dir/t" >"$dir/out" 2>&1 || fail "report of few places"
grep -q 'rank 2 lost [1-9][0-9]* events' "$dir/out" || fail "events without a place"
echo "traces of kernels: passed"
