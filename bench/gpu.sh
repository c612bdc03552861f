#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures puts, signals and barriers on a GPU, in turn: kernels written by hand (the limit), Oriel,
# and NVSHMEM if its Python wheel is installed.
#
# Usage: bench/gpu.sh OUT_DIR [--build DIR] [--reps N] [--seconds N]
#   OUT_DIR     gets bench.log (raw figures, one per line) and table.md
#   --build     where Oriel is built, or is to be built (default build/release)
#   --reps      interleaved repetitions of everything (default 7)
#   --seconds   starts no repetition that would end later than this (default 200)
#
# Ranks are processes.  They share one GPU under a private MPS daemon, and each is limited to its
# share of the SMs.  NVSHMEM requires this limit, so all three programs get it.
# A figure is the median over the repetitions.  Every row checks its data.
# Exit status: 0 all targets met; 1 a target missed or not measured; 2 bad command line; 77 this
# machine cannot run it.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
name=bench/gpu.sh reps=7 seconds=200
# shellcheck source=bench/gpu_common.sh
. "$root/bench/gpu_common.sh"

gpu_options "$@"
gpu_begin
gpu_compile limit_gpu "$root/bench/limit/gpu.cu"
gpu_compile oriel "$root/bench/gpu_bench.cu" "${oriel_flags[@]}"
gpu_compile traced -DORIEL_TRACE_DEVICE "$root/bench/gpu_bench.cu" "${oriel_flags[@]}"
gpu_compile oriel16 -DORI_COPY_UNROLL=16 "$root/bench/gpu_bench.cu" "${oriel_flags[@]}"
gpu_compile_nvshmem versus_nvshmem "$root/bench/versus/nvshmem.cu"
gpu_compiled
gpu_mps_start
say "# can_trace: compiled with ORIEL_TRACE_DEVICE; traces: that also writes a trace"
say "# Oriel copies with 8 accesses in flight a thread; oriel16: with 16"

run=$build/bin/oriel-run
for ((rep = 1; rep <= reps; rep++)); do
	gpu_measure $rep limit 50 "$work/limit_gpu" 2
	gpu_measure $rep oriel 50 "$run" -n 2 "$work/oriel" pair
	gpu_measure $rep can_trace 50 "$run" -n 2 "$work/traced" blocks
	gpu_measure $rep traces 50 env ORIEL_TRACE="$work/trace$rep" \
		"$run" -n 2 "$work/traced" blocks
	[ $rep -gt 3 ] || gpu_measure $rep oriel16 50 "$run" -n 2 "$work/oriel16" pair
	[ -z "$nvshmem" ] || gpu_measure $rep nvshmem 50 "$work/versus_nvshmem" 2
	gpu_measure $rep limit 12 "$work/limit_gpu" 8
	gpu_measure $rep oriel 12 "$run" -n 8 "$work/oriel" many
	[ -z "$nvshmem" ] || gpu_measure $rep nvshmem 12 "$work/versus_nvshmem" 8
	gpu_measure $rep oriel 50 "$run" -n 2 --topology 2x1 "$work/oriel" queued
	gpu_time_left $rep || break
done
gpu_table "$root/bench/gpu_table.py"
