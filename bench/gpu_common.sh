# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154,SC2034 # of the script that sources it
# What bench/gpu.sh and bench/coll/gpu.sh share: command line, what the machine has, compiling, MPS,
# one measurement.
#
# Sourced by bash scripts that have set name (for messages), root, reps and seconds.  They call, in
# this order, gpu_options "$@", gpu_begin, gpu_compile for each program (in the background),
# gpu_compile_nvshmem, gpu_compiled, gpu_mps_start, gpu_tune, gpu_measure and gpu_time_left in a
# loop, gpu_table.  What is here sets: build, out, log, work (a folder that goes when the script
# ends), nvshmem (empty: not installed), oriel_flags.
build=$root/build/release out='' gpu_mps_runs='' gpu_pids=()

die() {
	echo "$name: $*" >&2
	exit 2
}

skip() {
	echo "$name: skipped: $*"
	exit 77
}

say() {
	echo "$@" | tee -a "$log"
}

gpu_options() {
	command_line="$name $*"
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
	[ -n "$out" ] || die "usage: $name OUT_DIR [--build DIR] [--reps N] [--seconds N]"
	[[ $reps =~ ^[1-9][0-9]*$ && $seconds =~ ^[1-9][0-9]*$ ]] ||
		die "--reps and --seconds take numbers from 1"
	mkdir -p "$out" || die "cannot make $out"
	log=$out/bench.log
}

gpu_cleanup() {
	[ -z "$gpu_mps_runs" ] || echo quit | timeout 20 "$mps" >/dev/null 2>&1
	rm -rf "$work"
}

# What there is, and Oriel itself.
gpu_begin() {
	local gpu smi
	nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || skip "no nvcc"
	smi=$(command -v nvidia-smi) || skip "no nvidia-smi, so no GPU"
	gpu=$("$smi" --query-gpu=name,driver_version,compute_cap --format=csv,noheader -i 0) ||
		skip "no GPU: $gpu"
	mps=$(command -v nvidia-cuda-mps-control) ||
		skip "no MPS control program: processes would take turns on the GPU"
	arch=sm_$("$smi" --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. ')
	: >"$log" || die "cannot write $log"
	work=$(mktemp -d /tmp/oriel-bench.XXXXXX) || exit 1
	trap gpu_cleanup EXIT
	say "# $command_line"
	say "# date $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	say "# commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
	say "# host $(uname -n), kernel $(uname -srm), $(nproc) cores"
	say "# GPU $gpu; $("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p')"
	# Always: an older oriel-tune would write tables that the library does not read.
	{
		if [ ! -f "$build/CMakeCache.txt" ]; then
			cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DORIEL_TESTS=OFF
		fi && cmake --build "$build" -j "$(nproc)" --target oriel oriel-run oriel-tune
	} >"$work/build.log" 2>&1 ||
		{
			grep -a -m 5 -A 3 rror "$work/build.log" || tail -n 20 "$work/build.log"
			die "Oriel does not build in $build"
		}
	oriel_flags=(-I"$root/include" -L"$build/lib" -loriel -Xlinker -rpath="$build/lib")
}

# gpu_compile PROGRAM FLAGS...: goes on in the background; its messages are shown when it fails.
gpu_compile() {
	local program=$1
	shift
	{
		timeout 200 "$nvcc" -O3 -std=c++17 -arch="$arch" -diag-suppress 177 \
			-o "$work/$program" "$@" >"$work/$program.log" 2>&1 && exit
		say "# $program does not compile:"
		head -20 "$work/$program.log" | tee -a "$log"
		exit 1
	} &
	gpu_pids+=($!)
}

# gpu_compile_nvshmem PROGRAM SOURCE: where NVSHMEM's wheel is installed.
gpu_compile_nvshmem() {
	nvshmem=$(python3 \
		-c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "nvshmem"))' \
		2>/dev/null)
	if [ -z "$nvshmem" ] || [ ! -d "$nvshmem/lib" ]; then
		say "# NVSHMEM is not measured: its wheel (nvidia-nvshmem) is not installed"
		nvshmem=''
		return
	fi
	mkdir "$work/lib"
	ln -s "$(find "$nvshmem/lib" -name 'libnvshmem_host.so.*' | head -1)" \
		"$work/lib/libnvshmem_host.so"
	gpu_compile "$1" -rdc=true -I"$nvshmem/include" "$2" -L"$work/lib" -L"$nvshmem/lib" \
		-lnvshmem_host -lnvshmem_device -lcuda -lnvidia-ml
	say \
		"# NVSHMEM $(sed -n 's/^Version: //p' \
		"$nvshmem"/../../nvidia_nvshmem*.dist-info/METADATA 2>/dev/null | head -1)"
	export LD_LIBRARY_PATH=$nvshmem/lib:${LD_LIBRARY_PATH:-} \
		NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo
	export NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY=AF_INET NVSHMEM_REMOTE_TRANSPORT=none
	export NVSHMEM_SYMMETRIC_SIZE=1G NVSHMEM_DISABLE_NVLS=1
}

gpu_compiled() {
	local pid
	for pid in "${gpu_pids[@]}"; do
		wait "$pid" || exit 1
	done
}

gpu_mps_start() {
	export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
	mkdir "$work/mps"
	timeout 20 "$mps" -d || skip "the MPS daemon does not start"
	gpu_mps_runs=yes
	sleep 1
	export ORIEL_DEVICE=cuda ORIEL_TIMEOUT=20
	say "# MPS share of a rank: 50% of the SMs with 2 ranks, 12% with 8"
	SECONDS=0
}

# gpu_tune RANKS SHARE: makes $work/tuneRANKS.  Rows that need it are left out if that fails.
gpu_tune() {
	CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$2 timeout -k 5 90 "$build/bin/oriel-run" -n "$1" \
		"$build/bin/oriel-tune" --quick -o "$work/tune$1" >"$work/tune.log" 2>&1 && return
	rm -f "$work/tune$1"
	say "# FAILED: oriel-tune with $1 ranks"
	tail -15 "$work/tune.log" | sed 's/^/#   /' | tee -a "$log"
	return 1
}

# gpu_measure REP WHO SHARE COMMAND...: its lines go to the log with repetition and name in front.
gpu_measure() {
	local rep=$1 who=$2 share=$3 text status
	shift 3
	text=$(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$share timeout -k 5 60 "$@" 2>>"$work/err")
	status=$?
	if [ $status -ne 0 ]; then
		say "# FAILED with status $status in repetition $rep: $who: $*"
		tail -15 "$work/err" | sed 's/^/#   /' | tee -a "$log"
	fi
	: >"$work/err"
	[ -z "$text" ] ||
		awk -v rep="$rep" -v who="$who" 'NF == 3 { print rep, who, $0 }' <<<"$text" >>"$log"
	return $status
}

# gpu_time_left REP: may another repetition begin after this one?
gpu_time_left() {
	[ -t 1 ] && printf '\r%d of %d repetitions ' "$1" "$reps"
	if [ $((SECONDS + SECONDS / $1)) -gt "$seconds" ] && [ "$1" -lt "$reps" ]; then
		say "# $1 repetitions instead of $reps: $SECONDS seconds have passed"
		return 1
	fi
}

# gpu_table PROGRAM: makes the table, and ends the script with its status.
gpu_table() {
	local status
	[ -t 1 ] && printf '\r%40s\r' ''
	say "# measured in $SECONDS seconds"
	PYTHONDONTWRITEBYTECODE=1 python3 "$1" "$log" "$out/table.md"
	status=$?
	cat "$out/table.md"
	exit $status
}
