#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# macros_test.sh INCLUDE - only device/port.h tests macros of the compiler.  The one exception is
# __cplusplus in the host headers, for extern "C".
. "$(dirname "$0")/common.sh"
include=$1
words='__CUDA|__NVCC|__GNUC__|__clang__|__aarch64__|__x86_64__|_MSC_VER'

# Preprocessor lines of header $1 that name one of the words $2; comments do not count.
finds() {
	sed -E 's|/\*.*\*/||' "$include/$1" | grep -nE "^[[:space:]]*#.*($2)"
}

clean() {
	! finds "$1" "$2"
}

for header in $(public_headers "$include"); do
	case $header in
	oriel/device/port.h) continue ;;
	oriel/device/*) expect "$header" clean "$header" "$words|__cplusplus" ;;
	oriel/device.h) expect "$header" clean "$header" "$words|__cplusplus" ;;
	*) expect "$header" clean "$header" "$words" ;;
	esac
done
# The search itself works: port.h has many such lines.
expect "the search finds what is in port.h" finds oriel/device/port.h "$words"
finish
