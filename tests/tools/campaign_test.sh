#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/tools/campaign_test.sh CAMPAIGN - tests the campaign itself.  It must find a byte or a
# signal that is left out of a program on purpose, and shrink the program.  The printed command must
# find it again.  The same seed must give the same program.
set -uo pipefail
campaign=$1
out=$(mktemp)
trap 'rm -f "$out" "$out.again"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	sed 's/^/    /' "$out" | sed -n 1,40p
	failures=$((failures + 1))
}

# found SABOTAGE TIMEOUT TEXT: the sabotage is found, shrunk to one step, and found again by the
# printed command.  A timeout must be short if it is what is found, else long.
found() {
	local args
	if "$campaign" --sabotage "$1" --seeds 60 --found 1 --timeout "$2" --shrink 120 \
		--set device=cpu,processes=0 \
		--without request,gather,gather_many,alltoallv,reuse >"$out" 2>&1; then
		fail "sabotage $1: exit 0"
		return
	fi
	grep -qE "$3" "$out" || fail "sabotage $1: nothing like: $3"
	args=$(sed -n 's|^  replay: tools/campaign ||p' "$out" | sed -n 1p)
	[[ $args =~ --keep\ [0-9]+(,[0-9]+)?\  ]] || fail "sabotage $1: not shrunk: $args"
	# shellcheck disable=SC2086 # words
	"$campaign" $args --timeout "$2" --shrink 0 >"$out.again" 2>&1 &&
		fail "sabotage $1: the command finds nothing: $args"
	grep -qE "$3" "$out.again" ||
		fail "sabotage $1: the command finds something else: $(cat "$out.again")"
}

found 1 20 \
	"rank [0-9]+, step [0-9]+ \(exchange\): window [0-9]+ offset [0-9]+: expected 0x[0-9a-f]+, found 0x[0-9a-f]+"
found 2 2 'ORIEL_ETIMEDOUT'

"$campaign" --print --seeds 20 >"$out" 2>&1 || fail "--print: exit $?"
"$campaign" --print --seeds 20 >"$out.again" 2>&1
# names of processes are part of a path
cmp -s <(sed 's/oriel-camp-[0-9]*//' "$out") <(sed 's/oriel-camp-[0-9]*//' "$out.again") ||
	fail "--print: one seed, two programs"
grep -q 'step 2' "$out" || fail "--print tells no steps"

for words in '--set ranks=99' '--set color=red' '--keep x' '--nonsense' 'word'; do
	# shellcheck disable=SC2086 # words
	"$campaign" --seeds 1 $words >"$out" 2>&1
	[ $? -eq 2 ] || fail "$words: not refused"
done

[ $failures -eq 0 ] && echo "campaign_test: all of it passed"
exit $((failures > 0))
