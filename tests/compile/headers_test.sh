#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# headers_test.sh INCLUDE - every public header compiles alone as strict C11 and as C++17, and twice
# in one file.
# C++ is compiled without -Wshadow, because a struct and a function may share a name, as stat(2)
# does.  gcc is required.  If there is no clang, its part is skipped with a message.
. "$(dirname "$0")/common.sh"
include=$1
flags=(-Wall -Wextra -Wvla -Werror -pedantic-errors -O1 -I "$include" -c -o /dev/null)

for compiler in cc clang c++ clang++; do
	if ! command -v "$compiler" >/dev/null; then
		echo "left out: no $compiler on PATH"
		continue
	fi
	case $compiler in
	*++) language=(-x c++ -std=c++17) ;;
	*) language=(-x c -std=c11 -Wshadow -Wstrict-prototypes -Wmissing-prototypes) ;;
	esac
	for header in $(public_headers "$include"); do
		printf '#include <%s>\n#include <%s>\nextern int nothing;\n' "$header" "$header" \
			>"$work/one.txt"
		expect "$header with $compiler" "$compiler" "${language[@]}" "${flags[@]}" \
			"$work/one.txt"
	done
done
finish
