#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shmem_test.sh CMAKE BUILD - installs the build into a fresh prefix and moves the prefix.  Then it
# builds and runs an OpenSHMEM program from outside: with oshcc, oshc++, pkg-config, find_package,
# and statically.
set -euo pipefail
cmake=$1 build=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "install: shmem: $*"; }
die() {
	say "$*"
	exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
# No installed file may name the original prefix.
mv "$work/first" "$work/prefix"
prefix=$work/prefix
lib=$(dirname "$(find "$prefix" -name 'liboriel_shmem.so')")
cp "$here/shmem_consumer.c" "$work/hello.c"
cp "$here/shmem_consumer.c" "$work/hello.cpp"
cd "$work"

# Runs program $1 on four PEs and checks the output of all; $2 names the way it was built.
run_it() {
	timeout 60 "$prefix/bin/oshrun" -n 4 --timeout 30 "$1" >out || die "$2: status $?"
	for pe in 0 1 2 3; do
		left=$(((pe + 3) % 4)) sum=0
		[ $pe -ne 0 ] || sum=10
		grep -qx "PE $pe of 4 got $((100 + left)) and $((200 + left)), sum $sum" out || {
			cat out
			die "$2: the line of PE $pe is missing"
		}
	done
	say "$2: ok"
}

"$prefix/bin/oshcc" hello.c
run_it ./a.out oshcc
"$prefix/bin/oshc++" -o cxx hello.cpp
run_it ./cxx oshc++
"$prefix/bin/oshcc" -Wall -Werror -c -o hello.o hello.c
"$prefix/bin/oshcc" -o two hello.o
run_it ./two 'oshcc in two steps'
ln -s "$prefix/bin/oshcc" elsewhere
[ "$(./elsewhere --showme:compile)" = "-I$prefix/include" ] || die 'a link to oshcc is lost'
./elsewhere --showme hello.c | grep -- '-loriel_shmem$' >/dev/null ||
	die '--showme shows no library'
! ./elsewhere --showme -c hello.c | grep -- -loriel_shmem >/dev/null ||
	die 'oshcc -c names a library'
# --version is the compiler's, because build systems look at it, and one line more.
"$prefix/bin/oshcc" --version >out || die 'oshcc --version fails'
[ "$(head -1 out)" = "$(cc --version | sed -n 1p)" ] || die 'oshcc --version is not the compiler'
tail -1 out | grep -E '^oshcc: OpenSHMEM 1.5 on Oriel [0-9]+\.[0-9]+\.[0-9]+$' >/dev/null ||
	die 'oshcc --version does not say which Oriel'
for flag in -h --help; do
	"$prefix/bin/oshc++" $flag | grep '^Usage: oshc++ ' >/dev/null || die "oshc++ $flag"
	"$prefix/bin/oshrun" $flag | grep -- '--topology' >/dev/null || die "oshrun $flag"
done
"$prefix/bin/oshrun" --version |
	grep -E '^oshrun of oriel-run [0-9]+\.[0-9]+\.[0-9]+$' >/dev/null ||
	die 'oshrun --version'
for name in oshrun oshcc oshc++; do
	[ -s "$prefix/share/bash-completion/completions/$name" ] || die "no completion of $name"
done

mkdir outside
mv hello.c outside
cat >outside/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(hello LANGUAGES C)
find_package(oriel 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE oriel::shmem)
END
"$cmake" -S outside -B outside/build -DCMAKE_PREFIX_PATH="$prefix" >log 2>&1 &&
	"$cmake" --build outside/build >>log 2>&1 || { cat log; exit 1; }
run_it outside/build/hello find_package

cc -o static outside/hello.c -I"$prefix/include" -L"$lib" -l:liboriel_shmem.a -l:liboriel.a \
	-pthread -ldl -lm
run_it ./static 'static library'

if ! command -v pkg-config >/dev/null; then
	say "pkg-config: left out, it is not installed"
	exit 0
fi
export PKG_CONFIG_PATH=$lib/pkgconfig
# shellcheck disable=SC2046 # the flags are words
cc -o shared outside/hello.c $(pkg-config --cflags --libs oriel-shmem) -Wl,-rpath,"$lib"
run_it ./shared pkg-config
