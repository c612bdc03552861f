#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fetch_test.sh CMAKE - Oriel as a part of a user's project: FetchContent unpacks the archive of
# make dist, oriel::oriel builds the library, and consumer.c runs with it.  Tests, benchmarks and
# examples of Oriel are not built in such a project.
set -euo pipefail
cmake=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! git -C "$here" rev-parse --git-dir >/dev/null 2>&1; then
	echo "skipped: the archive is made from a git commit, and this is no git repository"
	exit 77
fi
archive=$("$here/../../tools/dist.sh" "$work/dist")

cp "$here/consumer.c" "$work"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
include(FetchContent)
FetchContent_Declare(oriel URL file://$archive)
FetchContent_MakeAvailable(oriel)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE oriel::oriel)
END
# Without optimisation and GPU kernels: this test is only about linking.
"$cmake" -S "$work" -B "$work/build" -DORIEL_KERNELS=OFF >"$work/log" 2>&1 &&
	"$cmake" --build "$work/build" -j2 --target consumer oriel-run >>"$work/log" 2>&1 || {
	tail -n 60 "$work/log"
	exit 1
}
run=$(find "$work/build" -name oriel-run -type f)
timeout 60 "$run" -n 2 --timeout 30 "$work/build/consumer" >"$work/out"
for line in 'rank 0 of 2 got 101' 'rank 1 of 2 got 100'; do
	grep -qx "$line" "$work/out" || {
		echo "install: '$line' is missing:"
		cat "$work/out"
		exit 1
	}
done
if "$cmake" --build "$work/build" --target help |
	grep -E 'unit_|contract_|01_hello|campaign' >/dev/null; then
	echo "install: tests or examples of Oriel are part of the project"
	exit 1
fi
echo "install: FetchContent: built and run"
