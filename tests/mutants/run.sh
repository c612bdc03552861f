#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/mutants/run.sh - makes each mistake of ORI_MUTANT() in the device headers and shows that the
# named test finds it.
#
#	tests/mutants/run.sh [COMPILER]
#
# A mutant is built into the test program alone, which holds the device code.  "thread" programs run
# under ThreadSanitizer: what is missing there is an edge, which no run needs to stumble over.
# Exit: 0 all killed, 1 one survived or a test fails without any mutant, 77 nothing could be run.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cc=${1:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
survived=0

# number | mistake | program | sanitizer | test that kills it (part of its name)
mutants='
1|doorbell rung without release|queue_threads|thread|eight_producers_with_nic_atomics
2|published out of order|queue_post|none|a_producer_waits_for_its_turn
3|doorbell record late|queue_post|none|posts_wrap_at_every_edge
4|slot reused before its CQE|queue_post|none|a_full_queue_makes_reserve_wait
5|total added outside the turn|queue_transport|none|who_gives_up_before_its_turn
5|total added outside the turn|queue_threads|thread|eight_producers_with_totals
6|error CQE taken for a completion|queue_post|none|an_error_ends_waits_and_posts
7|turn passed on without release|queue_threads|thread|eight_producers_with_totals
'

flags() { # SANITIZER
	echo -D_GNU_SOURCE -std=c11 -O1 -g -w -I "$root/include" -I "$root/src" -I "$root/tests"
	if [ "$1" = thread ]; then
		echo -fsanitize=thread
	fi
}

# What the programs need of the library, once a sanitizer.
library() { # SANITIZER
	mkdir "$work/$1"
	(
		cd "$root" &&
			ls tests/check.c src/util/*.c src/device/*.c src/device/cpu/*.c src/device/cuda/*.c \
				src/kernels/*.c src/diag/*.c src/engine/*.c src/engine/soft/*.c \
				src/engine/verbs/none/*.c src/engine/ofi/none/*.c src/engine/mlx5/none/*.c
	) | while read -r source; do
		printf '%s\0%s\0' "$root/$source" "$work/$1/${source//\//_}.o"
	done | xargs -0 -n 2 -P "$(nproc)" \
		bash -c "$cc $(flags "$1" | tr '\n' ' ') -c -o \"\$1\" \"\$0\""
}

# Builds a program with mutant $1, sanitizer $3; runs the test $4; prints how it ended.
outcome() { # NUMBER PROGRAM SANITIZER TEST
	local program=$work/$2.$3.$1

	if [ ! -x "$program" ]; then
		# shellcheck disable=SC2046  # words are meant
		"$cc" $(flags "$3") -DORIEL_MUTANT="$1" -o "$program" "$root/tests/unit/$2.c" \
			"$work/$3"/*.o -lpthread -ldl >"$work/build.log" 2>&1 || {
			echo "not built"
			cat "$work/build.log" >&2
			return
		}
	fi
	timeout 30 "$program" "$4" >"$work/run.log" 2>&1
	case $? in
	0) grep -q '^1 tests, 0 failed, 0 skipped' "$work/run.log" && echo passed || echo "no such test" ;;
	1) echo failed ;;
	66) grep -q 'data race' "$work/run.log" && echo race || echo "sanitizer stopped" ;;
	124) echo "timed out" ;;
	*) echo crashed ;;
	esac
}

library none || exit 1
have_thread=1
if ! library thread 2>"$work/thread.log" ||
	! echo 'int main(void) { return 0; }' | "$cc" -fsanitize=thread -x c -o "$work/probe" - 2>/dev/null ||
	! "$work/probe" >/dev/null 2>&1; then
	have_thread=0
fi

printf '%-3s %-34s %-54s %s\n' '#' mutant 'killed by' how
ran=0
while IFS='|' read -r number mistake program sanitizer test; do
	[ -n "$number" ] || continue
	where="unit.$program: $test"
	if [ "$sanitizer" = thread ] && [ $have_thread = 0 ]; then
		printf '%-3s %-34s %s\n' "$number" "$mistake" "skipped: no ThreadSanitizer with $cc"
		continue
	fi
	ran=$((ran + 1))
	clean=$(outcome 0 "$program" "$sanitizer" "$test")
	if [ "$clean" != passed ]; then
		printf '%-3s %-34s %s\n' "$number" "$mistake" "$where: $clean WITHOUT the mutant"
		head -n 20 "$work/run.log"
		survived=$((survived + 1))
		continue
	fi
	how=$(outcome "$number" "$program" "$sanitizer" "$test")
	case $how in
	failed | race | "timed out" | crashed)
		printf '%-3s %-34s %-54s %s\n' "$number" "$mistake" "$where" "$how"
		;;
	*)
		printf '%-3s %-34s %s\n' "$number" "$mistake" "SURVIVED $where ($how)"
		survived=$((survived + 1))
		;;
	esac
done <<<"$mutants"

echo "$ran rows run, $survived not killed"
if [ $survived -ne 0 ]; then
	exit 1
fi
if [ $ran -eq 0 ]; then
	exit 77
fi
