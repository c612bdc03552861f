#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures Oriel, OpenSHMEM on Oriel, Open MPI and Open MPI's OpenSHMEM in one run: the same cases
# (bench/shmem/cases.h), the same loop, two pinned cores.  Draws a plot.
#
# Usage: bench/versus.sh [BUILD_DIR] [--out DIR] [--reps N] [--seconds N] [--cases LIST] [--publish]
#   BUILD_DIR   where bin/ is (default build/release)
#   --out       gets bench.log (raw figures), table.md and versus.svg (default BUILD_DIR/versus)
#   --reps      interleaved repetitions of everything (default 7)
#   --seconds   no program starts later than this, and none runs longer (default 480)
#   --cases     cases of bench/shmem, with commas
#   --publish   also writes docs/results/DATE-versus, docs/images/versus.svg and the table of
#               README.md; refuses to if the machine is not idle or the tree has changes
#
# The programs take turns, so that a machine that is slow for a while is slow for all.  A peer that
# is not there is skipped, and the name of its package is printed.
# Exit status: 0; 1 nothing measured or no plot; 2 bad command line or nothing built.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release out='' reps=7 seconds=480 publish=''
cases=put,get,fetchadd,putsignal,sendrecv,barrier,broadcast,fcollect,alltoall,sum
name=bench/versus.sh
command_line="$name $*"
# shellcheck source=bench/common.sh
. "$root/bench/common.sh"

while [ $# -gt 0 ]; do
	case $1 in
	--publish) publish=yes ;;
	--out | --reps | --seconds | --cases)
		[ $# -gt 1 ] || die "no value after $1"
		case $1 in
		--out) out=$2 ;;
		--reps) reps=$2 ;;
		--seconds) seconds=$2 ;;
		--cases) cases=$2 ;;
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
bin=$build/bin
for program in oriel-run oriel_shmem_bench; do
	[ -x "$bin/$program" ] || die "$bin/$program is missing: build first (make versus does)"
done
out=${out:-$build/versus}
mkdir -p "$out" || die "cannot make $out"
log=$out/bench.log
: >"$log" || die "cannot write $log"
export ORIEL_TUNE_FILE=none ORIEL_TIMEOUT=60 SHMEM_SYMMETRIC_SIZE=64M

say_machine "$command_line"
if [ -n "$publish" ] && [ -n "$(git -C "$root" status --porcelain)" ]; then
	die "there are changes that are not committed: nothing is published"
fi
if [ "$busy" -gt 5 ]; then
	[ -z "$publish" ] || die "the machine is $busy% busy: nothing is published"
	say "# WARNING: the machine is not idle: these figures say nothing"
fi

# Who is there?
peers=(oriel)
if [ -x "$bin/shmem_bench" ]; then
	peers+=(shmem)
else
	say "# skipped: OpenSHMEM on Oriel: built with ORIEL_SHMEM=OFF"
fi
if [ -x "$bin/versus_mpi_cases" ] && command -v mpirun >/dev/null; then
	peers+=(mpi)
	say "# versus $(mpirun --version 2>/dev/null | head -1)"
else
	say "# skipped: Open MPI: packages libopenmpi-dev and openmpi-bin (tools/deps.sh bench)"
fi
if [ -x "$bin/versus_shmem_bench" ] && command -v oshrun >/dev/null; then
	peers+=(ompi)
else
	say "# skipped: OpenSHMEM of Open MPI: package libopenmpi-dev (tools/deps.sh bench)"
fi

# one REP WHO RANKS [fine]: one program, its lines go to the log.
one() {
	local rep=$1 who=$2 ranks=$3 sizes=${4:-} left=$((seconds - SECONDS)) command
	[ $left -gt 0 ] || return 1
	case $who in
	oriel) command=("$bin/oriel-run" -n "$ranks" "$bin/oriel_shmem_bench") ;;
	shmem) command=("$bin/oriel-run" -n "$ranks" "$bin/shmem_bench") ;;
	mpi) command=(mpirun "${mpi_flags[@]}" -np "$ranks" "$bin/versus_mpi_cases") ;;
	ompi)
		command=(oshrun "${mpi_flags[@]}" -x SHMEM_SYMMETRIC_SIZE -np "$ranks"
			"$bin/versus_shmem_bench")
		;;
	esac
	measure "$rep" timeout -k 5 $((left < 60 ? left : 60)) "${command[@]}" "$who" "$cases" \
		${sizes:+"$sizes"}
}

# Each repetition begins with another peer: none is always the first.
SECONDS=0
for ((rep = 1; rep <= reps; rep++)); do
	[ -t 1 ] && printf '\rrepetition %d of %d ' "$rep" "$reps"
	for ((i = 0; i < ${#peers[@]}; i++)); do
		who=${peers[(i + rep - 1) % ${#peers[@]}]}
		one "$rep" "$who" 2 fine && one "$rep" "$who" 8 && continue
		say "# $((rep - 1)) whole repetitions, not $reps: $SECONDS seconds have passed"
		break 2
	done
done
[ -t 1 ] && printf '\r%40s\r' ''
say "# measured in $SECONDS seconds"

if [ -z "$publish" ]; then
	python3 "$root/bench/versus.py" "$log" "$out" || exit 1
	cat "$out/table.md"
	echo "# $out/table.md, $out/versus.svg, raw figures: $log"
	exit 0
fi
results=docs/results/$(date -u +%Y-%m-%d)-versus
mkdir -p "$root/$results" "$root/docs/images" || die "cannot make $results"
python3 "$root/bench/versus.py" "$log" "$out" --readme "$root/README.md" \
	--results "$results/README.md" || exit 1
cp "$out/versus.svg" "$root/docs/images/versus.svg"
cp "$out/versus.svg" "$root/$results/versus.svg"
cp "$out/table.md" "$root/$results/README.md"
cp "$log" "$root/$results/bench.txt"
echo "# written: $results, docs/images/versus.svg, the table of README.md"
echo "# docs/results/README.md still needs a row for $results"
