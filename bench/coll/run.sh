#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All-gather and all-to-all-v on the CPU beside what the machine allows, Open MPI and OpenSHMEM, all taken in this run.
#
# Usage: bench/coll/run.sh [BUILD_DIR] [--reps N] [--log FILE] [--only peers|layout]
#   BUILD_DIR   where bin/ is (default build/release)
#   --reps      interleaved repetitions of everything (default 5)
#   --log       raw figures, one a line (default BUILD_DIR/coll.log)
#   --only      peers: 2 and 8 mapped ranks; layout: 8 ranks as 2x4 over software NICs of 2 GB/s
#
# Every program checks the bytes it got; one that finds a wrong one prints no figure.  A figure is the median over the
# repetitions, with the smallest and the largest beside it; ratios are of medians.
# Exit status: 0 all targets met, 1 one missed, not measured or not judged, 2 bad command line or nothing built.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release log='' reps=5 only=''
command_line="bench/coll/run.sh $*"

die() {
	echo "bench/coll/run.sh: $*" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--log | --reps | --only)
		[ $# -gt 1 ] || die "no value after $1"
		case $1 in
		--log) log=$2 ;;
		--reps) reps=$2 ;;
		--only) only=$2 ;;
		esac
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) build=$1 ;;
	esac
	shift
done
[[ $reps =~ ^[1-9][0-9]*$ ]] || die "--reps takes a number from 1, not '$reps'"
case $only in '' | peers | layout) ;; *) die "--only takes peers or layout, not '$only'" ;; esac
log=${log:-$build/coll.log}
bin=$build/bin
for program in oriel-run oriel-tune oriel_coll limit_coll; do
	[ -x "$bin/$program" ] || die "$bin/$program is missing: build first"
done
: >"$log" || die "cannot write $log"
dir=$(mktemp -d) || die "no temporary folder"
trap 'rm -rf "$dir"' EXIT
# Files of earlier tuning runs on this machine must not decide what is measured here.
export ORIEL_TUNE_FILE=none ORIEL_TIMEOUT=100

say() {
	echo "$@" | tee -a "$log"
}

busy_percent() { # of all cores, over one second
	local a b
	a=$(sed -n '1s/^cpu *//p' /proc/stat)
	sleep 1
	b=$(sed -n '1s/^cpu *//p' /proc/stat)
	printf '%s\n%s\n' "$a" "$b" | awk '
		{ t = 0; for (i = 1; i <= 8; i++) t += $i; idle = $4 + $5
		  if (NR == 1) { t0 = t; i0 = idle } }
		END { d = t - t0; printf "%.0f\n", (d > 0 ? 100 * (d - idle + i0) / d : 0) }'
}

say "# $command_line"
say "# date $(date -u +%Y-%m-%dT%H:%M:%SZ), commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
say "# host $(uname -n), kernel $(uname -srm), $(nproc) cores"
busy=$(busy_percent)
say "# load $(cut -d' ' -f1-3 /proc/loadavg), $busy% busy over one second before the start"
judge=1
if [ "$busy" -gt 5 ]; then
	judge=0
	say "# WARNING: the machine is not idle: figures are too high, ratios unsteady, and nothing is judged"
fi

mpirun=$(command -v mpirun || true)
oshrun=$(command -v oshrun || true)
if [ ! -x "$bin/versus_mpi_coll" ] || [ -z "$mpirun" ]; then
	mpirun=''
	say "# Open MPI is not measured: no mpicc or mpirun when this was built (tools/deps.sh bench)"
fi
if [ ! -x "$bin/versus_shmem_coll" ] || [ -z "$oshrun" ]; then
	oshrun=''
	say "# OpenSHMEM is not measured: no oshcc or oshrun when this was built (tools/deps.sh bench)"
fi

# ---- measure -----------------------------------------------------------------------------------

# measure REP COMMAND...: its lines go to the log with the repetition in front.
measure() {
	local rep=$1 out status
	shift
	out=$(timeout 180 "$@" 2>>"$log")
	status=$?
	[ $status -eq 0 ] || say "# FAILED with status $status in repetition $rep: $*"
	[ -z "$out" ] || awk -v rep="$rep" 'NF == 3 { print rep, $0 }' <<<"$out" >>"$log"
}

mpi_flags=(--allow-run-as-root --oversubscribe --bind-to none)

measure_peers() {
	local rep=$1 n
	for n in 2 8; do
		measure "$rep" "$bin/limit_coll" $n
		measure "$rep" "$bin/oriel-run" -n $n "$bin/oriel_coll"
		[ -z "$mpirun" ] || measure "$rep" "$mpirun" "${mpi_flags[@]}" -np $n "$bin/versus_mpi_coll"
		[ -z "$oshrun" ] || measure "$rep" "$oshrun" "${mpi_flags[@]}" -x SHMEM_SYMMETRIC_SIZE=512M \
			-np $n "$bin/versus_shmem_coll"
	done
}

# 2 nodes of 4 ranks, each rank with a NIC of 2 GB/s.
layout=(env ORIEL_SOFT_FAULTS=rate=2G "$bin/oriel-run" -n 8 --topology 2x4 "$bin/oriel_coll")

# One setting for all peers, third: blocks and chunk of the first guess's table for mapped peers (docs/decisions/0020), as a
# library would have it that knows one kind of peer; a thread a block, for the cores there are.
row() { # SIZE
	case $1 in
	1m) echo 16/1/64K ;;
	*) echo 1/1/64K ;;
	esac
}

measure_layout() {
	local rep=$1 size
	measure "$rep" "${layout[@]}" direct gather_1m direct
	measure "$rep" "${layout[@]}" ring gather_1m ring
	for size in 1k 64k 1m; do
		measure "$rep" env ORIEL_TUNE_FILE="$dir/table" "${layout[@]}" tuned exchange_$size
		measure "$rep" env ORIEL_A2A_PLAN="mapped=$mapped,queued=$mapped" "${layout[@]}" \
			onemapped exchange_$size
		measure "$rep" env ORIEL_A2A_PLAN="mapped=$queued,queued=$queued" "${layout[@]}" \
			onequeued exchange_$size
		measure "$rep" env ORIEL_A2A_PLAN="mapped=$(row $size),queued=$(row $size)" "${layout[@]}" \
			onetable exchange_$size
	done
}

# One setting for all peers, first and second: what suits mapped peers, and what suits queued ones, at 64 KiB.
if [ "$only" != peers ]; then
	ORIEL_SOFT_FAULTS=rate=2G timeout 170 "$bin/oriel-tune" -n 8 --topology 2x4 --quick --explain \
		-o "$dir/table" >"$dir/tune" 2>&1 || say "# FAILED: oriel-tune"
	sed 's/^/# /' "$dir/tune" >>"$log"
	setting() { # KIND
		awk -v kind="$1" '$2 ~ /^[0-9]+$/ && NF == 2 { on = $1 == kind }
			on && $1 == "bytes" && $2 == 65536 { print $4 "/" $6 "/" $8; exit }' "$dir/table"
	}
	mapped=$(setting mapped)
	queued=$(setting queued)
	mapped=${mapped:-1/1/1M} queued=${queued:-1/1/256K}
	say "# layout 2x4, rate=2G: one setting for all peers is $mapped, $queued, or the table's mapped row (blocks/warps/chunk)"
fi

for ((rep = 1; rep <= reps; rep++)); do
	[ -t 1 ] && printf '\rrepetition %d of %d ' "$rep" "$reps"
	[ "$only" = layout ] || measure_peers $rep
	[ "$only" = peers ] || measure_layout $rep
done
[ -t 1 ] && printf '\r%40s\r' ''

# ---- report ------------------------------------------------------------------------------------

# what | ours | against | '<=' or '>=' | target: the ratio ours / against of two times
rows() {
	local n size
	if [ "$only" != layout ]; then
		for n in 2 8; do
			for size in 64k 1m 16m; do
				echo "all-gather $size, $n ranks, limit|oriel_gather${n}_$size|limit_gather${n}_$size|<=|1.15"
				echo "  against Open MPI|oriel_gather${n}_$size|mpi_gather${n}_$size|<=|1"
				echo "  against OpenSHMEM|oriel_gather${n}_$size|shmem_gather${n}_$size|<=|1"
			done
			for size in 1k 64k 1m; do
				[ $size = 1k ] ||
					echo "all-to-all-v $size, $n ranks, limit|oriel_exchange${n}_$size|limit_exchange${n}_$size|<=|1.15"
				[ $size != 1k ] || echo "all-to-all-v $size, $n ranks|oriel_exchange${n}_$size|-|-|-"
				echo "  against Open MPI|oriel_exchange${n}_$size|mpi_exchange${n}_$size|<=|1"
				echo "  against OpenSHMEM|oriel_exchange${n}_$size|shmem_exchange${n}_$size|<=|1"
			done
		done
	fi
	if [ "$only" != peers ]; then
		echo "2x4 all-gather 1m: direct / ring|direct_gather8_1m|ring_gather8_1m|>=|1.3"
		for size in 1k 64k 1m; do
			echo "2x4 all-to-all-v $size: mapped's / tuned|onemapped_exchange8_$size|tuned_exchange8_$size|>=|0.95"
			echo "2x4 all-to-all-v $size: queued's / tuned|onequeued_exchange8_$size|tuned_exchange8_$size|>=|0.95"
			echo "2x4 all-to-all-v $size: table's / tuned|onetable_exchange8_$size|tuned_exchange8_$size|>=|0.95"
		done
	fi
}

report() {
	awk -v rows="$(rows)" -v only="$only" -v judge=$judge '
	function sort(v, n,    i, j, x) {
		for (i = 2; i <= n; i++) {
			x = v[i]
			for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]
			v[j + 1] = x
		}
	}
	function stats(name,    v, i, m) { # sets med, lo, hi of one figure; 0 if it was not taken
		m = n[name]
		if (!m) return 0
		for (i = 1; i <= m; i++) v[i] = fig[name, i]
		sort(v, m)
		med = m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
		lo = v[1]; hi = v[m]
		return 1
	}
	function verdict(ok) { missed += !ok; return judge ? (ok ? "PASS" : "MISS") : "not judged" }
	function num(x) { return x >= 1000 ? sprintf("%.0f", x) : sprintf("%.4g", x) }
	function text() { return sprintf("%s us (%s..%s)", num(med), num(lo), num(hi)) }
	/^[0-9]+ [a-z0-9_]+ [-+.0-9e]+ us$/ { fig[$2, ++n[$2]] = $3 }
	END {
		printf "%-40s %-30s %-30s %7s %8s\n", "# what", "time: median (min..max)", "beside it", "ratio", "target"
		m = split(rows, row, "\n")
		for (k = 1; k <= m; k++) {
			split(row[k], f, "|")
			if (!stats(f[2])) { printf "%-40s not measured  MISS\n", f[1]; missed++; continue }
			left = text(); mine = med
			if (f[3] == "-") { printf "%-40s %s\n", f[1], left; continue }
			if (!stats(f[3])) { printf "%-40s %-30s not measured  MISS\n", f[1], left; missed++; continue }
			ratio = mine / med
			ok = f[4] == "<=" ? ratio <= f[5] : ratio >= f[5]
			printf "%-40s %-30s %-30s %7.3f %8s  %s\n", f[1], left, text(), ratio, f[4] " " f[5], verdict(ok)
			if (f[2] ~ /^one/ && ratio > best) best = ratio
		}
		if (only != "peers") {
			printf "%-40s %.3f, target >= 1.2 somewhere  %s\n", "2x4 tuned against one setting, at best", best, verdict(best >= 1.2)
		}
		if (!judge) print "# nothing is judged: the machine was not idle"
		else printf "# %s\n", missed ? missed (missed == 1 ? " target" : " targets") " missed" : "all targets met"
		exit missed > 0 || !judge
	}' "$log"
}

report >"$dir/report"
status=$?
tee -a "$log" <"$dir/report"
echo "# raw figures: $log"
exit $status
