#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/deps.sh - installs the Debian packages that are missing, by name; never upgrades.
#
#	tools/deps.sh [build] [fabric] [test] [python] [torch] [shmem] [vm] [slurm] [check] [bench]
#		[deb]
#
# Without arguments it installs what a build needs.  The groups add:
#  fabric  headers of RDMA devices and libfabric; without them their engines are left out
#  test    launchers and libraries that tests use
#  python  an environment with numpy in a user cache, for the tests of the Python package, and the
#          compiler of the device bitcode
#  torch   torch and Triton in that environment, where PyPI has a build of moderate size
#  shmem   the source of shmem4py in a user cache, and what its build and its tests need
#  vm      programs for the tests with a virtual RDMA device, and a kernel in a user cache
#  slurm   a Slurm for tests/tools/slurm_test.sh
#  check   the tools of tools/check.sh
#  bench   Open MPI for comparison, and gnuplot
#  deb     builds the Debian packages and tests them in a clean root
# It needs root, or sudo without a password.  Otherwise it prints the list and exits 1.
set -euo pipefail

# tool or file that shows the package is there | package | why
build_list='
cc|gcc|compiles the library
c++|g++|compiles the headers as C++ in the tests
/usr/include/stdio.h|libc6-dev|headers of the C library
cmake|cmake|configures the build (3.25 or newer)
ninja|ninja-build|runs the build
make|make|front door of the build
python3|python3|checks JSON output in the tests
pkg-config|pkg-config|tests the installed oriel.pc
'
fabric_list='
/usr/include/infiniband/verbs.h|libibverbs-dev|headers of RDMA devices: verbs and mlx5 engines
/usr/include/rdma/fabric.h|libfabric-dev|headers of libfabric, for the ofi engine
'
test_list='
/usr/include/infiniband/mlx5dv.h|libibverbs-dev|a test compares our WQEs with its structs
/usr/lib/*/libmlx5.so.1|ibverbs-providers|the mlx5 engine runs on it, over an emulated kernel
/usr/lib/*/libfabric.so.1|libfabric1|the ofi engine runs on it
fi_info|libfabric-bin|shows which providers there are
ip|iproute2|makes network namespaces
mandoc|mandoc|checks the manual pages
mpirun|openmpi-bin|a PMIx launcher, and runs the MPI example
mpicc|libopenmpi-dev|compiles the MPI example
/usr/lib/*/pmix2/include/pmix.h|libpmix-dev|our declarations of PMIx are held against its header
clang|clang|libFuzzer, for tests/fuzz
/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a|libclang-rt-dev|libFuzzer itself
spin|spin|checks the models of the protocols
gnuplot|gnuplot-nox|draws the plots of oriel-perf and make versus
'
python_list='
python3|python3|runs the Python package and its tests
/usr/lib/python3*/ensurepip|python3-venv|makes an environment for them
/usr/bin/clang-19|clang-19|compiles the device calls to bitcode, for Triton kernels
'
shmem_list='
python3|python3|runs shmem4py and its tests
/usr/lib/python3*/ensurepip|python3-venv|makes an environment for them
/usr/include/python3*/Python.h|python3-dev|compiles shmem4py
'
case $(uname -m) in
aarch64) qemu='qemu-system-aarch64|qemu-system-arm' ;;
*) qemu='qemu-system-x86_64|qemu-system-x86' ;;
esac
vm_list="
$qemu|runs a small virtual machine with a kernel RDMA device
/usr/share/doc/busybox-static|busybox-static|the programs inside it
cpio|cpio|packs its files
/sbin/modinfo|kmod|finds the modules it needs
rdma|iproute2|makes its RDMA device
ibv_devinfo|ibverbs-utils|shows its RDMA device
/usr/lib/*/libibverbs/librxe-rdmav*.so|ibverbs-providers|drives its RDMA device
ib_write_bw|perftest|the bare tool beside ours
/usr/share/doc/rdma-core|rdma-core|configuration of RDMA devices
"
slurm_list='
slurmctld|slurmctld|the controller
slurmd|slurmd|the daemon of a node
srun|slurm-client|starts ranks
munged|munge|how they trust each other
'
check_list='
clang|clang|second compiler of the header tests
clang-format|clang-format|checks the format
clang-tidy|clang-tidy|static checks
cppcheck|cppcheck|static checks
'
bench_list='
mpirun|openmpi-bin|runs the comparison with MPI
mpicc|libopenmpi-dev|compiles the comparison with MPI
gnuplot|gnuplot-nox|draws plots: make versus, the cost of starting over the number of ranks
'
deb_list='
dpkg-buildpackage|dpkg-dev|builds Debian packages
dh|debhelper|the usual steps of such a build
dh_python3|dh-python|the same for the Python package
/usr/include/infiniband/verbs.h|libibverbs-dev|headers of RDMA devices: verbs and mlx5 engines
/usr/include/rdma/fabric.h|libfabric-dev|headers of libfabric, for the ofi engine
mmdebstrap|mmdebstrap|makes a clean root, in which a test installs the packages
'

there() {
	case $1 in
	/*) compgen -G "$1" >/dev/null ;; # a path, perhaps with a pattern
	*) command -v "$1" >/dev/null ;;
	esac
}

# The kernel of the virtual machine: downloaded and unpacked for the user, never installed.
fetch_kernel() {
	if [ $fetch -eq 1 ]; then
		"$(dirname "$0")/../tests/vm/fetch.sh"
	fi
}

# The environments of the Python tests: made for the user, never installed.
make_environments() {
	if [ $environment -eq 1 ]; then
		"$(dirname "$0")/python-env.sh" ${with_torch:+torch}
	fi
	if [ $shmem_environment -eq 1 ]; then
		"$(dirname "$0")/shmem-env.sh"
	fi
}

# Prints the packages of list $1 that are missing; says why on stderr.
missing() {
	local tool package why

	while IFS='|' read -r tool package why; do
		if [ -n "$tool" ] && ! there "$tool"; then
			echo "$package"
			echo "deps: $package is missing: $why" >&2
		fi
	done <<<"$1"
}

packages=()
fetch=0
environment=0
shmem_environment=0
with_torch=
for group in build "$@"; do
	case $group in
	build) list=$build_list ;;
	fabric) list=$fabric_list ;;
	test) list=$test_list ;;
	vm)
		list=$vm_list
		fetch=1
		;;
	python | torch)
		list=$python_list
		environment=1
		[ "$group" = python ] || with_torch=1
		;;
	shmem)
		list=$shmem_list
		shmem_environment=1
		;;
	slurm) list=$slurm_list ;;
	check) list=$check_list ;;
	bench) list=$bench_list ;;
	deb) list=$deb_list ;;
	*)
		echo >&2 \
			"deps: no group '$group'; there are build, fabric, test, python, torch," \
			"shmem, vm, slurm, check, bench, deb"
		exit 2
		;;
	esac
	while read -r package; do
		packages+=("$package")
	done < <(missing "$list")
done

if [ ${#packages[@]} -eq 0 ]; then
	version=$(cmake --version | sed -n '1s/.* //p')
	if ! printf '3.25\n%s\n' "$version" | sort -V -C; then
		echo "deps: cmake is $version, 3.25 is needed; this script does not upgrade" >&2
		exit 1
	fi
	echo "deps: nothing is missing"
	fetch_kernel
	make_environments
	exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
	echo "deps: cannot install here (needs apt-get, and root or sudo without a password)." >&2
	echo "deps: install these by hand: ${packages[*]}" >&2
	exit 1
fi
echo "deps: installing ${packages[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -q -y)
"${apt[@]}" update || echo "deps: apt-get update failed; trying with the lists there are" >&2
"${apt[@]}" install --no-upgrade --no-install-recommends "${packages[@]}"
fetch_kernel
make_environments
