#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/tools/info_test.sh INFO [RUN] - tests oriel-info; if RUN (oriel-run) is given, also with
# several ranks.  A check that fails prints what it wanted.  Exit status: 1 if a check failed.
set -u
info=$1
run=${2:-}
failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
for name in $(compgen -e | grep '^ORIEL_') RANK WORLD_SIZE MASTER_ADDR MASTER_PORT PMIX_NAMESPACE \
	PMIX_RANK; do
	unset "$name"
done

fail() {
	echo "info_test.sh: $*" >&2
	failed=1
}

# want STATUS COMMAND...: runs it; output to $dir/out and $dir/err.
want() {
	local status=$1 got
	shift
	timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ "$got" = "$status" ] ||
		fail "exit status $got, wanted $status: $*: $(tail -n 3 "$dir/err")"
}

# has FILE TEXT...: each text occurs in the file.
has() {
	local file=$1 text
	shift
	for text in "$@"; do
		grep -qF -- "$text" "$dir/$file" || fail "no \"$text\" in $file of the last command"
	done
}

# json EXPRESSION: must be true for the object d, which is the last output.
json() {
	python3 - "$dir/out" "$1" <<-'EOF' || fail "not true of the JSON: $1"
		import json, sys
		d = json.load(open(sys.argv[1], encoding="utf-8"))
		v = {row["name"]: row for row in d.get("variables", [])}
		sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)
	EOF
}

# narrow: the last output fits into 100 columns.
narrow() {
	awk 'length($0) > 100 { wide = 1; print } END { exit wide }' "$dir/out" ||
		fail "lines of more than 100 columns"
}

# Plain: all sections, nothing set, no ranks needed.
want 0 "$info"
has out "oriel 0." build machine devices engines "variables (0 of " topology "cpu " oriel-run
grep -q '^problems' "$dir/out" && fail "problems without a reason"
grep -q 'ORIEL_TIMEOUT' "$dir/out" && fail "a variable that is not set is shown"
narrow

# --all: every variable once, in the groups of docs/variables.md.
want 0 "$info" --all
narrow
has out "  Device, waits and log" "  Engines verbs and mlx5"
names=$(grep -oE '^ +[ *] ORIEL_[A-Z0-9_]+' "$dir/out" | tr -s '\n' ' ')
want 0 "$info" --json
json "sorted(v) == sorted('$names'.split())"

want 0 "$info" --json
python3 -m json.tool "$dir/out" >/dev/null || fail "python3 -m json.tool refuses the output"
json 'set(d) == {"version", "build", "machine", "devices", "engines", "variables",
	"problem_count", "problems", "topology"}'
json 'd["topology"] is None and d["problems"] == [] and d["problem_count"] == 0'
json 'd["devices"][0]["name"] == "cpu" and d["machine"]["cores"] >= 1 and
	d["machine"]["memory_bytes"] > 0 and
	{"compiler", "arch", "sanitizer", "cuda"} == set(d["build"])'
json 'v["ORIEL_TIMEOUT"]["default"] == "600" and not v["ORIEL_TIMEOUT"]["set"] and
	v["ORIEL_TIMEOUT"]["value"] == "600" and all(row["help"] for row in v.values())'

# The runs above have checked both formats for leaks.  With AddressSanitizer on aarch64 this takes
# seconds per process, and many follow.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# A set variable is marked; text of any bytes stays valid JSON.
want 0 env ORIEL_TIMEOUT=7 "$info"
grep -Eq '^ +\* ORIEL_TIMEOUT +7 +seconds .* \(default: 600\)$' "$dir/out" ||
	fail "a set variable is not shown"
has out "variables (1 of "
long=$(printf 'x%.0s' {1..230})
for flag in "" --all; do
	want 0 env ORIEL_TUNE_FILE="$long" ORIEL_BOOT_ADDR=$'a\e[31m b' "$info" $flag
	narrow
	[ "$(grep -oE 'x{5,}' "$dir/out" | tr -d '\n')" = "$long" ] || fail "a long value is cut"
	has out "a?[31m b"
done
want 0 env ORIEL_BOOT_ADDR=$'q"\\\t\e\xff\xc3\xa9\xed\xa0\x80' "$info" --json
json 'v["ORIEL_BOOT_ADDR"]["set"] and
	v["ORIEL_BOOT_ADDR"]["value"].startswith("q\"\\\t\x1b\ufffd\u00e9\ufffd")'
want 0 env ORIEL_SECRET=hush-hush "$info" --json
grep -q hush-hush "$dir/out" && fail "the secret is shown"

# Misspelt, strict, bad values: shown, and exit status 1.
want 1 env ORIEL_TIMOUT=5 "$info"
has out problems "ORIEL_TIMOUT is not a variable"
has err ORIEL_TIMEOUT
want 1 env ORIEL_STRICT=1 ORIEL_TIMOUT=5 "$info" --json
json 'd["problem_count"] == 1 and "ORIEL_TIMOUT" in d["problems"][0]'
want 1 env ORIEL_TIMEOUT=soon ORIEL_TIMOUT=5 "$info" --json
json 'd["problem_count"] == 2 and v["ORIEL_TIMEOUT"]["value"] == "soon"'
has err ORIEL_TIMEOUT soon
want 1 env ORIEL_FABRIC_UUID=x "$info"
has out "ORIEL_FABRIC_UUID is \"x\""
want 1 env ORIEL_DEVICE=toaster "$info"
has out toaster
want 1 env $(seq -f 'ORIEL_X%g=1' 40) "$info" --json
json 'd["problem_count"] == 40 and len(d["problems"]) == 32'

# Command line.
for flag in -h --help; do
	want 0 "$info" $flag
	has out Usage: --json
done
want 0 "$info" --version
grep -qxE 'oriel-info [0-9]+\.[0-9]+\.[0-9]+' "$dir/out" || fail "--version"
want 2 "$info" --jsno
has err "Usage: oriel-info" "--jsno"
[ -s "$dir/out" ] && fail "a wrong call prints a report"

# Output that cannot be written.
"$info" >/dev/full 2>"$dir/err" && fail "a full output is exit status 0"
has err "cannot write"
"$info" >&- 2>"$dir/err" && fail "a closed output is exit status 0"
has err "stdout is closed"

# One rank, asked for.
want 0 "$info" --json --ranks-from-env
json 'd["topology"]["nranks"] == 1 and d["topology"]["pairs"] == []'

# Several ranks: rank 0 prints, once, also what this build could not run.
if [ -n "$run" ]; then
	want 0 "$run" -n 4 --topology 2x2 "$info"
	has out "topology (4 ranks, 2 nodes)" "0   .  M  Q  Q" "node 1   ranks 2-3" \
		"2 pairs mapped, 4 queued" "ORIEL_TOPOLOGY puts them on nodes 0 and 1"
	narrow
	want 0 "$run" -n 24 --topology "$(printf '0,1,%.0s' {1..11})0,1" "$info"
	has out "node 1   ranks 1, 3, 5, 7, "
	narrow
	[ "$(grep -c '^variables' "$dir/out")" = 1 ] || fail "not exactly one rank prints"
	want 0 "$run" -n 3 "$info" --json
	json 'len(d["topology"]["pairs"]) == 3 and d["topology"]["nnodes"] == 1 and
		all(p["kind"] == "mapped" and "shared memory" in p["reason"]
			for p in d["topology"]["pairs"])'
	# one rank's variable is another rank's problem, and nobody waits for it
	cat >"$dir/rank" <<-'EOF'
		[ "$RANK" = 0 ] || export "$1"
		shift
		exec "$@"
	EOF
	want 1 "$run" -n 2 bash "$dir/rank" ORIEL_FABRIC_UUID=x "$info"
	has out "rank 1: ORIEL_FABRIC_UUID"
	want 1 "$run" -n 2 bash "$dir/rank" ORIEL_TOPOLOGY=2x1 "$info"
	has out "ranks 0 and 1 disagree on ORIEL_TOPOLOGY"
else
	echo "info_test.sh: several ranks skipped: no oriel-run was given"
fi

# verify STATUS COMMAND...: as want, for a --verify in which no rank should be late.  Its waits are
# short by design.  If the machine stops a process for two seconds, --verify rightly reports a late
# pair; then the run is repeated.
verify() {
	local status=$1 got try
	shift
	for try in 1 2 3 4 5 6; do
		timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
		got=$?
		grep -qE 'ORIEL_ETIMEDOUT|did not end within' "$dir/out" "$dir/err" || break
		echo "info_test.sh: somebody was late, try $try: $*"
	done
	[ "$got" = "$status" ] ||
		fail "exit status $got, wanted $status: $*: $(tail -n 3 "$dir/err")"
}

# --verify: alone, under a launcher, and with what must be found.
verify 0 "$info" --verify
has out "verdict: ok" "12 ordered pairs" "threads of this process"
verify 0 env ORIEL_LANES=4 ORIEL_NICS=2 ORIEL_TOPOLOGY=2x1 "$info" --verify --json
json 'd["verdict"] == "ok" and d["threads"] and d["nranks"] == 2 and len(d["pairs"]) == 8 and
	{p["nic"] for p in d["pairs"]} == {0, 1} and
	all(p[t] == "ok" for p in d["pairs"]
		for t in ("put", "signal", "order", "counter", "atomic"))'
verify 0 env ORIEL_SOFT_NIC=efa "$info" --verify
has out "the NIC has no atomics" "verdict: ok"
want 1 env ORIEL_TIMEOUT=x "$info" --verify --json
json 'd["verdict"] == "failed" and d["checks"][0]["state"] == "failed" and
	"ORIEL_TIMEOUT" in d["checks"][0]["cause"] and d["checks"][0]["remedy"]'
want 1 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ORIEL_PORT=0 ORIEL_TIMEOUT=1 \
	"$info" --verify
has out "rendezvous     failed" "verdict: FAILED"
(ulimit -n 40 && want 1 "$info" --verify &&
	has out "open files     failed" "ulimit -n"; exit $failed) || failed=1
if [ -n "$run" ]; then
	verify 0 "$run" -n 4 --topology 2x2 "$info" --verify --json
	json 'd["verdict"] == "ok" and not d["threads"] and len(d["pairs"]) == 12 and
		sum(p["kind"] == "queued" for p in d["pairs"]) == 8'
	# A NIC that fails, a NIC that stops, a rank that dies: each is named, with a remedy, and in
	# time. Rank 0 prints, also if it is the last to end.
	verify 1 env ORIEL_SOFT_FAULTS=seed=1,qp_error_at=20 "$run" -n 4 --grace 40 --topology 2x2 \
		"$info" --verify
	has out "pairs          failed" "WQE 19 failed" "ORIEL_EREMOTE" "verdict: FAILED" "-> "
	start=$SECONDS
	want 1 env ORIEL_SOFT_FAULTS=seed=1,stall_at=10,retry=10 "$run" -n 2 --grace 40 \
		--topology 2x1 "$info" --verify
	has out "ORIEL_ETIMEDOUT" "does not answer" "verdict: FAILED"
	[ $((SECONDS - start)) -le 45 ] || fail "--verify took $((SECONDS - start)) s"
	verify 137 env ORIEL_SOFT_FAULTS=seed=1,kill_at=12 "$run" -n 4 --grace 40 --topology 2x2 \
		"$info" --verify
	has out "died" "verdict: FAILED"
fi
exit $failed
