#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests the completion of command lines: loads the script into bash and completes words, as readline
# would.  Usage: completion_test.sh RUN INFO PERF TUNE SCRIPT
# Exit status: 1 if a check failed.
set -u
usage="usage: completion_test.sh RUN INFO PERF TUNE SCRIPT"
run=${1:?$usage} info=${2:?$usage} perf=${3:?$usage} tune=${4:?$usage} script=${5:?$usage}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset RANK WORLD_SIZE PMIX_RANK
failed=0

fail() {
	echo "FAILED: $*" | cut -c 1-400
	failed=1
}

# shellcheck source=/dev/null
source "$script" || exit 1

# words WORD...: prints the completions of the last word, sorted, on one line.
words() {
	local function
	function=$(complete -p "${1##*/}" | sed -n 's/.*-F \([a-z_]*\) .*/\1/p')
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	"$function" "${1##*/}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd' '
}

# gives WANTED WORD...: the completions of the last word are these.
gives() {
	local wanted=$1 got
	shift
	got=$(words "$@")
	[ "$got" = "$wanted" ] || fail "'${*:2}' gives '$got', not '$wanted'"
}

# ---- options: all that the help text has, and the tool understands each --------------------------

for tool in "$run" "$info" "$perf" "$tune"; do
	got=$(words "$tool" -)
	wanted=$("$tool" --help | grep -oE '^ +(-[a-z]+(, --[a-z-]+)?|--[a-z-]+)' | tr -d ',' |
		tr -s ' ' '\n' | grep . | sort | paste -sd' ')
	[ "$got" = "$wanted" ] || fail "${tool##*/} -: '$got', not '$wanted'"
	for flag in -h --help --version; do
		[[ " $got " == *" $flag "* ]] || fail "${tool##*/} has no $flag"
		"$tool" $flag >"$dir/out" 2>&1 || fail "${tool##*/} $flag: status $?"
		[ -s "$dir/out" ] || fail "${tool##*/} $flag prints nothing"
	done
	# An option that the help text has but the tool does not know is refused by its name.
	for flag in $got; do
		timeout 20 "$tool" "$flag" x --no-such-option >"$dir/out" 2>&1 </dev/null
		grep -qE -- "(unknown|argument).*['\"]${flag}['\"]" "$dir/out" &&
			fail "${tool##*/} does not know its own $flag"
	done
done
gives "--tag --timeout --topology" "$run" --t
gives "--verbose --version" "$perf" --ver
gives "--quick" "$tune" --q
gives "--verify --version" "$info" --ver

# ---- values: each that is offered is accepted ----------------------------------------------------

gives "csv nccl oriel" "$perf" put --format ""
gives "nccl" "$perf" put --format n
gives "ring" "$perf" allgather --algorithm r
gives "" "$perf" put -b ""

# values OPTION OPERATION: each word for OPTION is accepted with an operation that has the option.
values() {
	local word words
	words=$(words "$perf" put "$1" "")
	[ -n "$words" ] || fail "no word is offered for $1"
	for word in $words; do
		"$perf" "$2" -b 8 -e 8 -n 1 "$1" "$word" >"$dir/out" 2>&1 ||
			fail "oriel-perf $2 $1 $word: $(tail -1 "$dir/out")"
	done
}

values --format put
values -c put
values --split alltoallv
values --algorithm allgather
values --policy allgather

gives "put put_signal" "$perf" pu
for word in $(words "$perf" ""); do
	"$perf" -b 8 -e 8 -n 1 "$word" >"$dir/out" 2>&1 || fail "oriel-perf $word fails"
done
[ "$(words "$perf" "" | wc -w)" -eq 15 ] || fail "not all operations are offered"
touch "$dir/old.json" "$dir/older.json"
gives "$dir/old.json $dir/older.json" "$perf" put --compare "$dir/ol"
gives "$dir/old.json $dir/older.json" "$tune" -o "$dir/ol"

# ---- oriel-run: its options, then the program, then the program's own ----------------------------

PATH=$dir/bin:$PATH
mkdir "$dir/bin"
printf '#!/bin/sh\n' >"$dir/bin/oriel-test-of-completion"
chmod +x "$dir/bin/oriel-test-of-completion"
gives "oriel-test-of-completion" "$run" -n 4 oriel-test-of
gives "oriel-test-of-completion" "$run" -n 4 --tag -- oriel-test-of
gives "" "$run" -n ""
gives "--tag" "$run" -n 4 --ta
gives "put put_signal" "$run" -n 4 "$perf" pu
gives "--format" "$run" -n 4 --topology 2x2 "$perf" put --fo
gives "csv" "$run" -n 4 "$perf" put --format c
gives "$dir/old.json $dir/older.json" "$run" -n 4 cat "$dir/ol"

# Debian packages install oshrun as oriel-oshrun: the same completion under that name.
ln -s "$(realpath "$run")" "$dir/bin/oriel-oshrun"
gives "--tag --timeout --topology" "$dir/bin/oriel-oshrun" --t
gives "oriel-test-of-completion" "$dir/bin/oriel-oshrun" -n 4 oriel-test-of

[ $failed -eq 0 ] && echo "completion_test: all passed"
exit $failed
