#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures the time and the memory that a start needs, at several numbers of ranks.  Fits a formula
# to the times, and draws it if gnuplot is installed.
#
# Usage: bench/scale/run.sh [BUILD_DIR] [options]
#   BUILD_DIR   where bin/ is (default build/release)
#   --out DIR   gets scale.txt, fit.txt, scale.gnuplot and scale.svg (default BUILD_DIR/scale)
#   --reps N    repetitions; the fastest counts, because other load only adds time (default 5)
#   --processes "16 64 256"     numbers of ranks that are processes
#   --threads "16 64 256 1024"  numbers of ranks that are threads
#   --peers "0 4 16 64"         numbers of queued peers that each rank connects; there are as many
#                               processes as the largest number of --processes
# Checked limits: 256 processes create a comm in less than 20 s and with less than 8 MiB per rank,
# also if 16 of the 255 queued peers are connected.
# Exit status: 0 all within the limits; 1 a limit exceeded, or something failed; 2 bad command line.
set -u -o pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release out='' reps=5 processes='16 64 256' threads='16 64 256 1024' \
	peers='0 4 16 64'

die() {
	echo "bench/scale/run.sh: $*" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--out | --reps | --processes | --threads | --peers)
		[ $# -gt 1 ] || die "no value after $1"
		declare "${1#--}=$2"
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) build=$1 ;;
	esac
	shift
done
[[ $reps =~ ^[1-9][0-9]*$ ]] || die "--reps takes a number from 1, not '$reps'"
out=${out:-$build/scale}
scale=$build/bin/bench_scale
[ -x "$scale" ] || die "$scale is missing: build first (make bench does)"
mkdir -p "$out" || die "cannot make $out"
: >"$out/scale.txt"
{
	echo \
		"# $(date -u +%FT%TZ), $(uname -srm), $(nproc) cores, load before: $(cut -d' ' -f1-3 /proc/loadavg)"
	echo "# commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
	echo "# mode ranks boot_ms allgather_ms classify_ms comm_ms pss_kib"
	echo "# peers ranks connected comm_ms connect_ms pss_kib"
} | tee -a "$out/scale.txt"

status=0
measure() { # MODE SIZES, with variables in front
	local mode=$1 sizes=$2 n i
	for n in $sizes; do
		for ((i = 0; i < reps; i++)); do
			timeout 120 "$scale" "$mode" "$n" 2>"$out/err" | sed "s/^$mode/$3/" |
				tee -a "$out/scale.txt"
			if [ "${PIPESTATUS[0]}" -ne 0 ]; then
				echo "bench/scale: $mode $n failed:"
				tail -3 "$out/err"
				status=1
				break
			fi
		done
	done
}
measure_peers() { # RANKS PEERS
	if ! timeout 120 "$scale" peers "$1" "$2" 2>"$out/err" | tee -a "$out/scale.txt"; then
		echo "bench/scale: $2 peers of $1 ranks failed:"
		tail -3 "$out/err"
		status=1
	fi
}
measure processes "$processes" processes
largest=${processes##* }
for p in $peers; do
	[ "$p" -ge "${largest:-0}" ] || measure_peers "$largest" "$p"
done
measure tcp "$threads" tcp
ORIEL_BOOT_TREE=on measure tcp "$threads" tree
measure threads "$threads" threads
rm -f "$out/err"

python3 "$root/bench/scale/fit.py" "$out/scale.txt" "$out/scale.gnuplot" | tee "$out/fit.txt"
[ "${PIPESTATUS[0]}" -eq 0 ] || status=1
if command -v gnuplot >/dev/null; then
	(cd "$out" && gnuplot scale.gnuplot) || status=1
	echo "# plot: $out/scale.svg"
else
	echo \
		"# no plot: gnuplot is not installed (tools/deps.sh bench does that); $out/scale.gnuplot draws it"
fi
exit $status
