#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# install_test.sh CMAKE BUILD - installs the build into a fresh prefix and moves the prefix.  Then
# it builds and runs consumer.c from outside: by find_package, by pkg-config, and statically.
# With headers of another version the first call must fail.  By add_subdirectory consumer.c is only
# compiled here; fetch_test.sh also runs it.
set -euo pipefail
cmake=$1 build=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "install: $*"; }

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
# No installed file may name the original prefix.
mv "$work/first" "$work/prefix"
prefix=$work/prefix
lib=$(dirname "$(find "$prefix" -name 'liboriel.so')")
for file in bin/oriel-run bin/oriel-info bin/oriel-perf bin/oriel-doctor bin/oriel-trace \
	include/oriel/oriel.h include/oriel/first_call.h include/oriel/device/port.h \
	share/bash-completion/completions/oriel-perf; do
	[ -e "$prefix/$file" ] || { say "$file was not installed"; exit 1; }
done
# Manual pages need python3.  make install builds oriel_product alone, so it must make them.
if command -v python3 >/dev/null; then
	for page in man1/oriel-run.1 man3/oriel_window_create.3; do
		[ -s "$prefix/share/man/$page" ] || { say "$page was not installed"; exit 1; }
	done
	if [ -f "$build/build.ninja" ] && ! ninja -C "$build" -t query oriel_product |
		grep 'oriel_man$' >/dev/null; then
		say "oriel_product does not make the manual pages"
		exit 1
	fi
fi

# Runs program $1 on two ranks and checks the output of both.
run_it() {
	timeout 60 "$prefix/bin/oriel-run" -n 2 --timeout 30 "$1" >"$work/out"
	for line in 'rank 0 of 2 got 101' 'rank 1 of 2 got 100'; do
		grep -qx "$line" "$work/out" || {
			say "'$line' is missing in what $1 printed:"
			cat "$work/out"
			exit 1
		}
	done
	say "$2: ok"
}

mkdir "$work/outside"
cp "$here/consumer.c" "$work/outside"
cat >"$work/outside/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(oriel 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE oriel::oriel)
END
"$cmake" -S "$work/outside" -B "$work/outside/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" \
	2>&1 &&
	"$cmake" --build "$work/outside/build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
run_it "$work/outside/build/consumer" find_package

# Oriel as a folder of the user's own project: it is configured, and the program is compiled.  The
# library is the same as above.
mkdir "$work/inside"
cp "$here/consumer.c" "$work/inside"
cat >"$work/inside/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
add_subdirectory($(cd "$here/../.." && pwd) oriel)
add_library(consumer OBJECT consumer.c)
target_link_libraries(consumer PRIVATE oriel::oriel)
if(TARGET unit_config OR TARGET 01_hello_window)
	message(FATAL_ERROR "tests or examples of Oriel are part of the project")
endif()
END
"$cmake" -S "$work/inside" -B "$work/inside/build" -G "Unix Makefiles" >"$work/log" 2>&1 &&
	make -C "$work/inside/build" -f CMakeFiles/consumer.dir/build.make \
	CMakeFiles/consumer.dir/consumer.c.o >>"$work/log" 2>&1 || {
	cat "$work/log"
	exit 1
}
say "add_subdirectory: ok"

# Headers and library of different versions: the first call names both versions and fails, and
# nothing else happens.
cp -r "$prefix/include" "$work/other"
for number in 99 0; do
	sed -i -E "s/(#define ORIEL_VERSION_MINOR) .*/\\1 $number/" "$work/other/oriel/oriel.h"
	cc -o "$work/mixed" "$here/consumer.c" -I"$work/other" -L"$lib" -loriel -Wl,-rpath,"$lib"
	if timeout 60 "$work/mixed" >"$work/out" 2>&1; then
		say "a program with headers of version 0.$number ran"
		exit 1
	fi
	grep -qE "headers of Oriel 0\\.$number\\.0, but .*liboriel\\.so.* is Oriel 0\\.1\\.0" \
		"$work/out" || {
		say "both versions should be named here:"
		cat "$work/out"
		exit 1
	}
done
say "headers of another version: ok"

if ! command -v pkg-config >/dev/null; then
	say "pkg-config: left out, it is not installed"
	exit 0
fi
export PKG_CONFIG_PATH=$lib/pkgconfig
# shellcheck disable=SC2046 # the flags are words
cc -o "$work/shared" "$work/outside/consumer.c" $(pkg-config --cflags --libs oriel) \
	-Wl,-rpath,"$lib"
run_it "$work/shared" pkg-config
# shellcheck disable=SC2046
cc -o "$work/static" "$work/outside/consumer.c" $(pkg-config --cflags oriel) -L"$lib" \
	-l:liboriel.a -pthread
run_it "$work/static" 'static library'

# The installed programs find the installed library, wherever the prefix lies.
timeout 20 "$prefix/bin/oriel-info" >/dev/null
say "oriel-info: ok"
