#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures all-to-all-v and all-gather on a GPU at sizes and numbers of ranks that no table names:
# the first guess and the tuned plan of Oriel, in turn with collectives written by hand.
#
# Usage: bench/coll/sweep.sh OUT_DIR [--build DIR] [--reps N] [--seconds N]
#   OUT_DIR     gets bench.log (raw figures), table.md and sweep.svg
#   --build     where Oriel is built, or is to be built (default build/release)
#   --reps      interleaved repetitions of everything (default 3)
#   --seconds   starts no repetition that would end later than this (default 240)
# Variables: POINTS (60) points of the all-to-all-v, drawn from SEED (1).  Every point has a size
# for the peer that gets most (log-uniform, 64 B to 64 MiB), 2 to 8 ranks, and even or random
# splits.  Points with even splits measure the all-gather too.
#
# Ranks are processes, as in bench/coll/gpu.sh.  Every point checks its data.
# Exit status: 0 the median is at most 1.08 and the worst 1.25, for the first guess and tuned, and
# for the all-gather with its default policy and the better one; 1 missed or not measured; 2 bad
# command line; 77 this machine cannot run it.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
name=bench/coll/sweep.sh reps=3 seconds=240
# shellcheck source=bench/gpu_common.sh
. "$root/bench/gpu_common.sh"

gpu_options "$@"
points=${POINTS:-60} seed=${SEED:-1}
[[ $points =~ ^[1-9][0-9]*$ && $seed =~ ^[1-9][0-9]*$ ]] || die "POINTS and SEED are numbers from 1"
gpu_begin
gpu_compile limit "$root/bench/coll/gpu_limit.cu"
gpu_compile oriel "$root/bench/coll/gpu_oriel.cu" "${oriel_flags[@]}"
gpu_compiled
gpu_mps_start
say "# $points points, seed $seed"
export ORIEL_TUNE_FILE=none
run=$build/bin/oriel-run

# "RANKS OP:BYTES[:SEED]" per line, from a generator that is the same everywhere.
awk -v points="$points" -v x="$seed" '
	function draw(most) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * most) }
	BEGIN {
		for (i = 0; i < 5; i++)
			draw(1)
		for (i = 1; i <= points; i++) {
			bytes = int(exp(log(64) + draw(1000001) / 1e6 * log(1048576)) / 16) * 16
			ranks = 2 + draw(7)
			if (draw(2)) {
				print ranks, "random:" bytes ":" i
			} else {
				print ranks, "exchange:" bytes
				print ranks, "gather:" bytes
			}
		}
	}' >"$work/points"

cases() {
	awk -v ranks="$1" -v op="$2" '$1 == ranks && (op == "" || $2 !~ op) { print $2 }' \
		"$work/points"
}

for ((ranks = 2; ranks <= 8; ranks++)); do
	[ -n "$(cases $ranks '')" ] || continue
	gpu_tune $ranks $((100 / ranks))
done
SECONDS=0
for ((rep = 1; rep <= reps; rep++)); do
	for ((ranks = 2; ranks <= 8; ranks++)); do
		mapfile -t all < <(cases $ranks '')
		mapfile -t exchanges < <(cases $ranks '^gather')
		[ ${#all[@]} -gt 0 ] || continue
		share=$((100 / ranks))
		gpu_measure $rep limit $share "$work/limit" $ranks "${all[@]}"
		gpu_measure $rep oriel $share "$run" -n $ranks "$work/oriel" rows "${all[@]}"
		[ ! -f "$work/tune$ranks" ] || gpu_measure $rep tuned $share \
			env ORIEL_TUNE_FILE="$work/tune$ranks" "$run" -n $ranks "$work/oriel" \
			rows "${exchanges[@]}"
	done
	gpu_time_left $rep || break
done
gpu_table "$root/bench/coll/sweep.py"
