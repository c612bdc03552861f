#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures Oriel, hand-written kernels and NVSHMEM on one GPU in one run: bench/gpu.sh, then
# bench/coll/gpu.sh.  Prints one table and draws a plot.
#
# Usage: bench/versus-gpu.sh [OUT_DIR] [--build DIR] [--seconds N]
#   OUT_DIR     gets the logs, table.md and versus-gpu.svg (default build/versus-gpu)
#   --build     where Oriel is built, or is to be built (default build/release)
#   --seconds   of measuring, for both parts together (default 300)
#
# A peer that is not there is skipped, and the name of its package is printed.
# Exit status: 0, also if there is no GPU; 1 nothing measured or no plot; 2 bad command line.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/versus-gpu build=$root/build/release seconds=300

die() {
	echo "bench/versus-gpu.sh: $*" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--build | --seconds)
		[ $# -gt 1 ] || die "no value after $1"
		case $1 in
		--build) build=$2 ;;
		--seconds) seconds=$2 ;;
		esac
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) out=$1 ;;
	esac
	shift
done
[[ $seconds =~ ^[1-9][0-9]*$ && $seconds -ge 2 ]] || die "--seconds takes a number from 2"

# part NAME SCRIPT: its targets do not matter here, only whether it measured.
part() {
	local status
	mkdir -p "$out/$1" || die "cannot make $out/$1"
	"$root/$2" "$out/$1" --build "$build" --seconds $((seconds / 2)) >"$out/$1/output.txt" 2>&1
	status=$?
	case $status in
	0 | 1) ;;
	77)
		tail -n 1 "$out/$1/output.txt"
		exit 0
		;;
	*)
		tail -n 20 "$out/$1/output.txt"
		exit 1
		;;
	esac
}

part windows bench/gpu.sh
part collectives bench/coll/gpu.sh
grep -h '^# NVSHMEM is not measured' "$out/windows/bench.log"
# All ranks share one GPU here, and NCCL refuses that.
echo "# skipped: NCCL (package nvidia-nccl): it takes one GPU per rank, these programs share one"
PYTHONDONTWRITEBYTECODE=1 python3 "$root/bench/versus_gpu.py" "$out" "$out/windows/bench.log" \
	"$out/collectives/bench.log" || exit 1
cat "$out/table.md"
echo "# $out/table.md, $out/versus-gpu.svg"
