#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests oriel-perf as a user runs it: every operation, its tables, JSON, bad command lines.
# perf_files_test.sh tests --compare, --plot and --format csv.
# Usage: perf_test.sh ORIEL_RUN ORIEL_PERF
# Exit status: 0 all passed, 1 something failed.  The machine need not be idle: no time is judged.
set -u
run=${1:?usage: perf_test.sh ORIEL_RUN ORIEL_PERF}
perf=${2:?usage: perf_test.sh ORIEL_RUN ORIEL_PERF}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_TIMEOUT=40
failed=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$dir/out" | head -40
	sed 's/^/  err: /' "$dir/err" | head -10
	failed=1
}

# want STATUS COMMAND...: the command ends with that status.
want() {
	local status=$1 got
	shift
	timeout 100 "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	if [ $got -ne "$status" ]; then
		fail "exit status $got instead of $status: $*"
		return 1
	fi
}

# rows N: the last output has N rows, each of six columns, or seven with a type, with #wrong 0.
rows() {
	local n
	n=$(grep -cE '^ *[0-9]+( +(ticket|counter))?( +[-0-9.]+){4} +0$' "$dir/out")
	[ "$n" -eq "$1" ] || fail "$n good rows instead of $1"
	[ "$(grep -vc '^#' "$dir/out")" -eq "$1" ] ||
		fail "lines that are neither rows nor comments"
}

has() {
	grep -qF -- "$1" "$dir/$2" || fail "no '$1' in $2"
}

# 3 sizes for put, get, put_signal, packet and sendrecv; one row for signal, barrier and atomics
for n in 1 2 3; do
	want 0 "$run" -n $n "$perf" all -b 1 -e 4K -f 64 -n 20 -w 2 && rows 18
	has "# total wrong 0: OK" out
	has ": $n rank" out
	for op in put get put_signal signal packet barrier sendrecv atomics; do
		has "# $op: " out
	done
done
has "#    size(B)   time(us)    p50(us)    p99(us)     GB/s  #wrong" out
# The head is short; -v adds machine, ranks and map.
want 0 "$run" -n 3 "$perf" put -b 8 -e 8 -n 10 && rows 1
[ "$(wc -l <"$dir/out")" -le 9 ] || fail "$(wc -l <"$dir/out") lines for one row"
# With more threads than cores the head says so; with one rank and one thread it does not.
want 0 "$perf" put -b 8 -e 8 -n 10 && rows 1
grep -q 'take turns' "$dir/out" && fail "one thread takes no turns"
if [ "$(getconf _NPROCESSORS_ONLN)" -lt 16 ]; then
	want 0 "$perf" put -b 8 -e 8 -n 10 --threads 16 && has "threads take turns" out
fi
want 0 "$run" -n 3 "$perf" put -b 8 -e 8 -n 10 -v && rows 1
for words in "# date 20" "# host " "# rank 2: pid" "from \\ to" "# time is the largest mean"; do
	has "$words" out
done
# A bandwidth of links only where it is another number: not with two ranks of an all-reduce.
want 0 "$run" -n 2 "$perf" allreduce -b 8 -e 64 -f 8 -n 10
grep -q "GB/s    busbw" "$dir/out" && fail "a column repeats another"
want 0 "$run" -n 3 "$perf" allreduce -b 8 -e 64 -f 8 -n 10
has "GB/s    busbw" out

# sizes that no line, block or thread divides, larger than the staging slots
want 0 "$run" -n 2 "$perf" all --blocks 2 --threads 4 -b 333 -e 400K -f 1000 -n 4 -w 1 && rows 12
want 0 "$perf" barrier -n 10 && rows 1
# completion: ticket and counter for each of 2 sizes; fan-out over 1 and 2 peers; no fan-out alone
want 0 "$run" -n 3 "$perf" completion -b 8 -e 64 -f 8 -n 10 && rows 8
want 0 "$perf" completion -b 8 -e 64 -f 8 -n 10 && rows 4
want 0 "$run" -n 2 "$perf" put -c 0 -b 8 -e 8 -n 10
has "N/A" out
has "# nothing was checked" out

want 0 "$run" -n 2 "$perf" all -b 8 -e 64 -f 8 -n 10 --json "$dir/x.json"
if python3 -m json.tool "$dir/x.json" >/dev/null; then
	python3 - "$dir/x.json" <<'PY' || fail "JSON content"
import json, sys
x = json.load(open(sys.argv[1]))
assert set(x) == {"schema", "schema_version", "environment", "topology", "engine", "rows"}, x.keys()
assert x["schema"] == "oriel-perf" and x["schema_version"] == 1
assert x["engine"] == {"name": "none"}, x["engine"]
assert x["environment"]["ranks"] == 2 and len(x["topology"]["ranks"]) == 2
assert len(x["rows"]) == 13 and all(r["wrong"] == 0 and r["time_us"] > 0 for r in x["rows"])
PY
else
	fail "JSON is not valid"
fi
[ -z "$(find "$dir" -name '*.tmp')" ] || fail "a temporary file stayed"

# nccl OP SIZE COUNT TYPE REDOP ROOT OUT IN: the first row of three ranks, with or without a run out
# of place and in place (yes, no).
nccl() {
	local yes='  +[0-9.]+  +[0-9.]+  +[0-9.]+ +0' no=' +N/A +N/A +N/A +N/A'
	local out=${!7} in=${!8}
	want 0 "$run" -n 3 "$perf" "$1" --format nccl -b 8 -e 64 -f 8 -n 10 -w 1 || return
	grep -qxE " +$2 +$3 +$4 +$5 +$6$out$in" "$dir/out" || fail "nccl row of $1"
}
nccl put 8 8 uint8 none -1 yes no
columns='     time   algbw   busbw #wrong'
grep -qxF -- "#       size         count      type   redop    root$columns$columns" "$dir/out" ||
	fail "nccl header"
has "# Out of bounds values : 0 OK" out
has "# Avg bus bandwidth    : " out
has "it cannot run in place" out
nccl allgather 24 8 uint8 none -1 yes yes
nccl alltoallv 24 8 uint8 none -1 yes no
nccl allreduce 8 2 float sum -1 yes yes
nccl reducescatter 24 2 float sum -1 yes yes
nccl broadcast 8 2 float none 0 no yes

# Collectives inside a kernel: 3 sizes each, two blocks of two threads, sizes that nothing divides.
for op in broadcast allgather alltoall allreduce reducescatter; do
	want 0 "$run" -n 3 "$perf" $op --in-kernel --blocks 2 --threads 2 -b 5 -e 30K -f 77 -n 10
	[ "$(grep -cE '^ *[0-9]+( +[-0-9.]+){4,5} +0$' "$dir/out")" -eq 3 ] || fail "rows of $op"
	has ", inside a kernel" out
	has "# total wrong 0: OK" out
	grep -q "^# $op: .*one call inside a kernel" "$dir/out" || fail "legend of $op"
done
for split in uniform random skew; do
	want 0 "$run" -n 3 "$perf" alltoallv --in-kernel --split $split --blocks 2 -b 5 -e 30K \
		-f 77 -n 10
	[ "$(grep -cE "^ *[0-9]+ +$split( +[-0-9.]+){5} +0\$" "$dir/out")" -eq 3 ] ||
		fail "rows of alltoallv, $split"
done
for op in barrier packet; do
	want 0 "$run" -n 2 "$perf" $op --in-kernel -b 8 -e 8 -n 10 && rows 1
	has ", inside a kernel" out
done
# On a line; the blocks of the first two divide the ranks.
for op in alltoall allgather allreduce; do
	want 0 "$run" -n 3 "$perf" $op --in-kernel --line --blocks 2 --threads 2 -b 5 -e 30K -f 77 \
		-n 10
	[ "$(grep -cE '^ *[0-9]+( +[-0-9.]+){4,5} +0$' "$dir/out")" -eq 3 ] || fail "lines of $op"
	has ", inside a kernel, on a line" out
	has "# total wrong 0: OK" out
done
want 0 "$run" -n 4 --topology 2x2 "$perf" packet --line -b 5 -e 30K -f 77 -n 10 && rows 3
has ", on a line" out
want 1 "$run" -n 2 "$perf" alltoall --in-kernel --line --blocks 3
has "the blocks of alltoall divide the ranks: --blocks can be at most 2" err
# queued peers, and more data than a round of the team moves
want 0 "$run" -n 4 --topology 2x2 "$perf" alltoall --in-kernel -b 8 -e 600K -f 75000 -n 4 &&
	has "# total wrong 0: OK" out
want 0 "$run" -n 3 "$perf" alltoall -b 8 -e 64 -f 8 -n 10 --json "$dir/host.json"
has "# alltoall: " out
nccl alltoall 24 8 uint8 none -1 yes no
want 0 "$run" -n 3 "$perf" alltoall --in-kernel -b 8 -e 64 -f 8 -n 10 --tolerance 1000000 \
	--compare "$dir/host.json"
has "note: in_kernel: 0 before, 1 now" out

# Host calls, with buffers in windows and outside: sizes of every way of the data.
for op in broadcast allreduce reducescatter; do
	want 0 "$run" -n 3 "$perf" $op --windows -b 5 -e 2M -f 25 -n 10 --json "$dir/w.json" &&
		has "device cpu, buffers in windows" out
	[ "$(grep -cE '^ *[0-9]+( +[-0-9.]+){4,5} +0$' "$dir/out")" -eq 5 ] || fail "rows of $op"
	has "# total wrong 0: OK" out
	want 0 "$run" -n 3 "$perf" $op -b 5 -e 2M -f 25 -n 10 --tolerance 1000000 \
		--compare "$dir/w.json" && has "device cpu, buffers outside windows" out
	has "note: in_windows: 1 before, 0 now" out
	want 0 "$run" -n 4 --topology 2x2 "$perf" $op --windows -b 600K -e 600K -n 4 --format nccl
	has "# Out of bounds values : 0 OK" out
done

# bad command lines: status 2 and one line, before any rank is met
for bad in "" fly "put get" "put -b 0" "put -b 8X" "put -b 64 -e 8" "put -f 1" "put -c 2" \
	"put --blocks 0" "put --threads 33" "put --format osu" "put --fly" "put -n" \
	"put -e 99999999999G" "put --tolerance x" "put --tolerance -1" "put --limit 5" \
	"put --limit 0 --plot x.svg" "barrier --plot x.svg" "put --format csv -v" \
	"allgather --in-kernel --algorithm ring" \
	"allreduce --in-kernel --explain" "allgather --policy slow" "all --line" "put --line" \
	"alltoall --line" "broadcast --in-kernel --line" "all --windows" "put --windows" \
	"allgather --windows" "allreduce --windows --in-kernel" "put --split skew" \
	"alltoall --split random" "alltoallv --algorithm ring" "broadcast --policy fastest" \
	"allreduce --explain" "all --explain" "alltoallv --graph --device cuda" \
	"put --graph --device cuda"; do
	# shellcheck disable=SC2086 # words on purpose
	want 2 "$perf" $bad
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "not one line for '$bad'"
done
for flag in -h --help; do
	want 0 "$perf" $flag
	has "put_signal" out
done
want 0 "$perf" --version
grep -qxE 'oriel-perf [0-9]+\.[0-9]+\.[0-9]+' "$dir/out" || fail "--version"

# Not enough memory, a file that cannot be written: one message, and the same status on all ranks.
want 1 "$run" -n 2 "$perf" put -b 8 -e 8192G
has "available" err
want 1 "$run" -n 2 "$perf" put -b 8 -e 8 --json "$dir/no/such/x.json"
has "cannot write" err

[ $failed -eq 0 ] && echo "perf_test: all passed"
exit $failed
