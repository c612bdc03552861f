#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# symbols_test.sh LIBORIEL.SO MAP INCLUDE - the library exports exactly the names of its map, each
# with the release that introduced it.  The map has exactly the functions that the public headers
# declare.
. "$(dirname "$0")/common.sh"
library=$1 map=$2 include=$3

# Prints name@@RELEASE of each exported symbol.  Sanitizers add their own names to every object.
nm -D --with-symbol-versions --defined-only "$library" | awk '$2 != "A" { print $NF }' |
	grep -vE '^_*(asan|odr_asan|ubsan|tsan)_' | sort >"$work/exported"

# Prints the same for the map, where a release stands before its names.
awk '/^ORIEL_[0-9.]+ [{]/ { release = $1 }
	/^\toriel_[a-z0-9_]+;$/ { sub(/^\t/, ""); sub(/;$/, ""); print $0 "@@" release }' "$map" |
	sort >"$work/mapped"

# Functions that the headers declare and do not define: gcc lists every declaration with its file.
{
	echo '#define ORIEL_LIBRARY'
	public_headers "$include" | sed 's|.*|#include <&>|'
} >"$work/all.c"
expect "the headers compile" gcc -std=c11 -I "$include" -fsyntax-only -aux-info "$work/aux" \
	"$work/all.c"
grep -E "^/\* $include/.*:NC \*/ extern" "$work/aux" |
	sed -E 's/.*[ *](oriel_[a-z0-9_]+) \(.*/\1/' |
	sort -u >"$work/declared"

same() {
	diff "$1" "$2"
}

expect "names were found" grep -q '^oriel_comm_create$' "$work/declared"
expect "the library (<) exports what its map (>) lists" same "$work/exported" "$work/mapped"
sed 's/@@.*//' "$work/mapped" >"$work/names"
expect "the headers (<) declare what the map (>) lists" same "$work/declared" "$work/names"
finish
