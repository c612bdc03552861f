#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Prints every speed target beside what this machine allows, both taken in this run.
#
# Usage: bench/run.sh [BUILD_DIR] [--log FILE] [--reps N] [--reasons FILE]
#   BUILD_DIR   where bin/ is (default build/release)
#   --log       raw figures, one a line (default BUILD_DIR/bench.log)
#   --reps      interleaved repetitions of everything (default 9)
#   --reasons   lines "name: text", printed beside a missed target (default bench/reasons.txt)
#
# Limit, Oriel and Open MPI take turns, so that a machine that is slow for a while is slow for all.
# A figure is the median over the repetitions, with the smallest and the largest beside it.
# Exit status: 0 all targets met, 1 one missed or not measured, 2 bad command line.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release log='' reps=9 reasons=$root/bench/reasons.txt
name=bench/run.sh
command_line="$name $*"
# shellcheck source=bench/common.sh
. "$root/bench/common.sh"

while [ $# -gt 0 ]; do
	case $1 in
	--log | --reps | --reasons)
		[ $# -gt 1 ] || die "no value after $1"
		case $1 in
		--log) log=$2 ;;
		--reps) reps=$2 ;;
		--reasons) reasons=$2 ;;
		esac
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) build=$1 ;;
	esac
	shift
done
[[ $reps =~ ^[1-9][0-9]*$ ]] || die "--reps takes a number from 1, not '$reps'"
log=${log:-$build/bench.log}
bin=$build/bin
for program in oriel-run oriel_bench queued_bench post_cost limit_cpu; do
	[ -x "$bin/$program" ] || die "$bin/$program is missing: build first (make bench does)"
done
: >"$log" || die "cannot write $log"

# ---- machine -----------------------------------------------------------------------------------

say_machine "$command_line"
if [ "$busy" -gt 5 ]; then
	say "# WARNING: the machine is not idle; figures are too high and ratios unsteady"
fi
[ "$(nproc)" -ge 2 ] || say "# WARNING: one core: two ranks take turns on it"

mpirun=$(command -v mpirun || true)
if [ ! -x "$bin/versus_mpi" ] || [ -z "$mpirun" ]; then
	say \
		"# Open MPI is not measured: no mpicc or mpirun when this was built (tools/deps.sh bench)"
	mpirun=''
else
	say "# versus $($mpirun --version 2>/dev/null | head -1)"
fi

# ---- measure -----------------------------------------------------------------------------------

mpi() {
	local rep=$1 ranks=$2
	shift 2
	[ -n "$mpirun" ] || return 0
	measure "$rep" "$mpirun" "${mpi_flags[@]}" -np "$ranks" \
		"$bin/versus_mpi" "$@"
}

for ((rep = 1; rep <= reps; rep++)); do
	[ -t 1 ] && printf '\rrepetition %d of %d ' "$rep" "$reps"
	measure $rep "$bin/limit_cpu"
	measure $rep "$bin/oriel-run" -n 2 "$bin/oriel_bench" pair
	mpi $rep 2 pair
	measure $rep "$bin/oriel-run" -n 8 "$bin/oriel_bench" barrier
	mpi $rep 8 barrier
	measure $rep "$bin/oriel-run" -n 8 "$bin/oriel_bench" create
	measure $rep "$bin/oriel-run" -n 2 --topology 2x1 "$bin/queued_bench" pair
	measure $rep "$bin/oriel-run" -n 2 --topology 2x1 "$bin/queued_bench" threads
	measure $rep "$bin/oriel-run" -n 2 --topology 2x1 "$bin/queued_bench" idle
done
[ -t 1 ] && printf '\r%40s\r' ''
# Sizes and counts, not times: once is enough.
measure 1 "$bin/oriel-run" -n 64 "$bin/oriel_bench" memory

# shellcheck disable=SC2317 # called by measure
instructions() { # WHAT COUNT: of post_cost with that many
	timeout 120 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bin/post_cost" "$1" \
		"$2" 2>&1 |
		sed -n 's/^==[0-9]*== Collected : *//p'
}

# post_cost WHAT: one is the difference of two runs: start and end of the program fall out.
# shellcheck disable=SC2317
post_cost() {
	local few many
	few=$(instructions "$1" 10000)
	many=$(instructions "$1" 20000)
	[[ $few =~ ^[0-9]+$ && $many =~ ^[0-9]+$ ]] || return 1
	awk -v what="cost_$1" -v few="$few" -v many="$many" \
		'BEGIN { print what, (many - few) / 10000, "instr" }'
}

if command -v valgrind >/dev/null; then
	measure 1 post_cost post
	measure 1 post_cost call
else
	say "# instructions of a post are not counted: no valgrind"
fi

# ---- report ------------------------------------------------------------------------------------

# name | what | ours | limit ('-': the target is absolute) | '<=' or '>=' | target | unit of the
# limit
targets='
put8_signal|put 8 B + signal, one way|put8_signal|line_store|<=|1.3
packet8|packet of 8 B, one way|packet8|line_packet|<=|1.15
put_1m|put 1 MiB|put1_1m|memcpy1_1m|>=|0.95
put_64m|put 64 MiB|put1_64m|memcpy1_64m|>=|0.95
put2_1m|put 1 MiB, both ranks|put2_1m|memcpy2_1m|>=|0.95
put2_64m|put 64 MiB, both ranks|put2_64m|memcpy2_64m|>=|0.95
barrier2|barrier of 2 ranks|barrier2|line_store|<=|2
barrier8|barrier of 8 ranks, 2 cores|barrier8|mpi_barrier8|<=|0.6
src1|put 1 MiB, source off by 1|put1_1m_src1|put1_1m|>=|0.5
dst1|put 1 MiB, target off by 1|put1_1m_dst1|put1_1m|>=|0.5
src4|put 1 MiB, source off by 4|put1_1m_src4|put1_1m|>=|0.5
dst4|put 1 MiB, target off by 4|put1_1m_dst4|put1_1m|>=|0.5
src1_64m|put 64 MiB, source off by 1|put1_64m_src1|put1_64m|>=|0.5
dst1_64m|put 64 MiB, target off by 1|put1_64m_dst1|put1_64m|>=|0.5
create|window creation, 8 ranks|create|-|<=|5
memory|memory a rank, 64 ranks, mean|memory_mean|-|<=|4
memory_max|memory a rank, 64 ranks, max|memory_max|-|<=|4
queued_put8|queued put 8 B + signal|queued_put8_signal|line_store|<=|12
queued_put8_ns|queued put 8 B + signal, ns|queued_put8_signal|-|<=|2000
queued_put_1m|queued put 1 MiB|queued_put_1m|memcpy1_1m|>=|0.45
queued_small1|queued puts of 8 B, 1 thread|queued_small1|-|>=|1.5
queued_small4|queued puts of 8 B, 4 threads|queued_small4|queued_small1|>=|0.6
queued_idle|idle engine, % of a core|queued_idle|-|<=|2
cost_post|instructions, WQE + ring|cost_post|-|<=|150
'
# Beside the targets, for the reader: the other limits, and Open MPI against the same ones.
others='
line_add|raw line, fetch_add|line_add|line_store
line_payload|raw line, payload + flag|line_payload|line_store
mpi_put8|Open MPI put 8 B + signal|mpi_put8_signal|line_store
mpi_put_1m|Open MPI put 1 MiB|mpi_put1_1m|memcpy1_1m
mpi_put_64m|Open MPI put 64 MiB|mpi_put1_64m|memcpy1_64m
mpi_barrier2|Open MPI barrier of 2|mpi_barrier2|line_store
process|whole process, 64 ranks, mean|memory_process|-
cost_call|instructions, oriel_queue_put|cost_call|-
'

report() {
	awk -v targets="$targets" -v others="$others" -v reasons="$reasons" "$awk_figures"'
	# prints the row up to the ratio; sets ratio
	function show(what, ours, limit,    left, right) {
		ratio = -1
		if (!stats(ours)) { printf "%-29s not measured", what; return 0 }
		left = spread(ours)
		mine = med
		if (limit == "-") { ratio = mine; right = "-" }
		else if (!stats(limit)) right = "not measured"
		else { ratio = mine / med; right = spread(limit) }
		printf "%-29s %-31s %-31s", what, left, right
		return ratio >= 0
	}
	BEGIN {
		while ((getline line < reasons) > 0) {
			if (line ~ /^#/ || !(i = index(line, ":"))) continue
			why[substr(line, 1, i - 1)] = substr(line, i + 1)
		}
	}
	END {
		printf "%-29s %-31s %-31s %8s %8s\n", "# what", "Oriel: median (min..max)",
			"limit: median (min..max)", "ratio", "target"
		m = split(targets, row, "\n")
		for (k = 1; k <= m; k++) {
			if (split(row[k], f, "|") != 6) continue
			if (!show(f[2], f[3], f[4])) {
				missed++
				printf "  MISS  reason: not measured\n"
				continue
			}
			ok = f[5] == "<=" ? ratio <= f[6] : ratio >= f[6]
			if (f[4] == "-")
				printf " %8s %8s  ", "", f[5] " " f[6]
			else
				printf " %8.3f %8s  ", ratio, f[5] " " f[6]
			if (ok) { print "PASS"; continue }
			missed++
			printf "MISS  reason:%s\n", f[1] in why ? why[f[1]] : " not known yet"
		}
		print "# for comparison"
		m = split(others, row, "\n")
		for (k = 1; k <= m; k++) {
			if (split(row[k], f, "|") != 4) continue
			if (show(f[2], f[3], f[4]) && f[4] != "-") printf " %8.3f", ratio
			printf "\n"
		}
		word = missed == 1 ? "target" : "targets"
		printf "# %s\n", missed ? missed " " word " missed" : "all targets met"
		exit missed > 0
	}' "$log"
}

report >"$log.report"
status=$?
sed -i 's/ *$//' "$log.report" # rows without a limit end in blanks
cat "$log.report"
cat "$log.report" >>"$log"
rm -f "$log.report"
echo "# raw figures: $log"
exit $status
