#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# abi_test.sh INCLUDE LIST [--update] - public structs have the sizes and offsets of the kept list.
# symbols_test.sh does the same for the names of functions.
#
# A program that was compiled with older headers relies on this list.  A member that moves, or a
# struct that shrinks, breaks it.  A struct may grow at its end if its first member is `size`.
# --update writes the list anew, and refuses to if that would break a program.  Before 1.0 a new
# minor version may break programs (docs/decisions/0036): empty the list first.
. "$(dirname "$0")/common.sh"
. "$here/layout.sh"
include=$1 list=$2

expect "the layout can be read" layout_file "$include" txt
sed -nE -e 's/^static_assert\(sizeof\(struct (\w+)\) == ([0-9]+).*/\1 \2/p' \
	-e 's/^static_assert\(offsetof\(struct (\w+), (\w+)\) == ([0-9]+).*/\1.\2 \3/p' \
	"$work/layout.txt" >"$work/now"
if [ "${3:-}" = --update ]; then
	python3 "$here/abi.py" --grow "$list" "$work/now" && cp "$work/now" "$list"
	exit
fi
expect "structs are found" grep -q '^oriel_window_options ' "$work/now"
expect "$list holds for these headers" python3 "$here/abi.py" "$list" "$work/now"

# The test itself works: it finds each kind of break, and tells it from growth.
sed 's/^\(oriel_source\) .*/\1 8/' "$work/now" >"$work/shrunk"
sed '/^oriel_window_options.signals /d' "$work/now" >"$work/gone"
sed 's/^\(oriel_window_dev.peers\) .*/\1 1000/' "$work/now" >"$work/moved"
sed 's/^\(oriel_window_options\) .*/\1 4096/' "$work/now" >"$work/grown"
sed 's/^\(oriel_window_dev\) .*/\1 65536/' "$work/now" >"$work/grown_fixed"
for name in shrunk gone moved grown_fixed; do
	expect "$name is a change" bash -c "! cmp -s '$work/now' '$work/$name'"
	expect "$name is refused" bash -c \
		"! python3 '$here/abi.py' --grow '$work/now' '$work/$name'"
done
expect "growth is told" bash -c "! python3 '$here/abi.py' '$work/now' '$work/grown'"
expect "growth can be kept" python3 "$here/abi.py" --grow "$work/now" "$work/grown"
finish
