#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cuda_test.sh INCLUDE [parts] - nvcc compiles every header that users include alone, oriel.h and
# device.h in both orders, and a kernel with every device call.  It also checks that the host and
# device passes have the struct layout of C.  With "parts" it compiles the other headers of
# oriel/device alone.
# No GPU is needed.
. "$(dirname "$0")/common.sh"
. "$here/layout.sh"
include=$1
parts=${2:-}

if ! command -v nvcc >/dev/null; then
	echo "skipped: no nvcc on PATH"
	exit 77
fi
flags=(-arch=sm_90 -std=c++17 -Werror all-warnings -I "$include" -c)
nvcc=(nvcc "${flags[@]}" -o "$work/out.o")

# Two at a time: nvcc takes seconds for each of them.
for header in $(public_headers "$include"); do
	case $header in
	oriel/device/coll.h) [ -z "$parts" ] || continue ;; # programs include it beside device.h
	oriel/device/*) [ -n "$parts" ] || continue ;;
	*) [ -z "$parts" ] || continue ;;
	esac
	name=${header//\//_}
	echo "#include <$header>" >"$work/$name.cu"
	printf '%s\0' "$work/$name.o" "$work/$name.cu"
done >"$work/alone"
expect "each header alone" xargs -0 -a "$work/alone" -P 2 -n 2 nvcc "${flags[@]}" -o
[ -z "$parts" ] || finish
printf '#include <oriel/oriel.h>\n#include <oriel/device.h>\n' >"$work/one.cu"
expect "host header first" "${nvcc[@]}" "$work/one.cu"
printf '#include <oriel/device.h>\n#include <oriel/oriel.h>\n' >"$work/one.cu"
expect "device header first" "${nvcc[@]}" "$work/one.cu"
printf '%s\n' '#include <oriel/device.h>' 'typedef struct { int x; } args;' \
	'ORIEL_KERNEL(k, args) { (void)a; return 0; }' >"$work/one.cu"
expect "arguments called args" "${nvcc[@]}" "$work/one.cu"
expect "every device call" "${nvcc[@]}" "$here/every_call_cuda.cu"
expect "the reference layout can be made" layout_file "$include" cu
expect "layout of the host and device pass" "${nvcc[@]}" "$work/layout.cu"
finish
