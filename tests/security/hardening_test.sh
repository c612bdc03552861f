#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/security/hardening_test.sh LIBRARY PROGRAM... - how the release build is compiled and
# linked, as readelf shows it.
set -uo pipefail
if ! command -v readelf >/dev/null; then
	echo "skipped: readelf is not installed"
	exit 77
fi
failed=0
library=$1

# want FILE WHAT PATTERN READELF-OPTIONS...
want() {
	local file=$1 what=$2 pattern=$3
	shift 3
	if ! grep -qE "$pattern" <<<"$(readelf -W "$@" "$file" 2>/dev/null)"; then
		echo "FAILED: $file has no $what"
		failed=1
	fi
}

for file in "$@"; do
	want "$file" "RELRO segment" 'GNU_RELRO' -l
	want "$file" "immediate binding" 'BIND_NOW|FLAGS_1.*NOW' -d
	want "$file" "stack without execution" 'GNU_STACK.* RW +0x' -l
	want "$file" "position-independent code" 'Type: +DYN' -h
	want "$file" "stack protector" '__stack_chk_fail' --dyn-syms
	if grep -qE '^ +LOAD.*RWE' <<<"$(readelf -W -l "$file")"; then
		echo "FAILED: $file has a segment that is writable and executable"
		failed=1
	fi
done
want "$library" "checked string functions (_FORTIFY_SOURCE)" \
	'__(sn|vsn|f)printf_chk|__memcpy_chk' --dyn-syms
exit $failed
