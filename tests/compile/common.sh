# SPDX-License-Identifier: BSD-3-Clause
# tests/compile/common.sh - sourced by the scripts beside it: a work folder, a count of failures.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
passes=0

# expect NAME COMMAND...: the command must succeed; what it printed is shown when it does not.
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

# Public headers below folder $1, as a user names them.
public_headers() {
	(cd "$1" && find oriel -name '*.h' | sort)
}

finish() {
	echo "$passes passed, $failures failed"
	[ $failures -eq 0 ] && [ $passes -gt 0 ]
	exit
}
