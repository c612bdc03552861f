#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures all-gather and all-to-all-v on a GPU, in turn: collectives written by hand (the limit),
# Oriel, and NVSHMEM if its Python wheel is installed.
#
# Usage: bench/coll/gpu.sh OUT_DIR [--build DIR] [--reps N] [--seconds N]
#   OUT_DIR     gets bench.log (raw figures, one per line) and table.md
#   --build     where Oriel is built, or is to be built (default build/release)
#   --reps      interleaved repetitions of everything (default 5)
#   --seconds   starts no repetition that would end later than this (default 120)
#
# Ranks are processes.  They share one GPU under a private MPS daemon, and each is limited to its
# share of the SMs.  NVSHMEM requires this limit, so all three programs get it.
# A figure is the median over the repetitions.  Every row checks its data.
# Exit status: 0 all targets met; 1 a target missed or not measured; 2 bad command line; 77 this
# machine cannot run it.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
name=bench/coll/gpu.sh reps=5 seconds=120
# shellcheck source=bench/gpu_common.sh
. "$root/bench/gpu_common.sh"

gpu_options "$@"
gpu_begin
gpu_compile limit "$root/bench/coll/gpu_limit.cu"
gpu_compile oriel "$root/bench/coll/gpu_oriel.cu" "${oriel_flags[@]}"
gpu_compile_nvshmem versus_nvshmem "$root/bench/coll/gpu_nvshmem.cu"
gpu_compiled
gpu_mps_start
# Files of earlier tuning runs on this machine must not change the figures.
export ORIEL_TUNE_FILE=none
say \
	"# handshake: small messages of an all-to-all-v go as large ones do (ORIEL_A2A_PLAN=small=0), not to the inbox"
say \
	"# tuned: all-to-all-v by the tables of oriel-tune --quick, made before the first repetition; oriel: by the first guess"

run=$build/bin/oriel-run
for ranks in 8 2; do
	gpu_tune $ranks $((ranks == 8 ? 12 : 50)) || continue
	sed 's/^/# /' "$work/tune.log" | tee -a "$log"
done
SECONDS=0
for ((rep = 1; rep <= reps; rep++)); do
	gpu_measure $rep limit 12 "$work/limit" 8
	gpu_measure $rep oriel 12 "$run" -n 8 "$work/oriel" rows
	[ -z "$nvshmem" ] || gpu_measure $rep nvshmem 12 "$work/versus_nvshmem" 8
	gpu_measure $rep limit 50 "$work/limit" 2
	gpu_measure $rep oriel 50 "$run" -n 2 "$work/oriel" rows
	[ -z "$nvshmem" ] || gpu_measure $rep nvshmem 50 "$work/versus_nvshmem" 2
	[ ! -f "$work/tune8" ] || gpu_measure $rep tuned 12 \
		env ORIEL_TUNE_FILE="$work/tune8" "$run" -n 8 "$work/oriel" exchange
	[ ! -f "$work/tune2" ] || gpu_measure $rep tuned 50 \
		env ORIEL_TUNE_FILE="$work/tune2" "$run" -n 2 "$work/oriel" exchange
	[ $rep -gt 2 ] || gpu_measure $rep oriel 12 "$run" -n 8 "$work/oriel" busy
	[ $rep -gt 3 ] ||
		gpu_measure $rep handshake 12 env ORIEL_A2A_PLAN=small=0 "$run" -n 8 \
			"$work/oriel" small
	[ $rep -gt 3 ] ||
		gpu_measure $rep handshake 50 env ORIEL_A2A_PLAN=small=0 "$run" -n 2 \
			"$work/oriel" small
	gpu_time_left $rep || break
done
gpu_table "$root/bench/coll/gpu_table.py"
