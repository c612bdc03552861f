#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests ranks under other launchers: mpirun with PMIx, an MPI program, the variables of torchrun
# (and a real torchrun if there is one), a launcher that kills a rank.
# Usage: launchers_test.sh ORIEL_RUN ORIEL_PERF ORIEL_INFO BIN
#   BIN   folder with 06_mpi, where it was built
# Exit status: 0 all passed; 1 something failed; 77 nothing could be tested.
# A part that cannot be tested says why.  With CI=true this is a failure if tools/deps.sh test
# should have installed what is missing.
set -u
usage='usage: launchers_test.sh ORIEL_RUN ORIEL_PERF ORIEL_INFO BIN'
run=${1:?$usage} perf=${2:?$usage} info=${3:?$usage} bin=${4:?$usage}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ORIEL_TIMEOUT=40 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# this machine may have fewer cores than ranks, and more than one network
mpi=(mpirun --oversubscribe --bind-to none --mca btl "self,vader,tcp" --mca oob_tcp_if_include lo)
failed=0 tried=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$dir/out" | tail -20
	sed 's/^/  err: /' "$dir/err" | tail -20
	failed=1
}

# want STATUS COMMAND...: the command ends with that status (any: not 0).
want() {
	local status=$1 got
	shift
	tried=1
	timeout 100 "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	if [ "$status" = any ] && [ $got -ne 0 ] && [ $got -ne 124 ]; then
		return
	fi
	[ $got = "$status" ] || fail "exit status $got instead of $status: $*"
}

has() {
	grep -qF -- "$2" "$dir/$1" || fail "no '$2' in $1"
}

# verify LAUNCHER...: oriel-info --verify under it.  If the machine stops a process for two seconds,
# --verify rightly reports a late pair; then the run is repeated.
verify() {
	local try
	for try in 1 2 3 4 5; do
		timeout 100 "$@" "$info" --verify >"$dir/out" 2>"$dir/err"
		grep -qE 'ORIEL_ETIMEDOUT|did not end within' "$dir/out" "$dir/err" || break
		echo "launchers_test: somebody was late, try $try"
	done
	has out "verdict: ok"
}

# skip WHAT WHY: prints it; in CI this is a failure.
skip() {
	echo "launchers_test: $1 skipped: $2"
	if [ "${CI:-}" = true ]; then
		echo "FAILED: $2, though tools/deps.sh test installs it"
		failed=1
	fi
}

pmix_ranks() {
	want 0 "${mpi[@]}" -np 4 "$perf" put_signal -b 8 -e 4K -f 16 -n 20 -w 2
	has out "4 ranks on 1 node"
	has out "# total wrong 0: OK"
	want 0 "${mpi[@]}" -np 1 "$perf" put -b 8 -e 8 -n 10
	want 0 "${mpi[@]}" -np 3 -x ORIEL_TOPOLOGY=3x1 "$perf" all -b 8 -e 64 -f 8 -n 10 -w 1
	has out "# total wrong 0: OK"
	want 0 "${mpi[@]}" -np 4 "$info" --json
	python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d["topology"]["nranks"] == 4' <"$dir/out" || fail "oriel-info does not see 4 ranks"
	verify "${mpi[@]}" -np 3
	# an oriel-run inside is a job of its own, not ranks of the outer one
	want 0 "${mpi[@]}" -np 1 "$run" -n 3 "$perf" put -b 8 -e 8 -n 10
	has out "3 ranks on 1 node"
	# without the library no rank takes itself for a job of one
	want any "${mpi[@]}" -np 2 -x ORIEL_PMIX_LIBRARY=libnone.so "$perf" put -b 8 -e 8 -n 10
	has err "libnone.so"
}

# Rank 2 is killed while all ranks work: rank 0 has printed what it measures.  Each wrapper ends
# only when all ranks have ended, so that Oriel notices the death, and not mpirun.
pmix_death() {
	cat >"$dir/victim" <<-'SH'
		#!/bin/bash
		dir=$1 me=$OMPI_COMM_WORLD_RANK
		shift
		"$@" &
		for ((i = 0; me == 2 && i < 1000; i++)); do
			grep -q '^# put_signal' "$dir/out" && break
			sleep 0.05
		done
		[ "$me" = 2 ] && kill -KILL $!
		wait $!
		status=$?
		: >"$dir/ended.$me"
		for ((i = 0; i < 1000; i++)); do
			[ -e "$dir/ended.0" ] && [ -e "$dir/ended.1" ] && [ -e "$dir/ended.3" ] &&
				break
			sleep 0.05
		done
		exit $status
	SH
	chmod +x "$dir/victim"
	want any "${mpi[@]}" -np 4 "$dir/victim" "$dir" "$perf" put_signal -b 1M -e 1M -n 10000000 \
		-c 0
	has err "rank 2 died"
}

mpi_program() {
	local n
	for n in 1 2 4; do
		want 0 env ASAN_OPTIONS=detect_leaks=0 "${mpi[@]}" -x ASAN_OPTIONS -np $n \
			"$bin/06_mpi"
		has out "$n ranks of MPI: all windows together hold"
	done
}

# Starts ranks as torchrun does: its own store listens at MASTER_PORT all the time.  At the next
# port a listener that never answers is added.
torch_variables() {
	python3 - "$@" >"$dir/out" 2>"$dir/err" <<'PY'
import os, socket, subprocess, sys, uuid
store = socket.socket()
after = socket.socket()
for attempt in range(20):  # two ports in a row
    store.close()
    store = socket.socket()
    store.bind(("127.0.0.1", 0))
    port = store.getsockname()[1]
    try:
        after.bind(("127.0.0.1", port + 1))
        break
    except OSError:
        continue
store.listen(8)
after.listen(8)
run = str(uuid.uuid4())
ranks = []
for rank in range(3):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="3",
               MASTER_ADDR="localhost", MASTER_PORT=str(port),
               TORCHELASTIC_RUN_ID=run, TORCHELASTIC_USE_AGENT_STORE="True",
               # as under srun or mpirun, which started torchrun once on each host
               PMIX_NAMESPACE="outer", PMIX_RANK="0")
    ranks.append(subprocess.Popen(sys.argv[1:], env=env))
bad = [rank for rank, p in enumerate(ranks) if p.wait(timeout=90)]
print("bad ranks:", bad)
sys.exit(bool(bad))
PY
}

if command -v mpirun >/dev/null; then
	pmix_ranks
	pmix_death
else
	skip "PMIx" "there is no mpirun"
fi
if [ -x "$bin/06_mpi" ] && command -v mpirun >/dev/null; then
	mpi_program
else
	skip "the MPI example" "it was not built (no MPI when the build was configured)"
fi
tried=1
torch_variables "$perf" put_signal -b 8 -e 64 -f 8 -n 10 || fail "torchrun's variables"
has out "# total wrong 0: OK"
# PyTorch is not a package of tools/deps.sh, so a missing torchrun is never a failure.
if command -v torchrun >/dev/null; then
	want 0 torchrun --standalone --nproc-per-node 3 --no-python "$perf" put_signal -b 8 -e 64 \
		-f 8 -n 10
	has out "# total wrong 0: OK"
else
	echo \
		"launchers_test: the real torchrun skipped: there is none in PATH; its variables were tried"
fi
[ $tried -eq 1 ] || exit 77
[ $failed -eq 0 ] && echo "launchers_test: all passed"
exit $failed
