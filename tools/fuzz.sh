#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/fuzz.sh BUILD SECONDS [NAME...] - runs the programs of tests/fuzz, two at a time.
# BUILD is a build folder of the preset fuzz.  New inputs stay in BUILD/fuzz/NAME and are the start
# of the next run.  Inputs that show a fault are BUILD/fuzz/faults/NAME-*.
# Prints one line per program: executions, edges and features reached, inputs kept, longest input.
# Exit status: 1 if a program found a fault.
set -uo pipefail
build=${1:?build folder}
seconds=${2:?seconds}
shift 2
tests=$(cd "$(dirname "$0")/../tests/fuzz" && pwd)
if [ $# -eq 0 ]; then
	for source in "$tests"/*.c; do
		name=$(basename "$source" .c)
		[ "$name" = frame ] || [ "$name" = replay ] || set -- "$@" "$name"
	done
fi
mkdir -p "$build/fuzz/faults"

# fuzz_one NAME: the last line of libFuzzer's progress has "cov: EDGES ft: FEATURES corp: N/BYTES".
fuzz_one() {
	local name=$1 log=$build/fuzz/$1.log status
	mkdir -p "$build/fuzz/$name"
	# The library's own log lines would be most of the output: close_fd_mask drops them.
	# print_funcs would start a symbolizer, whose pipes look like leaked descriptors.
	"$build/bin/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1500 \
		-close_fd_mask=2 -print_funcs=0 -print_final_stats=1 \
		-artifact_prefix="$build/fuzz/faults/$name-" \
		"$build/fuzz/$name" "$tests/corpus/$name" >"$log" 2>&1
	status=$?
	if [ $status -ne 0 ]; then
		echo "$name: FAULT, exit status $status; its input is $build/fuzz/faults/$name-*"
		tail -n 60 "$log"
		return 1
	fi
	awk -v name="$name" '
		/ cov: / {
			for (i = 1; i < NF; i++)
				if ($i ~ /^(cov|ft|corp):$/)
					seen[$i] = $(i + 1)
		}
		/stat::number_of_executed_units/ { executions = $2 }
		END {
			sub("/.*", "", seen["corp:"])
			printf "%-8s %10d executions %6d edges %6d features %5d inputs\n",
				name, executions, seen["cov:"], seen["ft:"], seen["corp:"]
		}' "$log"
}
export -f fuzz_one
export build seconds tests
# Inputs are short-lived: a large quarantine of freed memory would only make each one slower.
export ASAN_OPTIONS=quarantine_size_mb=4:detect_leaks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
printf '%s\n' "$@" | xargs -P 2 -I{} bash -c 'fuzz_one {}' || exit 1
