#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures all-gather and all-to-all-v on the CPU, and beside them, in the same run, hand-written
# copies (the limit of the machine), Open MPI and OpenSHMEM.
#
# Usage: bench/coll/run.sh [BUILD_DIR] [--out DIR] [--reps N] [--seconds N] [--only peers|layout]
#   BUILD_DIR   where bin/ is (default build/release)
#   --out       gets coll.log (raw figures, one per line) and table.md (default BUILD_DIR/coll)
#   --reps      interleaved repetitions of everything (default 9)
#   --seconds   starts no repetition that would end later than this (default 480)
#   --only      peers: 2 and 8 mapped ranks; layout: 8 ranks as 2x4 over software NICs of 2 GB/s
#
# Every program checks the bytes that it received.  If a byte is wrong, it prints no figure.
# A figure is the median over the repetitions, with the smallest and the largest beside it.  Ratios
# are ratios of medians.
# Exit status: 0 all targets met; 1 a target missed, not measured or not judged; 2 bad command line
# or nothing built.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release out='' reps=9 seconds=480 only=''
name=bench/coll/run.sh
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
case $only in '' | peers | layout) ;; *) die "--only takes peers or layout, not '$only'" ;; esac
out=${out:-$build/coll}
bin=$build/bin
for program in oriel-run oriel-tune oriel_coll limit_coll; do
	[ -x "$bin/$program" ] || die "$bin/$program is missing: build first"
done
mkdir -p "$out" || die "cannot make $out"
log=$out/coll.log
: >"$log" || die "cannot write $log"
dir=$(mktemp -d) || die "no temporary folder"
trap 'rm -rf "$dir"' EXIT
# Files of earlier tuning runs on this machine must not decide what is measured here.
export ORIEL_TUNE_FILE=none ORIEL_TIMEOUT=100

say_machine "$command_line"
judge=1
if [ "$busy" -gt 5 ]; then
	judge=0
	say \
		"# WARNING: the machine is not idle: figures are too high, ratios unsteady, and nothing is judged"
fi

mpirun=$(command -v mpirun || true)
oshrun=$(command -v oshrun || true)
if [ ! -x "$bin/versus_mpi_coll" ] || [ -z "$mpirun" ]; then
	mpirun=''
	say \
		"# Open MPI is not measured: no mpicc or mpirun when this was built (tools/deps.sh bench)"
fi
if [ ! -x "$bin/versus_shmem_coll" ] || [ -z "$oshrun" ]; then
	oshrun=''
	say \
		"# OpenSHMEM is not measured: no oshcc or oshrun when this was built (tools/deps.sh bench)"
fi

# ---- measure -----------------------------------------------------------------------------------

measure_peers() {
	local rep=$1 n
	for n in 2 8; do
		measure "$rep" "$bin/limit_coll" $n
		measure "$rep" "$bin/oriel-run" -n $n "$bin/oriel_coll"
		[ -z "$mpirun" ] ||
			measure "$rep" "$mpirun" "${mpi_flags[@]}" -np $n "$bin/versus_mpi_coll"
		[ -z "$oshrun" ] ||
			measure "$rep" "$oshrun" "${mpi_flags[@]}" -x SHMEM_SYMMETRIC_SIZE=512M \
			-np $n "$bin/versus_shmem_coll"
	done
}

# 2 nodes of 4 ranks, each rank with a NIC of 2 GB/s.
layout=(env ORIEL_SOFT_FAULTS=rate=2G "$bin/oriel-run" -n 8 --topology 2x4 "$bin/oriel_coll")

# Each setting (blocks/warps/chunk) is used for all peers.  A library that knows only one kind of
# peer would do this.  The settings are the first guesses for mapped and queued peers on the CPU,
# and chunks and blocks of the tables (docs/decisions/0020).  A block always has one thread, because
# cores are few.
settings='1/1/1M 1/1/256K 1/1/64K 4/1/256K 16/1/64K'

one_name() { # SETTING: of its figures; 4/1/256K: one4x256k
	local one="one${1%%/*}x${1##*/}"
	echo "${one,,}"
}

measure_plan() { # REP SIZE PLAN: tuned, or one of the settings
	if [ "$3" = tuned ]; then
		measure "$1" env ORIEL_TUNE_FILE="$dir/table" "${layout[@]}" tuned "exchange_$2"
	else
		measure "$1" env ORIEL_A2A_PLAN="mapped=$3,queued=$3" "${layout[@]}" \
			"$(one_name "$3")" "exchange_$2"
	fi
}

measure_layout() {
	local rep=$1 size plans i
	read -ra plans <<<"tuned $settings"
	measure "$rep" "${layout[@]}" direct gather_1m direct
	measure "$rep" "${layout[@]}" ring gather_1m ring
	for size in 1k 64k 1m; do
		# each repetition begins with another one: none is always the first
		for ((i = 0; i < ${#plans[@]}; i++)); do
			measure_plan "$rep" $size "${plans[(i + rep) % ${#plans[@]}]}"
		done
	done
}

SECONDS=0
if [ "$only" != peers ]; then
	ORIEL_SOFT_FAULTS=rate=2G timeout 170 "$bin/oriel-tune" -n 8 --topology 2x4 --quick \
		--explain -o "$dir/table" >"$dir/tune" 2>&1 || say "# FAILED: oriel-tune"
	sed 's/^/# /' "$dir/tune" >>"$log"
	say \
		"# layout 2x4, rate=2G: tuned in $SECONDS seconds; one setting for all peers is one of $settings"
fi

begun=$SECONDS
for ((rep = 1; rep <= reps; rep++)); do
	[ -t 1 ] && printf '\rrepetition %d of %d ' "$rep" "$reps"
	[ "$only" = layout ] || measure_peers $rep
	[ "$only" = peers ] || measure_layout $rep
	if [ $((SECONDS + (SECONDS - begun) / rep)) -gt "$seconds" ] && [ $rep -lt "$reps" ]; then
		say "# $rep repetitions instead of $reps: $SECONDS seconds have passed"
		break
	fi
done
[ -t 1 ] && printf '\r%40s\r' ''
say "# measured in $SECONDS seconds"

# ---- report ------------------------------------------------------------------------------------

# what | ours | against | '<=' or '>=' | target: the ratio ours / against of two times
#
# Eight ranks share two cores.  For small blocks their aim is the limit that switches processes too.
row_limit() { # WHAT CASE RANKS SIZE
	local mine="oriel_$2$3_$4" limit="limit_$2$3_$4"
	if [ "$3" = 8 ] && [ "$4" = 64k ]; then
		echo "$1 $4, $3 ranks, limit with switches|$mine|switch_$2$3_$4|<=|1.15"
		echo "… limit of two processes|$mine|$limit|-|-"
	else
		echo "$1 $4, $3 ranks, limit|$mine|$limit|<=|1.15"
	fi
}

rows_peers() {
	local n size
	for n in 2 8; do
		for size in 64k 1m 16m; do
			row_limit all-gather gather $n $size
			echo "… against Open MPI|oriel_gather${n}_$size|mpi_gather${n}_$size|<=|1"
			echo \
				"… against OpenSHMEM|oriel_gather${n}_$size|shmem_gather${n}_$size|<=|1"
		done
		for size in 1k 64k 1m; do
			[ $size = 1k ] || row_limit all-to-all-v exchange $n $size
			echo \
				"all-to-all-v $size, $n ranks, Open MPI|oriel_exchange${n}_$size|mpi_exchange${n}_$size|<=|1"
			echo \
				"… against OpenSHMEM|oriel_exchange${n}_$size|shmem_exchange${n}_$size|<=|1"
		done
	done
	for size in 64k 1m; do
		echo \
			"all-to-all-v $size, 8 ranks, skewed / uniform|oriel_skew8_$size|oriel_exchange8_$size|<=|1.3"
	done
	echo "all-gather 1k, 8 ranks, Open MPI|oriel_gather8_1k|mpi_gather8_1k|-|-"
}

rows_layout() {
	local size setting one
	echo "2x4 all-gather 1m, direct / ring|direct_gather8_1m|ring_gather8_1m|>=|1.3"
	for size in 1k 64k 1m; do
		for setting in $settings; do
			one=$(one_name "$setting")_exchange8_$size
			echo \
				"2x4 all-to-all-v $size, $setting / tuned|$one|tuned_exchange8_$size|>=|0.95"
		done
	done
}

report() {
	{ [ "$only" = layout ] || rows_peers; [ "$only" = peers ] || rows_layout; } >"$dir/rows"
	awk -v rows="$dir/rows" -v only="$only" -v judge=$judge "$awk_figures"'
	function verdict(ok) { missed += !ok; return judge ? (ok ? "PASS" : "MISS") : "not judged" }
	function line(what, left, right, ratio, target, word) {
		printf "| %s | %s | %s | %s | %s | %s |\n", what, left, right, ratio, target, word
	}
	END {
		line("what", "time: median (min..max)", "beside it", "ratio", "target", "")
		line("---", "---", "---", "---", "---", "---")
		while ((getline row < rows) > 0) {
			split(row, f, "|")
			aimed = f[4] != "-"
			if (!stats(f[2])) {
				missed += aimed
				line(f[1], "not measured", "", "", "", aimed ? "MISS" : "")
				continue
			}
			left = spread(f[2]); mine = med
			if (!stats(f[3])) {
				missed += aimed
				line(f[1], left, "not measured", "", "", aimed ? "MISS" : "")
				continue
			}
			ratio = mine / med
			ok = f[4] == "<=" ? ratio <= f[5] : ratio >= f[5]
			line(f[1], left, spread(f[3]), sprintf("%.3f", ratio),
				aimed ? f[4] " " f[5] : "", aimed ? verdict(ok) : "")
			if (f[2] ~ /^one/ && ratio > best) best = ratio
		}
		if (only != "peers")
			line("2x4 tuned against one setting, at best", "", "",
				sprintf("%.3f", best), ">= 1.2", verdict(best >= 1.2))
		print ""
		if (!judge) print "Nothing is judged: the machine was not idle."
		else if (missed)
			printf "%d %s missed.\n", missed, missed == 1 ? "target" : "targets"
		else print "All targets met."
		exit missed > 0 || !judge
	}' "$log"
}

{ sed -n '1,/ busy over /s/^# /    /p' "$log"; echo; } >"$out/table.md"
report >"$dir/report"
status=$?
cat "$dir/report" >>"$out/table.md"
cat "$dir/report"
echo "# raw figures: $log, table: $out/table.md"
exit $status
