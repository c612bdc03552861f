#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/shmem/run.sh ORIEL_RUN PROGRAM [ROW...] - runs a program of tests/shmem on rows of PEs and
# topologies.  ROWS below names all rows; without ROW all of them run.
# A row is PEs:TOPOLOGY[:VARIABLE=VALUE...].  Topology "-" is the machine's own: all PEs are mapped.
set -uo pipefail
run=$1 program=$2
shift 2

faulty=ORIEL_SOFT_FAULTS=seed=5,drop=0.01,dup=0.01,reorder=0.05,mtu=512
ROWS="1:- 2:- 3:- 8:- 2:2x1 3:3x1 8:8x1 3:0,0,1 8:2x4 3:3x1:$faulty 8:2x4:$faulty"
# NICs whose atomics are not those of a CPU, and NICs without order and without atomics
ROWS+=" 8:2x4:ORIEL_SOFT_NIC=cx7 3:0,0,1:ORIEL_SOFT_NIC=efa"

failures=0
for row in ${*:-$ROWS}; do
	IFS=: read -r pes topology variables <<<"$row"
	options=(-n "$pes" --timeout 60)
	[ "$topology" = - ] || options+=(--topology "$topology")
	# shellcheck disable=SC2086 # words
	if ! env ${variables//:/ } SHMEM_SYMMETRIC_SIZE="${SHMEM_SYMMETRIC_SIZE:-64M}" \
		"$run" "${options[@]}" "$program"; then
		echo "FAILED: $(basename "$program") on row $row"
		failures=$((failures + 1))
	fi
done
exit $((failures > 0))
