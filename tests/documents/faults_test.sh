#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# faults_test.sh FAULT ORIEL-RUN PROGRAM - a program of examples/faults has its fault, and the tool
# of docs/debugging.md names it.
set -uo pipefail
fault=$1 run=$2 program=$3
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# finds TEXT COMMAND...: the command fails and prints the text (an extended regular expression).
finds() {
	local text=$1
	shift
	if timeout 50 "$@" >"$out" 2>&1; then
		echo "$*: exit status 0"
		cat "$out"
		exit 1
	fi
	if ! grep -qE "$text" "$out"; then
		echo "$*: nothing like: $text"
		cat "$out"
		exit 1
	fi
}

# hides COMMAND...: the fault is not noticed, which is why the tool is needed.
hides() {
	if ! timeout 50 "$@" >"$out" 2>&1; then
		echo "$*: exit status other than 0"
		cat "$out"
		exit 1
	fi
}

case $fault in
range)
	hides "$run" -n 2 "$program"
	finds 'put_value: the range ends at byte 808, but the window has 800 bytes' \
		"$run" -n 2 --debug "$program"
	;;
reuse)
	hides "$run" -n 2 "$program"
	# a race with the NIC: once in 20 runs is enough
	finds 'messages were overwritten on their way' bash -c \
		'for i in {1..20}; do "$@" || exit; done' _ "$run" -n 2 --topology 2x1 "$program"
	;;
order)
	hides "$run" -n 2 --topology 2x1 "$program"
	# not if rank 1 looks only when all words have come: once in 20 runs is enough
	finds 'words were announced before they came' env ORIEL_SOFT_NIC=efa \
		ORIEL_SOFT_FAULTS=seed=1,reorder=0.3 bash -c \
		'for i in {1..20}; do "$@" || exit; done' _ "$run" -n 2 --topology 2x1 "$program"
	;;
late)
	finds 'deadlock: rank 2 waits for 1 waits for 2' env ORIEL_TIMEOUT=12 \
		"$run" -n 4 --debug "$program"
	grep -qE 'rank 2 itself waits [0-9.]+ s for signal 1 of window 0 from rank 1' "$out" || {
		echo "late: no line names the signal that rank 2 waits for"
		cat "$out"
		exit 1
	}
	;;
race)
	finds 'WARNING: ThreadSanitizer: data race' "$program"
	grep -q 'pass_on_body.*race.c' "$out" || {
		echo "race: the report does not name the kernel"
		cat "$out"
		exit 1
	}
	;;
*)
	echo "no such fault: $fault"
	exit 2
	;;
esac
echo "faults_test: $fault: found as the document says"
