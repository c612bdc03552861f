#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/mutants/run.sh - makes each mistake of tests/mutants/*.patch in a copy of the public
# headers, and shows that the named test finds it.
#
#	tests/mutants/run.sh [COMPILER]
#
# The first line of a patch says what is wrong with it.  The test program contains the device code
# and is built from the patched copy.  The rest of the library is built from the unpatched tree.
# Rows that say "thread" run under ThreadSanitizer.  There a happens-before edge is missing, and
# ThreadSanitizer reports it even if no run goes wrong.
# A patch that does not apply exactly is a failure, and so is a patch that no row names.
# Exit status: 0 all mutants were found; 1 one was not found or could not be built; 77 nothing could
# be run.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cc=${1:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# patch | program | sanitizer | test that kills it (part of its name)
mutants='
doorbell-relaxed|queue_threads|thread|eight_producers_with_nic_atomics
turn-skipped|queue_post|none|a_producer_waits_for_its_turn
record-late|queue_post|none|posts_wrap_at_every_edge
slot-reused|queue_post|none|a_full_queue_makes_reserve_wait
total-outside-turn|queue_transport|none|who_gives_up_before_its_turn
total-outside-turn|queue_threads|thread|eight_producers_with_totals
error-as-completion|queue_post|none|an_error_ends_waits_and_posts
turn-relaxed|queue_threads|thread|eight_producers_with_totals
packet-mark-relaxed|packet|thread|a_stream_in_slots
packet-credit-early|packet|thread|a_stream_in_slots
packet-credit-long|packet|none|a_box_of_cells_takes_what_fits_and_no_more
packet-half-cell|packet|none|a_cell_with_one_half_is_not_taken
'

flags() { # SANITIZER INCLUDE
	echo -D_GNU_SOURCE -std=c11 -O1 -g -w -I "$2" -I "$root/src" -I "$root/tests"
	if [ "$1" = thread ]; then
		echo -fsanitize=thread
	fi
}

# Builds the parts of the library that the programs need, once per sanitizer.
library() { # SANITIZER
	mkdir "$work/$1"
	(
		cd "$root" &&
			ls tests/check.c src/util/*.c src/device/*.c src/device/cpu/*.c \
			src/device/cuda/*.c \
				src/kernels/*.c src/diag/*.c src/engine/*.c src/engine/soft/*.c \
				src/engine/verbs/none/*.c src/engine/ofi/none/*.c \
				src/engine/mlx5/none/*.c
	) | while read -r source; do
		printf '%s\0%s\0' "$root/$source" "$work/$1/${source//\//_}.o"
	done | xargs -0 -n 2 -P "$(nproc)" \
		bash -c "$cc $(flags "$1" "$root/include" | tr '\n' ' ') -c -o \"\$1\" \"\$0\""
}

# Copies the public headers and makes the mistake in the copy; prints the copy's include folder.
mutate() { # PATCH
	local copy=$work/headers.$1

	if [ ! -d "$copy" ]; then
		mkdir "$copy" && cp -r "$root/include" "$copy/" || return
		patch -d "$copy" -p1 --fuzz=0 --no-backup-if-mismatch -s <"$here/$1.patch" \
			>"$work/patch.log" 2>&1 || {
			rm -rf "$copy"
			cat "$work/patch.log" >&2
			return 1
		}
	fi
	echo "$copy/include"
}

# Builds a program from the headers of $1 (a patch or "clean"), runs the test $4, and prints how it
# ended.
outcome() { # PATCH PROGRAM SANITIZER TEST
	local program=$work/$2.$3.$1 include=$root/include

	if [ ! -x "$program" ]; then
		if [ "$1" != clean ] && ! include=$(mutate "$1"); then
			echo "the patch does not apply"
			return
		fi
		# shellcheck disable=SC2046  # words are meant
		"$cc" $(flags "$3" "$include") -o "$program" "$root/tests/unit/$2.c" \
			"$work/$3"/*.o -lpthread -ldl >"$work/build.log" 2>&1 || {
			echo "not built"
			cat "$work/build.log" >&2
			return
		}
	fi
	timeout 30 "$program" "$4" >"$work/run.log" 2>&1
	case $? in
	0) grep -q '^1 tests, 0 failed, 0 skipped' "$work/run.log" && echo passed ||
		echo "no such test" ;;
	1) echo failed ;;
	66) grep -q 'data race' "$work/run.log" && echo race || echo "sanitizer stopped" ;;
	124) echo "timed out" ;;
	*) echo crashed ;;
	esac
}

if ! command -v patch >/dev/null; then
	echo "skipped: there is no patch program"
	exit 77
fi
library none || exit 1
have_thread=1
if ! library thread 2>"$work/thread.log" ||
	! echo 'int main(void) { return 0; }' |
	"$cc" -fsanitize=thread -x c -o "$work/probe" - 2>/dev/null ||
	! "$work/probe" >/dev/null 2>&1; then
	have_thread=0
fi

ran=0
for file in "$here"/*.patch; do
	name=$(basename "$file" .patch)
	if ! grep -q "^$name|" <<<"$mutants"; then
		echo "$name.patch: no row of run.sh names a test that kills it"
		failed=$((failed + 1))
	fi
done
printf '%-20s %-54s %s\n' mutant 'killed by' how
while IFS='|' read -r name program sanitizer test; do
	[ -n "$name" ] || continue
	where="unit.$program: $test"
	if [ "$sanitizer" = thread ] && [ $have_thread = 0 ]; then
		printf '%-20s %s\n' "$name" "skipped: no ThreadSanitizer with $cc"
		continue
	fi
	ran=$((ran + 1))
	how=$(outcome clean "$program" "$sanitizer" "$test")
	if [ "$how" != passed ]; then
		printf '%-20s %s\n' "$name" "$where: $how WITHOUT the mutant"
		head -n 20 "$work/run.log"
		failed=$((failed + 1))
		continue
	fi
	how=$(outcome "$name" "$program" "$sanitizer" "$test")
	case $how in
	failed | race | "timed out" | crashed)
		printf '%-20s %-54s %s\n' "$name" "$where" "$how"
		;;
	passed)
		printf '%-20s %s\n' "$name" "SURVIVED $where"
		head -n 1 "$here/$name.patch"
		failed=$((failed + 1))
		;;
	*)
		printf '%-20s %s\n' "$name" "NOT MADE: $how"
		failed=$((failed + 1))
		;;
	esac
done <<<"$mutants"

echo "$ran rows run, $failed failed"
if [ $failed -ne 0 ]; then
	exit 1
fi
if [ $ran -eq 0 ]; then
	exit 77
fi
