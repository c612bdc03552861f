#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests queued peers as a user meets them: oriel-perf on emulated nodes, with every personality of
# the software NIC and with its faults.  The data is always right, and every rank names a failed
# queue.
# Usage: queued_test.sh ORIEL_RUN ORIEL_PERF
# Exit status: 0 all passed, 1 something failed.  The machine need not be idle: only deadlines are
# judged.
set -u
run=${1:?usage: queued_test.sh ORIEL_RUN ORIEL_PERF}
perf=${2:?usage: queued_test.sh ORIEL_RUN ORIEL_PERF}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_TIMEOUT=40 ORIEL_LATE=40 # a rank that stands still for some seconds is no failure
failed=0
case='' told=''

# Only the first failure of a case is told with its output.
fail() {
	echo "FAILED: $case: $*"
	if [ "$case" != "$told" ]; then
		sed 's/^/  out: /' "$dir/out" | tail -20
		sed 's/^/  err: /' "$dir/err" | head -20
	fi
	told=$case
	failed=1
	return 1
}

# perform STATUS LAYOUT RANKS FLAGS... -- VARIABLE=VALUE...: oriel-perf FLAGS ends with that status.
perform() {
	local status=$1 layout=$2 ranks=$3 got
	local -a flags=()
	shift 3
	while [ "$1" != -- ]; do
		flags+=("$1")
		shift
	done
	shift
	case="$layout ${flags[*]} $*"
	# every rank that fails has the time to say why
	timeout 100 env "$@" "$run" -n "$ranks" --grace 60 --topology "$layout" "$perf" \
		"${flags[@]}" >"$dir/out" 2>"$dir/err"
	got=$?
	[ $got -eq "$status" ] || fail "exit status $got instead of $status"
}

# rows N: the output has N rows, each with #wrong 0, and else only comments; stderr is empty.
rows() {
	local n
	n=$(grep -cE '^ *[0-9]+( +(ticket|counter))?( +[-0-9.]+){4} +0$' "$dir/out")
	[ "$n" -eq "$1" ] || fail "$n good rows instead of $1"
	[ "$(grep -vc '^#' "$dir/out")" -eq "$1" ] ||
		fail "lines that are neither good rows nor comments"
	grep -qxF '# total wrong 0: OK' "$dir/out" || fail "no total"
	[ ! -s "$dir/err" ] || fail "something on stderr"
}

# count NAME: prints that number of the engine's line.
count() {
	sed -n "s/^# engine soft:.*[ ,]$1 \([0-9]*\).*/\1/p" "$dir/out"
}

# more NAME...: those numbers are above 0.
more() {
	local name
	for name; do
		[ "$(count "$name")" -gt 0 ] 2>/dev/null || fail "engine: '$name' is not above 0"
	done
}

unsupported() {
	grep -qE '^# +8 not supported by this NIC or GPU$' "$dir/out" ||
		fail "atomics: not said that the NIC has none"
}

# ---- layouts
# Every layout gives rows for 4 sizes of put, get, put_signal and sendrecv, and one each for signal,
# barrier and atomics.  Completion has 4 sizes, and fan-out 1 to n-1 peers, each by ticket and by
# counter.

perform 0 2x4 8 all --quick -- && rows 44 && more wqes 'packets sent'
[ -n "$(count retransmits)" ] || fail "retransmits are not told"
perform 0 8x1 8 all --quick -n 60 -- && rows 44
perform 0 0,0,1 3 all --quick --blocks 2 --threads 2 -- ORIEL_LANES=2 && rows 34
perform 0 2x1 2 all --quick --blocks 4 --json "$dir/x.json" -- ORIEL_LANES=2 && rows 32
python3 - "$dir/x.json" <<'PY' || fail "JSON content"
import json, sys
x = json.load(open(sys.argv[1]))
e = x["engine"]
assert e["name"] == "soft" and e["wqes"] > 0 and e["packets_sent"] > 0 and e["retransmits"] >= 0, e
assert sum(r["type"] == "counter" for r in x["rows"]) == 5
PY

# ---- behaviour of NICs, lanes, NICs per rank, depths, starts

# With QUEUED_FEW set (a build with sanitizers) only one setting in three runs: the others differ
# only in numbers.
nth=0
skipped() {
	nth=$((nth + 1))
	[ -n "${QUEUED_FEW:-}" ] && [ $((nth % 3)) -ne 0 ]
}
for set in ORIEL_SOFT_NIC=cx7 ORIEL_LANES=4 "ORIEL_NICS=2 ORIEL_LANES=2" ORIEL_QUEUE_DEPTH=2 \
	ORIEL_QUEUE_START=0xfff0 ORIEL_QUEUE_START=4294967288 \
	"ORIEL_QUEUE_START=0xfffff8 ORIEL_QUEUE_DEPTH=4"; do
	skipped && continue
	# shellcheck disable=SC2086 # words on purpose
	perform 0 2x4 8 all --quick -n 60 -- $set && rows 44
done
for set in ORIEL_SOFT_NIC=efa ORIEL_SOFT_NIC=thor2 "ORIEL_SOFT_NIC=efa ORIEL_LANES=4 ORIEL_NICS=2" \
	ORIEL_SOFT_FAULTS=seed=3,no_atomics=1,ooo=1; do
	skipped && continue
	# shellcheck disable=SC2086 # words on purpose
	perform 0 2x4 8 all --quick -n 60 -- $set && rows 43 && unsupported
done

# ---- faults that are repaired

perform 0 2x4 8 all --quick -- ORIEL_SOFT_FAULTS=seed=1,drop=0.02,dup=0.02,reorder=0.1 && rows 44 &&
	more retransmits naks
perform 0 2x1 2 all -b 8 -e 32K -f 64 -n 40 --blocks 2 -- ORIEL_LANES=2 ORIEL_QUEUE_DEPTH=4 \
	ORIEL_QUEUE_START=0x7ff0 \
	ORIEL_SOFT_FAULTS=seed=5,drop=0.02,dup=0.05,reorder=0.1,delay=0.05,mtu=256 && rows 26 &&
	more retransmits replays
perform 0 2x1 2 all --quick -- ORIEL_SOFT_FAULTS=seed=9,dbr_late=0.1,torn_cqe=0.1 && rows 32

# ---- faults that cannot be repaired
# Every rank ends and says which rank's queue failed, or which rank gave up.

perform 1 2x4 8 all --quick -- ORIEL_SOFT_FAULTS=seed=7,qp_error_at=500
grep -qE 'queue to rank [0-7], lane [0-9]+: WQE [0-9]+ failed: [a-z ]+ \(0x[0-9a-f]{2}\)' \
	"$dir/err" || fail "no line with peer, lane, WQE and syndrome"
for rank in 0 1 2 3 4 5 6 7; do
	sed -n "s/^\[$rank\] oriel-perf: //p" "$dir/err" | grep -qE 'rank [0-7]' ||
		fail "rank $rank names nobody"
done

# ---- bad values: one line that says which values are right

for bad in ORIEL_SOFT_NIC=cx9 ORIEL_SOFT_FAULTS=drop=2 ORIEL_SOFT_FAULTS=drip=0.1 ORIEL_LANES=17 \
	ORIEL_NICS=3 ORIEL_QUEUE_DEPTH=3 ORIEL_QUEUE_START=x ORIEL_ENGINE=magic; do
	perform 1 2x1 2 put -b 8 -e 8 -- "$bad"
	grep -qF "${bad%%=*}" "$dir/err" || fail "the variable is not named"
done

[ $failed -eq 0 ] && echo "queued_test: all passed"
exit $failed
