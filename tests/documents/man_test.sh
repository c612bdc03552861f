#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# man_test.sh MAN MAP - every call of a program and every tool has a manual page that says what it
# does; what only the headers call has none; mandoc has no warning about any page.
set -uo pipefail
man=$1 map=$2
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

internal='^oriel_(cpu_[a-z_]+|header_check|kernels_(note|forget))$'
names=$(grep -oE '\boriel_[a-z0-9_]+;' "$map" | tr -d ';' | grep -vE "$internal")
[ "$(wc -w <<<"$names")" -gt 100 ] || fail "$map: too few names"
for name in $names $(python3 "$tools/man.py" --names); do
	[ -s "$man/man3/$name.3" ] || fail "$name has no page"
done
find "$man/man3" -name '*.3' | sed 's|.*/||; s/[.]3$//' | grep -E "$internal" &&
	fail "pages of calls that programs do not make"
unnamed=$(python3 "$tools/man.py" --unnamed)
[ -z "$unnamed" ] || fail "the comment does not begin with a short sentence: ${unnamed//$'\n'/ }"
# The values of arguments, and that a wait waits.
grep -q 'ORIEL_EQ' "$man/man3/oriel_window_wait_signal.3" || fail "wait_signal: no values of cmp"
grep -q 'ORIEL_SET' "$man/man3/oriel_window_put_signal.3" || fail "put_signal: no values of op"
grep -q '^0 or more on success' "$man"/man3/* &&
	fail "a page does not know if its call returns a status"
for name in oriel_put_signal oriel_coll_allreduce oriel_window_create; do
	[ -s "$man/man3/$name.3" ] || fail "$name has no page"
done
for name in run info perf tune; do
	[ -s "$man/man1/oriel-$name.1" ] || fail "oriel-$name has no page"
done
grep -q 'sees the' "$man/man3/oriel_window_put_signal.3" ||
	fail "the page of a host call lacks the text of its device call"
# A page explains the mark of a collective call, and has the options that the call takes.
page=$man/man3/oriel_window_create.3
for text in 'a collective call' 'uint32_t signals;' '#define ORIEL_WINDOW_OPTIONS_INIT'; do
	grep -qF "$text" "$page" || fail "$page lacks: $text"
done
for name in oriel_comm_device oriel_alltoallv_recv_buffer oriel_window_status; do
	grep -q 'collective call' "$man/man3/$name.3" && fail "$name is no collective call"
done
grep -lF '[C]' "$man"/man3/* && fail "pages with a mark that only the headers explain"
for name in oriel_init 'oriel_window_create \[C\]' oriel_put_signal oriel_allreduce ORIEL_EPEER; do
	grep -qE "(^|[ ,])$name" "$man/man7/oriel.7" || fail "oriel(7) does not name $name"
done

if ! command -v mandoc >/dev/null; then
	echo "left out: no mandoc (tools/deps.sh test installs it)"
elif ! mandoc -Tlint -W warning "$man"/man?/*; then
	fail "mandoc has warnings"
fi
[ $failures -eq 0 ] && echo "man_test: all pages are there"
exit $((failures > 0))
