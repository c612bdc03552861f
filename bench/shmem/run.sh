#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures OpenSHMEM on Oriel, and beside it, in the same run, Oriel's own calls and the OpenSHMEM
# of Open MPI.  The same source (shmem.c) is compiled for both OpenSHMEMs.
#
# Usage: bench/shmem/run.sh [BUILD_DIR] [--out DIR] [--reps N] [--seconds N] [--only CASE]
#   BUILD_DIR   where bin/ is (default build/release)
#   --out       gets shmem.log (raw figures, one per line) and table.md (default BUILD_DIR/shmem)
#   --reps      interleaved repetitions of everything (default 7)
#   --seconds   starts no repetition that would end later than this (default 480)
#   --only      one case of cases.h's programs, such as put
#
# Every program checks the data that it received.  If a word is wrong, it prints no figure.
# Exit status: that of table.py, or 2 for a bad command line or if nothing is built.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release out='' reps=7 seconds=480 only=''
name=bench/shmem/run.sh
command_line="$name $*"
# shellcheck source=bench/common.sh
. "$root/bench/common.sh"

while [ $# -gt 0 ]; do
	case $1 in
	--out | --reps | --seconds | --only)
		[ $# -gt 1 ] || die "no value after $1"
		case $1 in
		--out) out=$2 ;;
		--reps) reps=$2 ;;
		--seconds) seconds=$2 ;;
		--only) only=$2 ;;
		esac
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) build=$1 ;;
	esac
	shift
done
[[ $reps =~ ^[1-9][0-9]*$ && $seconds =~ ^[1-9][0-9]*$ ]] ||
	die "--reps and --seconds take numbers from 1"
out=${out:-$build/shmem}
bin=$build/bin
for program in oriel-run shmem_bench oriel_shmem_bench; do
	[ -x "$bin/$program" ] || die "$bin/$program is missing: build first"
done
mkdir -p "$out" || die "cannot make $out"
log=$out/shmem.log
: >"$log" || die "cannot write $log"
export ORIEL_TUNE_FILE=none ORIEL_TIMEOUT=100 SHMEM_SYMMETRIC_SIZE=64M

say_machine "$command_line"
idle=--idle
if [ "$busy" -gt 5 ]; then
	idle=''
	say "# WARNING: the machine is not idle: figures are too high, and nothing is judged"
fi
oshrun=$(command -v oshrun || true)
if [ ! -x "$bin/versus_shmem_bench" ] || [ -z "$oshrun" ]; then
	oshrun=''
	say \
		"# Open MPI is not measured: no oshcc or oshrun when this was built (tools/deps.sh bench)"
fi

start=$SECONDS
for ((rep = 1; rep <= reps; rep++)); do
	begin=$SECONDS
	for n in 2 8; do
		measure "$rep" "$bin/oriel-run" -n $n "$bin/shmem_bench" shmem ${only:+"$only"}
		measure "$rep" "$bin/oriel-run" -n $n "$bin/oriel_shmem_bench" oriel \
			${only:+"$only"}
		[ -z "$oshrun" ] ||
			measure "$rep" "$oshrun" "${mpi_flags[@]}" -x SHMEM_SYMMETRIC_SIZE \
				-np $n "$bin/versus_shmem_bench" ompi ${only:+"$only"}
	done
	took=$((SECONDS - begin))
	if [ $((SECONDS - start + took)) -gt "$seconds" ]; then
		say "# $rep repetitions, then the time was over"
		break
	fi
done
python3 "$root/bench/shmem/table.py" ${idle:+"$idle"} "$log" | tee "$out/table.md"
exit "${PIPESTATUS[0]}"
