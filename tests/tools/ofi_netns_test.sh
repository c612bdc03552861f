#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the contract suite with the ofi engine over TCP between network namespaces: two joined by a
# veth pair, three by a bridge.  For the library each namespace is a host: nothing is shared except
# the wire.
# Without root, or without the program ip, the ranks run on loopback instead, as queued peers of one
# host.
# Usage: ofi_netns_test.sh FOLDER_OF_CONTRACT_PROGRAMS [THEME...]
# Exit status: 0 all passed; 1 something failed; 77 skipped (the reason is printed; with CI=true
# this is a failure).
set -u
programs=${1:?usage: ofi_netns_test.sh FOLDER [THEME...]}
shift
themes=("$@")
[ ${#themes[@]} -gt 0 ] || themes=(put signal barrier counter staged order atomic packet line path)
dir=$(mktemp -d) || exit 1
name=ori$$
made=()
failed=0
# Each run adds 300.  All ports stay below the range from which the kernel takes ephemeral ports.
port=$((20000 + $$ % 8000))
secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

skip() {
	echo "skipped: $*"
	[ "${CI:-}" = true ] && exit 1
	exit 77
}

clean() {
	local ns
	for ns in "${made[@]}"; do
		ip netns del "$ns" 2>/dev/null
	done
	rm -rf "$dir"
}
trap clean EXIT

add_namespace() {
	ip netns add "$1" 2>"$dir/why" || return 1
	made+=("$1")
	ip -n "$1" link set lo up
}

# join_two: namespaces 0 and 1, one cable.
join_two() {
	add_namespace "$name-0" && add_namespace "$name-1" || return 1
	ip link add "$name-a" netns "$name-0" type veth peer name "$name-b" netns "$name-1" ||
		return 1
	ip -n "$name-0" addr add 10.77.0.1/24 dev "$name-a"
	ip -n "$name-1" addr add 10.77.0.2/24 dev "$name-b"
	ip -n "$name-0" link set "$name-a" up
	ip -n "$name-1" link set "$name-b" up
}

# join_three: namespaces 0 to 2, each with a cable to a bridge in a fourth.
join_three() {
	local n
	add_namespace "$name-s" || return 1
	ip -n "$name-s" link add br0 type bridge || return 1
	ip -n "$name-s" link set br0 up
	for n in 0 1 2; do
		add_namespace "$name-$n" || return 1
		ip link add "eth0" netns "$name-$n" type veth peer name "p$n" netns "$name-s" ||
			return 1
		ip -n "$name-s" link set "p$n" master br0
		ip -n "$name-s" link set "p$n" up
		ip -n "$name-$n" addr add "10.77.0.$((n + 1))/24" dev eth0
		ip -n "$name-$n" link set eth0 up
	done
}

drop_namespaces() {
	local ns
	for ns in "${made[@]}"; do
		ip netns del "$ns"
	done
	made=()
}

# run_theme RANKS MASTER THEME PREFIX: one process per rank; PREFIX "netns" puts each into its
# namespace.
run_theme() {
	local ranks=$1 master=$2 theme=$3 where=$4 n pid status=0
	local -a pids=() into
	for ((n = 0; n < ranks; n++)); do
		into=()
		[ "$where" = netns ] && into=(ip netns exec "$name-$n")
		RANKS_LAUNCHED=1 ORIEL_ENGINE=ofi ORIEL_CONTRACT=processes,quick,nokill RANK=$n \
			WORLD_SIZE=$ranks \
			LOCAL_RANK=0 MASTER_ADDR=$master MASTER_PORT=$port ORIEL_SECRET=$secret \
			timeout -k 5 120 "${into[@]}" "$programs/contract_$theme" \
			"/queued/${ranks}ranks/" >"$dir/$theme.$n" 2>&1 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	port=$((port + 300 > 32000 ? 20000 : port + 300))
	n=$(grep -c '^ok' "$dir/$theme.0")
	if [ $status -ne 0 ] || [ "$n" -eq 0 ]; then
		echo "FAILED: $theme, $ranks ranks, $where: exit status $status, $n cases passed"
		for ((n = 0; n < ranks; n++)); do
			grep -v '^ok' "$dir/$theme.$n" | head -15 | sed "s/^/  rank $n: /"
		done
		failed=1
	else
		echo "ok: $theme, $ranks ranks, $where: $n cases"
	fi
}

for theme in "${themes[@]}"; do
	[ -x "$programs/contract_$theme" ] || skip "no program $programs/contract_$theme"
done
ldconfig -p 2>/dev/null | grep -q 'libfabric\.so\.1' ||
	skip "no libfabric.so.1 (tools/deps.sh installs it)"

where=netns
if [ "$(id -u)" -ne 0 ]; then
	echo "not root: ranks on loopback instead of namespaces"
	where=loopback
elif ! command -v ip >/dev/null; then
	echo "no ip (package iproute2): ranks on loopback instead of namespaces"
	where=loopback
fi
for ranks in 2 3; do
	master=127.0.0.1
	if [ $where = netns ]; then
		if [ $ranks -eq 2 ]; then join_two; else join_three; fi ||
			skip "cannot make network namespaces: $(cat "$dir/why" 2>/dev/null)"
		master=10.77.0.1
	fi
	for theme in "${themes[@]}"; do
		run_theme $ranks $master "$theme" $where
	done
	[ $where = netns ] && drop_namespaces
done
exit $failed
