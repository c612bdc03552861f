#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# symbols_test.sh LIBORIEL.SO - exports nothing but oriel_*, and the library does export its API.
. "$(dirname "$0")/common.sh"
library=$1

exported() {
	nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//'
}

# Sanitizers put their own names into every object they build.
only_ours() {
	! exported | grep -vE '^(oriel_|__asan_|__odr_asan|__ubsan_|__tsan_|___asan)'
}

has() {
	exported | grep -qx "$1"
}

expect "exported names start with oriel_" only_ours
for name in oriel_version oriel_comm_create oriel_window_create oriel_launch oriel_cpu_wake; do
	expect "$name is exported" has "$name"
done
finish
