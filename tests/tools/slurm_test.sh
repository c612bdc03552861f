#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Starts a Slurm of one node for this test, and tests srun --mpi=pmix, the batch file of
# docs/launchers.md, srun without PMIx, and a rank that is killed.
# Usage: slurm_test.sh ORIEL_RUN ORIEL_PERF ORIEL_INFO BIN
# Exit status: 0 all passed; 1 something failed; 77 skipped, with the reason: Slurm is not installed
# (tools/deps.sh slurm installs it), its daemons do not start here, or the user is not root.
set -u
usage='usage: slurm_test.sh ORIEL_RUN ORIEL_PERF ORIEL_INFO BIN'
perf=${2:?$usage} info=${3:?$usage} bin=${4:?$usage}
root=$(cd "$(dirname "$0")/../.." && pwd)
for tool in slurmctld slurmd srun sbatch munged; do
	if ! command -v $tool >/dev/null; then
		echo "slurm_test: skipped: no $tool (tools/deps.sh slurm installs it)"
		exit 77
	fi
done
if [ "$(id -u)" -ne 0 ]; then
	echo "slurm_test: skipped: its daemons must be started by root"
	exit 77
fi
dir=$(mktemp -d) || exit 1
pids=()
failed=0
host=$(hostname -s)

# In the order in which they need each other, each at most 5 s; the steps' own daemons are children
# of slurmd.
# shellcheck disable=SC2317 # called by the trap
finish() {
	local i pid
	for ((i = 0; i < 50; i++)); do
		pgrep -P "${pids[2]:-0}" -f slurmstepd >/dev/null || break
		sleep 0.1
	done
	for pid in "${pids[2]:-}" "${pids[1]:-}" "${pids[0]:-}"; do
		[ -n "$pid" ] || continue
		kill "$pid" 2>/dev/null
		for ((i = 0; i < 50; i++)); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	rm -rf "$dir"
}
trap finish EXIT

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$dir/out" | tail -20
	sed 's/^/  err: /' "$dir/err" | tail -20
	failed=1
}

want() {
	local status=$1 got
	shift
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

# ---- a Slurm -------------------------------------------------------------------------------------

port() { # a free one, and none that a connection of anybody may get by itself meanwhile
	python3 -c '
import random, socket
while True:
    s, port = socket.socket(), random.randrange(12000, 30000)
    try:
        s.bind(("127.0.0.1", port))
    except OSError:
        continue
    print(port)
    break'
}

mkdir "$dir/spool" "$dir/state" "$dir/tmp"
chmod 755 "$dir"
head -c 1024 /dev/urandom >"$dir/munge.key"
chmod 400 "$dir/munge.key"
cat >"$dir/slurm.conf" <<CONF
ClusterName=oriel
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmdPort=$(port)
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
TmpFS=$dir/tmp
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=60 State=UP
CONF
export SLURM_CONF=$dir/slurm.conf ORIEL_TIMEOUT=40
munged -F -f --key-file="$dir/munge.key" --socket="$dir/munge.sock" --pid-file="$dir/munged.pid" \
	--log-file="$dir/munged.log" --seed-file="$dir/munge.seed" 2>"$dir/munged.err" &
pids+=($!)
for ((i = 0; i < 300; i++)); do
	[ -S "$dir/munge.sock" ] && break
	sleep 0.1
done
slurmctld -D -f "$dir/slurm.conf" >"$dir/ctld.err" 2>&1 &
pids+=($!)
slurmd -D -f "$dir/slurm.conf" >"$dir/slurmd.err" 2>&1 &
pids+=($!)
for ((i = 0; i < 100; i++)); do
	state=$(timeout 5 sinfo -h -o %T 2>/dev/null)
	[ "$state" = idle ] && break
	sleep 0.2
done
if [ "${state:-}" != idle ]; then
	echo "slurm_test: skipped: Slurm's daemons do not start here:"
	tail -n 3 "$dir"/*.log "$dir"/*.err
	exit 77
fi
if ! srun --mpi=list 2>&1 | grep -qw pmix; then
	echo "slurm_test: skipped: this Slurm has no PMIx"
	exit 77
fi

# ---- ranks ---------------------------------------------------------------------------------------

want 0 srun -n 4 --overcommit --mpi=pmix "$perf" put_signal -b 8 -e 4K -f 16 -n 20 -w 2
has out "4 ranks on 1 node"
has out "# total wrong 0: OK"
# If the machine stops a process for two seconds, --verify rightly reports a late pair: try again.
for _ in 1 2 3 4 5; do
	timeout 100 srun -n 3 --overcommit --mpi=pmix "$info" --verify >"$dir/out" 2>"$dir/err"
	grep -qE 'ORIEL_ETIMEDOUT|did not end within' "$dir/out" "$dir/err" || break
done
has out "verdict: ok"
# Without PMIx each rank would be a job of its own: the library says so.
want 0 srun -n 2 --overcommit --mpi=none "$perf" put -b 8 -e 8 -n 10
has err "srun --mpi=pmix"
# The way that docs/launchers.md describes for srun without PMIx.
# shellcheck disable=SC2016 # for the shell of each task
want 0 env MASTER_ADDR=127.0.0.1 MASTER_PORT="$(port)" ORIEL_SECRET=of-this-test srun -n 3 \
	--overcommit --mpi=none bash -c \
	'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec "$@"' - \
	"$perf" put -b 8 -e 8 -n 10
has out "3 ranks on 1 node"
# The batch file is used unchanged; PATH leads to the programs.
want 0 env PATH="$(cd "$bin" && pwd):$PATH" sbatch --wait -N 1 --ntasks-per-node 2 -c 1 \
	--overcommit -o "$dir/job.out" -e "$dir/job.err" "$root/docs/oriel.sbatch" \
	oriel-perf put -b 8 -e 64 -f 8 -n 10
cp "$dir/job.out" "$dir/out"
cp "$dir/job.err" "$dir/err"
has out "verdict: ok"
has out "# total wrong 0: OK"
# Slurm's step continues when a task dies, except with -K.  So the other ranks must notice it
# themselves.
cat >"$dir/victim" <<-'SH'
	#!/bin/bash
	dir=$1
	shift
	"$@" &
	# until rank 0 has printed what it measures
	for ((i = 0; SLURM_PROCID == 1 && i < 1000; i++)); do
		grep -q '^# put' "$dir/out" && break
		sleep 0.05
	done
	[ "$SLURM_PROCID" = 1 ] && kill -KILL $!
	wait $!
SH
chmod +x "$dir/victim"
want any srun -n 3 --overcommit -K0 --mpi=pmix "$dir/victim" "$dir" "$perf" put -b 1M -e 1M \
	-n 10000000 -c 0
has err "rank 1 died"

[ $failed -eq 0 ] && echo "slurm_test: all passed"
exit $failed
