#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/shmem/ends/coll.sh ORIEL_RUN PROGRAM - mistakes in collectives end the job: soon, with a
# status, and with a line that names the PE, the call and the reason.
set -uo pipefail
run=$1 program=$2
failures=0
pes=3

# ends TOPOLOGY MISTAKE TEXT...: each TEXT must be in what the job prints.
ends() {
	local topology=$1 mistake=$2 out status text
	shift 2
	out=$(timeout 60 "$run" -n "$pes" --topology "$topology" --timeout 100 \
		"$program" "$mistake" 2>&1)
	status=$?
	if [ $status = 0 ] || [ $status = 124 ]; then
		echo "FAILED: $mistake on $topology ended with status $status: $out"
		failures=$((failures + 1))
	fi
	for text in "$@"; do
		if [[ $out != *"$text"* ]]; then
			echo "FAILED: $mistake on $topology: \"$text\" is not in: $out"
			failures=$((failures + 1))
		fi
	done
}

for topology in 1x3 3x1; do
	ends $topology bytes "shmem: PE " ": shmem_long_fcollect: " \
		"rank 0 and rank 1 differ in their bytes: 8 and 16"
	ends $topology calls "differ in their calls: all-gather and broadcast"
	ends $topology types "shmem_long_sum_reduce: " "rank 0 and rank 1 differ in their types"
	ends $topology roots "rank 0 and rank 2 differ in their roots: 0 and 1"
	ends $topology no_root "shmem_long_broadcast: PE 9 does not exist (PEs are 0 to 2)"
	ends $topology long_doubles "rank 0 and rank 1 differ in their bytes: 32 and 48"
	ends $topology many_long_doubles "PE 1 gives 8001 elements, PE 0 8000"
	ends $topology strided "shmem_char_alltoalls: " "differ in their bytes: 12857 and 15000"
	ORIEL_CHECKED=1 \
		ends $topology outside "shmem: PE 2: shmem_sync: this PE is not in the active set"
	ends $topology beyond "shmem_sync: the active set (PE_start 1, logPE_stride 1, PE_size 2)" \
		"goes beyond the last PE, 2"
	ends $topology splits "shmem: PE 0: shmem_team_split_strided: PEs pass different arguments"
	ends $topology strides "shmem_long_alltoalls: strides are 0 and 1"
	ends $topology world "shmem_team_destroy: predefined teams cannot be destroyed"
	ends $topology much "shmem_long_fcollect: 4611686018427387904 elements of 8 bytes"
	ends $topology dead "rank 2"
done
ends 1x3 large_bytes "shmem_long_fcollect: PE 1 gives 32776 bytes, PE 0 32768"
ends 3x1 large_bytes "rank 0 and rank 1 differ in their bytes: 32768 and 32776"
ends 1x3 large_calls "PE 1 makes another call than PE 0"
ends 3x1 large_calls "differ in their calls: all-gather and broadcast"
pes=4
for topology in 1x4 4x1; do
	ends $topology sets "shmem_long_sum_to_all: " "different lists"
done
exit $((failures > 0))
