#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures the GPU rows: kernels written by hand, Oriel, and NVSHMEM where its wheel is installed, in turn.
#
# Usage: bench/gpu.sh OUT_DIR [--build DIR] [--reps N] [--seconds N]
#   OUT_DIR     gets bench.log (raw figures, one a line) and table.md
#   --build     where Oriel is built, or is to be built (default build/release)
#   --reps      interleaved repetitions of everything (default 7)
#   --seconds   no further repetition is begun that would end later than this after the first (default 200)
#
# Ranks are processes that share one GPU under a private MPS daemon, each limited to its share of the SMs, alike for
# all three (NVSHMEM wants it so).  A figure is the median over the repetitions.  Data is checked in every row.
# Exit status: 0 all targets met, 1 one missed or not measured, 2 bad command line, 77 this machine cannot.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release reps=7 seconds=200 out=''
command_line="bench/gpu.sh $*"

die() {
	echo "bench/gpu.sh: $*" >&2
	exit 2
}

skip() {
	echo "bench/gpu.sh: skipped: $*"
	exit 77
}

while [ $# -gt 0 ]; do
	case $1 in
	--build | --reps | --seconds)
		[ $# -gt 1 ] || die "no value after $1"
		case $1 in
		--build) build=$2 ;;
		--reps) reps=$2 ;;
		--seconds) seconds=$2 ;;
		esac
		shift
		;;
	-*) die "unknown flag $1" ;;
	*) out=$1 ;;
	esac
	shift
done
[ -n "$out" ] || die "usage: bench/gpu.sh OUT_DIR [--build DIR] [--reps N] [--seconds N]"
[[ $reps =~ ^[1-9][0-9]*$ && $seconds =~ ^[1-9][0-9]*$ ]] || die "--reps and --seconds take numbers from 1"
mkdir -p "$out" || die "cannot make $out"
log=$out/bench.log

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || skip "no nvcc"
smi=$(command -v nvidia-smi) || skip "no nvidia-smi, so no GPU"
gpu=$("$smi" --query-gpu=name,driver_version,compute_cap --format=csv,noheader -i 0) || skip "no GPU: $gpu"
mps=$(command -v nvidia-cuda-mps-control) || skip "no MPS control program: processes would take turns on the GPU"
arch=sm_$("$smi" --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. ')
: >"$log" || die "cannot write $log"

say() {
	echo "$@" | tee -a "$log"
}

# ---- build ---------------------------------------------------------------------------------------

work=$(mktemp -d /tmp/oriel-bench.XXXXXX) || exit 1
mps_runs=''
cleanup() {
	[ -z "$mps_runs" ] || echo quit | "$mps" >/dev/null 2>&1
	rm -rf "$work"
}
trap cleanup EXIT

say "# $command_line"
say "# date $(date -u +%Y-%m-%dT%H:%M:%SZ)"
say "# commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
say "# host $(uname -n), kernel $(uname -srm), $(nproc) cores"
say "# GPU $gpu; $("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p')"

if [ ! -x "$build/bin/oriel-run" ] || [ ! -e "$build/lib/liboriel.so" ]; then
	{ cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DORIEL_TESTS=OFF &&
		cmake --build "$build" -j "$(nproc)"; } >"$work/build.log" 2>&1 ||
		{ tail -20 "$work/build.log"; die "Oriel does not build in $build"; }
fi

# compile PROGRAM FLAGS...: its messages are shown when it fails.
compile() {
	local program=$1
	shift
	"$nvcc" -O3 -std=c++17 -arch="$arch" -diag-suppress 177 -o "$work/$program" "$@" >"$work/$program.log" 2>&1 && return
	say "# $program does not compile:"
	head -20 "$work/$program.log" | tee -a "$log"
	return 1
}

oriel_flags=(-I"$root/include" -L"$build/lib" -loriel -Xlinker -rpath="$build/lib")
compile limit_gpu "$root/bench/limit/gpu.cu" & pids=($!)
compile oriel "$root/bench/gpu_bench.cu" "${oriel_flags[@]}" & pids+=($!)
compile oriel16 -DORI_COPY_UNROLL=16 "$root/bench/gpu_bench.cu" "${oriel_flags[@]}" & pids+=($!)
nvshmem=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "nvshmem"))' 2>/dev/null)
if [ -d "$nvshmem/lib" ]; then
	mkdir "$work/lib"
	ln -s "$(find "$nvshmem/lib" -name 'libnvshmem_host.so.*' | head -1)" "$work/lib/libnvshmem_host.so"
	compile versus_nvshmem -rdc=true -I"$nvshmem/include" "$root/bench/versus/nvshmem.cu" -L"$work/lib" \
		-L"$nvshmem/lib" -lnvshmem_host -lnvshmem_device -lcuda -lnvidia-ml & pids+=($!)
else
	say "# NVSHMEM is not measured: its wheel (nvidia-nvshmem) is not installed"
	nvshmem=''
fi
for pid in "${pids[@]}"; do
	wait "$pid" || exit 1
done
if [ -n "$nvshmem" ]; then
	say "# NVSHMEM $(sed -n 's/^Version: //p' "$nvshmem"/../../nvidia_nvshmem*.dist-info/METADATA 2>/dev/null | head -1)"
	export LD_LIBRARY_PATH=$nvshmem/lib:${LD_LIBRARY_PATH:-} NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo
	export NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY=AF_INET NVSHMEM_REMOTE_TRANSPORT=none
	export NVSHMEM_SYMMETRIC_SIZE=1G NVSHMEM_DISABLE_NVLS=1
fi

# ---- measure -------------------------------------------------------------------------------------

export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
mkdir "$work/mps"
"$mps" -d || skip "the MPS daemon does not start"
mps_runs=yes
sleep 1
export ORIEL_DEVICE=cuda ORIEL_TIMEOUT=20
say "# MPS share of a rank: 50% of the SMs with 2 ranks, 12% with 8"
say "# Oriel copies with 8 accesses in flight a thread; oriel16: with 16"

# measure REP WHO SHARE COMMAND...: its lines go to the log with repetition and name in front.
measure() {
	local rep=$1 who=$2 share=$3 text status
	shift 3
	text=$(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$share timeout -k 5 60 "$@" 2>>"$work/err")
	status=$?
	if [ $status -ne 0 ]; then
		say "# FAILED with status $status in repetition $rep: $who: $*"
		tail -15 "$work/err" | sed 's/^/#   /' | tee -a "$log"
	fi
	: >"$work/err"
	[ -z "$text" ] || awk -v rep="$rep" -v who="$who" 'NF == 3 { print rep, who, $0 }' <<<"$text" >>"$log"
	return $status
}

run=$build/bin/oriel-run
SECONDS=0
for ((rep = 1; rep <= reps; rep++)); do
	[ -t 1 ] && printf '\rrepetition %d of %d ' "$rep" "$reps"
	measure $rep limit 50 "$work/limit_gpu" 2
	measure $rep oriel 50 "$run" -n 2 "$work/oriel" pair
	[ $rep -gt 3 ] || measure $rep oriel16 50 "$run" -n 2 "$work/oriel16" pair
	[ -z "$nvshmem" ] || measure $rep nvshmem 50 "$work/versus_nvshmem" 2
	measure $rep limit 12 "$work/limit_gpu" 8
	measure $rep oriel 12 "$run" -n 8 "$work/oriel" many
	[ -z "$nvshmem" ] || measure $rep nvshmem 12 "$work/versus_nvshmem" 8
	measure $rep oriel 50 "$run" -n 2 --topology 2x1 "$work/oriel" queued
	if [ $((SECONDS + SECONDS / rep)) -gt "$seconds" ] && [ $rep -lt "$reps" ]; then
		say "# $rep repetitions instead of $reps: $SECONDS seconds have passed"
		break
	fi
done
[ -t 1 ] && printf '\r%40s\r' ''
say "# measured in $SECONDS seconds"

python3 "$root/bench/gpu_table.py" "$log" "$out/table.md"
status=$?
cat "$out/table.md"
exit $status
