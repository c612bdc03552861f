#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/shmem/ends/coll.sh ORIEL_RUN PROGRAM - mistakes in collectives end the job: soon, with a
# status, and with a line that names the PE, the call and the reason.
set -uo pipefail
run=$1 program=$2
failures=0
pes=3

# ends TOPOLOGY MISTAKE TEXT...: each TEXT must be in what the job prints.  It is a pattern, because
# the PE that finds a mistake first ends the job.
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
		if [[ ! $out =~ $text ]]; then
			echo "FAILED: $mistake on $topology: \"$text\" is not in: $out"
			failures=$((failures + 1))
		fi
	done
}

for topology in 1x3 3x1; do
	ends $topology no_root "shmem_long_broadcast: PE 9 does not exist \(PEs are 0 to 2\)"
	ORIEL_CHECKED=1 \
		ends $topology outside "shmem: PE 2: shmem_sync: this PE is not in the active set"
	ends $topology beyond \
		"shmem_sync: the active set \(PE_start 1, logPE_stride 1, PE_size 2\)" \
		"goes beyond the last PE, 2"
	ends $topology splits "shmem: PE 0: shmem_team_split_strided: PEs pass different arguments"
	ends $topology strides "shmem_long_alltoalls: strides are 0 and 1"
	ends $topology world "shmem_team_destroy: predefined teams cannot be destroyed"
	ends $topology much "shmem_long_fcollect: 4611686018427387904 elements of 8 bytes"
	ends $topology dead "rank 2"
done

# Mapped PEs compare their cards, queued PEs the terms of a round.
another="PE [0-2] makes another call"
for checked in 0 1; do
	export ORIEL_CHECKED=$checked
	ends 1x3 bytes "shmem: PE [0-2]: shmem_long_fcollect: PE [0-2] gives " \
		"gives (16 bytes, this PE 8|8 bytes, this PE 16)"
	ends 1x3 calls "$another"
	ends 1x3 types "sum_reduce: $another"
	ends 1x3 roots "PE [0-2] names PE [01] as the root, this PE names PE [01]"
	ends 1x3 long_doubles "gives (48 bytes, this PE 32|32 bytes, this PE 48)"
	ends 1x3 large_bytes "gives (32776 bytes, this PE 32768|32768 bytes, this PE 32776)"
	ends 1x3 large_calls "$another"
	ends 1x3 strided "gives (15000 bytes, this PE 12857|12857 bytes, this PE 15000)"
	ends 1x3 many_long_doubles \
		"gives (128016 bytes, this PE 128000|128000 bytes, this PE 128016)"
	ends 1x3 root_calls "$another"
	ends 1x3 short_bytes "gives (16 bytes, this PE 8|8 bytes, this PE 16)"
done
unset ORIEL_CHECKED

ends 3x1 bytes "shmem: PE " ": shmem_long_fcollect: " \
	"rank 0 and rank 1 differ in their bytes: 8 and 16"
ends 3x1 calls "differ in their calls: all-gather and broadcast"
ends 3x1 types "shmem_long_sum_reduce: " "rank 0 and rank 1 differ in their types"
ends 3x1 roots "rank 0 and rank 2 differ in their roots: 0 and 1"
ends 3x1 long_doubles "rank 0 and rank 1 differ in their bytes: 32 and 48"
ends 3x1 large_bytes "rank 0 and rank 1 differ in their bytes: 32768 and 32776"
ends 3x1 large_calls "differ in their calls: all-gather and broadcast"
ends 3x1 strided "shmem_char_alltoalls: " "differ in their bytes: 12857 and 15000"
ends 3x1 many_long_doubles "PE 1 gives 8001 elements, PE 0 8000"
ends 3x1 root_calls "differ in their calls: broadcast and all-gather"
ends 3x1 short_bytes "rank 0 and rank 1 differ in their bytes: 8 and 16"
pes=4
for topology in 1x4 4x1; do
	ends $topology sets "shmem_long_sum_to_all: " "different lists"
done
exit $((failures > 0))
