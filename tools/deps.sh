#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/deps.sh - installs the Debian packages that are missing, by name; never upgrades.
#
#	tools/deps.sh [build] [test] [check] [bench]
#
# Without arguments: what a build needs.  `test` adds what some tests compare with, `check` adds
# the tools of tools/check.sh, `bench` adds Open MPI for the comparison.  Needs root, or sudo that
# asks nothing; anywhere else it prints the list and exits 1.
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
test_list='
/usr/include/infiniband/mlx5dv.h|libibverbs-dev|the bytes of our work queues are held against its header
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
'

there() {
	case $1 in
	/*) [ -e "$1" ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
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
for group in build "$@"; do
	case $group in
	build) list=$build_list ;;
	test) list=$test_list ;;
	check) list=$check_list ;;
	bench) list=$bench_list ;;
	*)
		echo "deps: no group '$group'; there are build, test, check, bench" >&2
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
