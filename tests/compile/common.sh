# SPDX-License-Identifier: BSD-3-Clause
# tests/compile/common.sh - sourced by the scripts of this folder: a work folder, a count of
# failures.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
passes=0

# expect NAME COMMAND...: the command must succeed; if it fails, its output is shown.
expect() {
	local name=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		passes=$((passes + 1))
	else
		echo "FAILED: $name: $*"
		head -n 40 "$work/log"
		failures=$((failures + 1))
	fi
}

# The public headers below folder $1, with the names that a user includes.
public_headers() {
	(cd "$1" && find oriel -name '*.h' | sort)
}

finish() {
	echo "$passes passed, $failures failed"
	[ $failures -eq 0 ] && [ $passes -gt 0 ]
	exit
}
