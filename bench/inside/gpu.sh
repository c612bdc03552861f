#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures collectives inside a running kernel, in turn: written by hand (the limit), Oriel, and
# NVSHMEM's device calls if its Python wheel is installed.  8 ranks on one GPU.
#
# Usage: bench/inside/gpu.sh OUT_DIR [--build DIR] [--reps N] [--seconds N]
#   OUT_DIR     gets bench.log (raw figures, one per line) and table.md
#   --build     where Oriel is built, or is to be built (default build/release)
#   --reps      interleaved repetitions of everything (default 5)
#   --seconds   starts no repetition that would end later than this (default 120)
#
# A figure is the median over the repetitions.  Every row checks its data.
# Exit status: 0 all targets met; 1 a target missed or not measured; 2 bad command line; 77 this
# machine cannot run it.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
name=bench/inside/gpu.sh reps=5 seconds=120
# shellcheck source=bench/gpu_common.sh
. "$root/bench/gpu_common.sh"

gpu_options "$@"
gpu_begin
gpu_compile limit "$root/bench/inside/limit.cu"
gpu_compile oriel "$root/bench/inside/oriel.cu" "${oriel_flags[@]}"
gpu_compile_nvshmem nvshmem_inside "$root/bench/inside/nvshmem.cu"
gpu_compiled
gpu_mps_start
export ORIEL_TUNE_FILE=none
SECONDS=0
for ((rep = 1; rep <= reps; rep++)); do
	gpu_measure $rep limit 12 "$work/limit" 8
	gpu_measure $rep oriel 12 "$build/bin/oriel-run" -n 8 "$work/oriel"
	[ -z "$nvshmem" ] || gpu_measure $rep nvshmem 12 "$work/nvshmem_inside" 8
	gpu_time_left $rep || break
done
gpu_table "$root/bench/inside/table.py"
