#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the contract suite with the verbs engine on real kernel RDMA, with queued peers and transfers
# up to 64 KiB.  In one VM there are 2 ranks, then 4 ranks without mapped peers.  In two VMs there
# is one rank in each.  Groups have one thread, because emulation is too slow for more.
# Usage: contract_test.sh FOLDER	FOLDER has the programs contract_THEME
# Exit status: 0 all passed, 1 something failed, 77 skipped with the reason.
set -u
bin=${1:?usage: contract_test.sh FOLDER}
here=$(dirname "$0")
"$here/vm.sh" check || exit
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# THEME:TESTS, where TESTS is a part of their names.  A test takes seconds, so a theme runs in full
# only if its tests have few rounds.
two=/queued/2ranks/1threads
four=/mixed/4ranks/1threads
# shellcheck disable=SC2206 # no blanks in them
of_one=(put:$two signal:$two counter:$two atomic:$two transport:$two barrier:barrier_barrier$two
	barrier:barrier_several_ids$two staged:staged_depth_2$two staged:staged_too_long$two
	order:order_value_then_signal$two order:order_put_fence_signal$two
	order:order_put_flush_signal$two packet:packet_short$two
	packet:packet_exchange$two path:path_both_ends$two)
# shellcheck disable=SC2206 # no blanks in them
of_four=(signal:signal_all_but_self$four counter:counter_once_by_value$four atomic:atomic_add$four
	barrier:barrier_third_party_sees$four)
# shellcheck disable=SC2206 # no blanks in them
of_two=(put:$two signal:$two counter:$two atomic:$two order:order_value_then_signal$two
	packet:packet_exchange$two)

files=()
for theme in put signal counter barrier atomic staged transport order packet path; do
	[ -x "$bin/contract_$theme" ] || {
		echo "FAILED: no program $bin/contract_$theme" && exit 1
	}
	files+=(-i "$bin/contract_$theme")
done

# judge CASE STATUS PROGRAMS: fails unless PROGRAMS programs report that none of their tests failed.
judge() {
	local summaries passed

	summaries=$(grep -cE '[1-9][0-9]* tests, 0 failed, 0 skipped$' "$dir/out")
	passed=$(grep -cE '^(vm[01]: )?ok ' "$dir/out")
	echo "$1: $summaries of $3 runs without a failure, $passed tests"
	[ "$2" -eq 0 ] && [ "$summaries" -eq "$3" ] && return
	echo "FAILED: $1: status $2"
	grep -vE '^(vm[01]: )?ok ' "$dir/out" | tail -40
	failed=1
}

# shellcheck disable=SC2016 # the guest's shell expands it
common='export ORIEL_ENGINE=verbs ORIEL_CONTRACT=processes,quick ORIEL_IB_TIMEOUT=16
bad=0
run() {
	for item; do
		"contract_${item%%:*}" "${item#*:}" || bad=1
		MASTER_PORT=$((MASTER_PORT + 100))
	done
}
'
"$here/vm.sh" one "${files[@]}" -t 400 "$common
run ${of_one[*]}
export ORIEL_MAPPED=0
run ${of_four[*]}
exit \$bad" >"$dir/out" 2>&1
judge "one VM" $? $((${#of_one[@]} + ${#of_four[@]}))

"$here/vm.sh" two "${files[@]}" -t 400 "$common
export RANKS_LAUNCHED=1 RANK=\$VM WORLD_SIZE=2
export MASTER_ADDR=10.7.0.1 MASTER_PORT=20000 ORIEL_SECRET=of-two-machines
run ${of_two[*]}
exit \$bad" >"$dir/out" 2>&1
judge "two VMs" $? $((2 * ${#of_two[@]}))

[ $failed -eq 0 ] && echo "contract_test: all passed"
exit $failed
