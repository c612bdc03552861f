#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/soak.sh BUILD SECONDS [WINDOWS [COMMS]] - full load on every transport that works here, one
# after another: SECONDS in all, and on each transport at least its share of WINDOWS and COMMS.
# The engine verbs runs in a virtual machine (tests/vm/vm.sh), without a share of these: it is slow.
# Prints per rank whether memory, descriptors and mappings have grown, and the sums at the end.
# Exit status: 1 if a rank failed or has grown.
set -uo pipefail
build=$(cd "${1:?build folder}" && pwd)
seconds=${2:?seconds}
windows=${3:-0}
comms=${4:-0}
ranks=3
stub=$(find "$build" -name 'libmlx5_stub.so' | sed -n 1p)
kernel=$(find "$build" -name 'libfakeuverbs.so' | sed -n 1p)
vm=$(dirname "$0")/../tests/vm/vm.sh
start_s=240 # a virtual machine may take so long beyond the time of its load
log=$(mktemp)
wire=/dev/shm/oriel-soak-$$
trap 'rm -f "$log" "$wire"*' EXIT

# Topology and engine; "-" is the default.  mlx5 runs on the stub of its libraries.  libmlx5 is the
# same engine on the real libraries, over the emulated kernel.
transports=("mapped - -" "queued 0,1,2 soft" "mixed 0,0,1 soft")
"$build/bin/oriel-info" 2>/dev/null | grep '^ *ofi  *libfabric' >/dev/null &&
	transports+=("ofi 0,1,2 ofi")
[ -n "$stub" ] && transports+=("mlx5 0,1,2 mlx5")
# The build says whether the real libraries are there.
[ -n "$kernel" ] && grep -q '^ORIEL_LIBMLX5:[A-Z]*=/' "$build/CMakeCache.txt" &&
	transports+=("libmlx5 0,1,2 mlx5")
shares=${#transports[@]}
"$vm" check && transports+=("verbs 0,1 verbs")
n=${#transports[@]}

# soak_in_vm NAME TOPOLOGY ENGINE: on the kernel's rxe driver.  Emulation makes answers late.
soak_in_vm() {
	echo "== $1: 2 ranks in a virtual machine, $((seconds / n)) s or more"
	"$vm" one -i "$build/bin/soak" -i "$build/bin/oriel-run" -t $((seconds / n + start_s)) \
		"export ORIEL_ENGINE=$3 ORIEL_IB_TIMEOUT=16 ORIEL_TIMEOUT=100
		oriel-run -n 2 --topology $2 soak $((seconds / n))"
}

# soak_on NAME TOPOLOGY ENGINE
soak_on() {
	local -a variables=() options=()
	if [ "$3" = verbs ]; then
		soak_in_vm "$@"
		return
	fi
	[ "$2" = - ] || options=(--topology "$2")
	[ "$3" = - ] || variables=(ORIEL_ENGINE="$3")
	[ "$1" = mlx5 ] && variables+=(ORIEL_IB_LIBRARY="$stub" ORIEL_MLX5_LIBRARY="$stub"
		MLX5_STUB_WIRE="$wire")
	[ "$1" = libmlx5 ] && variables+=(SYSFS_PATH="$build/tests/uverbs/sys" LD_PRELOAD="$kernel"
		MLX5_STUB_WIRE="$wire")
	echo "== $1: $ranks ranks, $((seconds / n)) s or more"
	env "${variables[@]}" "$build/bin/oriel-run" -n $ranks "${options[@]}" "$build/bin/soak" \
		$((seconds / n)) $(((windows + shares - 1) / shares)) \
		$(((comms + shares - 1) / shares))
}

status=0
for transport in "${transports[@]}"; do
	read -r name topology engine <<<"$transport"
	soak_on "$name" "$topology" "$engine" 2>&1 | tee -a "$log"
	if [ "${PIPESTATUS[0]}" -ne 0 ]; then
		echo "soak: $name FAILED"
		status=1
	fi
done
# Each rank prints "rank 0: 10 s, N signals, N puts, N windows, N comms".
awk '$6 == "signals," { signals += $5; puts += $7
		if ($2 == "0:") { windows += $9; comms += $11; seconds += $3 } }
	END { printf "in all: %d s, %.0f signals, %d puts, %d windows, %d comms\n",
		seconds, signals, puts, windows, comms }' "$log"
exit $status
