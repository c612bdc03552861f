#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/vm/vm.sh - runs a command on real kernel RDMA (the rxe driver) without RDMA hardware.
# It runs in one small VM under plain emulation, or in two.  Two VMs are joined by unix datagram
# sockets and speak RoCE v2.  Nothing touches the network or the kernel of the host.
#
#	vm.sh check			prints what is missing to run, and exits 77 (1 if CI=true)
#	vm.sh one [options] COMMAND	one VM; rxe0 is on its loopback
#	vm.sh two [options] COMMAND	two VMs; rxe0 on eth0, 10.7.0.1 and 10.7.0.2; VM is 0 or 1
#
#	-i FILE		puts a program and its libraries into the guest, on its PATH; repeatable
#	-s FOLDER	shared with the guests as /host, and kept; default: a temporary folder
#	-t SECONDS	after this time the VMs are stopped (default 60)
#	-c CPUS		of each VM (default 2, and 1 for two VMs)
#	-d N		VM N must die: it is killed when a guest creates the file /host/kill
#
# The busybox shell of the guest runs COMMAND.  Its output is printed; with two VMs each line begins
# with "vmN: ".
# Exit status: that of the command (the first that is not 0); 124 if the time was up; 125 if a VM
# ended without a status.  For 124 and 125 the end of the VM's console is printed.
set -uo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/oriel/vm
case $(uname -m) in
x86_64) machine=(qemu-system-x86_64 -M q35 -cpu max) console=ttyS0 ;;
*) machine=(qemu-system-aarch64 -M "virt,gic-version=3" -cpu cortex-a72) console=ttyAMA0 ;;
esac

# ---- can it run here? ----------------------------------------------------------------------------

find_provider() {
	find /usr/lib /usr/lib64 -name 'librxe-rdmav*.so' 2>/dev/null | sed -n 1p
}

missing() {
	local tool

	for tool in "${machine[0]}" busybox cpio rdma timeout; do
		command -v "$tool" >/dev/null || echo "$tool"
	done
	[ -f "$cache/complete" ] || echo "a kernel in $cache"
	[ -n "$(find_provider)" ] || echo "the rxe provider of libibverbs"
	[ -f /etc/libibverbs.d/rxe.driver ] || echo "/etc/libibverbs.d/rxe.driver"
}

check() {
	local what

	what=$(missing | paste -sd, | sed 's/,/, /g')
	[ -z "$what" ] && return 0
	echo "vm: missing: $what; tools/deps.sh vm gets it"
	[ "${CI:-}" = true ] && return 1
	return 77
}

# ---- the guest -----------------------------------------------------------------------------------

# copy_libraries TREE FILE...: copies the libraries of the files into one folder, and the loader to
# the path where the kernel looks for it.
copy_libraries() {
	local tree=$1 file library to

	shift
	for file; do
		ldd "$file" 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' | while read -r library; do
			to=$tree/oriel/lib/${library##*/}
			case $library in
			*/ld-*) to=$tree$library ;;
			esac
			[ -e "$to" ] && continue
			mkdir -p "${to%/*}"
			cp -L "$library" "$to"
		done
	done
}

# make_guest OUT FILE...: an initramfs with the files.
make_guest() {
	local out=$1 tree provider verbs

	shift
	tree=$(mktemp -d) || return 1
	provider=$(find_provider)
	mkdir -p "$tree"/{bin,oriel/lib,proc,sys,dev,tmp,host,modules,etc/libibverbs.d}
	cp "$(command -v busybox)" "$tree/bin/"
	ln -s busybox "$tree/bin/sh"
	cp "$(command -v rdma)" "$tree/bin/"
	cp "$cache"/modules/* "$cache/order" "$tree/modules/"
	mkdir -p "$tree$(dirname "$provider")"
	cp -L "$provider" "$tree$provider"
	cp /etc/libibverbs.d/rxe.driver "$tree/etc/libibverbs.d/"
	# libibverbs is loaded by name and not linked, so ldd does not list it.
	verbs=$(ldd "$provider" | grep -oE '/[^ ]+libibverbs\.so[^ ]*')
	[ $# -gt 0 ] && cp -L "$@" "$tree/oriel/"
	copy_libraries "$tree" "$(command -v rdma)" "$provider" "$verbs" "$@"
	cat >"$tree/init" <<-'INIT'
		#!/bin/sh
		/bin/busybox --install -s /bin
		export PATH=/oriel:/bin HOME=/tmp LD_LIBRARY_PATH=/oriel/lib
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t devtmpfs dev /dev
		mkdir -p /dev/shm
		mount -t tmpfs shm /dev/shm
		mount -t tmpfs tmp /tmp
		while read -r module; do insmod "/modules/$module"; done </modules/order
		mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none host /host
		ulimit -l unlimited
		hostname vm
		ifconfig lo 127.0.0.1 up
		VM=$(sed -n 's/.* vm=\([0-9]\).*/\1/p' /proc/cmdline)
		netdev=lo
		if [ -n "$VM" ]; then
			export VM
			hostname "vm$VM"
			ifconfig eth0 "10.7.0.$((VM + 1))" netmask 255.255.255.0 up
			netdev=eth0
		fi
		rdma link add rxe0 type rxe netdev $netdev
		cd /tmp
		sh /host/command >"/host/out$VM" 2>&1
		echo $? >"/tmp/status"
		cp /tmp/status "/host/status$VM"
		sync
		poweroff -f
	INIT
	chmod +x "$tree/init"
	(cd "$tree" && find . | cpio -o -H newc --quiet) >"$out"
	rm -rf "$tree"
}

# boot N CPUS DEVICE...: N is the VM's number, or empty for the only one.  Returns when it has
# ended.
boot() {
	local n=$1 cpus=$2

	shift 2
	exec timeout -k 5 "$seconds" "${machine[@]}" -accel tcg,thread=multi -smp "$cpus" -m 1G \
		-nographic -no-reboot -kernel "$cache/vmlinuz" -initrd "$share/initrd" \
		-append "console=$console quiet panic=-1 vm=$n" "$@" \
		-fsdev local,id=host,path="$share",security_model=none \
		-device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null >"$share/console$n" 2>&1
}

# ---- the host's side -----------------------------------------------------------------------------

# judge N CODE: prints the output of VM N; returns the status of its command.
judge() {
	local n=$1 code=$2 prefix=${1:+vm$1: } status

	[ -f "$share/out$n" ] && sed "s/^/$prefix/" "$share/out$n"
	if [ "$n" = "$dies" ]; then
		[ -f "$share/kill" ] && return 0
		echo "${prefix}was to be killed, but nobody asked for it"
		return 125
	fi
	status=$(cat "$share/status$n" 2>/dev/null)
	if [ -n "$status" ]; then
		return "$status"
	fi
	[ "$code" -eq 124 ] || [ "$code" -eq 137 ] && status=124
	echo \
		"${prefix}VM ended without a status (${status:+time is up, }qemu returned $code); its console:"
	tail -15 "$share/console$n" | sed "s/^/${prefix}| /"
	return "${status:-125}"
}

# Kills VM `dies` without warning, as a power failure does, when a guest asks for it.
kill_on_request() {
	local pid=$1 until=$((SECONDS + seconds))

	while [ $SECONDS -lt "$until" ] && kill -0 "$pid" 2>/dev/null; do
		if [ -f "$share/kill" ]; then
			# The child of `timeout` is qemu.  `timeout` itself cannot pass on a KILL.
			pkill -KILL -P "$pid"
			return
		fi
		sleep 0.1
	done
}

# The process ids of the running VMs.  clean_up() ends them with this script.
vms=()

clean_up() {
	[ ${#vms[@]} -eq 0 ] || kill "${vms[@]}" 2>/dev/null
	[ -z "$temporary" ] || rm -rf "$temporary"
}

run_one() {
	boot "" "${cpus:-2}" -nic none &
	vms=($!)
	wait $!
	judge "" $?
}

run_two() {
	local n here there codes=() result=0 one

	for n in 0 1; do
		here="local.type=unix,local.path=$share/socket$n"
		there="remote.type=unix,remote.path=$share/socket$((1 - n))"
		boot $n "${cpus:-1}" -netdev "dgram,id=net,$here,$there" \
			-device virtio-net-pci,netdev=net,mac=52:54:00:00:00:0$n,romfile= &
		vms+=($!)
	done
	[ "$dies" != none ] && kill_on_request "${vms[$dies]}"
	for n in 0 1; do
		wait "${vms[$n]}" 2>/dev/null
		codes+=($?)
	done
	for n in 0 1; do
		judge $n "${codes[$n]}"
		one=$?
		[ $result -ne 0 ] || result=$one
	done
	return $result
}

verb=${1:-}
[ $# -gt 0 ] && shift
case $verb in
check)
	check
	exit
	;;
one | two) ;;
*)
	echo >&2 \
		"usage: vm.sh check | one | two [-i FILE]... [-s FOLDER] [-t SECONDS] [-c CPUS] [-d N] COMMAND"
	exit 2
	;;
esac
files=() share='' temporary='' seconds=60 cpus='' dies=none
while getopts i:s:t:c:d: option; do
	case $option in
	i) files+=("$OPTARG") ;;
	s) share=$OPTARG ;;
	t) seconds=$OPTARG ;;
	c) cpus=$OPTARG ;;
	d) dies=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
check || exit
if [ -z "$share" ]; then
	share=$(mktemp -d) || exit 1
	temporary=$share
fi
trap clean_up EXIT
trap 'exit 130' INT TERM
rm -f "$share"/{status,out,console,socket}{,0,1} "$share/kill"
printf '%s\n' "$*" >"$share/command"
make_guest "$share/initrd" ${files[@]+"${files[@]}"} || exit 1
"run_$verb"
