#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures all-reduce, reduce-scatter and broadcast of the host on the CPU, and in the same run
# those of Open MPI, with 2 and 8 ranks on two cores.
#
# Usage: bench/reduce/run.sh [BUILD_DIR] [--out DIR] [--reps N]
#   BUILD_DIR   where bin/ is (default build/release)
#   --out       gets reduce.log (raw figures, one per line) and table.md (default BUILD_DIR/reduce)
#   --reps      interleaved repetitions of everything (default 7)
#
# Every program checks its results.  Oriel is measured with malloc memory, as Open MPI is, and with
# buffers in windows.  A figure is the median over the repetitions, with the smallest and the
# largest beside it; ratios are ratios of medians.
# Exit status: 0; 1 something was not measured; 2 bad command line or nothing built.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release out='' reps=7
name=bench/reduce/run.sh
command_line="$name $*"
# shellcheck source=bench/common.sh
. "$root/bench/common.sh"

while [ $# -gt 0 ]; do
	case $1 in
	--out | --reps)
		[ $# -gt 1 ] || die "no value after $1"
		[ "$1" = --out ] && out=$2 || reps=$2
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) build=$1 ;;
	esac
	shift
done
[[ $reps =~ ^[1-9][0-9]*$ ]] || die "--reps takes a number from 1"
out=${out:-$build/reduce}
bin=$build/bin
for program in oriel-run oriel_reduce; do
	[ -x "$bin/$program" ] || die "$bin/$program is missing: build first"
done
mkdir -p "$out" || die "cannot make $out"
log=$out/reduce.log
: >"$log" || die "cannot write $log"
export ORIEL_TUNE_FILE=none ORIEL_TIMEOUT=100

say_machine "$command_line"
judge=1
if [ "$busy" -gt 5 ]; then
	say "# WARNING: the machine is not idle: these figures say nothing"
	judge=0
fi
mpirun=$(command -v mpirun || true)
if [ ! -x "$bin/versus_mpi_reduce" ] || [ -z "$mpirun" ]; then
	mpirun=''
	say "# Open MPI is not measured: no mpicc or mpirun at the build (tools/deps.sh bench)"
fi
for ((rep = 1; rep <= reps; rep++)); do
	for n in 2 8; do
		measure "$rep" "$bin/oriel-run" -n $n "$bin/oriel_reduce"
		[ -z "$mpirun" ] ||
			measure "$rep" "$mpirun" "${mpi_flags[@]}" -np $n "$bin/versus_mpi_reduce"
		measure "$rep" "$bin/oriel-run" -n $n "$bin/oriel_reduce" windows
	done
done

# A row is ahead, or behind, if the spreads do not touch.
report() {
	[ $judge = 1 ] || echo "The machine was not idle: these figures say nothing."
	awk -v judge=$judge "$awk_figures"'
	END {
		split("allreduce reducescatter broadcast", op)
		split("2 8", ranks)
		split("1k 64k 4m", size)
		print "| case | Oriel | Open MPI | ratio | | Oriel, in windows |"
		print "|---|---|---|---|---|---|"
		for (o = 1; o <= 3; o++) for (r = 1; r <= 2; r++) for (s = 1; s <= 3; s++) {
			what = op[o] ranks[r] "_" size[s]
			title = op[o] ", " ranks[r] " ranks, " size[s]
			mine = stats("oriel_" what) ? med : 0
			least = lo; most = hi
			text = mine ? spread("oriel_" what) : "not measured"
			in_windows = "not measured"
			if (stats("windows_" what)) in_windows = spread("windows_" what)
			missing += !mine + !stats("windows_" what)
			if (!stats("mpi_" what) || !mine) {
				printf "| %s | %s | - | | | %s |\n", title, text, in_windows
				continue
			}
			verdict = most < lo ? "ahead" : least > hi ? "behind" : "within the spread"
			if (!judge) verdict = "not judged"
			mpi = spread("mpi_" what)
			printf "| %s | %s | %s | %.2f | %s | %s |\n",
				title, text, mpi, mine / med, verdict, in_windows
		}
		exit missing > 0
	}' "$log"
}

{ sed -n '1,/ busy over /s/^# /    /p' "$log"; echo; } >"$out/table.md"
report >>"$out/table.md"
status=$?
cat "$out/table.md"
echo "# raw figures: $log, table: $out/table.md"
grep -q '^# FAILED' "$log" && status=1
exit $status
