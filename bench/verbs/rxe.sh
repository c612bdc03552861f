#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures puts of the verbs engine and ib_write_bw in turns, on the kernel's rxe driver in one VM.
# Both use the same device, message size, queue depth and timeout, and both directions at once.
# Emulation says nothing about speed, so only the ratio is judged.
#
# Usage: bench/verbs/rxe.sh [BUILD_DIR] [--reps N] [--count N] [--bytes N]
#   BUILD_DIR   where bin/ is (default build/release)
#   --reps      turns (default 5); a figure is the median
#   --count     messages per turn (default 40)
#   --bytes     bytes per message (default 1048576)
# Exit status: 0 at least 0.8 of ib_write_bw, 1 less or not measured, 77 no VM can run here.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release reps=5 count=40 bytes=1048576 least=0.8
while [ $# -gt 0 ]; do
	case $1 in
	--reps) reps=${2:?} && shift ;;
	--count) count=${2:?} && shift ;;
	--bytes) bytes=${2:?} && shift ;;
	-*) echo "rxe.sh: unknown flag $1" >&2 && exit 2 ;;
	*) build=$1 ;;
	esac
	shift
done
vm=$root/tests/vm/vm.sh
"$vm" check || exit
files=()
for program in "$build/bin/oriel-run" "$build/bin/oriel-perf" "$(command -v ib_write_bw)"; do
	[ -x "$program" ] || { echo "rxe.sh: ${program:-ib_write_bw} is missing" >&2 && exit 1; }
	files+=(-i "$program")
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# median NAME: the median of the guest's lines "NAME value".
median() {
	sed -n "s/^$1 //p" "$dir/out" | sort -g |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

"$vm" one "${files[@]}" -t 300 "
export ORIEL_ENGINE=verbs ORIEL_IB_TIMEOUT=14 ORIEL_QUEUE_DEPTH=128 ORIEL_TIMEOUT=60
bare() { ib_write_bw -b -d rxe0 -F -s $bytes -n $count -t 128 -u 14 \$1; }
turn=0
while [ \$turn -lt $reps ]; do
	turn=\$((turn + 1))
	bare >/tmp/server 2>&1 &
	sleep 1
	# the unit is MiB per second, although some versions print MB
	bare 127.0.0.1 | awk '\$1 == $bytes { print \"bare\", \$4 * 1.048576 }'
	wait
	oriel-run -n 2 --topology 2x1 oriel-perf put -b $bytes -e $bytes -n $count >/tmp/perf ||
		exit 1
	# column 2 is the time in us in which each of the two ranks makes one put
	awk '\$1 == $bytes { print \"oriel\", 2 * $bytes / \$2 }' /tmp/perf
	grep '^# engine' /tmp/perf
done" >"$dir/out" 2>&1 || {
	echo "rxe.sh: the VM's run failed:"
	tail -20 "$dir/out"
	exit 1
}
bare=$(median bare) oriel=$(median oriel)
grep -E '^(bare|oriel) ' "$dir/out" | paste -sd' ' | sed 's/^/# turns, MB\/s: /'
grep '^# engine' "$dir/out" | tail -1
if [ -z "$bare" ] || [ -z "$oriel" ]; then
	echo "rxe.sh: not measured"
	tail -20 "$dir/out"
	exit 1
fi
awk -v o="$oriel" -v b="$bare" -v bytes="$bytes" -v least=$least 'BEGIN {
	printf "puts of %d bytes on rxe, both ways: %.1f MB/s, ", bytes, o
	printf "ib_write_bw %.1f MB/s, ratio %.2f (target %.1f): %s\n",
		b, o / b, least, (o >= least * b) ? "met" : "MISSED"
	exit (o < least * b)
}'
