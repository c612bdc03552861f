#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/check.sh [BUILD] - checks the sources without running them; for CI and before a commit.
# BUILD is a configured build folder (default build/release): its compile database says how each
# file is compiled.
# Each step prints one line: ok, FAILED or skipped with the reason, and the time.
# Exit status: 1 if a step failed.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
log=$(mktemp)
trap 'rm -f "$log" "$log.files" "$log.tidy" "$log.edges"' EXIT
failed=0

# Files of the tree, including new files that are not added yet, without files that git ignores.
list() {
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -co --exclude-standard -- "$@" | sort -u
	else
		local args=() pattern
		for pattern in "$@"; do
			args+=(-o -path "./$pattern")
		done
		find . -path ./build -prune -o -type f \( "${args[@]:1}" \) -print |
			sed 's|^\./||' | sort
	fi | while read -r file; do
		[ -f "$file" ] && echo "$file"
	done
}

# step NAME COMMAND...: prints no output if it passes.  77 is a skip; its reason is the last line.
step() {
	local name=$1 start=$EPOCHREALTIME status took
	shift
	"$@" >"$log" 2>&1
	status=$?
	took=$(((${EPOCHREALTIME/./} - ${start/./}) / 100000))
	took=$((took / 10)).$((took % 10))
	if [ $status -eq 0 ]; then
		printf '%-14s ok      %5s s\n' "$name" "$took"
	elif [ $status -eq 77 ]; then
		printf '%-14s skipped %5s s  (%s)\n' "$name" "$took" "$(tail -n 1 "$log")"
	else
		printf '%-14s FAILED  %5s s\n' "$name" "$took"
		sed -n '1,60s/^/    /p' "$log"
		failed=1
	fi
}

sources() { list '*.c' '*.h' '*.cpp' '*.cu'; }
scripts() { list '*.sh' '.ci/run' 'bench/*.sh' 'tools/campaign'; }

check_format() {
	local version
	version=$(clang-format --version | sed -E 's/.*version ([0-9]+).*/\1/')
	if [ "$version" != 14 ]; then
		echo "clang-format is version $version; .clang-format is pinned to 14"
		return 77
	fi
	sources | while read -r file; do
		clang-format --dry-run -Werror "$file" 2>/dev/null || echo "$file"
	done >"$log.files"
	sed 's/^/clang-format -i /' "$log.files"
	[ ! -s "$log.files" ]
}

check_tidy() {
	if [ ! -f "$build/compile_commands.json" ]; then
		echo "no $build/compile_commands.json: configure first (make build-release)"
		return 1
	fi
	# The analyzer follows calls into the device headers again and again.  max-nodes bounds that
	# per function; the front ends, hundreds of functions made by macros, get its shallow mode.
	local wrapped='^int (ori_fail|ori_agree|perf_agree)[a-z_]*\('
	local before=--extra-arg=-include$PWD/tools/analyzer.h
	local clang='--extra-arg=-Xclang --extra-arg'
	local bound="$clang=-analyzer-config $clang=max-nodes=40000"
	local shallow="$clang=-analyzer-config $clang=mode=shallow"
	{
		list 'frontends/*.c' | sed "s|\$| $before $shallow|"
		list 'src/*.c' | xargs grep -lE "$wrapped" | sed "s|\$| $bound|"
		list 'src/*.c' | xargs grep -LE "$wrapped" | sed "s|\$| $before $bound|"
	} | xargs -P "$(nproc)" -L 1 clang-tidy -quiet -p "$build" >"$log.tidy" 2>&1
	local status=$?
	grep -E ' (error|warning): ' "$log.tidy" | sed "s|^$PWD/||" | sort -u
	[ $status -eq 0 ] || echo "xargs clang-tidy ended with $status"
	return $status
}

check_cppcheck() {
	# Disabled checks.  uninitvar does not follow "set if no error", and both compilers check
	# it.  Arithmetic on void pointers is GNU C.  readdir is safe if only one thread uses the
	# stream.  nullPointerRedundantCheck takes a comparison with an optional pointer for a test
	# of NULL.  Not over frontends/: its preprocessor fails on empty macro arguments.
	cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
		--suppress=missingIncludeSystem --suppress=uninitvar --suppress=ctuuninitvar \
		--suppress=arithOperationsOnVoidPointer --suppress=readdirCalled \
		--suppress=nullPointerRedundantCheck -j "$(nproc)" -I include \
		-D__aarch64__ -D__linux__ --library=posix src
}

# Both compilers, all warnings, every C file.  MPI and OpenSHMEM programs need additional headers,
# so only the build compiles them.
check_warnings() {
	local compiler status=0
	local needs_mpi='^(bench/versus/|examples/06_mpi/|bench/(coll|reduce)/(mpi|shmem)\.c)'
	for compiler in cc clang; do
		if ! command -v $compiler >/dev/null; then
			continue
		fi
		list '*.c' | grep -vE "$needs_mpi" |
			xargs -P "$(nproc)" -n 8 $compiler -std=gnu11 -D_GNU_SOURCE -O1 \
				-DORIEL_LIBRARY -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes \
				-Wmissing-prototypes -Werror -fsyntax-only -pthread \
				-I include -I src -I tests -I frontends/shmem/include ||
			status=1
	done
	return $status
}

# With pipefail, `command | grep -q word` fails at random: grep ends at the first match, and the
# command dies of SIGPIPE if it has more to write.  `| head` does the same.  Prints such lines; a
# line that ends with a pipe or a backslash goes on in the next one.
early_ends() {
	awk '/^[[:space:]]*#/ { next }
		{ line = before $0; before = "" }
		line ~ /([^|][|]|\\)[[:space:]]*$/ { sub(/\\$/, "", line); before = line; next }
		line ~ /[^|][|][[:space:]]*(head |grep -[a-zA-Z]*[qm])/ {
			print FILENAME ": " line
			found = 1
		}
		END { exit !found }' "$1"
}

check_scripts() {
	local file status=0
	while read -r file; do
		bash -n "$file" || status=1
		if grep -q 'set .*pipefail' "$file" && early_ends "$file"; then
			echo "use 'grep word >/dev/null' or 'sed -n 1p', which read to the end"
			status=1
		fi
	done < <(scripts)
	return $status
}

check_spdx() {
	local file status=0
	while read -r file; do
		if ! sed -n 1,3p "$file" |
			grep 'SPDX-License-Identifier: BSD-3-Clause' >/dev/null; then
			echo "$file: no SPDX line among the first three"
			status=1
		fi
	done < <({ sources; scripts; list '*CMakeLists.txt' '*.py' Makefile; } | sort -u)
	return $status
}

check_length() {
	local file lines status=0
	while read -r file; do
		lines=$(wc -l <"$file")
		if [ "$lines" -gt 600 ]; then
			echo "$file: $lines lines; 600 are the most"
			status=1
		fi
	done < <(sources)
	return $status
}

# Folders include only lower folders: the table of tools/layers.py and ARCHITECTURE.md.
check_layers() {
	python3 tools/layers.py
}

# Ordered accesses, their labels, and the table of docs/memory-model.md agree.
check_edges() {
	python3 tools/edges.py
}

check_columns() {
	{ sources; scripts; list '*.md' '*.py'; } | sort -u | xargs python3 tools/columns.py
}

# Relative links of the Markdown files lead to files and headings that exist.
check_links() {
	list '*.md' | xargs python3 tools/links.py
}

check_space() {
	! { sources; scripts; list '*.md' '*.txt' '*.json' '*.py' Makefile; } | sort -u |
		xargs grep -nE '[[:space:]]+$' /dev/null
}

# docs/variables.md is generated from the sources.
check_variables() {
	python3 tools/variables.py --check
}

# Notes to oneself belong into an issue.
check_words() {
	! { sources; scripts; list '*.md' '*.txt' '*.py' Makefile; } | sort -u |
		grep -v '^tools/check.sh$' | xargs grep -nE '\b(TODO|FIXME|XXX)\b' /dev/null
}

step format check_format
step warnings check_warnings
step clang-tidy check_tidy
step cppcheck check_cppcheck
step scripts check_scripts
step spdx check_spdx
step length check_length
step columns check_columns
step layers check_layers
step edges check_edges
step links check_links
step space check_space
step words check_words
step variables check_variables
exit $failed
