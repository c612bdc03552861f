#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the verbs engine on real kernel RDMA, without comm or boot: two processes in one VM, then two
# VMs.  Tests every kind of operation, a key that was revoked, a peer that closes, and a peer VM
# that loses power.
# Usage: verbs_test.sh VERBS_RANKS
# Exit status: 0 all passed, 1 something failed, 77 skipped with the reason.
set -u
program=${1:?usage: verbs_test.sh VERBS_RANKS}
here=$(dirname "$0")
"$here/vm.sh" check || exit
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# expect CASE PATTERN...: each pattern must be in the output.
expect() {
	local case=$1 pattern

	shift
	for pattern; do
		grep -qE "$pattern" "$dir/out" && continue
		echo "FAILED: $case: no line with: $pattern"
		failed=1
	done
	[ $failed -eq 0 ] || sed 's/^/  out: /' "$dir/out" | tail -40
}

# The engine waits 4.096 us x 2^16 for an answer, 8 times: emulation on a busy machine is slow.  If
# the peer is gone on purpose, shorter waits keep the test short.
# shellcheck disable=SC2016 # the guest's shell expands it
common='export ORIEL_LOG=info ORIEL_IB_TIMEOUT=16
impatient() { export ORIEL_IB_TIMEOUT=14 ORIEL_IB_RETRY_CNT=4; }
pair() {
	mkdir "/tmp/$1"
	verbs_ranks "/tmp/$1" 0 "$1" &
	verbs_ranks "/tmp/$1" 1 "$1" || exit 1
	wait $! || exit 1
}
'
"$here/vm.sh" one -i "$program" -t 200 "$common pair ops; pair revoked; impatient; pair gone" \
	>"$dir/out" 2>&1 || {
	echo "FAILED: one VM: status $?"
	failed=1
}
expect "one VM" 'verbs engine: rxe0 port 1, RoCE v2, .*, atomics executed' \
	'rank 0: ops: all right' 'rank 1: ops: all right' \
	'rank 1: queue .* failed at WQE .*: remote access error \(0x13\)' \
	'rank 0: queue .* failed at WQE ' 'rank 0: gone: all right' 'peer does not answer \(0x15\)'

# shellcheck disable=SC2016
"$here/vm.sh" two -i "$program" -t 200 -d 1 "$common"'
for case in ops revoked; do mkdir -p /host/$case; verbs_ranks /host/$case $VM $case || exit 1; done
impatient
exec verbs_ranks /host $VM killed' >"$dir/out" 2>&1 || {
	echo "FAILED: two VMs: status $?"
	failed=1
}
expect "two VMs" 'vm0: rank 0: ops: all right' 'vm1: rank 1: ops: all right' \
	'vm1: rank 1: queue .*: remote access error \(0x13\)' 'vm0: rank 0: revoked: all right' \
	'vm0: rank 0: queue .*: .*peer does not answer \(0x15\)' 'vm0: rank 0: killed: all right'

[ $failed -eq 0 ] && echo "verbs_test: all passed"
exit $failed
