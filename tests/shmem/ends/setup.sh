#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/shmem/ends/setup.sh ORIEL_RUN PROGRAM - what jobs of OpenSHMEM print and return when they
# end early (setup.c).  Every case runs with mapped PEs and with queued ones.
set -uo pipefail
run=$1 program=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failures=0
export SHMEM_SYMMETRIC_SIZE=1M

fail() {
	echo "FAILED: $*"
	sed 's/^/    /' "$out" | sed -n 1,20p
	failures=$((failures + 1))
}

# job OPTIONS -- CASE STATUS TEXT: runs the case on two PEs.  TEXT is an extended pattern, or empty.
job() {
	local options=() status
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	"$run" -n 2 --timeout 30 "${options[@]}" "$program" "$2" >"$out" 2>&1
	status=$?
	[ $status -eq "$3" ] || fail "$2 ${options[*]}: status $status instead of $3"
	[ -z "$4" ] || grep -qE "$4" "$out" || fail "$2 ${options[*]}: nothing like: $4"
}

# ends CASE STATUS TEXT: on mapped and on queued PEs.
ends() {
	job -- "$@"
	job --topology 2x1 -- "$@"
}

ends not_ready 1 \
	'shmem: shmem_barrier_all: the library is not initialised: call shmem_init\(\) first'
ends bad_pe 1 'shmem: PE 0: shmem_long_p: PE 2 does not exist \(PEs are 0 to 1\)'
ends negative_pe 1 'shmem: PE 0: shmem_long_g: PE -1 does not exist'
ends bad_address 1 'shmem: PE 0: shmem_long_put: dest 0x[0-9a-f]+ is not symmetric'
ends bad_source 1 'shmem: PE 0: shmem_long_get: source 0x[0-9a-f]+ is not symmetric'
ends beyond_end 1 \
	'1099511627776 bytes goes beyond the end of the variables of the program: [0-9]+ bytes are'
ends too_many 1 'shmem_put128: dest .* goes beyond the end'
ends bad_stride 1 'shmem_long_iput: the stride of dest is 0: it must be at least 1'
ends bad_context 1 'shmem_ctx_long_p: the context is SHMEM_CTX_INVALID'
ends destroy_default 1 'shmem_ctx_destroy: SHMEM_CTX_DEFAULT cannot be destroyed'
ends bad_free 1 \
	'shmem_free: 0x[0-9a-f]+ was not allocated from the symmetric heap, or is already free'
ends double_free 1 \
	'shmem_free: 0x[0-9a-f]+ was not allocated from the symmetric heap, or is already free'
ends bad_sizes 1 'shmem_malloc: PE . asks for .00 bytes and PE . for .00: sizes must be alike'
ends other_block 1 \
	'shmem_free: PE (0 frees the block at offset 0 and PE 1|1 .* offset 64 and PE 0) the one at'
ends other_alignment 1 \
	'shmem_align: PE (0 finds offset 64 and PE 1 .* 4096|1 .* 4096 and PE 0 offset 64) in its'
ends other_room 1 \
	'shmem_align: PE (0 finds offset 64 and PE 1 no room|1 finds no room and PE 0 offset 64) in'
ends free_or_malloc 1 \
	'PE (0 frees at offset 0 and PE 1 allocates at .* 64|1 .* 64 and PE 0 frees at .* 0): all'
ends too_small 0 \
	'shmem_malloc: no room for 2097152 bytes: .* SHMEM_SYMMETRIC_SIZE higher \(now 1048576\)'

# The status of a job, and the PE that ended it.
ends exit_five 5 'rank 0 .*exited with status 5'
ends killed 137 'rank 0 .*killed by signal 9'
ends global_exit_three 3 'PE 1 ends the job'
ends global_exit_zero 0 'PE 1 ends the job'
job -- global_exit_locked 0 'PE 1 ends the job'
job --grace 0.5 --topology 2x1 -- global_exit_full 5 'rank 0 .*exited with status 5'
# The launcher must not end the PE that is left before it has spoken.  A PE may die as soon as it
# has left shmem_init(), when the other one is still there.
for topology in 1x2 2x1; do
	job --grace 20 --topology $topology -- killed 137 'PE 1: shmem_(init|barrier_all): .*rank 0'
	job --grace 20 --topology $topology -- finalize_alone 137 \
		'PE 0: shmem_(init|finalize): .*rank 1'
done
ends returns 0 ''
ends twice 0 ''
ORIEL_TIMEOUT=6 ends late 1 'PE 1: shmem_barrier_all: .*rank 0'

# The environment.
ends says 0 'version 1.5 of Oriel'
SHMEM_VERSION=1 ends says 0 '^OpenSHMEM 1.5, Oriel [0-9]'
SHMEM_INFO=yes ends says 0 'SHMEM_SYMMETRIC_SIZE .*\(now 1048576\)'
SHMEM_DEBUG=1 ends says 0 'shmem: PE 1: heap of 1048576 bytes'
ORIEL_DEVICE=cuda ends says 0 'shmem: ORIEL_DEVICE=cuda is ignored: PEs run on the CPU'
for size in 0.5m 512K 524288 .0005g 512kb; do
	SHMEM_SYMMETRIC_SIZE=$size SHMEM_DEBUG=1 ends says 0 'heap of (524288|540672) bytes'
done
for size in abc 1x -5 5MM 1e400; do
	SHMEM_SYMMETRIC_SIZE=$size ends says 1 \
		"shmem_init: SHMEM_SYMMETRIC_SIZE=$size is not a size: use"
done
# Too large for a limit of the process.  A sanitizer maps more than the limit itself.
if (ulimit -v 2000000 && "$program" 2>/dev/null) || [ $? -eq 2 ]; then
	(
		ulimit -v 2000000
		SHMEM_SYMMETRIC_SIZE=4G job -- says 1 \
			'shmem_init: cannot map .*ulimit -v.*set SHMEM_SYMMETRIC_SIZE lower'
		exit $failures
	) || failures=$((failures + 1))
else
	echo "skipped: a limit of address space, because the program does not start with one"
fi

# PEs with heaps of different sizes.
"$run" -n 2 --timeout 30 /bin/sh -c \
	'SHMEM_SYMMETRIC_SIZE=$((RANK + 1))M exec "$0" says' "$program" >"$out" 2>&1
[ $? -eq 1 ] || fail "different sizes: status"
grep -q 'SHMEM_SYMMETRIC_SIZE is .* bytes here and .* on PE .: it must be alike' "$out" ||
	fail "different sizes: text"

[ $failures -eq 0 ] && echo "ends/setup.sh: all of it passed"
exit $((failures > 0))
