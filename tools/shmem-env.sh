#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/shmem-env.sh [--print] - makes the environment of the tests with shmem4py in the user's
# cache, from PyPI: what its build and its tests need, and its source distribution.  shmem4py 1.0.0
# knows numpy 1 only.
#
# shmem4py itself is not installed there: a test builds it against the library that it tests.
# --print prints the folder and exits 1 if there is none.
set -euo pipefail

shmem4py=1.0.0
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=${XDG_CACHE_HOME:-$HOME/.cache}/oriel/shmem-$shmem4py-python-$version

if [ "${1-}" = --print ]; then
	[ -f "$folder/complete" ] || exit 1
	echo "$folder"
	exit 0
fi
if [ -f "$folder/complete" ]; then
	exit 0
fi
rm -rf "$folder"
python3 -m venv "$folder"
pip=("$folder/bin/python" -m pip --disable-pip-version-check)
timeout 300 "${pip[@]}" install -q 'numpy<2' cffi setuptools wheel pytest
timeout 120 "${pip[@]}" download -q --no-deps --no-binary :all: --no-build-isolation \
	-d "$folder/source" "shmem4py==$shmem4py"
touch "$folder/complete"
echo "shmem-env: the source of shmem4py, and what builds it, are in $folder"
