#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests ORIEL_TRACE and oriel-trace: thread ranks on mapped and queued peers, CUDA ranks on the fake
# driver, a lost signal, lost events, and folders that cannot be used.
# Usage: trace_test.sh ORIEL_TRACE TRACE_RANKS [TRACE_RANKS_FAKE]
# Exit status: 0 all passed, 1 something failed.
set -u
trace=${1:?usage: trace_test.sh ORIEL_TRACE TRACE_RANKS [TRACE_RANKS_FAKE]}
ranks=${2:?usage: trace_test.sh ORIEL_TRACE TRACE_RANKS [TRACE_RANKS_FAKE]}
fake=${3:-}
here=$(dirname "$0")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_TIMEOUT=40 ORIEL_TRACE_EVENTS=4096 ASAN_OPTIONS=detect_leaks=0
unset ORIEL_TRACE
failed=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$dir/out" "$dir/err" | head -20
	failed=1
}

# job VARIABLES... -- COMMAND...: runs it with these variables; it must succeed.
job() {
	local variables=()
	while [ "$1" != -- ]; do
		variables+=("$1")
		shift
	done
	shift
	env "${variables[@]}" timeout 60 "$@" >"$dir/out" 2>"$dir/err" || fail "status $?: $*"
}

# merged WHAT WISHES...: the trace in $dir/t is good and has these events.
merged() {
	local what=$1
	shift
	"$trace" merge "$dir/t" -o "$dir/merged.json" 2>"$dir/err" || fail "$what: merge"
	python3 "$here/trace_check.py" "$dir/merged.json" "$@" >"$dir/out" 2>"$dir/err" ||
		fail "$what: $(cat "$dir/err")"
	"$trace" report "$dir/t" >"$dir/out" 2>"$dir/err" || fail "$what: report"
}

# 3 ranks: 20 rounds of put_signal and wait; a signal to all and a wait for the sum; two signals of
# the host and their waits; barriers of the kernel and the host
calls=(put_signal=60 wait_signal_from=66 signal_all=3 wait_signal=3 barrier=9 arrows=69)

job -- "$ranks"
[ -z "$(ls "$dir" | grep -v '^\(out\|err\)$')" ] || fail "files without ORIEL_TRACE"

job ORIEL_TRACE="$dir/t" -- "$ranks"
merged mapped "${calls[@]}" signal=6 all-reduce=3 trace_ring=3 WQEs=0
grep -q 'rank   0 to rank   1:    5.0 KiB in 20 operations' "$dir/out" || fail "bytes of a pair"
grep -q 'without a signal' "$dir/out" && fail "a wait without a signal"
"$trace" report "$dir/t" --json --heatmap "$dir/heat.svg" --timeline "$dir/time.svg" \
	>"$dir/out" 2>"$dir/err" || fail "report --json"
python3 -c 'import json,sys,xml.dom.minidom as x
r = json.load(open(sys.argv[1]))["comms"][0]
assert r["ranks"] == 3 and r["arrows"] == 69 and r["bytes"][0][1] == 20 * 256, r
for picture in sys.argv[2:]: x.parse(picture)' "$dir/out" "$dir/heat.svg" "$dir/time.svg" \
	2>"$dir/err" || fail "JSON or pictures"

faults=seed=42,drop=0.02,dup=0.02,reorder=0.1
for variables in ORIEL_MAPPED=0 "ORIEL_MAPPED=0 ORIEL_SOFT_FAULTS=$faults" \
	"ORIEL_MAPPED=0 ORIEL_NICS=2 ORIEL_LANES=2" ORIEL_CHECKED=1; do
	rm -rf "$dir/t"
	# shellcheck disable=SC2086
	job ORIEL_TRACE="$dir/t" $variables -- "$ranks"
	wqes=WQEs=+
	[ "$variables" = ORIEL_CHECKED=1 ] && wqes=WQEs=0
	merged "$variables" "${calls[@]}" "$wqes"
done

# All-to-all-v: 1 call in a kernel and 5 of the host per rank.  No wait is noted twice.
for variables in ORIEL_MAPPED=1 ORIEL_MAPPED=0; do
	rm -rf "$dir/t"
	job ORIEL_TRACE="$dir/t" $variables -- "$ranks" exchange
	merged "all-to-all-v, $variables" all-to-all-v=18 trace_team=3 round=+
done

if [ -n "$fake" ]; then
	for variables in ORIEL_MAPPED=1 ORIEL_MAPPED=0; do
		rm -rf "$dir/t"
		job ORIEL_TRACE="$dir/t" ORIEL_DEVICE=cuda ORIEL_CUDA_LIBRARY=self $variables \
			-- "$fake"
		merged "fake CUDA, $variables" "${calls[@]}" all-reduce=3
		grep -h -o '"device_error_ns"' "$dir"/t/*.json | wc -l | grep -qx 3 ||
			fail "clocks of devices were not compared"
		grep -q '"device_error_ns":1000000,' "$dir"/t/*.json && fail "clocks were guessed"
		rm -rf "$dir/t"
		job ORIEL_TRACE="$dir/t" ORIEL_DEVICE=cuda ORIEL_CUDA_LIBRARY=self $variables \
			-- "$fake" exit
		merged "fake CUDA, exit, $variables" "${calls[@]}" all-reduce=3
	done
fi

# A signal that nobody sends: its wait is there, has no arrow, and the report names it.  It lasts
# three seconds: the other waits of rank 1 for rank 0 are far shorter, even if a process stands
# still.
rm -rf "$dir/t"
job ORIEL_TRACE="$dir/t" -- "$ranks" lost
merged lost wait_signal_from=67 arrows=69
line='rank 1 waited .* for signal 3 of window 0 from rank 0, >= 1: ORIEL_ETIMEDOUT; no signal came'
grep -q "without a signal: $line" "$dir/out" || fail "the lost signal is not named"
"$trace" report "$dir/t" --json >"$dir/out" 2>"$dir/err" || fail "report --json"
python3 -c 'import json,sys
waits = json.load(open(sys.argv[1]))["comms"][0]["waits"]
one = [w for w in waits if (w["rank"], w["for"]) == (1, 0)][0]
assert one["total_us"] < 1.9 * one["longest_us"], one' "$dir/out" 2>"$dir/err" ||
	fail "a wait counts twice"

# A barrier in two parts: rank 0 computes between them, and nobody waits.
rm -rf "$dir/t" && mkdir "$dir/t"
python3 - "$dir/t" <<'END'
import json
import sys

PARTS = ((0, 0.0, "arrive"), (1, 40e3, "arrive"), (0, 80e3, "wait"), (1, 81e3, "wait"))
for rank in (0, 1):
    events = [
        {"name": "barrier", "cat": "barrier", "ph": "X", "ts": at, "dur": 1.0, "pid": who, "tid": 0,
         "args": {"status": "ok", "window": 0, "in": "window 0", "barrier": 0, "part": part}}
        for who, at, part in PARTS if who == rank
    ]
    facts = {"version": 1, "comm": "1", "rank": rank, "nranks": 2, "lost": 0, "clock_error_ns": 0}
    with open(f"{sys.argv[1]}/oriel-1-rank{rank}.json", "w", encoding="utf-8") as file:
        json.dump({"oriel": facts, "traceEvents": events}, file)
END
"$trace" report "$dir/t" --json >"$dir/out" 2>"$dir/err" || fail "report of a barrier in two parts"
python3 -c 'import json,sys
assert not json.load(open(sys.argv[1]))["comms"][0]["waits"]' "$dir/out" 2>"$dir/err" ||
	fail "a barrier in two parts waits"

# The heaviest pair may have any number of bytes.
python3 -c 'import importlib.machinery as m,importlib.util as u,sys
loader = m.SourceFileLoader("trace", sys.argv[1])
trace = u.module_from_spec(u.spec_from_loader("trace", loader))
sys.dont_write_bytecode = True
loader.exec_module(trace)
for top in range(1, 5000): trace.heat_text([[0, top * 65536], [top, 1]])' "$trace" 2>"$dir/err" ||
	fail "shades: $(tail -n 1 "$dir/err")"

# A program that ends without destroying its comms.
rm -rf "$dir/t"
job ORIEL_TRACE="$dir/t" -- "$ranks" exit
merged exit "${calls[@]}"

# Too few places for the events: what is missing is counted, and the report says so.
rm -rf "$dir/t"
job ORIEL_TRACE="$dir/t" ORIEL_TRACE_EVENTS=10 -- "$ranks"
merged few
grep -q 'rank 0 lost [1-9][0-9]* events: raise ORIEL_TRACE_EVENTS' "$dir/out" || fail "lost events"

# A folder that cannot be made: one line per rank, and the job goes on.
job ORIEL_TRACE="$dir/missing/t" -- "$ranks"
line='cannot make the folder .*: No such file or directory; this rank writes no trace'
[ "$(grep -c "ORIEL_TRACE: $line" "$dir/err")" -eq 3 ] || fail "a line per rank about the folder"
[ "$(wc -l <"$dir/err")" -eq 3 ] || fail "more than a line per rank"

# A file that is cut off is left out with a line; a folder without traces is an error.
rm -rf "$dir/t"
job ORIEL_TRACE="$dir/t" -- "$ranks"
cut=$(ls "$dir"/t/*rank2.json)
head -c 3000 "$cut" >"$dir/short" && cp "$dir/short" "$cut"
"$trace" report "$dir/t" >"$dir/out" 2>"$dir/err" || fail "report without a rank"
grep -q 'rank2.json is not a complete trace' "$dir/err" || fail "the file that is cut off"
grep -q 'rank 2 has no file' "$dir/out" || fail "the rank without a file"
mkdir "$dir/empty"
for bad in "$dir/empty" "$dir/none"; do
	"$trace" report "$bad" >"$dir/out" 2>"$dir/err"
	{ [ $? -eq 1 ] && [ "$(wc -l <"$dir/err")" -eq 1 ]; } || fail "report of $bad"
done
"$trace" >"$dir/out" 2>"$dir/err"
[ $? -eq 2 ] || fail "no command"
"$trace" --version | grep -qx 'oriel-trace [0-9.]*' || fail "--version"
"$trace" --help >"$dir/out" || fail "--help"

[ $failed -eq 0 ] && echo "trace: passed"
exit $failed
