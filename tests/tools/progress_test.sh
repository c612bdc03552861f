#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests the line of progress of oriel-perf and oriel-tune: on a terminal, alone and under oriel-run,
# and nowhere else.  Usage: progress_test.sh ORIEL_RUN ORIEL_PERF ORIEL_TUNE
# Exit status: 0 all passed, 1 something failed, 77 there is no program that makes a terminal.
set -u
usage="usage: progress_test.sh ORIEL_RUN ORIEL_PERF ORIEL_TUNE"
run=${1:?$usage} perf=${2:?$usage} tune=${3:?$usage}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset _ORIEL_TERMINAL
export ORIEL_TIMEOUT=60 TERM=xterm
failed=0
clear=$'\r\e[K'

if ! command -v script >/dev/null; then
	echo "skipped: no program script (Debian: bsdutils)"
	exit 77
fi

fail() {
	echo "FAILED: $*"
	cat -v "$dir/tty" | tail -20
	failed=1
}

# terminal COMMAND: runs it on a terminal of its own, whose content goes to $dir/tty.
terminal() {
	: >"$dir/tty"
	timeout 100 script -qec "$1" "$dir/tty" </dev/null >/dev/null 2>&1 || fail "status $?: $1"
}

shows() {
	grep -qF -- "$1" "$dir/tty" || fail "the terminal does not show '$1'"
}

put="put -b 8 -e 512 -f 8 -n 20"
for start in "" "'$run' -n 2 "; do
	terminal "$start'$perf' $put"
	shows "${clear}put of 64 bytes: row 2 of 3, "
	# the line is removed before the row is printed
	grep -qF "s$clear          64 " "$dir/tty" || fail "the row does not replace the line"
done
terminal "'$run' -n 2 '$perf' allreduce -b 8 -e 64 -f 8 -n 10"
shows "${clear}allreduce of 64 bytes: row 2 of 2, "
terminal "'$tune' -n 2 --quick -o -"
shows "${clear}exchanges of 4096 bytes (size 2 of 6): "

# Not if nobody could read it: standard error is a file, the terminal is dumb, lines are tagged.
for command in "'$perf' $put 2>/dev/null" "'$run' -n 2 '$perf' $put 2>/dev/null" \
	"TERM=dumb '$perf' $put" "'$run' -n 2 --tag '$perf' $put" \
	"_ORIEL_TERMINAL=/dev/null '$perf' $put 2>/dev/null"; do
	terminal "$command"
	shows " 64 "
	grep -q $'\e' "$dir/tty" && fail "progress in spite of: $command"
done
# shellcheck disable=SC2086 # words on purpose
"$run" -n 2 "$perf" $put >"$dir/tty" 2>&1 || fail "without a terminal"
grep -q $'\e' "$dir/tty" && fail "progress without a terminal"

[ $failed -eq 0 ] && echo "progress_test: all passed"
exit $failed
