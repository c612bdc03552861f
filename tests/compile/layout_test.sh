#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# layout_test.sh INCLUDE - shared structs have one layout in C (the reference), in C++ and with
# clang.  cuda_test.sh compares the CUDA passes with the same file.
. "$(dirname "$0")/common.sh"
. "$here/layout.sh"
include=$1

expect "the reference can be made" layout_file "$include" txt
expect "the reference is not empty" grep -q 'offsetof(struct oriel_window_dev, peers)' \
	"$work/layout.txt"
for compiler in cc clang c++ clang++; do
	if ! command -v "$compiler" >/dev/null; then
		echo "left out: no $compiler on PATH"
		continue
	fi
	case $compiler in
	*++) language=(-x c++ -std=c++17 -Wno-invalid-offsetof) ;;
	*) language=(-x c -std=c11) ;;
	esac
	expect "layout with $compiler" "$compiler" "${language[@]}" -I "$include" -c -o /dev/null \
		"$work/layout.txt"
done
# The test itself works: it finds a wrong offset.
echo 'static_assert(sizeof(struct oriel_source) == 23, "must fail");' >>"$work/layout.txt"
expect "a wrong size is refused" bash -c \
	"! cc -x c -std=c11 -I '$include' -c -o /dev/null '$work/layout.txt'"
finish
