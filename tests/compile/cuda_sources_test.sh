#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cuda_sources_test.sh ROOT - nvcc compiles every CUDA source of the tree: *.cu, and the files of
# the contract suite and others that tests/cuda/CMakeLists.txt names, which are CUDA as well as C.
# It compiles to PTX for one GPU, without optimization.  This checks the language of both passes,
# and takes a fraction of the time of object files.  cuda_test.sh also assembles a kernel with every
# device call.
# src/bitcode is for clang alone, which compiles it in every build that has one.
# Sources that need a library which this machine lacks are left out, and named.
. "$(dirname "$0")/common.sh"
root=$1

if ! command -v nvcc >/dev/null; then
	PATH=$PATH:/usr/local/cuda/bin
fi
if ! command -v nvcc >/dev/null; then
	echo "skipped: no nvcc on PATH or in /usr/local/cuda/bin"
	exit 77
fi
cd "$root" || exit 1

compile() {
	local log=$work/${1//\//_}.log
	if nvcc -x cu -std=c++17 -arch=sm_90 -Xcicc -O0 -D_GNU_SOURCE -Werror all-warnings \
		-I include -I src -I tests -I tests/coll -ptx \
		-o "$work/${1//\//_}.ptx" "$1" >"$log" 2>&1; then
		echo "ok $1"
	elif grep -q 'fatal error: .*\(nvshmem\|nccl\).*No such file' "$log"; then
		echo "left out $1: $(grep -m 1 -o 'fatal error: [^:]*' "$log")"
	else
		echo "FAILED $1"
		head -n 20 "$log"
	fi
}
export -f compile
export work

find examples tests bench src python \
	\( -name '*.cu' -o -path 'tests/contract/*.c' -o -path 'tests/coll/team*.c' -o \
	-path 'tests/coll/lines.c' -o -path 'tests/coll/litmus.c' -o -path 'tests/coll/nodes.c' -o \
	-path tests/campaign/kernel.c -o -path tests/tools/trace_ranks.c \) \
	! -path 'src/bitcode/*' ! -name '*_cuda.c' ! -name team_options.c | sort |
	xargs -P "$(nproc)" -I '{}' bash -c 'compile {}' >"$work/all"
grep -v '^ok' "$work/all"
passes=$(grep -c '^ok' "$work/all")
failures=$(grep -c '^FAILED' "$work/all")
finish
