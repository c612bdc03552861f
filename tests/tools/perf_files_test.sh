#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests what oriel-perf makes of its rows: CSV, a comparison with a run before, a plot.
# Usage: perf_files_test.sh ORIEL_RUN ORIEL_PERF
# Exit status: 0 all passed, 1 something failed.  The machine need not be idle: times are changed in
# the JSON files, so that the verdict is certain.
set -u
run=${1:?usage: perf_files_test.sh ORIEL_RUN ORIEL_PERF}
perf=${2:?usage: perf_files_test.sh ORIEL_RUN ORIEL_PERF}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_TIMEOUT=40 ORIEL_LATE=40 # no line about a late rank
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
	[ $got -eq "$status" ] || fail "exit status $got instead of $status: $*"
}

has() {
	grep -qF -- "$1" "$dir/$2" || fail "no '$1' in $2"
}

# scaled FACTOR: prints the JSON of the run before with all medians times FACTOR.
scaled() {
	python3 - "$dir/old.json" "$1" <<'PY'
import json, sys
run = json.load(open(sys.argv[1]))
for row in run["rows"]:
    row["p50_us"] *= float(sys.argv[2])
json.dump(run, sys.stdout)
PY
}

# ---- CSV -----------------------------------------------------------------------------------------

want 0 "$run" -n 3 --topology 3x1 env ORIEL_SOFT_NIC=efa "$perf" all -b 8 -e 64 -f 8 -n 10 \
	--format csv --json "$dir/old.json"
python3 - "$dir/out" "$dir/old.json" <<'PY' || fail "CSV and JSON differ"
import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
want = json.load(open(sys.argv[2]))["rows"]
assert len(rows) == len(want) and {row["op"] for row in rows} >= {"put", "barrier", "fanout"}
for row, old in zip(rows, want):
    assert None not in row and None not in row.values(), row
    assert (row["op"], int(row["size"]), row["type"]) == (old["op"], old["size"], old["type"]), row
    assert row["peers"] == str(old.get("peers", "")), row
    if "unsupported" in old:
        assert row["op"] == "atomics" and not row["time_us"], row
        continue
    for key in ("time_us", "p50_us", "p99_us", "algbw_GBps", "wrong"):
        assert row[key] == "" if old[key] is None else float(row[key]) == old[key], (key, row)
PY
[ ! -s "$dir/err" ] || fail "something on stderr"

# ---- comparison ----------------------------------------------------------------------------------

flags=(put -b 8 -e 4K -f 512 -n 20)
want 0 "$run" -n 2 "$perf" "${flags[@]}" --json "$dir/old.json"
scaled 1000000 >"$dir/slow.json"
scaled 0.000001 >"$dir/fast.json"
want 0 "$run" -n 2 "$perf" "${flags[@]}" --compare "$dir/slow.json"
has "old_p50  ratio" out
has "2 of 2 rows, 0 slower by more than 10 %" out
grep -qE '^ +8( +[0-9.]+){4} +0 +[0-9.]+ +0\.00$' "$dir/out" || fail "no old time and ratio"
want 3 "$run" -n 2 "$perf" "${flags[@]}" --compare "$dir/fast.json" --tolerance 50
has "2 of 2 rows, 2 slower by more than 50 %" out
has "#   put of 4096 bytes: " out
want 3 "$run" -n 2 "$perf" "${flags[@]}" --compare "$dir/fast.json" --format csv
head -1 "$dir/out" | grep -q ',old_p50_us,ratio$' || fail "CSV has no ratio"
has "2 slower by more than 10 %" err
# other settings are said; a row that is not there has no ratio; without any common row it fails
want 3 "$run" -n 3 "$perf" put -b 8 -e 64 -f 8 -n 20 --compare "$dir/fast.json"
has "# note: ranks: 2 before, 3 now" out
has "1 of 2 rows, 1 slower" out
want 1 "$run" -n 2 "$perf" get -b 8 -e 8 -n 20 --compare "$dir/old.json"
has "no row of this run is in" err

# refused FILE WORDS: says why that file cannot be compared with, before anything is measured.
refused() {
	want 1 "$run" -n 2 "$perf" "${flags[@]}" --compare "$1"
	has "$2" err
	[ -s "$dir/out" ] && fail "measured in spite of a bad file"
}
refused "$dir/none.json" "No such file"
refused "$dir" "Invalid argument"
mkfifo "$dir/pipe" && refused "$dir/pipe" "Invalid argument"
sed 's/"schema_version": 1/"schema_version": 99/' "$dir/old.json" >"$dir/bad.json"
refused "$dir/bad.json" "schema version is 99"
sed '/"schema"/d' "$dir/old.json" >"$dir/bad.json"
refused "$dir/bad.json" "not a file of oriel-perf --json"
sed 's/"rows": \[.*/"rows": []}/; /"op"/d; /^  \]/d; /^}/d' "$dir/old.json" >"$dir/bad.json"
refused "$dir/bad.json" "it has no rows"
printf '{"a": [1, 2' >"$dir/bad.json"
refused "$dir/bad.json" "line 1: a comma or a bracket is missing"
# Broken files of all kinds: one rank suffices, and none of them is taken for a run.
bytes=$(wc -c <"$dir/old.json")
for n in $(seq 0 $((bytes / 25)) $((bytes - 3))); do
	head -c "$n" "$dir/old.json" >"$dir/bad.json"
	want 1 "$perf" put -b 8 -e 8 -n 2 --compare "$dir/bad.json"
	has "cannot compare with" err
done
for text in '"\u12' '"\q"' $'"\t"' '1.2.3' '+1' '-' 'nul' '{"a" 1}' '{1: 2}' '[1 2]' '[] []' \
	"$(printf '[%.0s' {1..100})"; do
	printf '%s' "$text" >"$dir/bad.json"
	want 1 "$perf" put -b 8 -e 8 -n 2 --compare "$dir/bad.json"
	has "line 1: " err
done

# ---- plot ----------------------------------------------------------------------------------------

# Without gnuplot: one line that names the package, before anything is measured.
mkdir "$dir/bin"
ln -s "$(command -v env)" "$dir/bin/env"
want 1 "$run" -n 2 env PATH="$dir/bin" "$perf" "${flags[@]}" --plot "$dir/x.svg"
has "install the package gnuplot-nox" err
[ -s "$dir/out" ] && fail "measured without gnuplot"
# A gnuplot that fails, and one that reads nothing: the old file stays.
echo old >"$dir/x.svg"
for body in 'cat >/dev/null; exit 5' 'exec <&-; exit 5'; do
	# shellcheck disable=SC2016 # for the script
	printf '#!/bin/bash\n[ "$1" = --version ] && exit 0\n%s\n' "$body" >"$dir/bin/gnuplot"
	chmod +x "$dir/bin/gnuplot"
	want 1 "$run" -n 2 env PATH="$dir/bin:$PATH" "$perf" "${flags[@]}" --plot "$dir/x.svg"
	has "gnuplot failed with exit status 5" err
	[ "$(cat "$dir/x.svg")" = old ] || fail "the old plot was lost"
done
want 1 "$run" -n 2 "$perf" "${flags[@]}" --plot "$dir/no/such/x.svg"
has "cannot write" err
if command -v gnuplot >/dev/null; then
	# "all" has rows without sizes and with one size
	want 0 "$run" -n 2 "$perf" all -b 8 -e 4K -f 8 -n 10 --plot "$dir/x.svg" --json \
		"$dir/x.json"
	[ ! -s "$dir/err" ] || fail "gnuplot complains"
	python3 - "$dir/x.svg" "$dir/x.json" <<'PY' || fail "the plot is not what it should be"
import json, sys
from xml.etree import ElementTree
texts = {"".join(e.itertext()).strip() for e in ElementTree.parse(sys.argv[1]).iter()
         if e.tag.endswith("}text")}
assert {"put", "get", "put_signal", "sendrecv", "limit: memcpy, all ranks",
        "limit: memcpy, every other rank", "time (us, median)"} <= texts, texts
assert not {"barrier", "signal"} & texts, texts
limits = {row["op"] for row in json.load(open(sys.argv[2]))["rows"] if "limit_GBps" in row}
assert limits == {"put", "get", "put_signal"}, limits
PY
	# a limit that the user knows; an odd name
	want 0 "$run" -n 2 --topology 2x1 "$perf" put -b 8 -e 4K -f 8 -n 10 --limit 12.5 --plot \
		"$dir/it's \"one\".svg"
	grep -qF "limit: 12.5 GB/s" "$dir/it's \"one\".svg" || fail "--limit is not drawn"
else
	echo "perf_files_test.sh: plots skipped: no gnuplot (tools/deps.sh test)"
fi
[ -z "$(find "$dir" -name '*.tmp')" ] || fail "a temporary file stayed"

[ $failed -eq 0 ] && echo "perf_files_test: all passed"
exit $failed
