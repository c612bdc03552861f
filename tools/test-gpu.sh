#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/test-gpu.sh [SUITE...] - builds with the preset cuda into build/cuda and runs the tests that
# need a GPU:
#
#   contract    the contract suite as kernels: ranks as threads and as processes (under MPS)
#   litmus      the memory order that the primitives promise, round by round
#   graph       CUDA graphs, the user's memory, streams and events, requests, failures and traces of
#               kernels
#   coll        collectives: inside a kernel, between windows, between nodes, all-to-all-v
#   sanitizer   compute-sanitizer (memcheck, synccheck) on one rank
#   examples    04_cuda_ring, 05_same_kernel, 07_fused
#   triton      the Triton externs and all-to-all-v (python/tests/gpu); needs torch, Triton and the
#               device bitcode
#   torch       the backend of torch.distributed with tensors on a GPU; needs torch
#   bench       a short measurement
#
# Without an argument all suites run.  Each program gets one line: verdict, seconds, name, and the
# last line of its output.  Logs are in build/cuda/logs.
# Processes share the GPU through one private MPS daemon, which is always stopped at the end.  Tests
# that kill a rank get a daemon of their own.
# JOBS is the number of parallel compilers.
# ROWS=all runs every row of the contract suite.  This takes much longer than all suites together
# without it, because ranks that are processes need 2 to 4 s to start.  By default half of the rows
# with threads run, and some 45 rows with processes, chosen by name: 1, 2, 3, 4 and 8 ranks, mapped,
# queued and mixed.
# Exit status: 0 all passed, or there is no GPU (the reason is printed); 1 something failed.
set -uo pipefail
cd "$(dirname "$0")/.."
build=build/cuda
bin=$build/bin
logs=$build/logs
jobs=${JOBS:-$(nproc)}
at_once=2 # programs under MPS
started=$SECONDS
rows=$([ "${ROWS:-}" = all ] && echo quick || echo quick,few)
results='' mps_folder=''
export ORIEL_TUNE_FILE=none # tests know which way a call goes without a table

# ---- tools and suites ----------------------------------------------------------------------------

leave_out() {
	echo "test-gpu: skipped: $*"
	exit 0
}

command -v nvidia-smi >/dev/null || leave_out "no nvidia-smi: this machine has no NVIDIA driver"
nvidia-smi -L 2>/dev/null | grep GPU >/dev/null || leave_out "nvidia-smi finds no GPU"
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || leave_out "no nvcc on PATH or in /usr/local/cuda/bin"

suites=${*:-contract litmus graph coll sanitizer examples triton torch bench}
for suite in $suites; do
	case $suite in
	contract | litmus | graph | coll | sanitizer | examples | triton | torch | bench) ;;
	*)
		echo >&2 \
			"test-gpu: unknown suite '$suite'; the suites are contract litmus graph" \
			"coll sanitizer examples triton torch bench"
		exit 1
		;;
	esac
done

# ---- MPS -----------------------------------------------------------------------------------------

start_mps() {
	if ! command -v nvidia-cuda-mps-control >/dev/null; then
		echo \
			"test-gpu: no nvidia-cuda-mps-control: ranks that are processes take turns on the GPU"
		return
	fi
	mps_folder=$(mktemp -d /tmp/oriel-test-gpu.XXXXXX)
	export CUDA_MPS_PIPE_DIRECTORY=$mps_folder CUDA_MPS_LOG_DIRECTORY=$mps_folder
	if ! timeout 20 nvidia-cuda-mps-control -d >"$mps_folder/start.log" 2>&1; then
		echo "test-gpu: the MPS daemon did not start: $(head -n 1 "$mps_folder/start.log")"
		stop_mps
	fi
}

stop_mps() {
	[ -n "$mps_folder" ] || return 0
	echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 ||
		echo "test-gpu: the MPS daemon did not end within 20 s"
	cp "$mps_folder"/*.log "$logs" 2>/dev/null
	rm -rf "$mps_folder"
	mps_folder=''
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

finish() {
	stop_mps
	rm -f "$results"
}
trap finish EXIT
trap 'exit 1' INT TERM

# ---- running -------------------------------------------------------------------------------------

# run NAME SECONDS COMMAND...: writes the output to the log, and the verdict as one line here and to
# $results.
run() {
	local name=$1 limit=$2 log=$logs/$1.log start=$SECONDS status verdict
	shift 2
	timeout -k 5 "$limit" "$@" >"$log" 2>&1
	status=$?
	case $status in
	0) verdict=ok ;;
	77) verdict=skip ;;
	124 | 137) verdict=TIMEOUT ;;
	*) verdict=FAILED ;;
	esac
	echo "$verdict" >>"$results"
	printf '%-8s %4d s  %-34s %s\n' "$verdict" $((SECONDS - start)) "$name" \
		"$(tail -n 1 "$log")"
	if [ $verdict != ok ] && [ $verdict != skip ]; then
		grep -aE 'check failed|^FAILED|error|deadline' "$log" | sed -n 1,8p |
			sed 's/^/             /'
		echo "             whole log: $log"
	fi
}

# left_out NAME REASON: the verdict of a suite that cannot run here.
left_out() {
	echo skip >>"$results"
	printf '%-8s %4d s  %-34s %s\n' skip 0 "$1" "$2"
}

# The same as run in the background, with at most at_once programs at a time.
run_beside() {
	while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do
		wait -n
	done
	run "$@" &
}

on_gpu=(env ORIEL_DEVICE=cuda)

suite_contract() {
	local program name kind
	start_mps
	for program in "$bin"/cuda_contract_*; do
		name=${program##*/cuda_contract_}
		[ $name = large ] || run "contract.$name.processes" 100 "${on_gpu[@]}" \
			ORIEL_CONTRACT=$rows,nokill,processes "$program"
	done
	run contract.large 100 "${on_gpu[@]}" "$bin/cuda_contract_large"
	stop_mps
	# Thread ranks are one process, which without MPS has enough channels for all their streams.
	# One program runs at a time: two would take turns on the GPU, and a wait of one would cost
	# turns of both.
	for program in "$bin"/cuda_contract_*; do
		name=${program##*/cuda_contract_}
		[ $name = large ] || run "contract.$name.threads" 200 "${on_gpu[@]}" \
			ORIEL_CONTRACT=$rows,nokill,threads "$program"
	done
	start_mps # what follows may leave it in disorder
	for name in failure failure_lines; do
		run contract.$name.kill 150 "${on_gpu[@]}" ORIEL_CONTRACT=$rows,kill \
			"$bin/cuda_contract_$name"
	done
	stop_mps
}

suite_litmus() {
	start_mps
	run cuda.litmus 120 "$bin/cuda_litmus"
	run cuda.litmus_chain 120 "$bin/cuda_litmus_chain"
	run cuda.litmus_packet 120 "$bin/cuda_litmus_packet"
	run coll.litmus 240 "${on_gpu[@]}" "$bin/cuda_coll_litmus"
	stop_mps
}

suite_graph() {
	local name
	start_mps
	run_beside cuda.graph 120 "$bin/cuda_graph" graphs_of_2_processes graphs_of_queued_processes
	for name in memory streams; do
		run_beside cuda.$name 120 "$bin/cuda_$name"
	done
	run_beside cuda.allgather 120 "$bin/cuda_allgather" streams_of_4_processes \
		streams_of_mixed_processes graphs_of_2_processes graphs_of_queued_processes
	run_beside cuda.alltoallv 120 "$bin/cuda_alltoallv" processes_2 processes_4 processes_8 \
		mixed_processes
	run_beside cuda.team_graph 120 "$bin/cuda_team_graph"
	run_beside cuda.packet_graph 120 "$bin/cuda_packet_graph"
	wait
	# Not beside others: a rank whose kernels wait for their turn misses a short deadline.
	for name in deadlines abort launches; do
		run cuda.failure.$name 60 "$bin/cuda_failure" $name
	done
	stop_mps
	start_mps
	run cuda.failure.killed 60 "$bin/cuda_failure" killed
	stop_mps
	# Thread ranks: as in suite_contract, not under MPS.
	run cuda.graph.threads 60 "$bin/cuda_graph" graphs_of_2_threads graphs_of_4_threads
	run cuda.allgather.threads 60 "$bin/cuda_allgather" streams_of_8_threads graphs_of_4_threads
	run cuda.trace 120 bash tests/tools/trace_gpu_test.sh "$bin/oriel-trace" "$bin/cuda_trace"
	run cuda.alltoallv.threads 60 "$bin/cuda_alltoallv" threads_4 threads_8 mixed_threads
}

# One program at a time.  Its kernels may take most SMs, and they wait for those of its other ranks.
# Kernels of a second program could take the SMs that are left, and neither would end.  And MPS may
# have too few channels for twice eight processes.
suite_coll() {
	local name
	start_mps
	run coll.team_mix 120 "${on_gpu[@]}" "$bin/cuda_coll_team_mix" different_calls
	for name in lines nodes team team_v; do
		run coll.$name 150 "${on_gpu[@]}" "$bin/cuda_coll_$name"
	done
	# Without the tests in which ranks are late or die.
	run coll.reduce_windows 120 "${on_gpu[@]}" "$bin/cuda_host_reduce_windows_cuda" \
		straight_between short_and_long every_type more_than queued_ranks \
		calls_that_differ another_call
	run coll.scatter_windows 120 "${on_gpu[@]}" "$bin/cuda_host_scatter_windows_cuda" \
		a_reduce_scatter_between a_broadcast_between every_type more_than all_kinds \
		another_call
	run coll.nodes_host 120 "${on_gpu[@]}" "$bin/cuda_host_nodes_host"
	run coll.reduce 120 "${on_gpu[@]}" "$bin/cuda_host_reduce" all_reduce reduce_scatter \
		broadcast every_type unaligned two_comms
	run coll.reduce_errors 60 "${on_gpu[@]}" "$bin/cuda_host_reduce_errors" a_bad_argument \
		a_refusal ranks_that_differ
	run coll.reduce_graph 60 "${on_gpu[@]}" "$bin/cuda_host_reduce_graph_cuda"
	run coll.large 250 "${on_gpu[@]}" "$bin/cuda_host_large_cuda" calls_in_windows
	run coll.desk_wrap 60 "${on_gpu[@]}" "$bin/cuda_host_desk_wrap_cuda"
	run coll.alltoallv_random 300 "${on_gpu[@]}" A2A_CALLS=20 \
		"$bin/cuda_host_alltoallv_random" random_splits
	run coll.team_stuck 150 "${on_gpu[@]}" "$bin/cuda_coll_team_stuck" a_late_rank an_abort
	run coll.scatter_windows.late 100 "${on_gpu[@]}" "$bin/cuda_host_scatter_windows_cuda" \
		a_late_rank
	stop_mps
	start_mps
	run coll.team_stuck.killed 100 "${on_gpu[@]}" "$bin/cuda_coll_team_stuck" a_dead_rank
	stop_mps
	start_mps
	run coll.scatter_windows.killed 100 "${on_gpu[@]}" "$bin/cuda_host_scatter_windows_cuda" \
		a_dead_rank
	stop_mps
}

# Runs without MPS, which compute-sanitizer does not support.  There is one rank, whose peer is
# itself.  Inside a driver call of one thread the tool sometimes waits for all kernels of the
# process.  Then a second rank would never launch the kernel for which the first one waits.
suite_sanitizer() {
	local tool case program
	if ! command -v compute-sanitizer >/dev/null; then
		echo \
			"skip        0 s  sanitizer                          no compute-sanitizer on PATH"
		echo skip >>"$results"
		return
	fi
	for tool in memcheck synccheck; do
		for case in put:put_sizes signal:signal_add barrier:barrier_sync \
			staged:staged_depth_4; do
			program=${case%%:*}
			run sanitizer.$tool.${case#*:} 120 "${on_gpu[@]}" \
				ORIEL_CONTRACT=quick,threads \
				compute-sanitizer --tool $tool --error-exitcode 3 --print-limit 5 \
				"$bin/cuda_contract_$program" "${case#*:}/mapped/1ranks"
		done
	done
}

suite_examples() {
	run examples.04_cuda_ring 60 "$bin/oriel-run" -n 4 --mps --timeout 50 "$bin/04_cuda_ring"
	run examples.04_cuda_ring.queued 60 "$bin/oriel-run" -n 4 --mps --timeout 50 \
		--topology 2x2 "$bin/04_cuda_ring"
	run examples.05_same_kernel 60 "$bin/05_same_kernel"
	run examples.07_fused 60 env ORIEL_DEVICE=cuda "$bin/oriel-run" -n 4 --mps --timeout 50 \
		"$bin/07_fused_gpu"
}

# PYTHON is an interpreter with torch and Triton.  The bitcode is made where clang is; ORIEL_BITCODE
# names the folder to which it was carried.
suite_triton() {
	local python=${PYTHON:-python3} folder case
	for folder in "${ORIEL_BITCODE:-}" $build/lib/oriel build/release/lib/oriel; do
		[ ! -f "$folder/liboriel_device_sm90.bc" ] || break
	done
	if [ ! -f "$folder/liboriel_device_sm90.bc" ]; then
		left_out triton "no device bitcode; ORIEL_BITCODE names its folder"
		return
	fi
	if ! "$python" -c 'import torch, triton' 2>/dev/null; then
		left_out triton "$python has no torch or no Triton"
		return
	fi
	folder=$(cd "$folder" && pwd)
	in_python=(env -C python ORIEL_LIBRARY="$PWD/$build/lib/liboriel.so.0"
		ORIEL_BITCODE="$folder" PYTHONPATH=. "$python")
	for case in 1_rank 2_mapped 2_queued 8_mapped 8_mixed; do
		run "triton.ops.$case" 250 "${in_python[@]}" -m tests.run \
			"gpu.test_triton_ops.TritonOps.test_$case"
		run "triton.coll.$case" 250 "${in_python[@]}" -m tests.run \
			"gpu.test_triton_coll.TritonColl.test_$case"
	done
	for case in 1_rank 2_mapped 8_mapped 2_queued 4_mixed; do
		run "triton.alltoallv.$case" 250 "${in_python[@]}" -m unittest -v \
			"tests.gpu.test_alltoallv_op.Alltoallv.test_$case"
	done
	run triton.gather_matmul 100 "$bin/oriel-run" -n 8 --mps=12 --timeout 90 \
		"${in_python[@]}" examples/gather_matmul.py
	run triton.bench 120 "${in_python[@]}" -m bench.triton_put_signal
	run triton.alltoallv.bench 200 "$bin/oriel-run" -n 8 --mps=12 --timeout 190 \
		"${in_python[@]}" -m bench.alltoallv
}

suite_torch() {
	local python=${PYTHON:-python3} ranks
	if ! "$python" -c 'import torch' 2>/dev/null; then
		left_out torch "$python has no torch"
		return
	fi
	in_python=(env -C python ORIEL_LIBRARY="$PWD/$build/lib/liboriel.so.0" PYTHONPATH=.
		"$python" -m torch.distributed.run)
	start_mps
	for ranks in 2 8; do
		run "torch.collectives.$ranks" 120 "${in_python[@]}" --nproc-per-node "$ranks" \
			-m tests.gpu.torch_rank
	done
	run torch.moe 100 "${in_python[@]}" --nproc-per-node 4 examples/moe.py --device cuda
	stop_mps
}

# One short turn shows that all programs run and move the right bytes.  Speed needs a longer run, so
# a missed target (exit status 1) is printed but is not a failure here.
suite_bench() {
	local what
	run bench.oriel-perf 120 "$bin/oriel-run" -n 2 --mps --timeout 110 \
		env ORIEL_DEVICE=cuda "$bin/oriel-perf" all --quick
	for what in 'allgather' 'allgather --graph' 'alltoallv'; do
		# shellcheck disable=SC2086 # two words
		run "bench.${what// --/.}" 60 "$bin/oriel-run" -n 8 --mps --timeout 50 \
			env ORIEL_DEVICE=cuda "$bin/oriel-perf" $what -b 1K -e 16M -f 16
	done
	run bench.gpu 150 bash -c \
		"bench/gpu.sh '$logs/bench' --build '$build' --reps 1 --seconds 60 || [ \$? -eq 1 ]"
}

# ---- all of it -----------------------------------------------------------------------------------

mkdir -p "$logs"
results=$(mktemp)
generator=$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')
{
	nvidia-smi
	if [ ! -f $build/CMakeCache.txt ]; then
		cmake --preset cuda -G "$generator"
	fi && cmake --preset cuda &&
		cmake --build $build -j "$jobs" --target gpu_tests gpu_examples \
		oriel oriel-run oriel-info oriel-perf oriel-tune
} >"$logs/build.log" 2>&1
status=$?
if [ $status -ne 0 ]; then
	tail -n 30 "$logs/build.log"
	echo "test-gpu: the build failed after $((SECONDS - started)) s; whole log: $logs/build.log"
	exit 1
fi
printf 'ok       %4d s  build\n' $((SECONDS - started))
"$bin/oriel-info" 2>/dev/null | grep -i cuda

for suite in $suites; do
	suite_$suite
done

bad=$(grep -cE 'FAILED|TIMEOUT' "$results")
echo "test-gpu: $(wc -l <"$results") programs, $bad failed, $(grep -c skip "$results") skipped," \
	"$((SECONDS - started)) s, $(nvidia-smi --query-gpu=name --format=csv,noheader | sed -n 1p)"
[ "$bad" -eq 0 ]
