#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/shmem/ends/words.sh ORIEL_RUN PROGRAM - a wrong call ends the job soon, with a status other
# than 0 and one line that names PE, call and cause; on mapped and on queued PEs.
set -uo pipefail
run=$1 program=$2
failures=0

# expect MISTAKE TEXT [VARIABLE=VALUE]: the text is in the output.
expect() {
	local mistake=$1 text=$2 out status options
	for options in "" "--topology 2x1"; do
		# shellcheck disable=SC2086 # words
		out=$(env SHMEM_SYMMETRIC_SIZE=16M "${@:3}" timeout 60 "$run" -n 2 $options \
			"$program" "$mistake" 2>&1)
		status=$?
		if [ $status -eq 0 ] || [ $status -eq 124 ] || ! grep -qF -- "$text" <<<"$out"; then
			echo "FAILED: $mistake $options: status $status, no line with '$text' in:"
			echo "$out"
			failures=$((failures + 1))
		fi
	done
}

expect pe "shmem_long_atomic_add: PE 9 does not exist (PEs are 0 to 1)"
expect early "shmem_long_atomic_inc: the library is not initialised"
expect stack "is not symmetric"
expect unaligned "is not aligned to its 4 bytes"
expect context "shmem_ctx_long_atomic_inc: the context is SHMEM_CTX_INVALID"
expect cmp "shmem_long_wait_until: 9 is not a comparison"
expect ivars "shmem_long_wait_until_all: ivars"
expect clear "does not hold the lock"
expect sig_op "shmem_long_put_signal: 7 is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"
expect late_word "have 0, want at least 5" ORIEL_TIMEOUT=4
expect late_lock "shmem_set_lock: gave up waiting for the lock: PE 0 is before this PE" \
	ORIEL_TIMEOUT=4
expect dead "rank 1"
exit $((failures > 0))
