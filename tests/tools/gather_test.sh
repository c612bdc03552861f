#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests oriel-perf allgather, and the reductions, as a user runs them: the algorithm that it
# chooses, the one that the user chooses, bad command lines.
# Usage: gather_test.sh ORIEL_RUN ORIEL_PERF
# Exit status: 0 all passed, 1 something failed.  The machine need not be idle: no time is judged.
set -u
run=${1:?usage: gather_test.sh ORIEL_RUN ORIEL_PERF}
perf=${2:?usage: gather_test.sh ORIEL_RUN ORIEL_PERF}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_TIMEOUT=60
failed=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$dir/out" | tail -20
	sed 's/^/  err: /' "$dir/err" | head -10
	failed=1
}

# want STATUS COMMAND...: the command ends with that status.
want() {
	local status=$1 got
	shift
	timeout 120 "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	[ $got -eq "$status" ] || fail "exit status $got instead of $status: $*"
}

# rows N TYPES: N rows of one of those types, #wrong 0 in each.
rows() {
	local n
	n=$(grep -cE "^ *[0-9]+ +($2)( +[0-9.]+){5} +0$" "$dir/out")
	[ "$n" -eq "$1" ] || fail "$n good rows instead of $1"
	grep -q 'total wrong 0: OK' "$dir/out" || fail "no line that all is right"
}

want 0 "$run" -n 8 --topology 2x4 "$perf" allgather -b 1K -e 256K -f 16 -n 4 --explain
rows 3 'direct|ring|doubling'
[ \
	"$(grep -c '^#   .* expected us: direct [0-9]*, ring [0-9]*, doubling [0-9]*' "$dir/out")" \
	-eq 3 ] ||
	fail "not every size is explained"
for algorithm in direct ring doubling; do
	want 0 "$run" -n 6 --topology 3x2 "$perf" allgather -b 1 -e 4K -f 64 -n 4 --algorithm \
		$algorithm
	rows 3 $algorithm
done
want 0 "$run" -n 3 "$perf" allgather -b 100 -e 100 -n 4 --json "$dir/json"
rows 1 direct
python3 - "$dir/json" <<'END' || fail "the JSON is not what it should be"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
sys.exit(not (len(rows) == 1 and rows[0]["wrong"] == 0 and rows[0]["time_us"] > 0))
END
want 0 "$perf" allgather -b 8 -e 8 -n 2
# the reductions check every element; sizes that are no multiple of a float are cut
for op in broadcast allreduce reducescatter; do
	want 0 "$run" -n 4 --topology 2x2 "$perf" $op -b 8 -e 30000 -f 7 -n 4
	want 0 "$perf" $op -b 8 -e 8 -n 2
done
want 2 "$perf" allgather --algorithm tree
want 2 "$perf" allgather --graph
grep -q 'needs --device cuda' "$dir/err" || fail "no word of what --graph needs"

[ $failed -eq 0 ] && echo "all passed"
exit $failed
