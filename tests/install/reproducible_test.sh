#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# reproducible_test.sh CMAKE SOURCE - two builds in folders of different names and lengths give the
# same bytes: liboriel.so, liboriel.a and oriel-info.
#
# The sources are copied, so that no file knows the folder that it came from.  GPU kernels are left
# out: the fatbin of nvcc differs from folder to folder.
set -euo pipefail
cmake=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for folder in one "a/second folder"; do
	tree=$work/$folder
	mkdir -p "$tree"
	tar -C "$source" --exclude=./build --exclude=./.git --exclude=./dist -cf - . |
		tar -C "$tree" -xf -
	"$cmake" -S "$tree" -B "$tree/build/here" -DCMAKE_BUILD_TYPE=Release -DORIEL_TESTS=OFF \
		-DORIEL_BENCH=OFF -DORIEL_EXAMPLES=OFF -DORIEL_SHMEM=OFF -DORIEL_BITCODE=OFF \
		-DORIEL_KERNELS=OFF >"$work/log" 2>&1 &&
		CCACHE_DISABLE=1 "$cmake" --build "$tree/build/here" -j2 \
			--target oriel oriel_static oriel-info >>"$work/log" 2>&1 || {
		tail -n 40 "$work/log"
		exit 1
	}
done
status=0
for file in lib/liboriel.so lib/liboriel.a bin/oriel-info; do
	if cmp "$work/one/build/here/$file" "$work/a/second folder/build/here/$file"; then
		echo "reproducible: $file: the same bytes"
	else
		echo "reproducible: $file: FAILED; these strings differ first:"
		diff <(strings -a "$work/one/build/here/$file") \
			<(strings -a "$work/a/second folder/build/here/$file") |
			sed -n 1,10p || true
		status=1
	fi
done
exit $status
