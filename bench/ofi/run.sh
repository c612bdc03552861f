#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures the ofi engine and the bare libfabric provider in turns: TCP on loopback, 2 ranks.
#
# Usage: bench/ofi/run.sh [BUILD_DIR] [REPS]      (default build/release, 5)
#
# Prints the median of each figure with the smallest and the largest, and the ratios with their
# targets.  Open MPI over TCP is printed beside them if it was built.  The last line is the engine's
# own: the time from doorbell to post.
# If the machine is not idle, nothing is judged: two pollers that lose their cores say nothing about
# the provider.
# Exit status: 0 both targets met; 1 a target missed, not measured or not judged; 2 not built.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${1:-$root/build/release}/bin
reps=${2:-5}
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
for program in oriel-run oriel-perf queued_bench bare_ofi; do
	if [ ! -x "$bin/$program" ]; then
		echo >&2 \
			"bench/ofi/run.sh: $bin/$program is missing: build first (bare_ofi needs libfabric-dev)"
		exit 2
	fi
done
export ORIEL_TIMEOUT=60 ORIEL_OFI_PROVIDER='tcp;ofi_rxm' ORIEL_OFI_ADDRESS=127.0.0.1

# The busy time of all cores in percent, over one second.
busy() {
	local a b
	a=$(sed -n '1s/^cpu *//p' /proc/stat)
	sleep 1
	b=$(sed -n '1s/^cpu *//p' /proc/stat)
	printf '%s\n%s\n' "$a" "$b" | awk '{ t = 0; for (i = 1; i <= 8; i++) t += $i; idle = $4 + $5
		if (NR == 1) { t0 = t; i0 = idle } }
		END { d = t - t0; printf "%.0f\n", (d > 0 ? 100 * (d - idle + i0) / d : 0) }'
}
before=$(busy)

# note FILE: appends its lines "name value unit" to the file all.
note() {
	grep -E '^[A-Za-z0-9_]+ [0-9.e+]+ [A-Za-z/%]+$' "$1" >>"$dir/all"
}

mpirun=$(command -v mpirun || true)
[ -x "$bin/versus_mpi" ] || mpirun=''
for ((rep = 0; rep < reps; rep++)); do
	timeout 100 "$bin/bare_ofi" >"$dir/bare" 2>"$dir/err" || sed 's/^/bare_ofi: /' "$dir/err"
	note "$dir/bare"
	ORIEL_ENGINE=ofi timeout 200 "$bin/oriel-run" -n 2 --topology 2x1 "$bin/queued_bench" pair \
		>"$dir/ours" 2>"$dir/err" || sed 's/^/queued_bench: /' "$dir/err"
	note "$dir/ours"
	# osc pt2pt: the other components use shared memory between ranks of one host, even if
	# messages go over TCP
	[ -z "$mpirun" ] ||
		OMPI_MCA_pml=ob1 OMPI_MCA_osc=pt2pt OMPI_MCA_btl=self,tcp \
		OMPI_MCA_btl_tcp_if_include=lo \
		timeout 100 "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -np 2 \
		"$bin/versus_mpi" pair >"$dir/mpi" 2>"$dir/err" ||
		sed 's/^/versus_mpi: /' "$dir/err"
	[ -z "$mpirun" ] || note "$dir/mpi"
done

after=$(busy)
judge=1
if [ "$before" -gt 5 ] || [ "$after" -gt 5 ]; then
	echo \
		"WARNING: the machine is not idle ($before% busy before, $after% after): nothing is judged"
	judge=0
fi

median() {
	awk -v name="$1" '$1 == name { print $2 }' "$dir/all" | sort -g | awk '{ v[NR] = $1 }
		END { if (NR) print v[int((NR + 1) / 2)]; else print "none" }'
}

# compare TEXT OURS BARE MORE_IS_BETTER TARGET
compare() {
	awk -v text="$1" -v ours="$2" -v bare="$3" -v more="$4" -v target="$5" -v judge=$judge \
		'BEGIN {
		if (ours == "none" || bare == "none") { print text ": not measured"; exit 1 }
		r = ours / bare
		met = more ? r >= target : r <= target
		printf "%-34s oriel %8.3f  bare %8.3f  ratio %.2f  target %s %.2f  %s\n",
			text, ours, bare, r, more ? "at least" : "at most", target,
			!judge ? "not judged" : met ? "met" : "MISSED"
		exit !(met && judge) }'
}

# spread NAME: prints "name: smallest to largest unit, in N turns".
spread() {
	awk -v name="$1" \
		'$1 == name { if (!n++ || $2 < low) low = $2; if ($2 > high) high = $2; unit = $3 }
		END { if (n) printf "  %s: %s to %s %s in %d turns\n", name, low, high, unit, n }' \
		"$dir/all"
}

put_ns=$(median queued_put8_signal)
put=none
[ "$put_ns" = none ] || put=$(awk -v ns="$put_ns" 'BEGIN { print ns / 1000 }')
status=0
compare 'put 8 B + signal, one way, us' "$put" "$(median bare_put_fetch_add)" 0 1.3 || status=1
compare '  the same, delivered' "$put" "$(median bare_put_fetch_add_delivered)" 0 1.3 || true
compare 'put of 1 MiB, GB/s' "$(median queued_put_1m)" "$(median bare_put_1MiB)" 1 0.85 || status=1
compare '  the same, delivered' "$(median queued_put_1m)" \
	"$(median bare_put_1MiB_delivered)" 1 0.85 || true
for name in queued_put8_signal bare_put_fetch_add queued_put_1m bare_put_1MiB; do
	spread "$name"
done
if [ -n "$mpirun" ]; then
	echo "Open MPI over TCP, the same two:"
	spread mpi_put8_signal
	spread mpi_put1_1m
else
	echo \
		"Open MPI is not measured: no mpicc or mpirun when this was built (tools/deps.sh bench)"
fi
ORIEL_ENGINE=ofi timeout 60 "$bin/oriel-run" -n 2 --topology 2x1 "$bin/oriel-perf" put_signal \
	--quick >"$dir/perf" 2>&1
line=$(grep '^# engine' "$dir/perf")
echo "$line"
n='\([0-9]*\)'
sed -n "s/.*doorbells timed $n, ns to their posts $n, slow posts $n.*/\1 \2 \3/p" <<<"$line" |
	awk '$1 { printf "from doorbell to post: %.0f ns on average of %d, %.2f%% above 4 us\n",
		$2 / $1, $1, 100 * $3 / $1 }'
exit $status
